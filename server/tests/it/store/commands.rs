//! Commands to the owner of a shard, and what they are about: rows that are changed behind its
//! back. Also the bell that wakes it.

use std::time::Duration;

use snaphook::{
    domain::{endpoint_kind::EndpointKind, time::Timestamp},
    store::{CommandKind, Row, Store},
};

use super::{NOW, emit, fresh, new_event, on_both, one_delivery};
use crate::support::databases::{self, Database, Kind};

async fn lane(store: &Store, row: &Row) -> Vec<Row> {
    let mut tx = store.read_engine().await.unwrap();
    tx.list_lane(row.shard, row.endpoint_id, 100).await.unwrap()
}

#[tokio::test]
async fn a_command_is_read_until_it_was_seen_to() {
    on_both(async |store| {
        let row = one_delivery(store).await;
        let mut tx = store.begin().await.unwrap();
        let mut ids = Vec::new();
        for kind in [CommandKind::Look, CommandKind::LetGo] {
            ids.push(tx.add_command(row.shard, kind, row.endpoint_id, row.event_id).await.unwrap());
        }
        tx.commit().await.unwrap();

        let mut tx = store.begin_engine().await.unwrap();
        let commands = tx.list_commands(&[row.shard]).await.unwrap();
        let others = tx.list_commands(&[row.shard ^ 1]).await.unwrap();
        tx.delete_command(ids[0]).await.unwrap();
        tx.commit().await.unwrap();

        let seen: Vec<_> = commands.iter().map(|command| (command.id, command.kind)).collect();
        assert_eq!(seen, [(ids[0], CommandKind::Look), (ids[1], CommandKind::LetGo)]);
        assert_eq!(others, [], "what another owner is told");
        assert_eq!((commands[0].endpoint, commands[0].event), (row.endpoint_id, row.event_id));
        let mut tx = store.read().await.unwrap();
        assert!(!tx.find_command(ids[0]).await.unwrap() && tx.find_command(ids[1]).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn a_row_is_found_fresh_or_laned_and_made_due() {
    on_both(async |store| {
        let row = one_delivery(store).await;
        for due_at in [NOW, NOW + Duration::from_secs(9)] {
            let mut tx = store.begin().await.unwrap();
            let found = tx.lock_row(row.shard, row.event_id, row.endpoint_id).await.unwrap();
            let found = Row { due_at, ..found.unwrap() };
            assert!(tx.set_due(&found).await.unwrap());
            tx.commit().await.unwrap();
            assert_eq!(lane(store, &row).await[0].due_at, due_at);
        }
        let mut tx = store.begin().await.unwrap();
        let found = tx.lock_row(row.shard, row.event_id, row.endpoint_id).await.unwrap();
        let stale = Row { attempt: 7, ..found.unwrap() };
        assert!(!tx.set_due(&stale).await.unwrap(), "the fence");
        let elsewhere = tx.lock_row(row.shard ^ 1, row.event_id, row.endpoint_id).await.unwrap();
        assert_eq!(elsewhere, None);
    })
    .await;
}

#[tokio::test]
async fn a_second_redelivery_of_the_same_delivery_makes_no_second_row() {
    on_both(async |store| {
        let row = one_delivery(store).await;
        let again = Row { run: 1, attempt: 8, due_at: Timestamp(NOW.0), ..row.clone() };
        for expected in [true, false] {
            let mut tx = store.begin().await.unwrap();
            assert_eq!(tx.add_run(&again, EndpointKind::Http).await.unwrap(), expected);
            tx.commit().await.unwrap();
        }
        let waiting = lane(store, &row).await;
        assert_eq!(waiting.len(), 1);
        assert_eq!((waiting[0].run, waiting[0].attempt, waiting[0].rung), (1, 8, 0));
    })
    .await;
}

#[tokio::test]
async fn a_sleeper_is_woken_by_an_emit() {
    databases::on_both(async |database| {
        let store = database.open().await;
        let mut bell = store.bell().await.unwrap();
        bell.has_changed().await.unwrap(); // from here on, only what is new
        assert!(bell.fall_asleep().await.unwrap());

        store.accept(new_event("acme", "order.paid")).await.unwrap();

        match database.kind {
            Kind::Postgres => {
                let heard = tokio::time::timeout(Duration::from_secs(30), bell.heard());
                assert_eq!(heard.await.unwrap().unwrap(), "");
            }
            Kind::Sqlite => {
                assert!(bell.has_changed().await.unwrap());
                assert!(!bell.has_changed().await.unwrap(), "once");
            }
        }
        bell.wake_up().await.unwrap();
        drop(bell); // it holds a connection, for which closing waits
        store.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_bell_that_is_cut_off_says_so() {
    let database = Database::migrated(Kind::Postgres).await;
    let store = database.open().await;
    let mut bell = store.bell().await.unwrap();
    assert!(bell.fall_asleep().await.unwrap());
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'snaphook'";
    database.execute(cut).await;
    let heard = tokio::time::timeout(Duration::from_secs(30), bell.heard()).await;
    assert!(heard.unwrap().unwrap_err().is_passing(), "else it would sleep without the lock");
    drop(bell);
    database.remove().await;
}

#[tokio::test]
async fn while_nobody_sleeps_an_emit_notifies_nobody() {
    databases::on_both(async |database| {
        let store = database.open().await;
        let mut bell = store.bell().await.unwrap();
        emit(&store, &new_event("acme", "order.paid")).await;
        let mut tx = store.begin().await.unwrap();
        tx.ring().await.unwrap();
        tx.notify("config").await.unwrap();
        tx.commit().await.unwrap();
        if database.kind == Kind::Postgres {
            assert_eq!(bell.heard().await.unwrap(), "config", "and not the empty word of an emit");
        }
        drop(bell);
        assert!(fresh(&store).await.is_empty());
        store.close().await;
    })
    .await;
}
