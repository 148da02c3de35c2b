//! Events coming in: one, many, raw.

use axum::body::Body;
use http::{Method, Request, header};
use serde_json::{Value, json};
use snaphook::domain::scope::Scope;

use super::{Answer, TestApi, on_both};
use crate::support::databases::{Database, Kind};

async fn send(api: &TestApi, path: &str, content_type: Option<&str>, body: &[u8]) -> Answer {
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(header::AUTHORIZATION, format!("Bearer {}", api.operator));
    if let Some(content_type) = content_type {
        request = request.header(header::CONTENT_TYPE, content_type);
    }
    api.send(request.body(Body::from(body.to_vec())).unwrap()).await
}

async fn payload(api: &TestApi, event: &Value) -> Answer {
    api.get(&format!("/v1/events/{}/payload", event["id"].as_str().unwrap())).await
}

#[tokio::test]
async fn data_comes_out_byte_for_byte_as_it_went_in() {
    on_both(async |api| {
        let data = r#"{ "b":1.10,"a" : "\u00e9",  "b":2 }"#;
        let body = format!(
            r#"{{"tenant":"acme","type":"order.paid","data": {data} ,"version":"2024-01",
                "occurred_at":"2026-01-02T03:04:05+01:00"}}"#
        );

        let accepted = send(api, "/v1/events", Some("application/json"), body.as_bytes()).await;
        let accepted = accepted.expect(202);

        assert_eq!((&accepted["duplicate"], &accepted["differs"]), (&json!(false), &json!(false)));
        assert_eq!(accepted["occurred_at"], "2026-01-02T02:04:05Z");
        let answer = payload(api, &accepted).await;
        assert_eq!(answer.bytes, data.as_bytes());
        assert_eq!(answer.headers[header::CONTENT_TYPE], "application/json");
        assert_eq!(answer.headers[header::CONTENT_SECURITY_POLICY], "default-src 'none'; sandbox");
        let shown = api.get(&format!("/v1/events/{}", accepted["id"].as_str().unwrap())).await;
        assert!(String::from_utf8_lossy(&shown.bytes).contains(data));
    })
    .await;
}

#[tokio::test]
async fn the_same_key_is_the_same_event() {
    on_both(async |api| {
        let event = |data: Value| {
            json!({"tenant": "acme", "type": "order.paid", "key": "order-42", "data": data})
        };
        let first = api.post("/v1/events", event(json!({"n": 1}))).await.expect(202);
        for (data, differs) in [(json!({"n": 1}), false), (json!({"n": 2}), true)] {
            let again = api.post("/v1/events", event(data)).await.expect(202);
            assert_eq!(again["id"], first["id"]);
            assert_eq!((&again["duplicate"], &again["differs"]), (&json!(true), &json!(differs)));
        }
        let mut other = event(json!({}));
        other["tenant"] = json!("globex");
        assert_eq!(api.post("/v1/events", other).await.expect(202)["duplicate"], false);
        let found = api.get("/v1/events?tenant=acme&key=order-42").await.expect(200);
        assert_eq!(found["data"].as_array().unwrap().len(), 1);
        assert_eq!(found["data"][0]["id"], first["id"]);
    })
    .await;
}

#[tokio::test]
async fn every_bad_part_of_an_event_is_named_and_nothing_is_kept() {
    on_both(async |api| {
        let good = json!({"tenant": "acme", "type": "order.paid", "data": {}});
        for (field, value, expected) in [
            ("tenant", json!("a b"), "tenant: "),
            ("tenant", Value::Null, "tenant: it is missing"),
            ("type", json!("a..b"), "type: "),
            ("type", json!(""), "type: the event type is empty"),
            ("key", json!(""), "key: it is empty"),
            ("key", json!("a\u{0}b"), "key: it contains the control character"),
            ("key", json!("k".repeat(257)), "key: it is 257 bytes"),
            ("version", json!("v".repeat(65)), "version: it is 65 bytes"),
            ("occurred_at", json!("yesterday"), "occurred_at: \"yesterday\" is no time"),
            ("occurred_at", json!("-005000-01-01T00:00:00Z"), "occurred_at: "),
            ("traceparent", json!("00-xyz"), "traceparent: "),
            ("tpye", json!("x"), "tpye: there is no such field; known are"),
        ] {
            let mut event = good.clone();
            event[field] = value;
            let answer = api.post("/v1/events", event.clone()).await;
            assert_eq!(answer.problem(422), "invalid_input", "{event}");
            assert!(answer.errors()[0].starts_with(expected), "{:?}", answer.errors());
        }
        let answer = api.post("/v1/events", json!({"tenant": "acme", "type": "a"})).await;
        assert_eq!(answer.errors(), ["data: it is missing; give it"]);
        assert_eq!(api.get("/v1/events").await.expect(200)["data"], json!([]));
    })
    .await;
}

