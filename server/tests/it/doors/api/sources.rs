//! `/v1/sources` and the secrets of sources.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, header};
use serde_json::{Value, json};
use snaphook::{
    domain::{forwarded::ForwardedHeaders, scope::Scope, source::SourceToken, tenant::TenantId},
    store::{Arrival, ArrivalSource},
    world::World as _,
};

use super::{TestApi, on_both};

/// Makes a source of `acme` and gives the path to it.
async fn source(api: &TestApi, settings: Value) -> String {
    let made = api.post("/v1/sources", settings).await.expect(201);
    format!("/v1/sources/{}", made["id"].as_str().unwrap())
}

fn shop() -> Value {
    json!({"tenant": "acme", "name": "shop", "scheme": "github", "secrets": ["one"]})
}

async fn actions(api: &TestApi) -> Vec<String> {
    let page = api.get("/v1/audit").await.expect(200);
    let rows = page["data"].as_array().unwrap().clone();
    rows.iter().map(|row| row["action"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_new_source_says_where_requests_come_in_and_what_is_left_to_do() {
    on_both(async |api| {
        let made = api.post("/v1/sources", shop()).await.expect(201);
        let id = made["id"].as_str().unwrap();
        assert_eq!(id.len(), 30, "src_ and 128 bits");
        assert_eq!(made["url"], format!("http://127.0.0.1:8080/in/{id}"));
        let steps = made["next_steps"].as_array().unwrap();
        assert!(steps[0].as_str().unwrap().contains(made["url"].as_str().unwrap()));
        assert!(steps.last().unwrap().as_str().unwrap().contains("shop.*"));
        assert!(made.get("secrets").is_none() && !made.to_string().contains("\"one\""));

        let shown = api.get(&format!("/v1/sources/{id}")).await.expect(200);
        assert!(shown.get("next_steps").is_none());
        for (field, value) in [
            ("state", json!("active")),
            ("scheme", json!("github")),
            ("reject_status", json!(401)),
            ("answer", json!({"status": 200, "headers": {}, "body": ""})),
            ("from_file", json!(false)),
            ("armed_until", Value::Null),
        ] {
            assert_eq!(shown[field], value, "{field}");
        }
        let bare = json!({"tenant": "acme", "name": "bare", "scheme": "github"});
        let made = api.post("/v1/sources", bare).await.expect(201);
        assert!(made["next_steps"].to_string().contains("add the secret"), "{made}");
        let waits = json!({"tenant": "acme", "name": "tasks", "scheme": "asana"});
        let made = api.post("/v1/sources", waits).await.expect(201);
        assert!(made["next_steps"].to_string().contains("sends its secret"), "{made}");

        let listed = api.get("/v1/sources?tenant=acme").await.expect(200);
        let names: Vec<_> =
            listed["data"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
        assert_eq!(names, ["tasks", "bare", "shop"]);
    })
    .await;
}

#[tokio::test]
async fn whatever_is_wrong_with_a_source_is_named_by_its_field_and_no_secret_is_told() {
    on_both(async |api| {
        for (change, field) in [
            (json!({"tenant": null}), "tenant"),
            (json!({"tenant": 7}), "tenant"),
            (json!({"name": "a.b"}), "name"),
            (json!({"scheme": "strip"}), "scheme"),
            (json!({"scheme": {"auth": "hmac"}}), "scheme.hash"),
            (json!({"secrets": "hush"}), "secrets"),
            (json!({"secrets": [7]}), "secrets"),
            (json!({"secrets": ["hush "]}), "secrets[0]"),
            (json!({"secrets": ["hush", "hush"]}), "secrets[1]"),
            (json!({"secrets": vec!["hush"; 11]}), "secrets"),
            (json!({"scheme": "standardwebhooks", "secrets": ["hush!"]}), "secrets[0]"),
            (json!({"scheme": "braintree", "secrets": ["hush"]}), "public_key"),
            (json!({"verify_token": 7}), "verify_token"),
            (json!({"secret": "hush"}), "secret"),
            (json!({"id": "src_7"}), "id"),
        ] {
            let mut whole = shop();
            whole.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            let answer = api.post("/v1/sources", whole).await;
            assert_eq!(answer.problem(422), "invalid_input", "{change}");
            let errors = answer.errors();
            assert!(errors[0].starts_with(&format!("{field}: ")), "{change}: {errors:?}");
            assert!(!errors.concat().contains("hush"), "{change}: {errors:?}");
        }
        let answer =
            api.post("/v1/sources", json!({"tenant": "nobody", "name": "a", "scheme": "github"}));
        assert_eq!(answer.await.problem(404), "not_found");
        source(api, shop()).await;
        assert_eq!(api.post("/v1/sources", shop()).await.problem(409), "name_taken");
    })
    .await;
}

#[tokio::test]
async fn a_change_keeps_the_rest_and_must_suit_what_is_live() {
    on_both(async |api| {
        let path = source(api, json!({
            "tenant": "acme", "name": "social", "scheme": "meta", "secrets": ["one"], "verify_token": "hush",
            "schemas": {"ping": {"type": "object"}},
        })).await;
        let shown = api.get(&path).await.expect(200);
        assert_eq!(shown["verify_token"], "(hidden)");

        let change = json!({
            "verify_token": "(hidden)", "tolerance": "10m", "schemas": {"pong": {"type": "object"}},
        });
        let changed = api.call(Method::PATCH, &path, change).await.expect(200);
        assert_eq!((&changed["tolerance"], &changed["name"]), (&json!("10m"), &json!("social")));
        assert_eq!(changed["schemas"].as_object().unwrap().len(), 2, "merged");
        assert_eq!(changed["verify_token"], "(hidden)");

        source(api, shop()).await;
        for (change, status, part) in [
            (json!({"scheme": "standardwebhooks"}), 422, "scheme: the live secrets do not suit it"),
            (json!({"secrets": ["two"]}), 422, "secrets: secrets are added"),
            (json!({"tenant": "globex"}), 422, "tenant: there is no such field"),
            (json!({"name": "shop"}), 409, ""),
        ] {
            let answer = api.call(Method::PATCH, &path, change.clone()).await;
            assert_eq!(answer.status.as_u16(), status, "{change}");
            assert!(status == 409 || answer.errors()[0].starts_with(part), "{:?}", answer.errors());
        }
        assert_eq!(api.get(&path).await.expect(200)["name"], "social", "nothing was changed");

        api.call(Method::DELETE, &path, Value::Null).await.expect(204);
        assert_eq!(api.get(&path).await.problem(404), "not_found");
        let done = actions(api).await;
        for action in ["source.create", "source.update", "source.delete"] {
            assert!(done.contains(&action.to_owned()), "{action}: {done:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_source_is_paused_resumed_and_armed() {
    on_both(async |api| {
        let path = source(api, shop()).await;
        let post = async |what: &str| {
            api.world.pass(Duration::from_secs(5));
            api.post(&format!("{path}/{what}"), Value::Null).await.expect(200)
        };
        let paused = post("pause").await;
        assert_eq!(paused["state"], "paused");
        let again = post("pause").await;
        assert_eq!(again["state_since"], paused["state_since"], "it was paused already");
        assert_eq!(api.get(&path).await.expect(200)["state_since"], paused["state_since"]);
        assert_eq!(post("resume").await["state"], "active");

        let before = api.world.now();
        let armed = post("arm").await["armed_until"].as_str().unwrap().to_owned();
        let armed = snaphook::domain::time::Timestamp::parse(&armed).unwrap();
        let minutes = armed.since(before).as_secs() / 60;
        assert_eq!(minutes, 60, "an hour");
        let done = actions(api).await;
        assert_eq!(done[..3], ["source.arm", "source.resume", "source.pause"]);
    })
    .await;
}

#[tokio::test]
async fn secrets_of_a_source_rotate_with_an_overlap_and_the_last_one_stays() {
    on_both(async |api| {
        let path = source(api, shop()).await;
        let secrets = format!("{path}/secrets");
        let listed = async |query: &str| {
            let page = api.get(&format!("{secrets}{query}")).await.expect(200);
            assert!(!page.to_string().contains("\"one\""), "texts are not listed");
            page["data"].as_array().unwrap().clone()
        };
        let first = listed("").await[0]["id"].as_str().unwrap().to_owned();
        let only = api.call(Method::DELETE, &format!("{secrets}/{first}"), Value::Null).await;
        assert_eq!(only.problem(409), "last_secret");
        for (input, status, code) in [
            (json!({"secret": "one"}), 409, "secret_exists"),
            (json!({"secret": ""}), 422, "invalid_input"),
            (json!({}), 422, "invalid_input"),
            (json!({"secret": "two", "overlap": "721h"}), 422, "invalid_input"),
        ] {
            let answer = api.post(&format!("{secrets}/rotate"), input.clone()).await;
            assert_eq!(answer.problem(status), code, "{input}");
        }

        let rotate = json!({"secret": "two", "overlap": "1h"});
        let second = api.post(&format!("{secrets}/rotate"), rotate).await.expect(201);
        assert!(second.get("secret").is_none());
        assert_eq!(listed("").await.len(), 2);
        api.world.pass(Duration::from_mins(61));
        let live = listed("").await;
        assert_eq!((live.len(), &live[0]["id"]), (1, &second["id"]));
        assert_eq!(listed("?all=true").await.len(), 2);

        let third = api.post(&secrets, json!({"secret": "three"})).await.expect(201);
        let third = format!("{secrets}/{}", third["id"].as_str().unwrap());
        let shown = api.post(&format!("{third}/reveal"), Value::Null).await;
        assert_eq!(shown.headers[header::CACHE_CONTROL], "no-store");
        assert_eq!(shown.expect(200)["secret"], "three");
        api.call(Method::DELETE, &third, Value::Null).await.expect(204);
        assert_eq!(listed("").await.len(), 1);
        let done = actions(api).await;
        let expected =
            ["revoke", "reveal", "create", "rotate"].map(|what| format!("source_secret.{what}"));
        assert_eq!(done[..4], expected);
    })
    .await;
}

#[tokio::test]
async fn a_tenant_makes_and_sees_its_own_sources_alone_and_they_go_with_it() {
    on_both(async |api| {
        api.add_tenant("globex").await;
        let all = [Scope::Read, Scope::Manage];
        let (acme, globex) =
            (api.key(Some("acme"), &all).await, api.key(Some("globex"), &all).await);
        let mine = json!({"name": "shop", "scheme": "github"});
        let made = api.call_as(&acme, Method::POST, "/v1/sources", mine.clone()).await.expect(201);
        assert_eq!(made["tenant"], "acme");
        let foreign = api.call_as(&globex, Method::POST, "/v1/sources", shop()).await;
        assert_eq!(foreign.problem(404), "not_found", "there is no acme for globex");
        api.call_as(&globex, Method::POST, "/v1/sources", mine).await.expect(201);
        for (key, tenant) in [(&acme, "acme"), (&globex, "globex")] {
            let page = api.call_as(key, Method::GET, "/v1/sources", Value::Null).await.expect(200);
            let tenants: Vec<_> =
                page["data"].as_array().unwrap().iter().map(|one| one["tenant"].clone()).collect();
            assert_eq!(tenants, [tenant]);
        }
        api.call(Method::DELETE, "/v1/tenants/globex", Value::Null).await.expect(204);
        let page = api.get("/v1/sources").await.expect(200);
        assert_eq!(page["data"].as_array().unwrap().len(), 1, "globex's went with it");
    })
    .await;
}

#[tokio::test]
async fn a_header_that_is_the_secret_itself_is_shown_to_nobody() {
    on_both(async |api| {
        for (name, scheme, secret_header, left_out) in [
            ("lab", json!("gitlab_token"), "X-Gitlab-Token", json!(["x-gitlab-token"])),
            ("hub", json!("github"), "X-Hub-Signature-256", json!([])),
        ] {
            let made = json!({"tenant": "acme", "name": name, "scheme": scheme});
            let made = api.post("/v1/sources", made).await.expect(201);
            let token: SourceToken = made["id"].as_str().unwrap().parse().unwrap();
            let mut tx = api.store.read().await.unwrap();
            let row = tx.find_source(None, &token).await.unwrap().unwrap();
            drop(tx);
            let tenant = TenantId::parse("acme").unwrap();
            let taken_by = ArrivalSource { id: row.id, tenant: &tenant, name, names_object: false };
            let headers: [(&str, &[u8]); 2] = [(secret_header, b"it"), ("X-Other", b"1")];
            let forwarded = ForwardedHeaders::of(headers.into_iter());
            let arrival =
                Arrival::new(taken_by, (None, None, None), &forwarded, Bytes::from_static(b"{}"));
            let event = api.store.receive(arrival).await.unwrap().event;

            let whole = api.get(&format!("/v1/events/{event}/headers")).await.expect(200);

            let names: Vec<_> = whole["headers"].as_array().unwrap().iter().collect();
            assert_eq!(whole["left_out"], left_out, "{scheme}");
            let shown = names.iter().any(|header| header["value"] == "it");
            assert_eq!(shown, left_out == json!([]), "{scheme}: {whole}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_event_says_which_source_took_it_and_shows_no_proof() {
    on_both(async |api| {
        let path = source(api, shop()).await;
        let id = path.rsplit('/').next().unwrap();
        let token: SourceToken = id.parse().unwrap();
        let row = api.store.read().await.unwrap().find_source(None, &token).await.unwrap().unwrap();
        let headers: [(&str, &[u8]); 4] = [
            ("X-GitHub-Event", b"push"),
            ("X-Hub-Signature-256", b"sha256=00"),
            ("X-Some-Token", b"secret"),
            ("X-Odd", b"\xff"),
        ];
        let tenant = TenantId::parse("acme").unwrap();
        let taken_by =
            ArrivalSource { id: row.id, tenant: &tenant, name: "shop", names_object: false };
        let said = (Some("d-1"), Some("push"), None);
        let forwarded = ForwardedHeaders::of(headers.into_iter());
        let arrival = Arrival::new(taken_by, said, &forwarded, Bytes::from_static(b"{\"a\":1}"));
        let event = api.store.receive(arrival).await.unwrap().event;
        api.emit("order.paid").await;

        let listed = api.get(&format!("/v1/events?source={id}")).await.expect(200);
        assert_eq!(listed["data"].as_array().unwrap().len(), 1, "{listed}");
        let shown = api.get(&format!("/v1/events/{event}")).await.expect(200);
        for body in [&listed["data"][0], &shown] {
            assert_eq!(
                (&body["source"], &body["source_type"], &body["key"], &body["type"]),
                (&json!(id), &json!("push"), &json!("d-1"), &json!("shop.push"))
            );
        }
        assert_eq!(listed["data"][0].get("headers"), None);
        assert_eq!(shown["data"], json!({"a": 1}));
        let hidden = json!([
            {"name": "x-github-event", "value": "push"},
            {"name": "x-hub-signature-256", "value": "(hidden)"},
            {"name": "x-some-token", "value": "(hidden)"},
            {"name": "x-odd", "value": "\u{fffd}"},
        ]);
        assert_eq!(shown["headers"], hidden);
        let whole = api.get(&format!("/v1/events/{event}/headers")).await;
        assert_eq!(whole.headers[header::CACHE_CONTROL], "no-store");
        let all = json!({"headers": [
            {"name": "x-github-event", "value": "push"},
            {"name": "x-hub-signature-256", "value": "sha256=00"},
            {"name": "x-some-token", "value": "secret"},
            {"name": "x-odd", "value_base64": "/w=="},
        ], "left_out": []});
        assert_eq!(whole.expect(200), all, "byte for byte, to whoever may manage");

        let emitted = api.get("/v1/events?type=order.paid").await.expect(200);
        let own = emitted["data"][0]["id"].as_str().unwrap();
        let none = api.get(&format!("/v1/events/{own}/headers")).await.expect(200);
        assert_eq!(none, json!({"headers": [], "left_out": []}), "it came in by another door");
        assert_eq!(emitted["data"][0]["source"], Value::Null);
        let nobodys = "src_00000000000000000000000000";
        let none = api.get(&format!("/v1/events?source={nobodys}")).await.expect(200);
        assert_eq!(none["data"], json!([]));
        let wrong = api.get("/v1/events?source=github").await.problem(400);
        assert_eq!(wrong, "invalid_query");
    })
    .await;
}
