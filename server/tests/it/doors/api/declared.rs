//! One rule for what passes by what is declared of its type, whichever the door: HTTP refuses at
//! once what dies as invalid when it comes by SQL, and both give the same sentences.

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use snaphook::{
    api::ApiSettings,
    domain::{event::Door, event_type::EventType, tenant::TenantId},
    engine::{Engine, EngineSettings, Owner},
    store::NewEvent,
    telemetry::metrics::Metrics,
};

use super::TestApi;
use crate::support::{
    databases::{self, Database},
    simulated::{keyring, run_dry},
};

/// Types in each way in which they can be declared; `amount` is a positive number in each schema.
async fn declare(api: &TestApi) {
    let schema = json!({"type": "object", "required": ["amount"],
        "properties": {"amount": {"type": "number", "exclusiveMinimum": 0}}});
    for (name, body) in [
        ("plain", json!({})),
        ("default", json!({"schemas": {"": schema}})),
        ("named", json!({"schemas": {"1": schema, "2": schema}})),
        ("archived", json!({"schemas": {"": schema}, "archived": true})),
    ] {
        let path = format!("/v1/event-types/{name}");
        api.call(Method::PUT, &path, body).await.expect(201);
    }
}

/// What comes of an event by HTTP: nothing, or all that is wrong with it.
async fn by_http(api: &TestApi, event_type: &str, version: Option<&str>, data: &Value) -> String {
    let event = json!({"tenant": "acme", "type": event_type, "version": version, "data": data});
    let answer = api.post("/v1/events", event).await;
    if answer.status == 202 {
        return String::new();
    }
    assert_eq!(answer.problem(422), "invalid_input");
    answer.errors().join("; ")
}

async fn by_sql(api: &TestApi, event_type: &str, version: Option<&str>, data: &Value) -> String {
    let event = NewEvent {
        tenant: TenantId::parse("acme").unwrap(),
        event_type: EventType::parse(event_type).unwrap(),
        payload: Bytes::from(data.to_string()),
        content_type: None,
        key: None,
        dedup: None,
        version: version.map(str::to_owned),
        occurred_at: None,
        traceparent: None,
        door: Door::Sql,
        checked: false,
    };
    api.store.accept(event).await.unwrap().event.to_string()
}

/// What the delivery of an event shows of its end.
async fn end_of(api: &TestApi, event: &str) -> String {
    let listed = api.get(&format!("/v1/events/{event}/deliveries")).await.expect(200);
    let delivery = listed["data"][0]["id"].as_str().unwrap();
    let delivery = api.get(&format!("/v1/deliveries/{delivery}")).await.expect(200);
    if delivery["state"] == "delivered" {
        return String::new();
    }
    assert_eq!((&delivery["state"], &delivery["cause"]), (&json!("dead"), &json!("invalid")));
    let attempt = &delivery["history"].as_array().or(delivery["attempts"].as_array()).unwrap()[0];
    assert_eq!(attempt["sent"], false);
    attempt["error"].as_str().unwrap().to_owned()
}

async fn both_doors_agree(database: &Database, strict: bool) {
    let settings = ApiSettings { strict_event_types: strict, ..ApiSettings::default() };
    let api = TestApi::with(database, settings).await;
    declare(&api).await;
    api.add_endpoint(json!({"url": "https://example.com/ok", "event_types": ["*"]})).await;
    let mut cases = Vec::new();
    for event_type in ["undeclared", "plain", "default", "named", "archived"] {
        for version in [None, Some("1"), Some("3")] {
            for data in [json!({"amount": 5}), json!({"amount": 0}), json!("text")] {
                let said = by_http(&api, event_type, version, &data).await;
                let event = by_sql(&api, event_type, version, &data).await;
                cases.push((event, said, format!("{event_type} {version:?} {data}")));
            }
        }
    }
    let settings = EngineSettings { strict_event_types: strict, ..EngineSettings::default() };
    let (store, world) = (api.store.clone(), api.world.clone());
    let engine = Engine::new(store, world, settings, keyring(), Metrics::new());
    run_dry(&engine, &mut Owner::new(engine.clone()), &api.world).await.unwrap();

    let mut refused = 0;
    for (event, said, case) in cases {
        assert_eq!(end_of(&api, &event).await, said, "strict {strict}: {case}");
        refused += usize::from(!said.is_empty());
    }
    // Free: the wrong data of the three schemas that are asked for. Strict: all of what is not
    // declared (9) or archived (9), all versions but one of `default` (6) and of `named` (6), and
    // the wrong data of that one (2 and 2).
    assert_eq!(refused, if strict { 34 } else { 6 });
    api.store.close().await;
}

#[tokio::test]
async fn both_doors_refuse_the_same_with_the_same_sentences() {
    for strict in [false, true] {
        databases::on_both(async |database| both_doors_agree(database, strict).await).await;
    }
}
