//! What sources kept apart: looked at, verified again, accepted, redelivered.

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use snaphook::{
    domain::{
        id::{EventId, RequestId, id_at},
        request_headers::RequestHeaders,
        request_state::RequestState,
        scope::Scope,
        source::{SourceSettings, SourceToken},
    },
    store::NewRequest,
    world::World as _,
};
use snaphook_signature::Received;

use super::{TestApi, on_both};

const BODY: &[u8] = b"{\"zen\":\"Keep it logically awesome.\"}";

/// A source of `acme` with the secret `one`, and an endpoint that wants its events.
async fn source(api: &TestApi) -> SourceToken {
    api.add_endpoint(json!({"url": "https://example.com/", "event_types": ["shop.*"]})).await;
    let new = json!({"tenant": "acme", "name": "shop", "scheme": "github", "secrets": ["one"]});
    let made = api.post("/v1/sources", new).await.expect(201);
    made["id"].as_str().unwrap().parse().unwrap()
}

/// Keeps a request of the type `ping`, signed with `secret`; gives the path to it.
pub async fn keep(
    api: &TestApi,
    source: &SourceToken,
    n: u64,
    secret: &str,
    state: RequestState,
) -> String {
    keep_body(api, source, n, secret, state, BODY).await
}

async fn keep_body(
    api: &TestApi,
    source: &SourceToken,
    n: u64,
    secret: &str,
    state: RequestState,
    body: &'static [u8],
) -> String {
    let mut settings = SourceSettings::default();
    let scheme = json!({"scheme": "github"});
    assert!(settings.apply(scheme.as_object().unwrap()).is_empty());
    let signer = settings.verifier(&[secret]).unwrap();
    let signed = signer.sign(&Received::new(&[], body), "guid", 0).unwrap();
    let own = [("X-GitHub-Event", "ping"), ("x-github-delivery", "guid-1")];
    let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let signed = signed.headers.into_iter().filter(|(name, _)| name.contains("Signature"));
    let headers: RequestHeaders = own.into_iter().chain(signed).collect();
    let mut tx = api.store.begin().await.unwrap();
    let row = tx.find_source(None, source).await.unwrap().unwrap();
    let id = RequestId(id_at(api.world.now(), n));
    let request = NewRequest {
        id,
        source: row.id,
        tenant: row.tenant,
        received_at: api.world.now(),
        state,
        step: Some("signature"),
        reason: Some("it does not match".to_owned()),
        method: "POST".to_owned(),
        target: format!("/in/{source}?a=1"),
        headers,
        body: Some(Bytes::from_static(body)),
        provider_id: None,
        provider_type: None,
        event: (state == RequestState::Conflict).then_some(EventId(7)),
        digest: None,
    };
    assert!(tx.add_request(&request).await.unwrap());
    tx.commit().await.unwrap();
    format!("/v1/requests/{id}")
}

async fn post(api: &TestApi, path: &str, what: &str) -> super::Answer {
    api.post(&format!("{path}/{what}"), Value::Null).await
}

#[tokio::test]
async fn a_refused_request_is_genuine_once_its_secret_was_mended_and_becomes_an_event() {
    on_both(async |api| {
        let source = source(api).await;
        let path = keep(api, &source, 1, "two", RequestState::Rejected).await;
        let looked = post(api, &path, "verify").await.expect(200);
        assert_eq!(
            (&looked["verdict"], &looked["step"]),
            (&json!("bad_signature"), &json!("signature"))
        );

        let secrets = format!("/v1/sources/{source}/secrets");
        api.post(&secrets, json!({"secret": "two"})).await.expect(201);
        let looked = post(api, &path, "verify").await.expect(200);
        assert_eq!((&looked["verdict"], &looked["step"]), (&json!("ok"), &Value::Null));
        assert_eq!(
            (&looked["state"], &looked["event"]),
            (&json!("rejected"), &Value::Null),
            "looked at"
        );
        assert_eq!(post(api, &path, "redeliver").await.problem(409), "request_not_accepted");

        let accepted = post(api, &path, "accept").await.expect(200);
        assert_eq!(accepted["state"], "accepted");
        assert!(accepted["accepted_by"].as_str().unwrap().starts_with("key_"));
        let event = api
            .get(&format!("/v1/events/{}", accepted["event"].as_str().unwrap()))
            .await
            .expect(200);
        assert_eq!((&event["type"], &event["key"]), (&json!("shop.ping"), &json!("guid-1")));
        let payload =
            api.get(&format!("/v1/events/{}/payload", event["id"].as_str().unwrap())).await;
        assert_eq!(payload.bytes, BODY);
        assert_eq!(post(api, &path, "accept").await.problem(409), "request_accepted");

        let again = post(api, &path, "redeliver").await.expect(200);
        assert_eq!(again["redelivered"], 0, "it waits already");
        api.deliver_all().await;
        let again = post(api, &path, "redeliver").await.expect(200);
        assert_eq!(again["redelivered"], 1);
        api.deliver_all().await;
        assert_eq!(api.world.requests().len(), 2);

        // Sent again and refused again: it is the event that it was.
        let path = keep(api, &source, 2, "three", RequestState::Rejected).await;
        let second = post(api, &path, "accept").await.expect(200);
        assert_eq!(second["event"], accepted["event"]);
        let audit = api.get("/v1/audit").await.expect(200).to_string();
        assert!(audit.contains("request.verify") && audit.contains("request.accept"));
    })
    .await;
}

