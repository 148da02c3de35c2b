//! Endpoints, their epochs and their subscriptions.

use std::{collections::BTreeSet, time::Duration};

use snaphook::{
    domain::{endpoint_state::EndpointState, id::EndpointId, shard::shard_of},
    store::page::Page,
};

use super::{NOW, add_endpoint, emit, fresh, new_event, on_both, tenant};

#[tokio::test]
async fn an_endpoint_is_read_as_it_was_kept_and_by_its_tenant_only() {
    on_both(async |store| {
        let added = add_endpoint(store, "acme", 1, &["order.*", "order.*"]).await;
        let mut tx = store.read().await.unwrap();

        let found = tx.find_endpoint(added.id).await.unwrap().unwrap();

        assert_eq!(found.settings, added.settings);
        assert_eq!((found.shard, found.epoch), (shard_of(added.id), 1));
        assert_eq!((found.created_at, found.deleted_at), (NOW, None));
        let own = tx.find_tenant_endpoint(&tenant("acme"), added.id).await.unwrap();
        let foreign = tx.find_tenant_endpoint(&tenant("evil"), added.id).await.unwrap();
        assert!(own.is_some() && foreign.is_none());
    })
    .await;
}

#[tokio::test]
async fn endpoints_and_their_secrets_are_read_together_by_their_ids() {
    on_both(async |store| {
        let one = add_endpoint(store, "acme", 1, &["*"]).await;
        let mut gone = add_endpoint(store, "acme", 2, &["*"]).await;
        add_endpoint(store, "acme", 3, &["*"]).await;
        let mut tx = store.begin().await.unwrap();
        gone.deleted_at = Some(NOW);
        tx.update_endpoint(&mut gone).await.unwrap();
        for (endpoint, id) in [(one.id, 1), (gone.id, 2), (one.id, 3)] {
            let mut secret = super::secrets::row(endpoint, id);
            secret.revoked_at = (id == 3).then_some(NOW);
            tx.add_secret(&secret).await.unwrap();
        }
        tx.commit().await.unwrap();

        let mut tx = store.read().await.unwrap();
        let wanted = [one.id, gone.id, EndpointId(7)];
        let found = tx.list_endpoints_by_id(&wanted).await.unwrap();
        let ids: BTreeSet<_> = found.iter().map(|row| row.id).collect();
        assert_eq!(ids, BTreeSet::from([one.id, gone.id]), "deleted ones too");
        let secrets = tx.list_secrets_of(&wanted).await.unwrap();
        let ids: BTreeSet<_> = secrets.iter().map(|row| row.id.0).collect();
        assert_eq!(ids, BTreeSet::from([1, 2]), "revoked ones not");
        assert!(tx.list_endpoints_by_id(&[]).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn every_change_is_seen_once_by_its_epoch_deletion_too() {
    on_both(async |store| {
        let mut first = add_endpoint(store, "acme", 1, &["*"]).await;
        let second = add_endpoint(store, "acme", 2, &["*"]).await;
        let seen = store.read().await.unwrap().config_epoch().await.unwrap();
        assert_eq!(seen, second.epoch);

        first.deleted_at = Some(NOW + Duration::from_secs(1));
        let mut tx = store.begin().await.unwrap();
        assert!(tx.update_endpoint(&mut first).await.unwrap());
        tx.commit().await.unwrap();

        let mut tx = store.read().await.unwrap();
        let changed = tx.list_endpoints_changed_since(seen).await.unwrap();
        let changed: Vec<_> = changed.iter().map(|row| (row.id, row.deleted_at)).collect();
        assert_eq!(changed, [(first.id, first.deleted_at)]);
        let all = tx.list_endpoints_changed_since(0).await.unwrap();
        assert_eq!(all.iter().map(|row| row.id).collect::<Vec<_>>(), [second.id, first.id]);
        assert!(tx.find_tenant_endpoint(&tenant("acme"), first.id).await.unwrap().is_none());
        assert!(tx.find_endpoint(first.id).await.unwrap().is_some(), "kept for its history");
    })
    .await;
}

#[tokio::test]
async fn a_change_made_on_an_old_reading_is_refused() {
    on_both(async |store| {
        let row = add_endpoint(store, "acme", 1, &["*"]).await;
        for expected in [true, false] {
            let mut tx = store.begin().await.unwrap();
            let changed = tx.update_endpoint(&mut row.clone()).await.unwrap();
            tx.commit().await.unwrap();
            assert_eq!(changed, expected);
        }
    })
    .await;
}

#[tokio::test]
async fn a_disabled_endpoint_gets_no_events_and_a_paused_one_does() {
    on_both(async |store| {
        let mut row = add_endpoint(store, "acme", 1, &["order.paid", "order.*"]).await;
        for (state, expected) in [
            (EndpointState::Active, 1),
            (EndpointState::Paused, 2),
            (EndpointState::Disabled, 2),
            (EndpointState::Active, 3),
        ] {
            row.state = state;
            let mut tx = store.begin().await.unwrap();
            assert!(tx.update_endpoint(&mut row).await.unwrap());
            tx.commit().await.unwrap();
            emit(store, &new_event("acme", "order.paid")).await;
            assert_eq!(fresh(store).await.len(), expected, "{state}");
        }
    })
    .await;
}

#[tokio::test]
async fn endpoints_are_counted_by_tenant_without_deleted_ones() {
    on_both(async |store| {
        add_endpoint(store, "acme", 1, &["*"]).await;
        add_endpoint(store, "evil", 2, &["*"]).await;
        let mut gone = add_endpoint(store, "acme", 3, &["*"]).await;
        let mut tx = store.begin().await.unwrap();
        let epoch = tx.lock_configuration().await.unwrap();
        assert_eq!(epoch, gone.epoch + 1);
        gone.deleted_at = Some(NOW);
        assert!(tx.update_endpoint(&mut gone).await.unwrap());
        assert_eq!(tx.count_endpoints(&tenant("acme")).await.unwrap(), 1);
    })
    .await;
}

#[tokio::test]
async fn endpoints_are_listed_by_pages_the_newest_first() {
    on_both(async |store| {
        for n in 1..=5 {
            add_endpoint(store, "acme", n, &["*"]).await;
        }
        add_endpoint(store, "other", 9, &["*"]).await;
        let mut tx = store.read().await.unwrap();

        let page = Page::new("endpoints", None, 3).unwrap();
        let first = tx.list_endpoints(&tenant("acme"), page).await.unwrap();
        let page = Page::new("endpoints", first.next.as_deref(), 3).unwrap();
        let second = tx.list_endpoints(&tenant("acme"), page).await.unwrap();
        let page = Page::new("endpoints", second.previous.as_deref(), 3).unwrap();
        let again = tx.list_endpoints(&tenant("acme"), page).await.unwrap();

        let ids = |rows: &[snaphook::store::endpoints::EndpointRow]| {
            rows.iter().map(|row| row.id.0 & 0xff).collect::<Vec<_>>()
        };
        assert_eq!((ids(&first.rows), ids(&second.rows)), (vec![5, 4, 3], vec![2, 1]));
        assert_eq!(ids(&again.rows), ids(&first.rows));
        assert!(second.next.is_none() && again.previous.is_none());
    })
    .await;
}
