//! `/v1/queues`: what consumers see, and what they are told when they ask wrongly.

use http::Method;
use serde_json::{Value, json};
use snaphook::domain::scope::Scope;

use super::{TestApi, on_both};

async fn queue(api: &TestApi) -> String {
    let path = "/v1/tenants/acme/endpoints";
    let made = api.post(path, json!({"kind": "queue"})).await.expect(201);
    assert_eq!((&made["kind"], &made["url"]), (&json!("queue"), &Value::Null));
    assert!(made.get("secret").is_none(), "nothing is signed: {made}");
    made["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_consumer_claims_acks_and_nacks() {
    on_both(async |api| {
        let queue = queue(api).await;
        let at = |verb: &str| format!("/v1/queues/{queue}/{verb}");
        let event = json!({"tenant": "acme", "type": "order.paid", "key": "k", "data": {"n": 1.5}});
        let first = api.post("/v1/events", event).await.expect(202);
        api.emit("order.sent").await;

        let claimed = api.post(&at("claim"), json!({"limit": 2, "lease": "1m"})).await;

        let text = String::from_utf8(claimed.bytes.to_vec()).unwrap();
        let claimed = claimed.expect(200);
        let [one, other] = claimed["data"].as_array().unwrap().as_slice() else {
            panic!("{claimed}")
        };
        assert!(text.contains(r#""data":{"n":1.5}"#), "as it was given: {text}");
        assert_eq!((&one["event"]["id"], &one["event"]["key"]), (&first["id"], &json!("k")));
        assert_eq!(one["event"]["type"], "order.paid");
        assert_eq!((&one["attempt"], &claimed["held_by"]), (&json!(1), &Value::Null));
        assert!(claimed["leased_until"].is_string());
        let word = |of: &Value| json!({"delivery": of["delivery"], "attempt": of["attempt"]});
        let stale = json!({"delivery": one["delivery"], "attempt": 2});
        let acks = json!({"deliveries": [word(one), stale]});
        let acked = api.post(&at("ack"), acks).await.expect(200);
        let results: Vec<_> =
            acked["results"].as_array().unwrap().iter().map(|one| &one["result"]).collect();
        assert_eq!(results, ["done", "lost"]);
        let nack = json!({"deliveries": [word(other)], "delay": "1h", "reason": "stock is away"});
        api.post(&at("nack"), nack).await.expect(200);
        let delivery = other["delivery"].as_str().unwrap();
        let shown = api.get(&format!("/v1/deliveries/{delivery}")).await.expect(200);
        assert_eq!(
            (&shown["state"], &shown["attempts"][0]["reason"]),
            (&json!("pending"), &json!("nacked"))
        );
        assert_eq!(shown["attempts"][0]["error"], "stock is away");
        let empty = api.call(Method::POST, &at("claim"), Value::Null).await.expect(200);
        assert_eq!(empty["data"], json!([]));
    })
    .await;
}

#[tokio::test]
async fn wrong_questions_are_answered_field_by_field() {
    on_both(async |api| {
        let queue = queue(api).await;
        let dlv = "dlv_00000000000010000000000001";
        for (verb, body, expected) in [
            ("claim", json!({"limit": 0}), "limit: 0 does not fit; write 1 to 100"),
            ("claim", json!({"limit": 101}), "limit: 101 does not fit"),
            ("claim", json!({"lease": "13h"}), "lease: 13h does not fit; write 1s to 12h"),
            ("claim", json!({"lease": "1ms"}), "lease: 1ms does not fit"),
            ("claim", json!({"wait": "1s"}), "wait: "),
            ("ack", json!({"deliveries": []}), "deliveries: there are 0; name 1 to 1000"),
            ("ack", json!({"deliveries": [{"delivery": dlv}]}), "deliveries[0].attempt: "),
            ("ack", json!({"deliveries": [{"delivery": "x", "attempt": 1}]}), "deliveries[0].delivery: "),
            ("nack", json!({"deliveries": [{"delivery": dlv, "attempt": 1}], "delay": "25h"}), "delay: "),
            (
                "nack",
                json!({"deliveries": [{"delivery": dlv, "attempt": 1}], "reason": "x".repeat(1025)}),
                "reason: it is 1025 bytes",
            ),
        ] {
            let answer = api.post(&format!("/v1/queues/{queue}/{verb}"), body.clone()).await;
            assert_eq!(answer.status, 422, "{body}");
            let errors = answer.errors();
            assert!(errors.len() == 1 && errors[0].starts_with(expected), "{body}: {errors:?}");
        }
        let unknown = json!({"deliveries": [{"delivery": dlv, "attempt": 1}]});
        let answer = api.post(&format!("/v1/queues/{queue}/ack"), unknown).await.expect(200);
        assert_eq!(answer["results"][0]["result"], "lost", "of another endpoint");
    })
    .await;
}

#[tokio::test]
async fn only_queues_are_pulled_and_only_by_their_own() {
    on_both(async |api| {
        let queue = queue(api).await;
        let url = api.add_endpoint(json!({"url": "https://example.com/"})).await;
        let globex = api.add_tenant("globex");
        globex.await;
        let key = api.key(Some("globex"), &[Scope::Manage]).await;
        let claim = |id: &str| format!("/v1/queues/{id}/claim");

        let answer = api.post(&claim(&url), json!({})).await;
        assert_eq!(answer.problem(409), "endpoint_not_queue");
        let answer = api.call_as(&key, Method::POST, &claim(&queue), json!({})).await;
        assert_eq!(answer.problem(404), "not_found");
        let path = format!("/v1/tenants/acme/endpoints/{queue}");
        let change = |change: Value| api.call(Method::PATCH, &path, change);
        let errors = change(json!({"kind": "http", "url": "https://example.com/"})).await.errors();
        assert!(errors[0].starts_with("kind: it stays as it was made"), "{errors:?}");
        let errors = change(json!({"url": "https://example.com/"})).await.errors();
        assert!(errors[0].starts_with("url: no requests go to"), "{errors:?}");
        change(json!({"description": "mine"})).await.expect(200);
        let made = api
            .post(
                "/v1/tenants/acme/endpoints",
                json!({"kind": "queue", "secret": "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"}),
            )
            .await;
        assert!(made.errors()[0].starts_with("secret: "), "{:?}", made.errors());
        api.post(&format!("{path}/pause"), Value::Null).await;
        let held = api.post(&claim(&queue), json!({})).await.expect(200);
        assert_eq!(held["held_by"], "paused");
    })
    .await;
}
