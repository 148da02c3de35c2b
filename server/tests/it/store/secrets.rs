//! Secrets of endpoints: which are live, and what each change does.

use snaphook::domain::id::EndpointId;

use super::{NOW, on_both};

#[tokio::test]
async fn an_endpoint_without_secrets_has_no_live_ones() {
    on_both(async |store| {
        let mut tx = store.read().await.unwrap();
        assert!(tx.list_live_secrets(EndpointId(1), NOW).await.unwrap().is_empty());
    })
    .await;
}
