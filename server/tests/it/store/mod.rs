//! Every statement of the store, run on both databases.

mod api_keys;
mod audit;
mod catalog;
mod commands;
mod complete;
mod counts;
mod deliveries;
mod emit;
mod endpoints;
mod event_types;
mod events;
mod grants;
mod groups;
mod health;
mod idempotency;
mod plans;
mod pulls;
mod queue;
pub mod received;
pub mod requests;
mod secrets;
mod shards;
pub mod sources;
mod tenants;
mod upkeep;

use bytes::Bytes;
use snaphook::{
    domain::{
        endpoint::EndpointSettings,
        endpoint_state::EndpointState,
        event::Door,
        event_type::EventType,
        health::Health,
        id::{EndpointId, EventId, id_at},
        tenant::TenantId,
        time::Timestamp,
    },
    store::{Accepted, Cursor, NewEvent, Row, SHARDS, Store, endpoints::EndpointRow},
};

use crate::support::databases;

/// A time that tests count from.
pub const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

/// Runs a test on a migrated database of each kind.
pub async fn on_both(test: impl AsyncFn(&Store)) {
    databases::on_both(async |database| {
        let store = database.open().await;
        test(&store).await;
        store.close().await;
    })
    .await;
}

/// The tenant of this name.
pub fn tenant(name: &str) -> TenantId {
    TenantId::parse(name).unwrap()
}

/// An active endpoint that is not kept yet.
pub fn new_endpoint(name: &str, n: u64, event_types: &[&str]) -> EndpointRow {
    EndpointRow {
        id: EndpointId(id_at(NOW, n)),
        tenant: tenant(name),
        shard: 0,
        state: EndpointState::Active,
        state_reason: None,
        state_since: NOW,
        discarding: false,
        settings: EndpointSettings {
            url: "https://example.com/hook".to_owned(),
            event_types: event_types.iter().map(ToString::to_string).collect(),
            ..EndpointSettings::default()
        },
        sealed: None,
        health: Health::default(),
        epoch: 0,
        created_at: NOW,
        updated_at: NOW,
        deleted_at: None,
    }
}

/// Keeps a new endpoint.
pub async fn add_endpoint(store: &Store, name: &str, n: u64, event_types: &[&str]) -> EndpointRow {
    let mut row = new_endpoint(name, n, event_types);
    let mut tx = store.begin().await.unwrap();
    tx.add_endpoint(&mut row).await.unwrap();
    tx.commit().await.unwrap();
    row
}

/// An event that is not kept yet, with a payload that is no UTF-8.
pub fn new_event(name: &str, event_type: &str) -> NewEvent {
    NewEvent {
        tenant: tenant(name),
        event_type: EventType::parse(event_type).unwrap(),
        payload: Bytes::from_static(b"{\"a\": 1.10}\xff"),
        content_type: None,
        key: None,
        dedup: None,
        version: None,
        occurred_at: None,
        traceparent: None,
        door: Door::Http,
        checked: false,
    }
}

/// Keeps an event in a transaction of its own.
pub async fn emit(store: &Store, event: &NewEvent) -> Accepted {
    let mut tx = store.begin().await.unwrap();
    let accepted = tx.accept(event).await.unwrap();
    tx.commit().await.unwrap();
    accepted
}

/// The fresh rows of all shards.
pub async fn fresh(store: &Store) -> Vec<Row> {
    let cursors: Vec<_> =
        (0..SHARDS).map(|shard| Cursor { shard, after: (EventId(0), EndpointId(0)) }).collect();
    store.read_engine().await.unwrap().list_fresh(&cursors, 1_000, None).await.unwrap()
}

/// One endpoint that wants everything, and one event on its way to it.
pub async fn one_delivery(store: &Store) -> Row {
    add_endpoint(store, "acme", 1, &["*"]).await;
    emit(store, &new_event("acme", "order.paid")).await;
    fresh(store).await.pop().unwrap()
}
