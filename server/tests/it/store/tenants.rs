//! What is kept of tenants.

use std::time::Duration;

use snaphook::store::{page::Page, tenants::TenantRow};

use super::{NOW, on_both, tenant};

fn row(name: &str) -> TenantRow {
    TenantRow {
        id: tenant(name),
        owner_email: Some("it@acme.example".to_owned()),
        metadata: serde_json::json!({"plan": "gold", "odd": "\u{0}"}).as_object().unwrap().clone(),
        limits: serde_json::Map::new(),
        created_at: NOW,
        updated_at: NOW,
    }
}

#[tokio::test]
async fn a_tenant_is_kept_once_changed_and_forgotten() {
    on_both(async |store| {
        let mut tx = store.begin().await.unwrap();
        assert!(tx.add_tenant(&row("acme")).await.unwrap());
        assert!(!tx.add_tenant(&row("acme")).await.unwrap(), "there is one");
        assert_eq!(tx.find_tenant(&tenant("acme")).await.unwrap(), Some(row("acme")));

        let changed = TenantRow {
            owner_email: None,
            updated_at: NOW + Duration::from_secs(1),
            ..row("acme")
        };
        assert!(tx.update_tenant(&changed).await.unwrap());
        assert_eq!(tx.find_tenant(&tenant("acme")).await.unwrap(), Some(changed));
        assert!(!tx.update_tenant(&row("nobody")).await.unwrap());

        assert!(tx.delete_tenant(&tenant("acme")).await.unwrap());
        assert!(!tx.delete_tenant(&tenant("acme")).await.unwrap());
        assert_eq!(tx.find_tenant(&tenant("acme")).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn tenants_are_listed_by_their_ids() {
    on_both(async |store| {
        let mut tx = store.begin().await.unwrap();
        for name in ["b", "a", "c"] {
            tx.add_tenant(&row(name)).await.unwrap();
        }
        let page = Page::new("tenants", None, 2).unwrap();
        let first = tx.list_tenants(page).await.unwrap();
        let page = Page::new("tenants", first.next.as_deref(), 2).unwrap();
        let second = tx.list_tenants(page).await.unwrap();

        let names =
            |rows: &[TenantRow]| rows.iter().map(|row| row.id.to_string()).collect::<Vec<_>>();
        assert_eq!(
            (names(&first.rows), names(&second.rows)),
            (vec!["a".into(), "b".into()], vec!["c".into()])
        );
    })
    .await;
}
