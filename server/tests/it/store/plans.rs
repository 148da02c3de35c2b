//! Plans that hold whatever was known when they were made: the engine's statements are planned
//! once a connection, most often while its tables are nearly empty.

use std::time::Duration;

use snaphook::{
    domain::id::EventId,
    store::{Row, SHARDS, Stretch},
};
use sqlx::{Connection as _, PgConnection, SqliteConnection};

use super::{add_endpoint, emit, fresh, new_event};
use crate::support::{
    databases::{self, Kind},
    live::pause,
};

/// Index scans of each index whose name ends so, since the database was made. What a connection
/// did is told when it has ended.
async fn scans(connection: &mut PgConnection, ending: &str) -> i64 {
    sqlx::query_scalar(
        "SELECT coalesce(sum(idx_scan), 0)::bigint FROM pg_stat_user_indexes
         WHERE schemaname = 'snaphook' AND indexrelname LIKE '%' || $1",
    )
    .bind(ending)
    .fetch_one(connection)
    .await
    .unwrap()
}

#[tokio::test]
async fn lanes_and_events_are_found_by_their_own_indexes_although_no_statistic_knows_them() {
    databases::on_both(async |database| {
        if database.kind == Kind::Sqlite {
            return; // its plans know nothing of statistics that nobody gathered
        }
        let store = database.open().await;
        let mut admin = PgConnection::connect(&database.url).await.unwrap();
        let mut lanes = Vec::new();
        for (number, event_type) in (1..).zip(["a", "b", "c"]) {
            let endpoint = add_endpoint(&store, "acme", number, &[event_type]).await;
            lanes.push((endpoint.shard, endpoint.id, 2));
        }
        // As of now nothing is parked, and no event is there.
        sqlx::raw_sql("VACUUM (ANALYZE)").execute(&mut admin).await.unwrap();
        for _ in 0..4 {
            for event_type in ["a", "b", "c"] {
                emit(&store, &new_event("acme", event_type)).await;
            }
        }
        sqlx::raw_sql("VACUUM (ANALYZE) snaphook.queue").execute(&mut admin).await.unwrap();
        let rows: Vec<Row> = fresh(&store).await;
        let (first, last) = (EventId(0), EventId(i64::MAX));
        let stretches: Vec<Stretch> = lanes
            .iter()
            .map(|(shard, endpoint, limit)| {
                let (shard, endpoint, limit) = (*shard, *endpoint, *limit);
                Stretch { shard, endpoint, first, last, limit }
            })
            .collect();
        let mut tx = store.read_engine().await.unwrap();
        assert_eq!(tx.list_fresh_of_lanes(&stretches).await.unwrap().len(), 6);
        drop(tx);
        let mut tx = store.begin_engine().await.unwrap();
        tx.park(&rows).await.unwrap();
        tx.commit().await.unwrap();

        let mut tx = store.read_engine().await.unwrap();
        assert_eq!(tx.list_lane_rows(&lanes).await.unwrap().len(), 6);
        let ids: Vec<EventId> = rows.iter().map(|row| row.event_id).collect();
        assert_eq!(tx.list_events_by_id(&ids).await.unwrap().len(), 12);
        drop(tx);
        store.close().await;

        let told = async {
            while scans(&mut admin, "queue_lane").await == 0 {
                pause(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), told).await.unwrap();
        let of_all_shards = i64::from(SHARDS); // by which the test found the rows
        for (index, expected) in
            [("queue_fresh", of_all_shards + 3), ("queue_laned_event", 0), ("_tx_id_idx", 0)]
        {
            assert_eq!(scans(&mut admin, index).await, expected, "{index}");
        }
    })
    .await;
}

#[tokio::test]
async fn the_sqlite_that_is_built_in_keeps_its_plans_and_takes_no_lock_for_each_page() {
    let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    let options: Vec<String> =
        sqlx::query_scalar("SELECT compile_options FROM pragma_compile_options")
            .fetch_all(&mut connection)
            .await
            .unwrap();
    // As `.cargo/config.toml` has it.
    for (option, wanted) in [
        ("ENABLE_QPSG", true),
        ("DEFAULT_MEMSTATUS=0", true),
        ("ENABLE_MEMORY_MANAGEMENT", false),
        ("ENABLE_STAT4", false),
    ] {
        assert_eq!(options.iter().any(|one| one == option), wanted, "{option} in {options:?}");
    }
}
