//! Declared event types and their schemas.

use std::collections::BTreeMap;

use snaphook::{
    domain::event_type::EventType,
    store::{Tx, event_types::EventTypeRow, page::Page},
};

use super::{NOW, on_both};

fn row(name: &str, schemas: &[(&str, &str)]) -> EventTypeRow {
    let own = |(version, schema): &(&str, &str)| ((*version).to_owned(), (*schema).to_owned());
    EventTypeRow {
        name: EventType::parse(name).unwrap(),
        description: "An order was paid".to_owned(),
        example: Some("{\"a\":1}".to_owned()),
        archived: false,
        created_at: NOW,
        updated_at: NOW,
        schemas: schemas.iter().map(own).collect::<BTreeMap<_, _>>(),
    }
}

async fn names(tx: &mut Tx, archived: bool) -> Vec<String> {
    let listed = tx.list_event_types(archived, Page::first(9)).await.unwrap();
    listed.rows.iter().map(|row| row.name.to_string()).collect()
}

#[tokio::test]
async fn a_type_is_kept_with_its_schemas_and_each_change_has_an_epoch() {
    on_both(async |store| {
        let mut tx = store.begin().await.unwrap();
        let first = row("order.paid", &[("", "{}"), ("2", "true")]);
        assert!(tx.add_event_type(&first).await.unwrap());
        assert!(!tx.add_event_type(&first).await.unwrap(), "there is one");
        assert_eq!(tx.find_event_type(&first.name).await.unwrap().as_ref(), Some(&first));
        let epoch = tx.config_epoch().await.unwrap();

        let second = EventTypeRow { example: None, ..row("order.paid", &[("3", "{}")]) };
        assert!(tx.update_event_type(&second).await.unwrap());
        assert_eq!(tx.find_event_type(&first.name).await.unwrap(), Some(second));
        assert!(tx.config_epoch().await.unwrap() > epoch);
        assert!(!tx.update_event_type(&row("nothing", &[])).await.unwrap());

        assert!(tx.delete_event_type(&first.name).await.unwrap());
        assert!(!tx.delete_event_type(&first.name).await.unwrap());
        assert!(tx.find_event_type(&first.name).await.unwrap().is_none());
    })
    .await;
}

#[tokio::test]
async fn archived_types_are_listed_only_when_asked_for() {
    on_both(async |store| {
        let mut tx = store.begin().await.unwrap();
        tx.add_event_type(&row("b", &[])).await.unwrap();
        tx.add_event_type(&EventTypeRow { archived: true, ..row("a", &[]) }).await.unwrap();
        assert_eq!(names(&mut tx, false).await, ["b"]);
        assert_eq!(names(&mut tx, true).await, ["a", "b"]);
    })
    .await;
}
