//! `/v1/tenants/{tenant}/endpoints`.

use http::Method;
use serde_json::{Value, json};
use snaphook::domain::scope::Scope;

use super::{TestApi, on_both};

const PATH: &str = "/v1/tenants/acme/endpoints";

async fn list(api: &TestApi, query: &str) -> Vec<Value> {
    let page = api.get(&format!("{PATH}?{query}")).await.expect(200);
    page["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn an_endpoint_is_made_with_a_secret_that_is_shown_once() {
    on_both(async |api| {
        let settings = json!({
            "url": "HTTPS://Example.COM:443/hook", "event_types": ["order.*"],
            "headers": {"X-Token": "s3cret"}, "metadata": {"team": "a"},
        });

        let made = api.post(PATH, settings).await.expect(201);

        assert_eq!(made["url"], "https://example.com/hook", "the stored form");
        assert!(made["secret"].as_str().unwrap().starts_with("whsec_"));
        assert_eq!((&made["state"], &made["format"]), (&json!("active"), &json!("event")));
        assert!(!made.to_string().contains("s3cret"), "values of headers are write-only");
        let shown = api.get(&format!("{PATH}/{}", made["id"].as_str().unwrap())).await.expect(200);
        assert!(shown.get("secret").is_none());
        assert_eq!(shown["headers"], made["headers"]);
        assert_eq!(list(api, "").await, [shown]);
    })
    .await;
}

#[tokio::test]
async fn what_is_shown_can_be_sent_back_and_changes_nothing() {
    on_both(async |api| {
        let settings = json!({"url": "https://example.com/", "headers": {"X-Token": "s3cret"},
            "timeout": "20s", "retry_schedule": ["0s", "1m"], "final_statuses": [400, "4xx"]});
        let id = api.add_endpoint(settings).await;
        let path = format!("{PATH}/{id}");
        let mut shown = api.get(&path).await.expect(200);
        let dated = ["state_since", "created_at", "updated_at"];
        for read_only in ["id", "tenant", "state", "state_reason", "discarding", "health"]
            .into_iter()
            .chain(dated)
        {
            shown.as_object_mut().unwrap().remove(read_only);
        }

        api.call(Method::PATCH, &path, shown).await.expect(200);

        let event = api.emit("order.paid").await;
        api.deliver_all().await;
        let sent = api.world.requests();
        assert_eq!(sent[0].headers["x-token"], "s3cret");
        assert_eq!(sent[0].headers["webhook-id"], event.as_str());
        assert_eq!(sent[0].timeout.as_secs(), 20);
    })
    .await;
}

#[tokio::test]
async fn every_bad_field_is_named_and_nothing_is_kept() {
    on_both(async |api| {
        for (settings, expected) in [
            (json!({}), "url: the URL is empty"),
            (json!({"url": "ftp://example.com"}), "url: "),
            (json!({"url": "http://10.0.0.1/"}), "url: "),
            (json!({"url": "http://127.1/"}), "url: "),
            (json!({"url": "http://localhost/"}), "url: "),
            (json!({"url": "https://a:b@example.com/"}), "url: "),
            (json!({"url": 5}), "url: "),
            (json!({"url": "https://example.com/", "event_types": ["a..b"]}), "event_types[0]: "),
            (
                json!({"url": "https://example.com/", "event_types": []}),
                "event_types: it is empty; name at least",
            ),
            (
                json!({"url": "https://example.com/", "timeout": "31s"}),
                "timeout: 31s does not fit; write 1s",
            ),
            (json!({"url": "https://example.com/", "timeout": 5}), "timeout: "),
            (json!({"url": "https://example.com/", "headers": {"Host": "x"}}), "headers.Host: "),
            (json!({"url": "https://example.com/", "headers": {"X": "a\r\nb"}}), "headers.X: "),
            (json!({"url": "https://example.com/", "final_statuses": [429]}), "final_statuses: "),
            (json!({"url": "https://example.com/", "retry_schedule": "never"}), "retry_schedule: "),
            (json!({"url": "https://example.com/", "filter": {"/a": {"like": 1}}}), "filter: "),
            (
                json!({"url": "https://example.com/", "color": "red"}),
                "color: there is no such field",
            ),
            (json!({"url": "https://example.com/", "secret": "whsec_short"}), "secret: "),
            (json!({"url": "https://example.com/", "rate_limit": "fast"}), "rate_limit: "),
            (
                json!({"url": "https://example.com/", "tls": {"ca": "-----BEGIN CERTIFICATE-----\nAA"}}),
                "tls.ca: the endpoint's authority is no certificate",
            ),
        ] {
            let answer = api.post(PATH, settings.clone()).await;
            assert_eq!(answer.problem(422), "invalid_input", "{settings}");
            let errors = answer.errors();
            assert!(
                errors.iter().any(|error| error.starts_with(expected)),
                "{settings} {errors:?}"
            );
        }
        let two = json!({"url": "http://10.0.0.1/", "timeout": "31s", "color": 1});
        assert_eq!(api.post(PATH, two).await.errors().len(), 3, "all at once");
        assert!(list(api, "").await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_change_that_is_refused_changes_nothing() {
    on_both(async |api| {
        let id = api.add_endpoint(json!({"url": "https://example.com/"})).await;
        let path = format!("{PATH}/{id}");
        let before = api.get(&path).await.expect(200);

        let change = json!({"description": "new", "url": "http://169.254.169.254/"});
        api.call(Method::PATCH, &path, change).await.problem(422);

        assert_eq!(api.get(&path).await.expect(200), before);
    })
    .await;
}

#[tokio::test]
async fn only_an_operator_lets_requests_into_its_own_network() {
    on_both(async |api| {
        let tenant = api.key(Some("acme"), &[Scope::Read, Scope::Manage]).await;
        let inside = json!({"url": "http://10.0.0.1/", "reach": "internal"});

        let answer = api.call_as(&tenant, Method::POST, PATH, inside.clone()).await;
        assert_eq!(answer.problem(403), "not_allowed");
        let id = api.add_endpoint(inside).await;
        let path = format!("{PATH}/{id}");
        let other = json!({"url": "http://10.0.0.2/"});
        let answer = api.call_as(&tenant, Method::PATCH, &path, other).await;
        assert_eq!(answer.problem(403), "not_allowed", "nor moves one that has it");
        let words = json!({"description": "ours"});
        api.call_as(&tenant, Method::PATCH, &path, words).await.expect(200);
    })
    .await;
}

#[tokio::test]
async fn a_paused_endpoint_holds_and_a_resumed_one_sends() {
    on_both(async |api| {
        let id = api.add_endpoint(json!({"url": "https://example.com/"})).await;
        let path = format!("{PATH}/{id}");
        // 202, for no owner of the shard was there to hear it.
        let paused = api.post(&format!("{path}/pause"), Value::Null).await.expect(202);
        assert_eq!(paused["state"], "paused");
        let event = api.emit("order.paid").await;
        api.deliver_all().await;
        let deliveries = format!("/v1/events/{event}/deliveries");
        let held = api.get(&deliveries).await.expect(200)["data"][0].clone();
        assert_eq!((&held["state"], &held["next_attempt_at"]), (&json!("held"), &Value::Null));
        assert_eq!(held["held_by"], "paused");
        assert!(api.world.requests().is_empty());

        api.post(&format!("{path}/resume"), json!({})).await.expect(202);
        api.deliver_all().await;

        assert_eq!(api.get(&deliveries).await.json()["data"][0]["state"], "delivered");
        api.post(&format!("{path}/enable"), Value::Null).await.expect(200);
    })
    .await;
}

#[tokio::test]
async fn a_deleted_endpoint_is_gone_and_its_deliveries_are_canceled() {
    on_both(async |api| {
        let id = api.add_endpoint(json!({"url": "https://example.com/"})).await;
        let event = api.emit("order.paid").await;
        let path = format!("{PATH}/{id}");

        api.call(Method::DELETE, &path, Value::Null).await.expect(204);

        api.get(&path).await.problem(404);
        api.call(Method::PATCH, &path, json!({})).await.problem(404);
        assert!(list(api, "").await.is_empty());
        let page = api.get(&format!("/v1/events/{event}/deliveries")).await.expect(200);
        assert_eq!(page["data"][0]["state"], "canceled");
        let delivery = page["data"][0]["id"].as_str().unwrap();
        let again = api.post(&format!("/v1/deliveries/{delivery}/redeliver"), Value::Null).await;
        assert_eq!(again.problem(409), "endpoint_deleted");
        let next = api.emit("order.paid").await;
        let page = api.get(&format!("/v1/events/{next}/deliveries")).await.expect(200);
        assert_eq!(page["data"], json!([]), "new events make none");
        api.deliver_all().await;
        assert!(api.world.requests().is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_test_goes_to_its_endpoint_alone() {
    on_both(async |api| {
        let target = json!({"url": "https://example.com/one", "event_types": ["order.paid"],
            "filter": {"/amount": {"gte": 1000}}});
        let id = api.add_endpoint(target).await;
        api.add_endpoint(json!({"url": "https://example.com/all"})).await;

        let result = api.post(&format!("{PATH}/{id}/test"), json!({})).await.expect(200);
        assert_eq!(result["outcome"], "pending", "nobody delivers yet");
        api.deliver_all().await;

        let sent: Vec<String> =
            api.world.requests().iter().map(|request| request.url.to_string()).collect();
        assert_eq!(sent, ["https://example.com/one"]);
        let delivery = result["delivery"].as_str().unwrap();
        let shown = api.get(&format!("/v1/deliveries/{delivery}")).await.expect(200);
        assert_eq!(
            (&shown["type"], &shown["state"]),
            (&json!("snaphook.test"), &json!("delivered"))
        );
    })
    .await;
}
