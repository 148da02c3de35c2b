//! What is asked of an event before its first attempt: whether the endpoint's filter wants it,
//! and whether it keeps to its schema. Neither costs a request. A redelivery asks the second again.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use snaphook::{
    domain::{attempt::Mark, event_type::EventType},
    engine::EngineSettings,
    manage::event_types::EventTypeChange,
};

use crate::support::{databases::on_both, pipeline::Pipeline, simulated::Reply::Status};

/// Declares `name`, with a schema for events that name no version.
pub async fn declare(p: &Pipeline, name: &str, schema: Value) {
    let name = EventType::parse(name).unwrap();
    let schemas = Some(BTreeMap::from([(String::new(), schema)]));
    let change = EventTypeChange { schemas, ..EventTypeChange::default() };
    p.manage.put_event_type(&p.actor, &name, change).await.unwrap();
}

#[tokio::test]
async fn an_event_that_the_filter_does_not_want_costs_no_request() {
    on_both(async |database| {
        let mut p = Pipeline::new(database, |_, _| Status(200)).await;
        let endpoint = p.plant_with("picky", |settings| {
            settings.filter = json!({ "/amount": { "gte": 5000 } });
        });
        let (picky, all) = (endpoint.await, p.plant("all").await);
        let small = p.emit_unchecked("order.paid", r#"{"amount": 4999}"#).await;
        let large = p.emit_unchecked("order.paid", r#"{"amount": 5000}"#).await;
        let no_json = p.emit_unchecked("order.paid", "amount").await;

        p.run_dry().await;

        for (event, standing) in [(small, "filtered"), (large, "delivered"), (no_json, "filtered")]
        {
            assert_eq!(p.standing(event, picky).await, standing);
            assert_eq!(p.standing(event, all).await, "delivered");
        }
        assert_eq!(p.history(small, picky).await, [(Mark::Filtered, String::new())]);
        assert!(!p.attempts(small, picky).await[0].sent);
        assert_eq!(p.requests("picky"), 1);
    })
    .await;
}

#[tokio::test]
async fn an_event_from_sql_is_checked_once_and_one_from_http_not_again() {
    on_both(async |database| {
        let mut p = Pipeline::new(database, |_, _| Status(200)).await;
        let endpoint = p.plant("a").await;
        declare(&p, "order.paid", json!({ "required": ["order_id"] })).await;
        let invalid = p.emit_unchecked("order.paid", r#"{"amount": 4999}"#).await;
        let valid = p.emit_unchecked("order.paid", r#"{"order_id": 42}"#).await;
        let of_http = p.emit("order.paid").await;
        let undeclared = p.emit_unchecked("order.lost", "{}").await;

        p.run_dry().await;

        assert_eq!(p.standing(invalid, endpoint).await, "dead of invalid");
        let attempts = p.attempts(invalid, endpoint).await;
        assert_eq!((attempts.len(), attempts[0].sent), (1, false), "recorded, not counted");
        assert!(attempts[0].detail.contains("order_id"), "{}", attempts[0].detail);
        for (event, why) in [
            (valid, "it keeps to the schema"),
            (of_http, "its door has checked it"),
            (undeclared, "no type need be declared"),
        ] {
            assert_eq!(p.standing(event, endpoint).await, "delivered", "{why}");
        }

        declare(&p, "order.paid", json!({ "required": ["amount"] })).await;
        let later = p.emit_unchecked("order.paid", r#"{"amount": 4999}"#).await;
        p.run_dry().await;
        assert_eq!(p.standing(later, endpoint).await, "delivered", "by the schema of now");
    })
    .await;
}

#[tokio::test]
async fn a_redelivery_is_held_against_the_schema_of_its_time_and_not_against_the_filter() {
    on_both(async |database| {
        let mut p = Pipeline::new(database, |_, _| Status(200)).await;
        let endpoint = p.plant_with("a", |settings| {
            settings.filter = json!({ "/amount": { "gte": 5000 } });
        });
        let endpoint = endpoint.await;
        declare(&p, "order.paid", json!({ "required": ["order_id"] })).await;
        let invalid = p.emit_unchecked("order.paid", r#"{"amount": 5000}"#).await;
        let unwanted = p.emit_unchecked("order.lost", r#"{"amount": 4999}"#).await;
        p.run_dry().await;
        assert_eq!(p.standing(invalid, endpoint).await, "dead of invalid");
        assert_eq!(p.standing(unwanted, endpoint).await, "filtered");

        p.redeliver(invalid, endpoint).await;
        p.redeliver(unwanted, endpoint).await;
        p.run_dry().await;

        assert_eq!(p.standing(invalid, endpoint).await, "dead of invalid", "nothing was mended");
        assert_eq!(p.standing(unwanted, endpoint).await, "delivered", "somebody asked for it");

        declare(&p, "order.paid", json!({ "required": ["amount"] })).await;
        p.redeliver(invalid, endpoint).await;
        p.run_dry().await;

        assert_eq!(p.standing(invalid, endpoint).await, "delivered");
        let marks: Vec<_> =
            p.history(invalid, endpoint).await.into_iter().map(|one| one.0).collect();
        assert_eq!(marks, [Mark::Dead, Mark::Dead, Mark::Delivered]);
        assert_eq!(p.requests("a"), 2);

        declare(&p, "order.paid", json!({ "required": ["order_id"] })).await;
        p.redeliver(invalid, endpoint).await;
        p.run_dry().await;
        assert_eq!(p.standing(invalid, endpoint).await, "dead of invalid", "after an attempt too");
        assert_eq!(p.requests("a"), 2);
    })
    .await;
}

#[tokio::test]
async fn where_types_must_be_declared_one_that_is_not_is_invalid() {
    on_both(async |database| {
        let settings = EngineSettings { strict_event_types: true, ..EngineSettings::default() };
        let mut p = Pipeline::with(database, settings, |_, _| Status(200)).await;
        let endpoint = p.plant("a").await;
        declare(&p, "order.paid", json!({})).await;
        let declared = p.emit_unchecked("order.paid", "{}").await;
        let undeclared = p.emit_unchecked("order.lost", "{}").await;
        let of_http = p.emit("order.lost").await;

        p.run_dry().await;

        assert_eq!(p.standing(declared, endpoint).await, "delivered");
        assert_eq!(p.standing(undeclared, endpoint).await, "dead of invalid");
        assert_eq!(p.standing(of_http, endpoint).await, "delivered", "its door has checked it");
        let detail = &p.attempts(undeclared, endpoint).await[0].detail;
        assert!(detail.contains("order.lost is not declared"), "{detail}");
    })
    .await;
}
