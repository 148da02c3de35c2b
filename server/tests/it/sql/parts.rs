//! The small functions from which the doors in SQL are made, beside their twins in Rust.

use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use snaphook::domain::{event_type::EventType, id::EventId};
use sqlx::{Connection, PgConnection};

use crate::support::databases::{Database, Kind};

async fn on_postgres(test: impl AsyncFn(&mut PgConnection)) {
    let database = Database::migrated(Kind::Postgres).await;
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    test(&mut connection).await;
    connection.close().await.unwrap();
    database.remove().await;
}

/// Values as `strategy` makes them.
fn many<T>(strategy: impl Strategy<Value = T>) -> Vec<T> {
    let mut runner = TestRunner::default();
    (0..256).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

#[tokio::test]
async fn an_id_is_written_alike_in_sql_and_in_rust() {
    on_postgres(async |connection| {
        let mut ids = many(0..i64::MAX);
        ids.extend((0..63).flat_map(|bit| [1 << bit, (1 << bit) - 1]).chain([i64::MAX]));
        let texts: Vec<String> = sqlx::query_scalar(
            "SELECT snaphook.text_of('evt_', u.id)
             FROM unnest($1::bigint[]) WITH ORDINALITY u (id, n) ORDER BY u.n",
        )
        .bind(&ids)
        .fetch_all(connection)
        .await
        .unwrap();
        let expected: Vec<String> = ids.into_iter().map(|id| EventId(id).to_string()).collect();
        assert_eq!(texts, expected);
    })
    .await;
}

#[tokio::test]
async fn the_patterns_of_a_type_are_the_same_in_sql_and_in_rust() {
    on_postgres(async |connection| {
        for text in many("[a-z]{1,3}(\\.[a-z]{1,3}){0,4}") {
            let mut found: Vec<String> = sqlx::query_scalar("SELECT unnest(snaphook.patterns($1))")
                .bind(&text)
                .fetch_all(&mut *connection)
                .await
                .unwrap();
            let mut expected = EventType::parse(&text).unwrap().patterns();
            found.sort();
            expected.sort();
            assert_eq!(found, expected, "{text}");
        }
    })
    .await;
}

#[tokio::test]
async fn many_emitted_at_once_are_looked_at_one_by_one() {
    on_postgres(async |connection| {
        for (arguments, named) in [
            ("ARRAY['acme', 'a b'], ARRAY['a', 'a'], ARRAY['1', '2']", "tenant"),
            ("ARRAY['acme', 'a/b'], ARRAY['a', 'a'], ARRAY['1', '2']", "tenant"),
            ("ARRAY['acme', NULL], ARRAY['a', 'a'], ARRAY['1', '2']", "tenant"),
            ("ARRAY['acme', 'acme'], ARRAY['a', 'b/c'], ARRAY['1', '2']", "type"),
            ("ARRAY['acme', 'acme'], ARRAY['a', 'b.'], ARRAY['1', '2']", "type"),
            ("ARRAY['acme', 'acme'], ARRAY['a', 'b'], ARRAY['1', NULL]", "data"),
            ("ARRAY['acme', 'acme'], ARRAY['a', 'b'], ARRAY['1', repeat('x', 1048577)]", "data"),
            ("ARRAY['acme', 'acme'], ARRAY['a', 'b'], ARRAY['1', '2'], ARRAY[NULL, '']", "key"),
        ] {
            let emit = format!("SELECT snaphook.emit_many({arguments})");
            let error = sqlx::raw_sql(sqlx::AssertSqlSafe(emit)).execute(&mut *connection).await;
            let error = error.unwrap_err();
            let error = error.as_database_error().unwrap();
            assert_eq!(error.code().as_deref(), Some("22023"), "{arguments}");
            assert!(error.message().starts_with(named), "{arguments}: {error}");
        }
        let count = "SELECT count(*) FROM snaphook.events";
        let events: i64 = sqlx::query_scalar(count).fetch_one(connection).await.unwrap();
        assert_eq!(events, 0);
    })
    .await;
}
