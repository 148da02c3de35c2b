//! API keys, found by the hash of their text.

use std::time::Duration;

use snaphook::{
    domain::{
        id::ApiKeyId,
        scope::{Scope, Scopes},
    },
    store::{api_keys::ApiKeyRow, page::Page},
};

use super::{NOW, on_both, tenant};

fn row(id: i64, name: Option<&str>) -> ApiKeyRow {
    ApiKeyRow {
        id: ApiKeyId(id),
        name: "ci".to_owned(),
        tenant: name.map(tenant),
        scopes: Scopes::new(vec![Scope::Read, Scope::Emit]).unwrap(),
        created_at: NOW,
        expires_at: Some(NOW + Duration::from_mins(1)),
        revoked_at: None,
    }
}

#[tokio::test]
async fn a_key_is_found_by_its_hash_and_within_its_tenant() {
    on_both(async |store| {
        let mut tx = store.begin().await.unwrap();
        tx.add_api_key(&row(1, None), b"hash-1").await.unwrap();
        tx.add_api_key(&row(2, Some("acme")), b"hash-2").await.unwrap();
        assert!(tx.find_api_key_by_hash(b"hash").await.unwrap().is_none());
        let found = tx.find_api_key_by_hash(b"hash-2").await.unwrap().unwrap();
        assert_eq!(found, row(2, Some("acme")));

        let acme = tenant("acme");
        for (within, id, expected) in [
            (None, 1, true),
            (None, 2, true),
            (Some(&acme), 2, true),
            (Some(&acme), 1, false),
            (Some(&tenant("evil")), 2, false),
        ] {
            let found = tx.find_api_key(within, ApiKeyId(id)).await.unwrap();
            assert_eq!(found.is_some(), expected, "{id} within {within:?}");
        }
        let list = tx.list_api_keys(Some(&acme), Page::first(9)).await.unwrap();
        assert_eq!(list.rows, [row(2, Some("acme"))]);
        assert_eq!(tx.list_api_keys(None, Page::first(9)).await.unwrap().rows.len(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_revoked_key_stays_and_is_not_live() {
    on_both(async |store| {
        let mut tx = store.begin().await.unwrap();
        for (id, name) in [(1, None), (2, Some("acme")), (3, Some("acme"))] {
            tx.add_api_key(&row(id, name), &[u8::try_from(id).unwrap()]).await.unwrap();
        }
        assert!(tx.revoke_api_key(ApiKeyId(1), NOW).await.unwrap());
        assert!(!tx.revoke_api_key(ApiKeyId(1), NOW).await.unwrap(), "once");
        tx.revoke_tenant_api_keys(&tenant("acme"), NOW).await.unwrap();
        for id in 1..=3 {
            let found = tx.find_api_key(None, ApiKeyId(id)).await.unwrap().unwrap();
            assert_eq!((found.revoked_at, found.is_live(NOW)), (Some(NOW), false));
        }
        assert!(row(4, None).is_live(NOW) && !row(4, None).is_live(NOW + Duration::from_mins(1)));
    })
    .await;
}
