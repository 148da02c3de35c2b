//! Every statement of the store, run on both databases.

mod endpoints;
mod secrets;

use snaphook::{
    domain::{
        endpoint::EndpointSettings,
        endpoint_state::EndpointState,
        id::{EndpointId, id_at},
        tenant::TenantId,
        time::Timestamp,
    },
    store::{Store, endpoints::EndpointRow},
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
        settings: EndpointSettings {
            url: "https://example.com/hook".to_owned(),
            event_types: event_types.iter().map(ToString::to_string).collect(),
            ..EndpointSettings::default()
        },
        sealed: None,
        health: "{}".to_owned(),
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
