//! Sources and their secrets: found by their token, unique by their name, and each change told.

use std::time::Duration;

use serde_json::json;
use snaphook::{
    domain::{
        id::{SecretId, SourceId, id_at},
        source::{SourceSettings, SourceState, SourceToken},
        time::Timestamp,
    },
    store::{SourceRow, SourceSecretRow, Store, page::Page},
};

use super::{NOW, on_both, tenant};

/// A source that is not kept yet.
pub fn new_source(name: &str, source: &str, n: u64) -> SourceRow {
    let mut settings = SourceSettings::default();
    let change = json!({"name": source, "scheme": "github"});
    assert!(settings.apply(change.as_object().unwrap()).is_empty());
    SourceRow {
        id: SourceId(id_at(NOW, n)),
        token: SourceToken::new(u128::from(n)),
        tenant: tenant(name),
        state: SourceState::Active,
        state_since: NOW,
        armed_until: None,
        settings,
        sealed: None,
        from_file: false,
        epoch: 0,
        created_at: NOW,
        updated_at: NOW,
        deleted_at: None,
    }
}

/// Keeps a new source.
pub async fn add_source(store: &Store, name: &str, source: &str, n: u64) -> SourceRow {
    let mut row = new_source(name, source, n);
    let mut tx = store.begin().await.unwrap();
    assert!(tx.add_source(&mut row).await.unwrap());
    tx.commit().await.unwrap();
    row
}

fn secret(source: SourceId, id: i64) -> SourceSecretRow {
    SourceSecretRow {
        id: SecretId(id),
        source,
        tenant: tenant("acme"),
        sealed: vec![u8::try_from(id).unwrap(); 9],
        created_at: NOW,
        expires_at: None,
        revoked_at: None,
    }
}

#[tokio::test]
async fn a_source_is_found_by_its_token_and_by_its_own_tenant_alone() {
    on_both(async |store| {
        let row = add_source(store, "acme", "shop", 1).await;
        let mut tx = store.read().await.unwrap();
        for (of, expected) in [(None, true), (Some("acme"), true), (Some("evil"), false)] {
            let of = of.map(tenant);
            let found = tx.find_source(of.as_ref(), &row.token).await.unwrap();
            assert_eq!(found.is_some(), expected, "{of:?}");
        }
        let found = tx.find_source(None, &row.token).await.unwrap().unwrap();
        assert_eq!((found.id, found.settings), (row.id, row.settings.clone()));
        let by_number = tx.find_source_by_id(row.id).await.unwrap();
        assert_eq!(by_number.map(|found| found.token), Some(row.token.clone()));
        assert!(tx.find_source_by_id(SourceId(7)).await.unwrap().is_none());
        assert!(tx.find_source(None, &SourceToken::new(2)).await.unwrap().is_none());
        let named = tx.find_source_named(&tenant("acme"), "shop").await.unwrap();
        assert_eq!(named.unwrap().token, row.token);
        assert!(tx.find_source_named(&tenant("evil"), "shop").await.unwrap().is_none());
        assert_eq!(tx.count_sources(&tenant("acme")).await.unwrap(), 1);
        let tokens = tx.list_source_tokens(&[row.id, SourceId(7)]).await.unwrap();
        assert_eq!(tokens, [(row.id, row.token.clone())]);
    })
    .await;
}

#[tokio::test]
async fn a_tenant_has_one_source_of_a_name_until_it_is_deleted() {
    on_both(async |store| {
        let mut first = add_source(store, "acme", "shop", 1).await;
        add_source(store, "beta", "shop", 2).await;
        let mut tx = store.begin().await.unwrap();
        assert!(!tx.add_source(&mut new_source("acme", "shop", 3)).await.unwrap());
        first.deleted_at = Some(NOW);
        assert!(tx.update_source(&mut first).await.unwrap());
        assert!(tx.add_source(&mut new_source("acme", "shop", 3)).await.unwrap());
        assert!(tx.find_source(None, &first.token).await.unwrap().is_none(), "deleted");
        let deleted = tx.find_source_by_id(first.id).await.unwrap();
        assert!(deleted.is_some(), "events that it took still name it");
        tx.commit().await.unwrap();

        let mut tx = store.read().await.unwrap();
        for (of, expected) in [(None, vec![3, 2]), (Some("acme"), vec![3]), (Some("evil"), vec![])]
        {
            let of = of.map(tenant);
            let found = tx.list_sources(of.as_ref(), Page::first(9)).await.unwrap().rows;
            let tokens: Vec<_> = found.into_iter().map(|row| row.token).collect();
            let expected: Vec<_> = expected.into_iter().map(SourceToken::new).collect();
            assert_eq!(tokens, expected, "{of:?}, the newest first");
        }
    })
    .await;
}

