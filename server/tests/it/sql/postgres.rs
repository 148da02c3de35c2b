//! `snaphook.emit` and its kin, in transactions of another program.

use snaphook::{domain::id::EventId, store::Store};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row, postgres::PgDatabaseError};

use crate::{
    store::{add_endpoint, fresh},
    support::databases::{Database, Kind},
};

/// A migrated database with one endpoint that wants everything, and a program's own connection.
async fn on_postgres(test: impl AsyncFn(&Store, &Database, &mut PgConnection)) {
    let database = Database::migrated(Kind::Postgres).await;
    let store = database.open().await;
    add_endpoint(&store, "acme", 1, &["*"]).await;
    let mut program = PgConnection::connect(&database.url).await.unwrap();
    test(&store, &database, &mut program).await;
    program.close().await.unwrap();
    store.close().await;
    database.remove().await;
}

async fn scalar(program: &mut PgConnection, sql: &str) -> String {
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(program).await.unwrap()
}

async fn payload(program: &mut PgConnection, event: &str) -> String {
    let id: EventId = event.parse().unwrap();
    let sql = "SELECT convert_from(payload, 'UTF8') FROM snaphook.events WHERE id = $1";
    sqlx::query_scalar(sql).bind(id.0).fetch_one(program).await.unwrap()
}

fn refusal(error: &sqlx::Error) -> &PgDatabaseError {
    error.as_database_error().unwrap().downcast_ref()
}

