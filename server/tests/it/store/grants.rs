//! Who may emit in SQL.

use super::on_both;

#[tokio::test]
async fn granting_once_more_changes_nothing_and_says_that_the_role_is_there() {
    on_both(async |store| {
        assert!(store.grant_emitter().await.unwrap());
        assert!(store.grant_emitter().await.unwrap());
    })
    .await;
}
