//! What is declared of event types, as doors and engine see it: of late, read once, for one type
//! and one version.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::join_all;
use serde_json::json;
use snaphook::{
    domain::{
        declared::{self, Asked},
        event::{Door, Event, Inbound},
        event_type::EventType,
        forwarded::ForwardedHeaders,
        id::EventId,
    },
    faults::Faults,
    store::{Store, event_types::EventTypeRow},
};

use super::{NOW, on_both};

async fn declare(store: &Store, archived: bool, schemas: &[(&str, &str)]) {
    let own = |(version, schema): &(&str, &str)| ((*version).to_owned(), (*schema).to_owned());
    let row = EventTypeRow {
        name: EventType::parse("order.paid").unwrap(),
        description: String::new(),
        example: None,
        archived,
        created_at: NOW,
        updated_at: NOW,
        schemas: schemas.iter().map(own).collect(),
    };
    let mut tx = store.begin().await.unwrap();
    if !tx.add_event_type(&row).await.unwrap() {
        tx.update_event_type(&row).await.unwrap();
    }
    tx.commit().await.unwrap();
}

const START: Duration = Duration::from_secs(1_000);

#[tokio::test]
async fn a_type_is_known_by_its_versions_and_the_schema_of_one() {
    on_both(async |store| {
        declare(store, true, &[("", "true"), ("2", r#"{"type": "null"}"#)]).await;
        for (event_type, version, expected, why) in [
            ("order.paid", None, Some(Some("true")), "of events that name no version"),
            ("order.paid", Some("2"), Some(Some(r#"{"type":"null"}"#)), "of version 2"),
            ("order.paid", Some("3"), Some(None), "declared, without a schema of that version"),
            ("order.sent", None, None, "not declared"),
        ] {
            let by_door = store.declared(START, event_type, version).await.unwrap();
            let mut tx = store.read_engine().await.unwrap();
            let epoch = tx.config_epoch().await.unwrap();
            let by_engine = store.declared_at(&mut tx, epoch, event_type, version).await.unwrap();
            for declared in [by_door, by_engine] {
                if let Some(declared) = &declared {
                    assert!(declared.archived);
                    assert_eq!(declared.versions, ["", "2"]);
                }
                let schema = declared.map(|declared| {
                    declared.schema.as_ref().map(|schema| schema.source().to_string())
                });
                let schema = schema.as_ref().map(Option::as_deref);
                assert_eq!(schema, expected, "{why}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn many_that_miss_the_same_type_read_it_once() {
    on_both(async |store| {
        declare(store, false, &[("", "{}")]).await;
        let faults = Arc::new(Faults::default());
        let node = store.with_faults(faults.clone());

        let asked = (0..100).map(|_| node.declared(START, "order.paid", None));
        let all = join_all(asked).await;

        let first = all[0].as_ref().unwrap().clone().unwrap();
        assert!(all.iter().all(|one| Arc::ptr_eq(one.as_ref().unwrap().as_ref().unwrap(), &first)));
        // A connection and a statement for the epoch, and the same for the type.
        assert_eq!(faults.steps(), 4);
        node.declared(START + Duration::from_millis(999), "order.paid", None).await.unwrap();
        assert_eq!(faults.steps(), 4, "known, and fresh");
    })
    .await;
}

#[tokio::test]
async fn a_change_is_seen_at_once_where_it_was_made_and_elsewhere_within_a_second() {
    on_both(async |store| {
        let elsewhere = store.with_faults(Arc::default());
        let versions = async |store: &Store, now| {
            let declared = store.declared(now, "order.paid", None).await.unwrap();
            declared.map(|declared| declared.versions.join(","))
        };
        for node in [store, &elsewhere] {
            assert_eq!(versions(node, START).await, None);
        }
        declare(store, false, &[("1", "{}")]).await;
        store.event_types_changed();

        assert_eq!(versions(store, START).await.as_deref(), Some("1"));
        assert_eq!(versions(&elsewhere, START).await, None, "not yet");
        let later = START + Duration::from_secs(1);
        assert_eq!(versions(&elsewhere, later).await.as_deref(), Some("1"));

        // The engine has seen a change of which no door has heard: it holds for both.
        declare(&elsewhere, false, &[("2", "{}")]).await;
        let mut tx = store.read_engine().await.unwrap();
        let epoch = tx.config_epoch().await.unwrap();
        let declared = store.declared_at(&mut tx, epoch, "order.paid", None).await.unwrap();
        assert_eq!(declared.unwrap().versions, ["2"]);
        assert_eq!(versions(store, START).await.as_deref(), Some("2"));
    })
    .await;
}

#[tokio::test]
async fn a_schema_whose_text_is_the_same_is_not_compiled_again() {
    on_both(async |store| {
        declare(store, false, &[("", "{}")]).await;
        let schema = async || {
            let declared = store.declared(START, "order.paid", None).await.unwrap().unwrap();
            declared.schema.clone().unwrap()
        };
        let first = schema().await;
        declare(store, false, &[("", "{}"), ("1", "true")]).await;
        store.event_types_changed();
        assert!(Arc::ptr_eq(&first, &schema().await));
        declare(store, false, &[("", "true")]).await;
        store.event_types_changed();
        assert!(!Arc::ptr_eq(&first, &schema().await));
    })
    .await;
}

#[tokio::test]
async fn a_source_has_schemas_of_its_own_for_the_types_of_its_provider() {
    on_both(async |store| {
        let mut row = super::sources::new_source("acme", "shop", 1);
        let schemas = json!({"schemas": {"charge/paid": {"required": ["n"]}}});
        assert_eq!(row.settings.apply(schemas.as_object().unwrap()), []);
        let mut tx = store.begin().await.unwrap();
        assert!(tx.add_source(&mut row).await.unwrap());
        tx.commit().await.unwrap();
        let epoch = row.epoch;
        let event = |source_type: &str| Event {
            id: EventId(1),
            tenant: "acme".to_owned(),
            event_type: "shop.charge.paid".to_owned(),
            version: None,
            payload: Bytes::from_static(b"{}"),
            content_type: None,
            key: None,
            occurred_at: None,
            traceparent: None,
            door: Door::Source.code(),
            inbound: Some(Inbound {
                source: row.id,
                source_type: Some(source_type.to_owned()),
                headers: ForwardedHeaders::default(),
            }),
            checked: false,
        };
        let fits = async |epoch: i64, source_type: &str| {
            let mut tx = store.read().await.unwrap();
            let event = event(source_type);
            let declared = store.declared_of(&mut tx, epoch, &event).await.unwrap();
            let asked =
                Asked { event_type: &event.event_type, version: None, payload: &event.payload };
            declared::problems(false, declared.as_deref(), asked).is_empty()
        };
        assert!(!fits(epoch, "charge/paid").await);
        assert!(!fits(epoch, "charge/paid").await, "from memory");
        assert!(fits(epoch, "charge/failed").await);

        let mut changed = row.clone();
        changed.settings.schemas.clear();
        let mut tx = store.begin().await.unwrap();
        assert!(tx.update_source(&mut changed).await.unwrap());
        tx.commit().await.unwrap();
        assert!(fits(changed.epoch, "charge/paid").await, "read again after a change");
    })
    .await;
}