#[tokio::test]
async fn a_payload_over_its_limit_is_refused_whole() {
    on_both(async |api| {
        let limit = 1024 * 1024;
        let data = |bytes: usize| json!("x".repeat(bytes - 2));
        let event = |data: Value| json!({"tenant": "acme", "type": "a", "data": data});

        api.post("/v1/events", event(data(limit))).await.expect(202);
        let answer = api.post("/v1/events", event(data(limit + 1))).await;
        assert_eq!(answer.problem(413), "too_large");
        let raw = "/v1/tenants/acme/events/a";
        send(api, raw, Some("text/plain"), &vec![b'x'; limit]).await.expect(202);
        let answer = send(api, raw, Some("text/plain"), &vec![b'x'; limit + 1]).await;
        assert_eq!(answer.problem(413), "too_large");
    })
    .await;
}

#[tokio::test]
async fn each_event_of_a_batch_has_its_own_verdict() {
    on_both(async |api| {
        api.add_endpoint(json!({"url": "https://example.com/"})).await;
        let good = json!({"tenant": "acme", "type": "order.paid", "data": 1, "key": "k"});
        let batch = json!({"events": [
            good, {"tenant": "acme", "type": "a..b", "data": 2}, good,
            {"tenant": "acme", "type": "order.paid"}, {"tenant": "acme", "type": "b", "data": 3},
        ]});

        let results = api.post("/v1/events/batch", batch).await.expect(202);

        let statuses: Vec<_> = results["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["status"].clone())
            .collect();
        assert_eq!(statuses, [202, 422, 202, 422, 202]);
        let of = |n: usize| &results["results"][n];
        assert_eq!(of(0)["event"]["id"], of(2)["event"]["id"]);
        assert_eq!(of(2)["event"]["duplicate"], true);
        assert_eq!(of(1)["error"]["errors"][0]["field"], "type");
        assert_eq!(of(3)["error"]["errors"][0]["field"], "data");
        assert_eq!(api.get("/v1/events").await.json()["data"].as_array().unwrap().len(), 2);
        api.deliver_all().await;
        assert_eq!(api.world.requests().len(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_batch_has_1_to_1000_events() {
    on_both(async |api| {
        let event = json!({"tenant": "acme", "type": "a", "data": 1});
        for (count, ok) in [(0, false), (1, true), (1_000, true), (1_001, false)] {
            let batch = json!({"events": vec![event.clone(); count]});
            let answer = api.post("/v1/events/batch", batch).await;
            assert_eq!(answer.status.is_success(), ok, "{count}: {answer:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn raw_mode_keeps_any_bytes_and_their_type() {
    on_both(async |api| {
        let path = "/v1/tenants/acme/events/image.made?key=i-1&version=2";
        for (content_type, body, shown, why) in [
            (Some("image/png"), &b"\x89PNG\0\xff"[..], "image/png", "no text"),
            (None, b"anything", "application/octet-stream", "no type given"),
            (Some("application/json"), b" {\"a\":1}\n", "application/json", "blanks around too"),
        ] {
            let path = path.replace("i-1", &format!("i-{}", body.len()));
            let accepted = send(api, &path, content_type, body).await.expect(202);
            assert_eq!(accepted["version"], "2");
            let answer = payload(api, &accepted).await;
            assert_eq!(
                (&answer.bytes[..], &answer.headers[header::CONTENT_TYPE]),
                (body, &shown.parse().unwrap()),
                "{why}"
            );
        }
        let answer = send(api, path, Some("application/json"), b"{oops").await;
        assert!(answer.errors()[0].starts_with("data: it calls itself application/json"));
        let answer = send(api, "/v1/tenants/acme/events/a?kye=1", None, b"x").await;
        assert_eq!(answer.problem(400), "invalid_query");
    })
    .await;
}

#[tokio::test]
async fn a_tenants_key_sends_for_itself_alone() {
    on_both(async |api| {
        let key = api.key(Some("acme"), &[Scope::Emit]).await;
        let event = json!({"type": "order.paid", "data": {}});
        let accepted = api.call_as(&key, Method::POST, "/v1/events", event).await.expect(202);
        assert_eq!(accepted["tenant"], "acme", "its own needs no name");
        let foreign = json!({"tenant": "globex", "type": "order.paid", "data": {}});
        let answer = api.call_as(&key, Method::POST, "/v1/events", foreign).await;
        assert_eq!(answer.problem(404), "not_found");
    })
    .await;
}

#[tokio::test]
async fn while_another_program_writes_the_file_the_answer_is_503_and_nothing_is_kept() {
    use sqlx::Connection as _;
    let database = Database::migrated(Kind::Sqlite).await;
    let api = TestApi::new(&database).await;
    let mut other = sqlx::SqliteConnection::connect(&database.url).await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    let event = json!({"tenant": "acme", "type": "order.paid", "data": {}});

    let answer = api.post("/v1/events", event.clone()).await;

    assert_eq!(answer.headers[header::RETRY_AFTER], "2");
    assert_eq!(answer.problem(503), "unavailable");
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    api.post("/v1/events", event).await.expect(202);
    assert_eq!(api.get("/v1/events").await.json()["data"].as_array().unwrap().len(), 1);
    database.remove().await;
}
