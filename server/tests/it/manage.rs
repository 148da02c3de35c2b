//! Changes that no single door shows: a new master key, and waiting for the owner of a shard.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use snaphook::{
    domain::{id::DeliveryId, scope::Actor, source::Token, tenant::TenantId},
    manage::{Manage, reseal::Resealed, tenants::TenantChange},
    store::{
        EndpointRow, SHARDS, SecretRow, Store,
        page::Page,
        seal::{Keyring, MasterKey},
    },
    world::guard::Policy,
};

use crate::{
    store::{on_both, one_delivery, tenant},
    support::simulated::Simulated,
};

const OLD: &str = "3b9f1c0de5a27486f1d2c3b4a5968778695a4b3c2d1e0f11223344556677889a";
const NEW: &str = "aa9f1c0de5a27486f1d2c3b4a5968778695a4b3c2d1e0f1122334455667788bb";

fn manage(store: &Store, keys: &[&str], owner_wait: Duration) -> Manage {
    let mut keys = keys.iter().map(|key| MasterKey::parse(key).unwrap());
    let keyring = Keyring::new(keys.next().unwrap(), keys.collect());
    Manage {
        store: store.clone(),
        world: Simulated::new(|_, _| 200),
        keyring: Arc::new(keyring),
        policy: Arc::new(Policy::default()),
        wake: Arc::new(|| {}),
        reread: snaphook::manage::no_door(),
        owner_wait,
    }
}

/// An endpoint with a secret and a header, sealed by `manage`.
async fn seal(manage: &Manage) -> (EndpointRow, SecretRow) {
    let (actor, acme) = (Actor::command_line(), tenant("acme"));
    manage.put_tenant(&actor, &acme, TenantChange::default()).await.unwrap();
    let settings = json!({"url": "https://example.com/", "headers": {"X-Token": "s3cret"}});
    let settings = settings.as_object().unwrap().clone();
    let made = manage.create_endpoint(&actor, &acme, settings).await.unwrap();
    let settings = json!({
        "name": "social", "scheme": "meta", "secrets": ["0penly"], "verify_token": "s3cret",
    });
    let settings = settings.as_object().unwrap().clone();
    manage.create_source(&actor, &acme, settings).await.unwrap();
    (made.0, made.1.unwrap().0)
}

#[tokio::test]
async fn after_a_reseal_the_new_master_key_opens_everything_alone() {
    on_both(async |store| {
        let (endpoint, secret) = seal(&manage(store, &[OLD], Duration::ZERO)).await;
        let acme: TenantId = tenant("acme");

        let both = manage(store, &[NEW, OLD], Duration::ZERO);
        assert_eq!(both.reseal().await.unwrap(), Resealed { values: 4, changed: 4 });
        assert_eq!(both.reseal().await.unwrap(), Resealed { values: 4, changed: 0 }, "once");

        let new = manage(store, &[NEW], Duration::ZERO);
        let mut tx = store.read().await.unwrap();
        let row = tx.find_tenant_endpoint(&acme, endpoint.id).await.unwrap().unwrap();
        let settings = new.open_settings(&row).unwrap();
        assert_eq!(settings.headers.iter().next(), Some(("X-Token", "s3cret")));
        let source = tx.find_source_named(&acme, "social").await.unwrap().unwrap();
        let settings = new.open_source_settings(&source).unwrap();
        assert_eq!(settings.verify_token, Some(Token("s3cret".to_owned())));
        let row = tx.find_secret(&acme, endpoint.id, secret.id).await.unwrap().unwrap();
        new.open_secret(&row).unwrap();
        let error = manage(store, &[OLD], Duration::ZERO).open_secret(&row).unwrap_err();
        assert!(error.to_string().contains("which is not configured"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn nothing_that_is_sealed_can_be_read_in_the_database() {
    on_both(async |store| {
        let (endpoint, secret) = seal(&manage(store, &[OLD], Duration::ZERO)).await;
        let text = manage(store, &[OLD], Duration::ZERO).open_secret(&secret).unwrap();
        let mut tx = store.read().await.unwrap();
        let rows = tx.list_endpoints(&tenant("acme"), Page::first(9)).await.unwrap().rows;
        let source = tx.find_source_named(&tenant("acme"), "social").await.unwrap().unwrap();
        let secrets = tx.list_live_source_secrets(source.id, source.created_at).await.unwrap();
        assert_eq!(secrets.len(), 1);
        let stored = serde_json::to_string(&source.settings).unwrap();
        let shown = format!("{rows:?} {endpoint:?} {secret:?} {source:?} {secrets:?} {stored}");
        assert!(!shown.contains("s3cret") && !shown.contains(text.text()));
        let read = |sealed: &[u8]| String::from_utf8_lossy(sealed).into_owned();
        let sealed = [read(&secrets[0].sealed), read(&source.sealed.unwrap())];
        assert!(!sealed.concat().contains("0penly") && !sealed.concat().contains("s3cret"));
    })
    .await;
}

#[tokio::test]
async fn an_answer_waits_until_the_owner_has_seen_the_command() {
    on_both(async |store| {
        let row = one_delivery(store).await;
        let id = DeliveryId { event: row.event_id, endpoint: row.endpoint_id };
        let (actor, acme) = (Actor::command_line(), tenant("acme"));

        let nobody = manage(store, &[OLD], Duration::from_millis(100));
        assert!(!nobody.try_now(&actor, &acme, id).await.unwrap(), "there is no owner");

        obey(store).await;
        let waiting = manage(store, &[OLD], Duration::from_secs(10));
        let (heard, ()) = tokio::join!(waiting.cancel(&actor, &acme, id), obey(store));
        assert!(heard.unwrap());
    })
    .await;
}

/// The owner: waits for a command, and sees to it.
async fn obey(store: &Store) {
    loop {
        tokio::task::yield_now().await;
        let mut tx = store.begin().await.unwrap();
        let all: Vec<i16> = (0..SHARDS).collect();
        let command = tx.list_commands(&all).await.unwrap().pop();
        if let Some(command) = &command {
            tx.delete_command(command.id).await.unwrap();
        }
        tx.commit().await.unwrap();
        if command.is_some() {
            return;
        }
    }
}
