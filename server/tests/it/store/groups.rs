//! What stands in a line together is stored together, and a small group waits for company.

use std::time::Duration;

use sqlx::{Connection as _, PgConnection};
use tokio::task::JoinSet;

use super::new_event;
use crate::support::{
    databases::{Database, Kind},
    live::pause,
};

const MOMENT: Duration = Duration::from_millis(300);

async fn number(connection: &mut PgConnection, query: &'static str) -> i64 {
    sqlx::query_scalar(query).fetch_one(connection).await.unwrap()
}

#[tokio::test]
async fn a_small_group_waits_for_company_while_another_is_at_work() {
    for (beside, transactions, why) in [
        (10, 2, "ten wait until the first has ended, and are one group"),
        (40, 2, "so many are worth a group beside it"),
    ] {
        let database = Database::migrated(Kind::Postgres).await;
        let store = database.open().await;
        let mut blocker = PgConnection::connect(&database.url).await.unwrap();
        let lock = "BEGIN; LOCK TABLE snaphook.events IN EXCLUSIVE MODE";
        sqlx::raw_sql(lock).execute(&mut blocker).await.unwrap();
        let mut calls = JoinSet::new();
        let mut accept = |many| {
            for _ in 0..many {
                let store = store.clone();
                calls.spawn(async move { store.accept(new_event("acme", "order.paid")).await });
            }
        };
        let mut reader = PgConnection::connect(&database.url).await.unwrap();
        let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND database =
            (SELECT oid FROM pg_database WHERE datname = current_database())";
        accept(1);
        while number(&mut reader, waiting).await == 0 {
            pause(MOMENT / 10).await;
        }
        accept(beside);
        pause(MOMENT).await;
        let at_work = number(&mut reader, waiting).await;
        assert_eq!(at_work, if beside < 32 { 1 } else { 2 }, "{why}");
        blocker.close().await.unwrap();
        while let Some(call) = calls.join_next().await {
            call.unwrap().unwrap();
        }

        let events = number(&mut reader, "SELECT count(*) FROM snaphook.events").await;
        let groups = number(&mut reader, "SELECT count(DISTINCT tx) FROM snaphook.events").await;
        assert_eq!((events, groups), (beside + 1, transactions), "{why}");
        reader.close().await.unwrap();
        store.close().await;
        database.remove().await;
    }
}