#[tokio::test]
async fn a_change_is_told_and_refused_to_whoever_saw_an_older_state() {
    on_both(async |store| {
        let row = add_source(store, "acme", "shop", 1).await;
        let mut tx = store.begin().await.unwrap();
        let mut changed = row.clone();
        changed.state = SourceState::Paused;
        changed.updated_at = NOW + Duration::from_secs(9);
        changed.armed_until = Some(NOW + Duration::from_hours(1));
        changed.settings.reject_status = 400;
        changed.sealed = Some(vec![7; 9]);
        changed.from_file = true;
        assert!(tx.update_source(&mut changed).await.unwrap());
        assert!(!tx.update_source(&mut row.clone()).await.unwrap(), "it saw an older state");

        assert!(tx.list_sources_changed_since(changed.epoch).await.unwrap().is_empty());
        let told = tx.list_sources_changed_since(row.epoch).await.unwrap().pop().unwrap().unwrap();
        assert_eq!(told.state_since, changed.updated_at);
        let of_file = tx.list_file_sources().await.unwrap();
        assert_eq!(of_file.iter().map(|row| row.id).collect::<Vec<_>>(), [row.id]);
        assert_eq!(
            (told.state, told.armed_until, told.settings, told.sealed, told.from_file),
            (changed.state, changed.armed_until, changed.settings, changed.sealed, true)
        );
    })
    .await;
}

#[tokio::test]
async fn secrets_of_sources_expire_and_are_revoked_and_each_change_has_an_epoch() {
    on_both(async |store| {
        let source = add_source(store, "acme", "shop", 1).await;
        let mut tx = store.begin().await.unwrap();
        for id in 1..=3 {
            tx.add_source_secret(&secret(source.id, id)).await.unwrap();
        }
        let epoch = tx.config_epoch().await.unwrap();
        let expires_at = Some(NOW + Duration::from_mins(1));
        tx.update_source_secret(&SourceSecretRow { expires_at, ..secret(source.id, 1) })
            .await
            .unwrap();
        tx.update_source_secret(&SourceSecretRow { revoked_at: Some(NOW), ..secret(source.id, 2) })
            .await
            .unwrap();
        let told = tx.list_sources_changed_since(epoch).await.unwrap();
        let told: Vec<_> = told.into_iter().map(|row| row.unwrap().id).collect();
        assert_eq!(told, [source.id]);

        let ids = |rows: Vec<SourceSecretRow>| rows.iter().map(|row| row.id.0).collect::<Vec<_>>();
        let unrevoked = tx.list_source_secrets_changed_since(epoch).await.unwrap();
        assert_eq!(ids(unrevoked), [3, 1], "the newest first");
        let latest = tx.config_epoch().await.unwrap();
        assert!(tx.list_source_secrets_changed_since(latest).await.unwrap().is_empty());
        for (later, expected) in [(59, vec![3, 1]), (60, vec![3])] {
            let now: Timestamp = NOW + Duration::from_secs(later);
            let live = tx.list_live_source_secrets(source.id, now).await.unwrap();
            assert!(live.iter().all(|row| row.is_live(now)));
            assert_eq!(ids(live), expected, "{later} s later");
        }
        let all = tx.list_source_secrets(source.id, Page::first(9)).await.unwrap().rows;
        assert_eq!(ids(all), [3, 2, 1]);
        let found = tx.find_source_secret(source.id, SecretId(2)).await.unwrap().unwrap();
        assert_eq!((found.revoked_at, found.sealed), (Some(NOW), vec![2; 9]));
        assert!(tx.find_source_secret(SourceId(7), SecretId(2)).await.unwrap().is_none());
    })
    .await;
}

#[tokio::test]
async fn a_secret_of_a_handshake_is_kept_only_while_the_source_waits_for_one() {
    on_both(async |store| {
        let mut row = add_source(store, "acme", "tasks", 1).await;
        let keep = async |id: i64| {
            let mut tx = store.begin().await.unwrap();
            let kept = tx.add_awaited_source_secret(&secret(row.id, id)).await.unwrap();
            if kept {
                tx.commit().await.unwrap();
            }
            kept
        };
        assert!(keep(1).await, "it has none");
        assert!(!keep(2).await, "it has one");
        row = store.read().await.unwrap().find_source(None, &row.token).await.unwrap().unwrap();
        row.armed_until = Some(NOW + Duration::from_hours(1));
        let mut tx = store.begin().await.unwrap();
        assert!(tx.update_source(&mut row).await.unwrap());
        tx.commit().await.unwrap();
        let keep = async |id: i64, after: Duration| {
            let mut tx = store.begin().await.unwrap();
            let new = SourceSecretRow { created_at: NOW + after, ..secret(row.id, id) };
            let kept = tx.add_awaited_source_secret(&new).await.unwrap();
            if kept {
                tx.commit().await.unwrap();
            }
            kept
        };
        assert!(!keep(3, Duration::from_hours(1)).await, "the hour is over");
        assert!(keep(4, Duration::from_mins(59)).await, "armed");
        assert!(!keep(5, Duration::from_mins(59)).await, "no longer: one was asked for");
        let mut tx = store.read().await.unwrap();
        let live = tx.list_live_source_secrets(row.id, NOW).await.unwrap();
        assert_eq!(live.iter().map(|secret| secret.id.0).collect::<Vec<_>>(), [4, 1]);
    })
    .await;
}
