//! Secrets of endpoints: which are live, and what each change does.

use std::time::Duration;

use snaphook::{
    domain::{
        id::{EndpointId, SecretId},
        secret_kind::SecretKind,
    },
    store::{
        SecretRow, Store,
        page::Page,
        reseal::{Sealed, SealedIn},
        seal::Place,
    },
};

use super::{NOW, add_endpoint, on_both, tenant};

/// A secret that is not kept yet.
pub fn row(endpoint: EndpointId, id: i64) -> SecretRow {
    SecretRow {
        id: SecretId(id),
        endpoint,
        tenant: tenant("acme"),
        kind: SecretKind::Hmac,
        sealed: vec![u8::try_from(id).unwrap(); 9],
        created_at: NOW,
        expires_at: None,
        revoked_at: None,
    }
}

/// An endpoint with the secrets 1 to `count`.
async fn endpoint_with(store: &Store, count: i64) -> EndpointId {
    let endpoint = add_endpoint(store, "acme", 1, &["*"]).await.id;
    let mut tx = store.begin().await.unwrap();
    for id in 1..=count {
        tx.add_secret(&row(endpoint, id)).await.unwrap();
    }
    tx.commit().await.unwrap();
    endpoint
}

#[tokio::test]
async fn an_expired_or_revoked_secret_is_not_live_and_each_change_has_an_epoch() {
    on_both(async |store| {
        let endpoint = endpoint_with(store, 3).await;
        let mut tx = store.begin().await.unwrap();
        let before = tx.find_endpoint(endpoint).await.unwrap().unwrap().epoch;

        let expires_at = Some(NOW + Duration::from_mins(1));
        tx.update_secret(&SecretRow { expires_at, ..row(endpoint, 1) }).await.unwrap();
        tx.update_secret(&SecretRow { revoked_at: Some(NOW), ..row(endpoint, 2) }).await.unwrap();

        assert_eq!(tx.find_endpoint(endpoint).await.unwrap().unwrap().epoch, before + 2);
        for (later, expected) in [(0, vec![3, 1]), (59, vec![3, 1]), (60, vec![3])] {
            let now = NOW + Duration::from_secs(later);
            let live = tx.list_live_secrets(endpoint, now).await.unwrap();
            let ids: Vec<i64> = live.iter().map(|row| row.id.0).collect();
            assert_eq!(ids, expected, "newest first, {later} s later");
            assert!(live.iter().all(|row| row.is_live(now)));
        }
        assert!(tx.list_live_secrets(EndpointId(7), NOW).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn secrets_are_read_by_their_own_tenant_alone() {
    on_both(async |store| {
        let endpoint = endpoint_with(store, 3).await;
        let mut tx = store.read().await.unwrap();
        for (name, expected) in [("acme", 3), ("evil", 0)] {
            let page = Page::first(9);
            let list = tx.list_secrets(&tenant(name), endpoint, page).await.unwrap();
            assert_eq!(list.rows.len(), expected, "{name}");
            let found = tx.find_secret(&tenant(name), endpoint, SecretId(2)).await.unwrap();
            assert_eq!(found.is_some(), expected > 0, "{name}");
        }
        let other = tx.find_secret(&tenant("acme"), EndpointId(7), SecretId(2)).await.unwrap();
        assert!(other.is_none(), "of another endpoint");
    })
    .await;
}

#[tokio::test]
async fn what_is_sealed_is_walked_and_replaced_if_nobody_changed_it() {
    on_both(async |store| {
        let endpoint = endpoint_with(store, 3).await;
        let mut tx = store.begin().await.unwrap();
        let mut sealed = tx.find_endpoint(endpoint).await.unwrap().unwrap();
        sealed.sealed = Some(vec![7; 9]);
        assert!(tx.update_endpoint(&mut sealed).await.unwrap());

        let secrets = tx.list_sealed(SealedIn::Secrets, 1).await.unwrap();
        assert_eq!(secrets.iter().map(|one| one.id).collect::<Vec<_>>(), [2, 3]);
        assert!(tx.update_sealed(&secrets[0], b"new").await.unwrap());
        assert!(!tx.update_sealed(&secrets[0], b"newer").await.unwrap(), "it changed");
        let found = tx.find_secret(&tenant("acme"), endpoint, SecretId(2)).await.unwrap();
        assert_eq!(found.unwrap().sealed, b"new");

        let endpoints = tx.list_sealed(SealedIn::Endpoints, 0).await.unwrap();
        let (table, id, tenant) = (SealedIn::Endpoints, endpoint.0, "acme".to_owned());
        assert_eq!(endpoints, [Sealed { table, id, tenant, sealed: vec![7; 9] }]);
        assert_eq!(endpoints[0].place(), Place { table: "endpoints", tenant: "acme", row: id });
        assert!(tx.update_sealed(&endpoints[0], b"new").await.unwrap());
        assert!(!tx.update_sealed(&endpoints[0], b"newer").await.unwrap());
        assert!(tx.list_sealed(SealedIn::Endpoints, endpoint.0).await.unwrap().is_empty());
        for table in SealedIn::ALL {
            tx.list_sealed(table, i64::MAX).await.unwrap();
        }
    })
    .await;
}
