//! Genuine, but not what its schema says: acknowledged, kept as a dead letter, and held against the
//! schema again when it is redelivered.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use snaphook::{
    domain::{
        endpoint_kind::EndpointKind,
        event_type::EventType,
        id::{DeliveryId, EndpointId, EventId},
        retry::{Jitter, RetrySchedule},
        scope::Actor,
        tenant::TenantId,
    },
    manage::{Manage, event_types::EventTypeChange, queues::PullRules},
    store::{deliveries::DeliveryFilter, page::Page},
    world::guard::Policy,
};

use super::{TestDoor, on_both};
use crate::support::simulated::{at, keyring, plant};

fn manage(door: &TestDoor) -> Manage {
    Manage {
        store: door.store.clone(),
        world: door.world.clone(),
        keyring: Arc::new(keyring()),
        policy: Arc::new(Policy::default()),
        wake: Arc::new(|| {}),
        reread: snaphook::manage::no_door(),
        owner_wait: Duration::ZERO,
    }
}

fn schema(kind: &str) -> Value {
    json!({"type": "object", "properties": {"n": {"type": kind}}})
}

/// How the one delivery of an event stands, and its id.
async fn standing(door: &TestDoor, event: EventId) -> (String, DeliveryId) {
    let filter = DeliveryFilter { event: Some(event), ..DeliveryFilter::default() };
    let mut tx = door.store.read().await.unwrap();
    let row = tx.list_deliveries(&filter, Page::first(9)).await.unwrap().rows.remove(0);
    let cause = row.cause.map_or_else(String::new, |cause| format!(" of {cause}"));
    (format!("{}{cause}", row.standing), row.id)
}

async fn redeliver(door: &TestDoor, id: DeliveryId) {
    let acme = TenantId::parse("acme").unwrap();
    manage(door).redeliver(&Actor::command_line(), &acme, id).await.unwrap();
}

/// How many deliveries a consumer of a queue gets.
async fn claimed(door: &TestDoor, queue: EndpointId) -> usize {
    let (manage, schedule) = (manage(door), RetrySchedule::default());
    let rules = PullRules { schedule: &schedule, jitter: Jitter::NONE, strict: true };
    let row = manage.find_queue(None, queue).await.unwrap();
    manage.claim(&row, 9, Duration::from_secs(30), rules).await.unwrap().claimed.len()
}

#[tokio::test]
async fn what_is_not_as_its_schema_says_is_acknowledged_and_quarantined_until_the_schema_is_mended()
{
    on_both(async |door| {
        let settings = json!({
            "name": "shop",
            "scheme": "stripe",
            "schemas": {"charge/paid": schema("integer")},
        });
        let source = door.add_source(settings).await;
        door.add_endpoint("a").await;
        for (id, kind, n, requests, why) in [
            ("evt_1", "charge/paid", "7", 1, "as its schema says"),
            ("evt_2", "charge/paid", "\"7\"", 1, "not so"),
            ("evt_3", "charge.paid", "\"7\"", 2, "a type of which nothing is said"),
        ] {
            let body = format!(r#"{{"id":"{id}","type":"{kind}","n":{n}}}"#);
            assert_eq!(door.post(&source, "", body.as_bytes()).await, 200, "{why}");
            assert_eq!(door.deliver().await, requests, "{why}");
        }
        let event = door.events().await[1];
        let (stands, delivery) = standing(door, event).await;
        assert_eq!(stands, "dead of invalid");
        let mut tx = door.store.read().await.unwrap();
        let attempts = tx.list_attempts(delivery).await.unwrap();
        assert!(attempts[0].detail.contains("data/n"), "it says what is wrong: {:?}", attempts[0]);
        drop(tx);

        redeliver(door, delivery).await;
        assert_eq!(door.deliver().await, 2, "the schema says the same as before");
        assert_eq!(standing(door, event).await.0, "dead of invalid");

        let mended = schema("string");
        let source = door
            .set(source, |row| drop(row.settings.schemas.insert("charge/paid".to_owned(), mended)))
            .await;
        redeliver(door, delivery).await;
        assert_eq!(door.deliver().await, 3);
        assert_eq!(standing(door, event).await.0, "delivered");
        assert!(door.kept(&source).await.is_empty(), "it is an event like any other");
    })
    .await;
}

#[tokio::test]
async fn what_is_declared_of_the_event_type_counts_too_where_the_source_says_nothing() {
    on_both(async |door| {
        let settings = json!({
            "name": "shop",
            "scheme": "stripe",
            "schemas": {"charge.failed": schema("string")},
        });
        let source = door.add_source(settings).await;
        door.add_endpoint("a").await;
        for name in ["shop.charge.paid", "shop.charge.failed"] {
            let change = EventTypeChange {
                schemas: Some([(String::new(), schema("integer"))].into()),
                ..EventTypeChange::default()
            };
            let name = EventType::parse(name).unwrap();
            manage(door).put_event_type(&Actor::command_line(), &name, change).await.unwrap();
        }
        for (kind, expected) in [("charge.paid", "dead of invalid"), ("charge.failed", "delivered")]
        {
            let body = format!(r#"{{"id":"{kind}","type":"{kind}","n":"7"}}"#);
            assert_eq!(door.post(&source, "", body.as_bytes()).await, 200);
            door.deliver().await;
            let event = *door.events().await.last().unwrap();
            assert_eq!(standing(door, event).await.0, expected, "{kind}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_consumer_does_not_get_it_either() {
    on_both(async |door| {
        let settings = json!({
            "name": "shop",
            "scheme": "stripe",
            "schemas": {"charge/paid": schema("integer")},
        });
        let source = door.add_source(settings).await;
        let mut settings = at("");
        settings.kind = EndpointKind::Queue;
        let queue = plant(&door.store, &door.world, settings).await;
        let body = br#"{"id":"evt_1","type":"charge/paid","n":"7"}"#;
        assert_eq!(door.post(&source, "", body).await, 200);
        let event = door.events().await[0];

        assert_eq!(claimed(door, queue).await, 0);
        let (stands, delivery) = standing(door, event).await;
        assert_eq!(stands, "dead of invalid");
        redeliver(door, delivery).await;
        assert_eq!(claimed(door, queue).await, 0, "the schema says the same as before");
        assert_eq!(standing(door, event).await.0, "dead of invalid");

        let mended = schema("string");
        door.set(source, |row| drop(row.settings.schemas.insert("charge/paid".to_owned(), mended)))
            .await;
        redeliver(door, delivery).await;
        assert_eq!(claimed(door, queue).await, 1);
    })
    .await;
}
