//! `/v1/deliveries`: what is seen of them, and what people do to one.

use std::time::Duration;

use serde_json::{Value, json};
use snaphook::engine::Owner;

use super::{TestApi, on_both};
use crate::support::simulated::turn;

/// An endpoint whose URL answers as it says, and one event to it.
async fn one(api: &TestApi, url: &str) -> String {
    api.add_endpoint(json!({"url": url, "retry_schedule": ["0s", "1m"]})).await;
    let event = api.emit("order.paid").await;
    let page = api.get(&format!("/v1/events/{event}/deliveries")).await.expect(200);
    page["data"][0]["id"].as_str().unwrap().to_owned()
}

async fn show(api: &TestApi, delivery: &str) -> Value {
    api.get(&format!("/v1/deliveries/{delivery}")).await.expect(200)
}

async fn act(api: &TestApi, delivery: &str, verb: &str) -> super::Answer {
    api.post(&format!("/v1/deliveries/{delivery}/{verb}"), Value::Null).await
}

async fn listed(api: &TestApi, query: &str) -> Vec<Value> {
    let page = api.get(&format!("/v1/deliveries?{query}")).await.expect(200);
    page["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_delivery_is_seen_from_its_event_to_its_end() {
    on_both(async |api| {
        let id = one(api, "https://example.com/fail").await;

        let waiting = show(api, &id).await;
        assert_eq!((&waiting["state"], &waiting["attempts"]), (&json!("pending"), &json!([])));
        assert_eq!(waiting["attempts_left"], 2);
        assert!(waiting["next_attempt_at"].is_string() && waiting["gives_up_at"].is_string());
        let engine = api.engine();
        let mut owner = Owner::new(engine.clone());
        owner.claim().await.unwrap();
        turn(&engine, &mut owner).await.unwrap();
        let retrying = show(api, &id).await;
        assert_eq!(
            (&retrying["state"], &retrying["attempts_left"]),
            (&json!("pending"), &json!(1))
        );
        assert_eq!(retrying["attempts"][0]["outcome"], "failed");
        assert_eq!(retrying["attempts"][0]["status"], 500);
        assert_eq!(retrying["attempts"][0]["response"], "noted");
        drop(owner);
        api.deliver_all().await;

        let dead = show(api, &id).await;
        assert_eq!((&dead["state"], &dead["cause"]), (&json!("dead"), &json!("exhausted")));
        assert_eq!(dead["attempts"].as_array().unwrap().len(), 2);
        assert_eq!(dead["attempts"][1]["cause"], "exhausted");
        assert!(dead["next_attempt_at"].is_null() && dead["attempts_left"].is_null());
    })
    .await;
}

#[tokio::test]
async fn deliveries_are_filtered_by_all_that_is_offered() {
    on_both(async |api| {
        let dead = one(api, "https://example.com/fail").await;
        api.deliver_all().await;
        let good =
            api.add_endpoint(json!({"url": "https://example.com/", "event_types": ["ok"]})).await;
        let event = api.emit("ok").await;
        api.deliver_all().await;
        api.post(&format!("/v1/tenants/acme/endpoints/{good}/pause"), Value::Null)
            .await
            .expect(202);
        api.emit("ok").await;

        let states = |rows: &[Value]| -> Vec<String> {
            rows.iter().map(|row| row["state"].as_str().unwrap().to_owned()).collect()
        };
        for (query, expected) in [
            ("", vec!["pending", "held", "dead", "delivered", "dead"]),
            ("state=dead", vec!["dead", "dead"]),
            ("state=pending", vec!["pending"]),
            ("state=held", vec!["held"]),
            ("state=delivered", vec!["delivered"]),
            ("state=canceled", vec![]),
            ("cause=exhausted", vec!["dead", "dead"]),
            ("cause=gone", vec![]),
            ("cause=exhausted&state=delivered", vec![]),
            ("type=ok", vec!["pending", "held", "dead", "delivered"]),
            ("type=order.*", vec!["dead"]),
            ("tenant=globex", vec![]),
            ("until=1h", vec![]),
            (&format!("event={event}"), vec!["dead", "delivered"]),
            (&format!("endpoint={good}"), vec!["held", "delivered"]),
            (&format!("endpoint={good}&event={event}"), vec!["delivered"]),
        ] {
            let mut found = states(&listed(api, query).await);
            let mut expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
            found.sort();
            expected.sort();
            assert_eq!(found, expected, "{query}");
        }
        assert_eq!(listed(api, "state=dead").await.last().unwrap()["id"], dead.as_str());
    })
    .await;
}

#[tokio::test]
async fn a_long_list_of_deliveries_is_paged_without_gaps() {
    on_both(async |api| {
        api.add_endpoint(json!({"url": "https://example.com/a"})).await;
        api.add_endpoint(json!({"url": "https://example.com/b"})).await;
        for _ in 0..3 {
            api.emit("order.paid").await;
        }
        api.deliver_all().await;
        api.emit("order.paid").await;

        let mut seen = Vec::new();
        let mut query = "limit=3".to_owned();
        loop {
            let page = api.get(&format!("/v1/deliveries?{query}")).await.expect(200);
            let ids = page["data"].as_array().unwrap().iter().map(|row| row["id"].clone());
            seen.extend(ids);
            let Some(next) = page["next"].as_str() else { break };
            query = format!("limit=3&cursor={next}");
        }

        let all: Vec<Value> = listed(api, "").await.iter().map(|row| row["id"].clone()).collect();
        assert_eq!((seen.len(), &seen), (8, &all));
    })
    .await;
}

#[tokio::test]
async fn a_dead_letter_is_redelivered_as_a_new_run() {
    on_both(async |api| {
        let id = one(api, "https://example.com/fail").await;
        api.deliver_all().await;
        let endpoint = show(api, &id).await["endpoint"].as_str().unwrap().to_owned();
        let path = format!("/v1/tenants/acme/endpoints/{endpoint}");
        let mended = json!({"url": "https://example.com/mended"});
        api.call(http::Method::PATCH, &path, mended).await.expect(200);

        let answer = act(api, &id, "redeliver").await.expect(202);

        assert_eq!((&answer["state"], &answer["attempts_left"]), (&json!("pending"), &json!(2)));
        assert!(listed(api, "state=dead").await.is_empty(), "what is dead now");
        assert_eq!(act(api, &id, "redeliver").await.problem(409), "delivery_waiting");
        api.deliver_all().await;
        let shown = show(api, &id).await;
        assert_eq!(shown["state"], "delivered");
        let attempts: Vec<_> = shown["attempts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|attempt| (attempt["number"].clone(), attempt["run"].clone()))
            .collect();
        assert_eq!(attempts, [(json!(1), json!(0)), (json!(2), json!(0)), (json!(3), json!(1))]);
        assert_eq!(act(api, &id, "redeliver").await.expect(202)["state"], "pending", "and again");
    })
    .await;
}

#[tokio::test]
async fn a_canceled_delivery_is_never_sent() {
    on_both(async |api| {
        let id = one(api, "https://example.com/").await;

        let answer = act(api, &id, "cancel").await.expect(202);

        assert_eq!(answer["state"], "canceled");
        assert_eq!(answer["attempts"][0]["sent"], false);
        assert_eq!(act(api, &id, "cancel").await.problem(409), "delivery_ended");
        assert_eq!(act(api, &id, "try-now").await.problem(409), "delivery_ended");
        api.deliver_all().await;
        assert!(api.world.requests().is_empty());
        let listed = listed(api, "state=canceled").await;
        assert_eq!((listed.len(), &listed[0]["attempts"]), (1, &json!(0)));
    })
    .await;
}

#[tokio::test]
async fn a_retry_can_be_hastened() {
    on_both(async |api| {
        let id = one(api, "https://example.com/fail").await;
        let engine = api.engine();
        let mut owner = Owner::new(engine.clone());
        owner.claim().await.unwrap();
        turn(&engine, &mut owner).await.unwrap();
        assert_eq!(turn(&engine, &mut owner).await.unwrap(), 0, "the next one is in a minute");

        act(api, &id, "try-now").await.expect(202);

        api.world.pass(Duration::from_secs(1));
        assert_eq!(turn(&engine, &mut owner).await.unwrap(), 1);
        assert_eq!(show(api, &id).await["state"], "dead", "it was the last of its ladder");
    })
    .await;
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    on_both(async |api| {
        let unknown = format!("dlv_{}", "0".repeat(26));
        for id in [unknown.as_str(), "dlv_x", "evt_1", "%00"] {
            for verb in ["redeliver", "try-now", "cancel"] {
                assert_eq!(act(api, id, verb).await.problem(404), "not_found", "{id}");
            }
            api.get(&format!("/v1/deliveries/{id}")).await.problem(404);
        }
    })
    .await;
}
