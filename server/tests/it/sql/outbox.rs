//! The view `snaphook_outbox`: another program's inserts into the same SQLite file.

use snaphook::{domain::time::Timestamp, store::Store};
use sqlx::{AssertSqlSafe, Connection, Executor, SqliteConnection};

use crate::{
    store::{add_endpoint, fresh},
    support::databases::{Database, Kind},
};

/// A migrated file with one endpoint that wants everything, open in a server and in a program.
async fn on_sqlite(test: impl AsyncFn(&Store, &mut SqliteConnection)) {
    let database = Database::migrated(Kind::Sqlite).await;
    let store = database.open().await;
    add_endpoint(&store, "acme", 1, &["*"]).await;
    let mut program = SqliteConnection::connect(&database.url).await.unwrap();
    test(&store, &mut program).await;
    program.close().await.unwrap();
    store.close().await;
    database.remove().await;
}

fn insert(verb: &str, values: &str) -> AssertSqlSafe<String> {
    let into = "INTO snaphook_outbox (tenant, type, data, key, version, occurred_at, traceparent)";
    AssertSqlSafe(format!("{verb} {into} VALUES ({values})"))
}

#[tokio::test]
async fn what_is_rolled_back_never_was() {
    on_sqlite(async |store, program| {
        let one = "'acme', 'order.paid', '{\"n\": 1.10}', NULL, NULL, NULL, NULL";
        program.execute("BEGIN").await.unwrap();
        program.execute(insert("INSERT", one)).await.unwrap();
        program.execute("ROLLBACK").await.unwrap();
        assert!(fresh(store).await.is_empty());

        program.execute("BEGIN").await.unwrap();
        program.execute(insert("INSERT", one)).await.unwrap();
        program.execute("COMMIT").await.unwrap();

        let rows = fresh(store).await;
        assert_eq!(rows.len(), 1);
        let mut tx = store.read().await.unwrap();
        let events = tx.list_events_by_id(&[rows[0].event_id]).await.unwrap();
        assert_eq!(&events[&rows[0].event_id].payload[..], b"{\"n\": 1.10}");
    })
    .await;
}

#[tokio::test]
async fn bad_columns_fail_with_their_name_and_the_remedy() {
    on_sqlite(async |store, program| {
        let long = "x".repeat(300);
        for (values, named) in [
            ("NULL, 'a', '{}', NULL, NULL, NULL, NULL".to_owned(), "tenant"),
            ("'a b', 'a', '{}', NULL, NULL, NULL, NULL".to_owned(), "tenant"),
            ("'acme', NULL, '{}', NULL, NULL, NULL, NULL".to_owned(), "type"),
            ("'acme', 'a..b', '{}', NULL, NULL, NULL, NULL".to_owned(), "type"),
            // Each of these would be stored, and then stop whoever reads it.
            ("CAST('acme' AS BLOB), 'a', '{}', NULL, NULL, NULL, NULL".to_owned(), "tenant"),
            ("'acme' || char(0) || 'z', 'a', '{}', NULL, NULL, NULL, NULL".to_owned(), "tenant"),
            ("'acme', CAST('a' AS BLOB), '{}', NULL, NULL, NULL, NULL".to_owned(), "type"),
            ("'acme', 'a' || char(0) || '!', '{}', NULL, NULL, NULL, NULL".to_owned(), "type"),
            ("'acme', 'a', '{}', x'0102ff', NULL, NULL, NULL".to_owned(), "key"),
            ("'acme', 'a', '{}', 'k' || char(10), NULL, NULL, NULL".to_owned(), "key"),
            ("'acme', 'a', '{}', 42, NULL, NULL, NULL".to_owned(), "key"),
            ("'acme', 'a', '{}', NULL, CAST('1' AS BLOB), NULL, NULL".to_owned(), "version"),
            ("'acme', 'a', '{}', NULL, CAST(x'ff' AS TEXT), NULL, NULL".to_owned(), "version"),
            (format!("'acme', '{long}', '{{}}', NULL, NULL, NULL, NULL"), "type"),
            ("'acme', 'a', NULL, NULL, NULL, NULL, NULL".to_owned(), "data"),
            ("'acme', 'a', zeroblob(1048577), NULL, NULL, NULL, NULL".to_owned(), "data"),
            ("'acme', 'a', '{}', '', NULL, NULL, NULL".to_owned(), "key"),
            ("'acme', 'a', '{}', NULL, '', NULL, NULL".to_owned(), "version"),
            ("'acme', 'a', '{}', NULL, NULL, 'soon', NULL".to_owned(), "occurred_at"),
            ("'acme', 'a', '{}', NULL, NULL, 'infinity', NULL".to_owned(), "occurred_at"),
            (
                "'acme', 'a', '{}', NULL, NULL, '0000-12-31T23:59:59Z', NULL".to_owned(),
                "occurred_at",
            ),
            ("'acme', 'a', '{}', NULL, NULL, -1, NULL".to_owned(), "occurred_at"),
            ("'acme', 'a', '{}', NULL, NULL, NULL, 'x'".to_owned(), "traceparent"),
        ] {
            let error = program.execute(insert("INSERT", &values)).await.unwrap_err();
            let message = error.as_database_error().unwrap().message().to_owned();
            assert!(message.starts_with(named), "{values}: {message}");
        }
        assert!(fresh(store).await.is_empty());
    })
    .await;
}

/// The conflict clause of the outer statement overrules those inside of a trigger.
#[tokio::test]
async fn a_key_makes_one_event_whatever_the_program_says_of_conflicts() {
    on_sqlite(async |store, program| {
        let keyed = "'acme', 'order.paid', '{}', 'order-42', NULL, NULL, NULL";
        for verb in ["INSERT", "INSERT OR REPLACE", "INSERT OR IGNORE", "REPLACE", "INSERT OR FAIL"]
        {
            program.execute(insert(verb, keyed)).await.unwrap();
        }
        assert_eq!(fresh(store).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_time_is_read_with_its_zone_and_fraction() {
    on_sqlite(async |store, program| {
        let timed = "'acme', 'a', '{}', NULL, '2024-01', '2026-11-30T12:34:56.789+01:00', NULL";
        program.execute(insert("INSERT", timed)).await.unwrap();

        let id = fresh(store).await[0].event_id;
        let event = store.read().await.unwrap().list_events_by_id(&[id]).await.unwrap();
        assert_eq!(event[&id].occurred_at, Timestamp::parse("2026-11-30T11:34:56.789Z"));
        assert_eq!(event[&id].version.as_deref(), Some("2024-01"));
    })
    .await;
}

#[tokio::test]
async fn ids_rise_over_many_inserts_within_a_millisecond() {
    on_sqlite(async |store, program| {
        let one = "'acme', 'a', '{}', NULL, NULL, NULL, NULL";
        program.execute("BEGIN").await.unwrap();
        for _ in 0..200 {
            program.execute(insert("INSERT", one)).await.unwrap();
        }
        program.execute("COMMIT").await.unwrap();
        let ids: Vec<_> = fresh(store).await.iter().map(|row| row.event_id).collect();
        assert_eq!(ids.len(), 200);
        assert!(ids.is_sorted_by(|a, b| a < b));
    })
    .await;
}