#[tokio::test]
async fn data_may_be_a_literal_json_jsonb_or_text_and_keeps_its_bytes() {
    on_postgres(async |_, _, program| {
        for (data, expected, why) in [
            (r#"'{"a":  1.10}'"#, r#"{"a":  1.10}"#, "a plain literal, as written"),
            (r#"'{"a":  1.10}'::text"#, r#"{"a":  1.10}"#, "text, as written"),
            (r#"'{"a":  1.10}'::json"#, r#"{"a":  1.10}"#, "json keeps its text"),
            (r#"'{"b":1,"a":  2}'::jsonb"#, r#"{"a": 2, "b": 1}"#, "jsonb, as its ::text"),
            ("jsonb_build_object('a', 1)", r#"{"a": 1}"#, "built in SQL"),
            ("'no json at all'", "no json at all", "any bytes are a payload"),
            (r"E'{\\x41}'", r"{\x41}", "a backslash is a backslash: no ::bytea in between"),
        ] {
            let emit = format!("SELECT snaphook.emit('acme', 'order.paid', {data})");
            let event = scalar(program, &emit).await;
            assert_eq!(payload(program, &event).await, expected, "{why}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_program_may_bind_text_and_json_parameters() {
    on_postgres(async |_, _, program| {
        let data = serde_json::json!({ "n": 1 });
        let event: String = sqlx::query_scalar("SELECT snaphook.emit($1, $2, $3)")
            .bind("acme")
            .bind("order.paid")
            .bind(&data)
            .fetch_one(&mut *program)
            .await
            .unwrap();
        assert_eq!(payload(program, &event).await, r#"{"n": 1}"#);
    })
    .await;
}

#[tokio::test]
async fn what_is_rolled_back_never_was() {
    on_postgres(async |store, _, program| {
        program.execute("BEGIN").await.unwrap();
        scalar(program, "SELECT snaphook.emit('acme', 'order.paid', '{}', key => 'k')").await;
        program.execute("SAVEPOINT s").await.unwrap();
        scalar(program, "SELECT snaphook.emit('acme', 'order.paid', '{}')").await;
        program.execute("ROLLBACK TO s").await.unwrap();
        assert!(fresh(store).await.is_empty(), "nothing before the commit");
        program.execute("COMMIT").await.unwrap();
        assert_eq!(fresh(store).await.len(), 1, "the savepoint's event is gone");

        program.execute("BEGIN").await.unwrap();
        scalar(program, "SELECT snaphook.emit('acme', 'order.paid', '{}', key => 'gone')").await;
        program.execute("ROLLBACK").await.unwrap();
        assert_eq!(fresh(store).await.len(), 1);
        let keys = "SELECT count(*)::text FROM snaphook.keys WHERE key = 'gone'";
        assert_eq!(scalar(program, keys).await, "0", "its key may be used");
    })
    .await;
}

#[tokio::test]
async fn bad_arguments_fail_with_the_name_of_the_argument_and_the_remedy() {
    on_postgres(async |store, _, program| {
        const C1: char = '\u{85}';
        let long = "x".repeat(300);
        let at = |time| format!("'acme', 'order.paid', '{{}}', occurred_at => '{time}'");
        for (arguments, named) in [
            ("NULL, 'order.paid', '{}'".to_owned(), "tenant"),
            ("'', 'order.paid', '{}'".to_owned(), "tenant"),
            ("'a b', 'order.paid', '{}'".to_owned(), "tenant"),
            (format!("'{long}', 'order.paid', '{{}}'"), "tenant"),
            ("'acme', NULL, '{}'".to_owned(), "type"),
            ("'acme', 'order..paid', '{}'".to_owned(), "type"),
            ("'acme', 'order.*', '{}'".to_owned(), "type"),
            ("'acme', E'order.paid\\n', '{}'".to_owned(), "type"),
            (format!("'acme', '{long}', '{{}}'"), "type"),
            ("'acme', 'order.paid', NULL::text".to_owned(), "data"),
            ("'acme', 'order.paid', repeat('x', 1048577)".to_owned(), "data"),
            ("'acme', 'order.paid', '{}', key => ''".to_owned(), "key"),
            (format!("'acme', 'order.paid', '{{}}', key => '{long}'"), "key"),
            (format!("'acme', 'order.paid', '{{}}', key => '{}'", "é".repeat(129)), "key"),
            (format!("'acme', 'order.paid', '{{}}', key => '{C1}'"), "key"),
            ("'acme', 'order.paid', '{}', version => ''".to_owned(), "version"),
            (format!("'acme', 'order.paid', '{{}}', version => '{}'", "é".repeat(33)), "version"),
            (format!("'acme', 'order.paid', '{{}}', version => '{C1}'"), "version"),
            (at("infinity"), "occurred_at"),
            (at("-infinity"), "occurred_at"),
            (at("0001-12-31 BC"), "occurred_at"),
            (at("0001-01-01 00:00:00+00:01"), "occurred_at"),
            (at("10000-01-01 00:00:00Z"), "occurred_at"),
            (at("294276-01-01Z"), "occurred_at"),
            ("'acme', 'order.paid', '{}', traceparent => 'x'".to_owned(), "traceparent"),
        ] {
            for function in ["emit", "emit_quiet"] {
                let emit = format!("SELECT snaphook.{function}({arguments})");
                let error = program.fetch_one(AssertSqlSafe(emit)).await.unwrap_err();
                let refusal = refusal(&error);
                assert_eq!(refusal.code(), "22023", "{arguments}");
                assert!(refusal.message().starts_with(named), "{arguments}: {refusal:?}");
                assert!(refusal.hint().is_some_and(|hint| !hint.is_empty()), "{arguments}");
            }
        }
        let many =
            "SELECT snaphook.emit_many('{acme}', '{a}', ARRAY['1'], NULL, NULL, '{infinity}')";
        let error = program.fetch_one(many).await.unwrap_err();
        assert!(refusal(&error).message().starts_with("occurred_at infinity"), "{error}");
        assert!(fresh(store).await.is_empty());
        assert_eq!(scalar(program, "SELECT count(*)::text FROM snaphook.events").await, "0");
    })
    .await;
}

#[tokio::test]
async fn the_first_and_the_last_moment_are_taken() {
    on_postgres(async |store, _, program| {
        for time in ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"] {
            let emit = format!("SELECT snaphook.emit('acme', 'a', '1', occurred_at => '{time}')");
            let id: EventId = scalar(program, &emit).await.parse().unwrap();
            let events = store.read().await.unwrap().list_events_by_id(&[id]).await.unwrap();
            assert_eq!(events[&id].occurred_at.unwrap().to_string(), time);
        }
    })
    .await;
}

#[tokio::test]
async fn business_transactions_wait_for_one_another_only_over_the_same_key() {
    on_postgres(async |_, database, first| {
        let mut second = PgConnection::connect(&database.url).await.unwrap();
        second.execute("SET lock_timeout = '500ms'").await.unwrap();
        let emit =
            |key: &str| format!("SELECT snaphook.emit('acme', 'order.paid', '{{}}', key => {key})");
        first.execute("BEGIN").await.unwrap();
        scalar(first, &emit("NULL")).await;
        scalar(first, &emit("'same'")).await;

        scalar(&mut second, &emit("NULL")).await;
        scalar(&mut second, &emit("'other'")).await;
        let error = second.fetch_one(AssertSqlSafe(emit("'same'"))).await.unwrap_err();
        assert_eq!(refusal(&error).code(), "55P03", "it waited, until lock_timeout");

        first.execute("COMMIT").await.unwrap();
        second.execute("SET lock_timeout = 0").await.unwrap();
        let events = "SELECT event_id::text FROM snaphook.keys WHERE key = 'same'";
        let id: i64 = scalar(first, events).await.parse().unwrap();
        assert_eq!(scalar(&mut second, &emit("'same'")).await, EventId(id).to_string());
    })
    .await;
}

#[tokio::test]
async fn emit_many_gives_ids_in_the_order_of_its_arrays() {
    on_postgres(async |store, _, program| {
        let row = program
            .fetch_one(
                "SELECT snaphook.emit_many(
                     ARRAY['acme', 'acme', 'acme'], ARRAY['a', 'b', 'a'],
                     ARRAY['{\"n\":1}', '{\"n\":2}', '{\"n\":3}'], ARRAY['z', NULL, 'z']) AS ids",
            )
            .await
            .unwrap();
        let ids: Vec<String> = row.get("ids");
        assert_eq!(ids.len(), 3);
        assert_eq!(payload(program, &ids[0]).await, r#"{"n":1}"#);
        assert_eq!(payload(program, &ids[1]).await, r#"{"n":2}"#);
        assert_eq!(ids[2], ids[0], "the same key");
        assert_eq!(fresh(store).await.len(), 2);

        let uneven = "SELECT snaphook.emit_many(ARRAY['acme'], ARRAY['a', 'b'], ARRAY['1'])";
        let error = program.fetch_one(uneven).await.unwrap_err();
        assert_eq!(refusal(&error).code(), "22023");
        let nothing = "SELECT snaphook.emit_many('{}', '{}', '{}'::text[])::text";
        assert_eq!(scalar(program, nothing).await, "{}");
    })
    .await;
}

#[tokio::test]
async fn an_event_can_be_emitted_in_a_transaction_that_is_prepared() {
    on_postgres(async |store, _, program| {
        program.execute("BEGIN").await.unwrap();
        scalar(program, "SELECT snaphook.emit_quiet('acme', 'order.paid', '{}')").await;
        program.execute("PREPARE TRANSACTION 'two_phase'").await.unwrap();
        assert!(fresh(store).await.is_empty());
        program.execute("COMMIT PREPARED 'two_phase'").await.unwrap();
        assert_eq!(fresh(store).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn an_insert_into_the_view_is_an_emit_and_returns_its_id() {
    on_postgres(async |store, _, program| {
        let insert = "INSERT INTO snaphook.outbox (tenant, type, data, key)
                      VALUES ('acme', 'order.paid', '{\"a\":1}', 'k') RETURNING id";
        let event = scalar(program, insert).await;
        assert_eq!(payload(program, &event).await, r#"{"a":1}"#);
        assert_eq!(fresh(store).await.len(), 1);

        let bad = "INSERT INTO snaphook.outbox (tenant, data) VALUES ('acme', '{}')";
        let error = program.execute(bad).await.unwrap_err();
        assert!(refusal(&error).message().starts_with("type"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_program_that_sets_its_own_search_path_and_time_zone_changes_nothing() {
    on_postgres(async |store, _, program| {
        program
            .execute(
                "CREATE SCHEMA evil;
                 CREATE FUNCTION evil.convert_to(text, name) RETURNS bytea
                     LANGUAGE sql AS $$ SELECT ''::bytea $$;
                 SET search_path = evil, pg_catalog; SET TimeZone = 'Asia/Tokyo'",
            )
            .await
            .unwrap();
        let event = scalar(program, "SELECT snaphook.emit('acme', 'order.paid', '{}')").await;
        assert_eq!(payload(program, &event).await, "{}");
        let id: EventId = event.parse().unwrap();
        let clock = store.read().await.unwrap().clock().await.unwrap();
        assert!(clock.since(id.created_at()).as_secs() < 60, "{}", id.created_at());
    })
    .await;
}
