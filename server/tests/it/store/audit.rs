//! Who changed what.

use snaphook::store::{audit::AuditRow, page::Page};

use super::{NOW, on_both, tenant};

#[tokio::test]
async fn changes_are_listed_newest_first_and_within_a_tenant() {
    on_both(async |store| {
        let row = |id, name: Option<&str>| AuditRow {
            id,
            at: NOW,
            actor: "key_1".to_owned(),
            action: "endpoint.update".to_owned(),
            object: "ep_1".to_owned(),
            tenant: name.map(tenant),
            detail: serde_json::json!({"fields": ["url"]}).as_object().unwrap().clone(),
        };
        let mut tx = store.begin().await.unwrap();
        for (id, name) in [(1, Some("acme")), (2, None), (3, Some("acme")), (4, Some("evil"))] {
            tx.add_audit(&row(id, name)).await.unwrap();
        }
        let own = tx.list_audit(Some(&tenant("acme")), Page::first(9)).await.unwrap();
        assert_eq!(own.rows, [row(3, Some("acme")), row(1, Some("acme"))]);
        let all = tx.list_audit(None, Page::first(9)).await.unwrap();
        assert_eq!(all.rows.iter().map(|row| row.id).collect::<Vec<_>>(), [4, 3, 2, 1]);
    })
    .await;
}
