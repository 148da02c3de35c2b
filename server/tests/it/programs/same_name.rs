//! Two nodes of one name: the second waits until the first has stopped, or does not start.

use std::time::Duration;

use snaphook::{
    domain::time::Timestamp,
    server::{
        StartError,
        node_name::{keep, take},
    },
    store::Store,
};

use super::node::pause;
use crate::support::databases::{self, Database, Kind};

const PERIOD: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_millis(500);

/// Says again and again that the node lives.
async fn live(store: &Store) {
    for n in 1.. {
        let mut tx = store.begin().await.unwrap();
        tx.mark_node("a", Timestamp::from_seconds(n), Duration::from_secs(1)).await.unwrap();
        tx.commit().await.unwrap();
        pause(PERIOD).await;
    }
}

#[tokio::test]
async fn a_name_is_one_nodes_at_a_time() {
    databases::on_both(async |database| {
        let store = database.open().await;
        let held = store.take_name("a").await.unwrap().expect("nobody has it");
        assert!(store.take_name("b").await.unwrap().is_some(), "another name");
        let again = store.take_name("a").await.unwrap();
        assert_eq!(again.is_some(), database.kind == Kind::Sqlite, "its file has a lock");
        if database.kind == Kind::Sqlite {
            return;
        }

        let taken = tokio::select! {
            taken = take(&store, "a", PERIOD, PATIENCE) => taken,
            () = live(&store) => unreachable!(),
        };
        let error = taken.err().expect("it lives");
        assert!(matches!(&error, StartError::NameTaken(name) if name == "a"), "{error}");

        let gone = take(&store, "a", PERIOD, PATIENCE).await.unwrap();
        assert!(gone.is_none(), "a session without a node stops nobody");

        let stopping = async {
            pause(2 * PERIOD).await;
            drop(held);
        };
        let seen = store.read().await.unwrap().node_seen_at("a").await.unwrap();
        assert!(seen.is_some());
        let (taken, ()) = tokio::join!(take(&store, "a", PERIOD, PATIENCE), stopping);
        assert!(taken.unwrap().is_some(), "as soon as the other has stopped");
    })
    .await;
}

#[tokio::test]
async fn a_name_is_kept_though_the_database_ends_its_session() {
    let database = Database::migrated(Kind::Postgres).await;
    let store = database.open().await;
    let mut lock = store.take_name("a").await.unwrap();
    assert!(lock.as_mut().unwrap().is_held().await);
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_locks
        WHERE locktype = 'advisory'
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    database.execute(cut).await;
    assert!(!lock.as_mut().unwrap().is_held().await, "it ended with its session");

    tokio::select! {
        () = keep(&store, "a", &mut lock, PERIOD) => unreachable!("it never ends"),
        () = pause(5 * PERIOD) => {}
    }

    assert!(store.take_name("a").await.unwrap().is_none(), "it is this node's again");
    drop(lock);
    store.close().await;
    database.remove().await;
}
