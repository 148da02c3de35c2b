//! `/v1/event-types`, and what their schemas do to events.

use http::Method;
use serde_json::{Value, json};
use snaphook::api::ApiSettings;

use super::{TestApi, on_both};
use crate::support::databases;

const PAID: &str = "/v1/event-types/order.paid";

fn schema() -> Value {
    json!({"type": "object", "required": ["amount"],
           "properties": {"amount": {"type": "integer", "minimum": 0}}})
}

#[tokio::test]
async fn an_event_type_is_declared_changed_and_taken_back() {
    on_both(async |api| {
        let declared = json!({"name": "order.paid", "description": "An order was paid",
            "schemas": {"": schema()}, "example": {"amount": 1}});

        let made = api.post("/v1/event-types", declared.clone()).await.expect(201);
        assert_eq!(made["schemas"][""], schema());
        assert_eq!(api.post("/v1/event-types", declared).await.problem(409), "event_type_exists");
        let change =
            json!({"schemas": {"2": {"type": "object"}}, "example": null, "archived": true});
        let changed = api.call(Method::PATCH, PAID, change).await.expect(200);
        assert_eq!(changed["schemas"].as_object().unwrap().len(), 2, "merged by version");
        assert_eq!(changed["example"], Value::Null);
        assert_eq!(api.get("/v1/event-types").await.expect(200)["data"], json!([]));
        let all = api.get("/v1/event-types?archived=true").await.expect(200);
        assert_eq!(all["data"][0], changed);
        let put = api.call(Method::PUT, PAID, json!({})).await.expect(200);
        assert_eq!((&put["schemas"], &put["archived"]), (&json!({}), &json!(false)));

        api.call(Method::DELETE, PAID, Value::Null).await.expect(204);
        api.get(PAID).await.problem(404);
    })
    .await;
}

#[tokio::test]
async fn a_schema_that_does_not_compile_is_refused() {
    on_both(async |api| {
        for (schemas, expected) in [
            (json!({"": {"type": "thing"}}), "schemas./type: "),
            (json!({"": {"$ref": "https://example.com/schema.json"}}), "schemas."),
            (json!({"": {"$ref": "file:///etc/passwd"}}), "schemas."),
            (json!({"": 5}), "schemas."),
            (json!({"v\u{0}": {}}), "schemas.v"),
        ] {
            let answer = api.call(Method::PUT, PAID, json!({"schemas": schemas})).await;
            assert_eq!(answer.problem(422), "invalid_input", "{schemas}");
            assert!(answer.errors()[0].starts_with(expected), "{:?}", answer.errors());
        }
        api.get(PAID).await.problem(404);
        let bad_name = api.call(Method::PUT, "/v1/event-types/a..b", json!({})).await;
        assert!(bad_name.errors()[0].starts_with("name: "), "{:?}", bad_name.errors());
    })
    .await;
}

#[tokio::test]
async fn data_that_breaks_its_schema_is_refused_with_the_path() {
    on_both(async |api| {
        let schemas = json!({"schemas": {"": schema(), "2": {"type": "array"}}});
        api.call(Method::PUT, PAID, schemas).await.expect(201);
        let event = |version: Value, data: Value| {
            json!({"tenant": "acme", "type": "order.paid", "version": version, "data": data})
        };
        for (version, data, expected) in [
            (Value::Null, json!({"amount": -1}), Some("data/amount: ")),
            (Value::Null, json!({}), Some("data: ")),
            (json!("2"), json!({}), Some("data: ")),
            (json!("2"), json!([]), None),
            (json!("3"), json!("anything"), None),
            (Value::Null, json!({"amount": 1}), None),
        ] {
            let answer = api.post("/v1/events", event(version, data.clone())).await;
            match expected {
                None => drop(answer.expect(202)),
                Some(expected) => {
                    assert_eq!(answer.problem(422), "invalid_input");
                    assert!(answer.errors()[0].starts_with(expected), "{:?}", answer.errors());
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_strict_server_takes_declared_types_only() {
    databases::on_both(async |database| {
        let settings = ApiSettings { strict_event_types: true, ..ApiSettings::default() };
        let api = TestApi::with(database, settings).await;
        let event = json!({"tenant": "acme", "type": "order.paid", "data": {}});

        let answer = api.post("/v1/events", event.clone()).await;
        assert!(answer.errors()[0].starts_with("type: order.paid is not declared"));
        api.call(Method::PUT, PAID, Value::Null).await.expect(201);
        api.post("/v1/events", event).await.expect(202);
        api.store.close().await;
    })
    .await;
}