#[tokio::test]
async fn a_conflict_that_is_accepted_is_an_event_beside_the_first() {
    on_both(async |api| {
        let source = source(api).await;
        let rejected = keep(api, &source, 1, "one", RequestState::Rejected).await;
        let first = post(api, &rejected, "accept").await.expect(200);
        for (n, state) in [(2, RequestState::Conflict), (3, RequestState::ReplaySuspected)] {
            let path = keep(api, &source, n, "one", state).await;
            let other = post(api, &path, "accept").await.expect(200);
            assert_ne!(other["event"], first["event"], "{state}");
        }
        let list = format!("/v1/sources/{source}/requests");
        let accepted = api.get(&format!("{list}?state=accepted")).await.expect(200);
        assert_eq!(accepted["data"].as_array().unwrap().len(), 3);
        assert_eq!(api.get(&format!("{list}?state=odd")).await.problem(400), "invalid_query");
    })
    .await;
}

#[tokio::test]
async fn a_refused_request_under_the_id_of_another_body_becomes_an_event_beside_it() {
    on_both(async |api| {
        let source = source(api).await;
        let event_of = async |path: &str| {
            let accepted = post(api, path, "accept").await.expect(200);
            assert_eq!(accepted["state"], "accepted");
            accepted["event"].as_str().unwrap().to_owned()
        };
        let first = keep(api, &source, 1, "two", RequestState::Rejected).await;
        let first = event_of(&first).await;
        let other = b"{\"zen\":\"Anything else.\"}";
        let path = keep_body(api, &source, 2, "two", RequestState::Rejected, other).await;
        let second = event_of(&path).await;

        assert_ne!(second, first, "its body is another");
        for (event, body) in [(&first, BODY), (&second, other)] {
            let shown = api.get(&format!("/v1/events/{event}")).await.expect(200);
            assert_eq!((&shown["key"], &shown["type"]), (&json!("guid-1"), &json!("shop.ping")));
            assert_eq!(api.get(&format!("/v1/events/{event}/payload")).await.bytes, body);
        }
        api.deliver_all().await;
        let sent: Vec<_> = api.world.requests().iter().map(|sent| sent.body.clone()).collect();
        assert_eq!(sent.len(), 2, "each goes its way");
        assert_eq!(post(api, &path, "accept").await.problem(409), "request_accepted");

        // The first is still what this id belongs to.
        let again = keep(api, &source, 3, "two", RequestState::Rejected).await;
        assert_eq!(event_of(&again).await, first);
    })
    .await;
}

#[tokio::test]
async fn what_is_accepted_at_a_paused_source_is_held_and_shown_so() {
    on_both(async |api| {
        let source = source(api).await;
        let set = async |what: &str| {
            let path = format!("/v1/sources/{source}/{what}");
            api.post(&path, Value::Null).await.expect(200);
        };
        set("pause").await;
        let mut events = Vec::new();
        for (n, state) in [(1, RequestState::Rejected), (2, RequestState::Conflict)] {
            let path = keep(api, &source, n, "two", state).await;
            let accepted = post(api, &path, "accept").await.expect(200);
            events.push(accepted["event"].as_str().unwrap().to_owned());
        }
        let held = async || {
            let listed = api.get(&format!("/v1/events?source={source}")).await.expect(200);
            let listed: Vec<_> = listed["data"].as_array().unwrap().clone();
            let mut held: Vec<_> = listed.into_iter().map(|event| event["held"].clone()).collect();
            for event in &events {
                held.push(
                    api.get(&format!("/v1/events/{event}")).await.expect(200)["held"].clone(),
                );
            }
            held
        };
        api.deliver_all().await;
        assert_eq!(api.world.requests().len(), 0, "nothing goes on");
        assert_eq!(held().await, [json!(true), json!(true), json!(true), json!(true)]);

        set("resume").await;
        api.engine().release_held().await.unwrap();
        api.deliver_all().await;
        assert_eq!(api.world.requests().len(), 2);
        assert_eq!(held().await, [json!(false), json!(false), json!(false), json!(false)]);
    })
    .await;
}

#[tokio::test]
async fn headers_and_bodies_of_kept_requests_are_for_managers_alone() {
    on_both(async |api| {
        let source = source(api).await;
        let path = keep(api, &source, 1, "two", RequestState::Rejected).await;
        let reader = api.key(Some("acme"), &[Scope::Read]).await;
        let list = format!("/v1/sources/{source}/requests");
        let listed = api.call_as(&reader, Method::GET, &list, Value::Null).await.expect(200);
        let text = listed.to_string();
        assert!(
            !text.contains("sha256=") && !text.contains("zen") && !text.contains("a=1"),
            "{text}"
        );
        assert_eq!(listed["data"][0]["source"], source.to_string());
        assert_eq!(
            api.call_as(&reader, Method::GET, &path, Value::Null).await.problem(403),
            "scope_missing"
        );
        let shown = api.get(&path).await.expect(200);
        assert_eq!(shown["body"].as_str().unwrap().as_bytes(), BODY);
        assert_eq!(shown["headers"][0], json!({"name": "X-GitHub-Event", "value": "ping"}));
        assert!(shown["target"].as_str().unwrap().ends_with("?a=1"));

        api.call(Method::DELETE, &format!("/v1/sources/{source}"), Value::Null).await.expect(204);
        for what in ["verify", "accept"] {
            assert_eq!(post(api, &path, what).await.problem(409), "source_deleted");
        }
    })
    .await;
}
