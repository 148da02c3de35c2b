//! `snaphook::emit` in a transaction of another program in Rust.

use snaphook::{
    Emit, EmitConnection, EmitError, EventId, Timestamp, emit, emit_many, store::Store,
};
use sqlx::{Connection, PgConnection, SqliteConnection};

use crate::{
    store::{add_endpoint, fresh},
    support::databases::{Database, Kind, on_both, on_both_empty},
};

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Runs `$test` as the program would: the same words for either database.
macro_rules! in_program {
    ($database:expr, |$program:ident| $test:expr) => {
        match $database.kind {
            Kind::Postgres => {
                let mut $program = PgConnection::connect(&$database.url).await.unwrap();
                $test
            }
            Kind::Sqlite => {
                let mut $program = SqliteConnection::connect(&$database.url).await.unwrap();
                $test
            }
        }
    };
}

/// A server's store, with one endpoint that wants everything of `acme`.
async fn store(database: &Database) -> Store {
    let store = database.open().await;
    add_endpoint(&store, "acme", 1, &["*"]).await;
    store
}

async fn ids(store: &Store) -> Vec<EventId> {
    fresh(store).await.iter().map(|row| row.event_id).collect()
}

fn paid() -> Emit<'static> {
    Emit::new("acme", "order.paid", r#"{"n":  1.10}"#)
}

#[tokio::test]
async fn an_event_is_there_with_the_commit_of_the_program_or_not_at_all() {
    on_both(async |database| {
        let store = store(database).await;
        in_program!(database, |program| {
            let mut tx = program.begin().await.unwrap();
            emit(&mut *tx, paid()).await.unwrap();
            tx.rollback().await.unwrap();
            assert_eq!(ids(&store).await, []);

            let mut tx = program.begin().await.unwrap();
            let first = emit(&mut *tx, paid()).await.unwrap();
            let second = emit(&mut tx, paid()).await.unwrap();
            assert_eq!(ids(&store).await, [], "nothing before the commit");
            tx.commit().await.unwrap();
            assert_eq!(ids(&store).await, [first, second]);

            let alone = emit(&mut program, paid()).await.unwrap();
            assert_eq!(ids(&store).await, [first, second, alone], "without a transaction, at once");
        });
        let events = fresh(&store).await;
        let mut tx = store.read().await.unwrap();
        let kept = tx.list_events_by_id(&[events[0].event_id]).await.unwrap();
        assert_eq!(&kept[&events[0].event_id].payload[..], br#"{"n":  1.10}"#, "byte for byte");
    })
    .await;
}

#[tokio::test]
async fn all_that_the_program_says_is_kept() {
    on_both(async |database| {
        let store = store(database).await;
        let time = Timestamp(1_700_000_000_123_000);
        let event = Emit::json("acme", "order.paid", &serde_json::json!({ "n": 1 })).unwrap();
        let event = event.key("k").version("2024-01").occurred_at(time).traceparent(TRACE);

        let id = in_program!(database, |program| emit(&mut program, event).await.unwrap());

        let mut tx = store.read().await.unwrap();
        let kept = tx.list_events_by_id(&[id]).await.unwrap().remove(&id).unwrap();
        assert_eq!((kept.tenant.as_str(), kept.event_type.as_str()), ("acme", "order.paid"));
        assert_eq!(&kept.payload[..], br#"{"n":1}"#);
        assert_eq!(kept.version.as_deref(), Some("2024-01"));
        assert_eq!(kept.occurred_at, Some(time));
        assert_eq!(kept.traceparent.as_deref(), Some(TRACE));
    })
    .await;
}

#[tokio::test]
async fn many_events_get_their_ids_in_order_and_a_key_makes_two_of_them_one() {
    on_both(async |database| {
        let store = store(database).await;
        in_program!(database, |program| {
            let keyed = emit(&mut program, paid().key("k")).await.unwrap();
            let events: Vec<_> = (0..50).map(|_| paid()).chain([paid().key("k")]).collect();

            let mut made = emit_many(&mut program, &events).await.unwrap();

            assert_eq!(made.pop(), Some(keyed));
            let all: Vec<_> = [keyed].into_iter().chain(made).collect();
            assert_eq!(ids(&store).await, all);
            assert_eq!(emit_many(&mut program, &[]).await.unwrap(), []);
        });
    })
    .await;
}

#[tokio::test]
async fn what_is_wrong_is_said_before_the_transaction_suffers() {
    on_both(async |database| {
        let store = store(database).await;
        in_program!(database, |program| {
            let mut tx = program.begin().await.unwrap();
            let wrong = Emit::new("a b", "order..paid", "{}");
            let error = emit(&mut *tx, wrong.clone()).await.unwrap_err();
            assert!(matches!(&error, EmitError::Invalid(problems) if problems.len() == 2));
            let sentence = error.to_string();
            assert!(
                sentence.starts_with("tenant: ") && sentence.contains("; type: "),
                "{sentence}"
            );

            let error = emit_many(&mut *tx, &[paid(), wrong]).await.unwrap_err().to_string();
            assert!(error.starts_with("[1].tenant: "), "{error}");

            let good = emit(&mut *tx, paid()).await.unwrap();
            tx.commit().await.unwrap();
            assert_eq!(ids(&store).await, [good], "the transaction went on");

            let large = Emit::new("acme", "a", "x".repeat((1 << 20) + 1));
            let error = emit(&mut program, large).await.unwrap_err();
            assert!(matches!(error, EmitError::Refused(_)), "{error:?}");
            assert!(error.to_string().contains("limits.payload"), "the remedy: {error}");
            assert_eq!(ids(&store).await, [good]);
        });
    })
    .await;
}

#[tokio::test]
async fn a_database_without_a_schema_is_told_apart() {
    on_both_empty(async |database| {
        if database.kind == Kind::Sqlite {
            std::fs::File::create(database.url.strip_prefix("sqlite:").unwrap()).unwrap();
        }
        let error = in_program!(database, |program| emit(&mut program, paid()).await.unwrap_err());
        assert!(matches!(error, EmitError::NotMigrated(_)), "{error:?}");
        assert!(error.to_string().contains("snaphook migrate"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_role_that_may_not_emit_is_told_so() {
    let database = Database::migrated(Kind::Postgres).await;
    let mut program = PgConnection::connect(&database.url).await.unwrap();
    let role = format!("test_embed_{}", std::process::id());
    let as_role = format!("CREATE ROLE {role}; SET ROLE {role}");
    sqlx::raw_sql(sqlx::AssertSqlSafe(as_role)).execute(&mut program).await.unwrap();

    let stranger = emit(&mut program, paid()).await.unwrap_err();
    let grant = format!("RESET ROLE; GRANT snaphook_emitter TO {role}; SET ROLE {role}");
    sqlx::raw_sql(sqlx::AssertSqlSafe(grant)).execute(&mut program).await.unwrap();
    let one = emit(&mut program, paid()).await;
    let many = emit_many(&mut program, &[paid().occurred_at(Timestamp(0)), paid()]).await;

    let drop = format!("RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}");
    sqlx::raw_sql(sqlx::AssertSqlSafe(drop)).execute(&mut program).await.unwrap();
    program.close().await.unwrap();
    database.remove().await;
    assert!(matches!(stranger, EmitError::NotAllowed(_)), "{stranger:?}");
    assert!(one.is_ok() && many.is_ok(), "{one:?} {many:?}");
}

/// Programs have code that does not know its database, and tasks that move between threads.
#[tokio::test]
async fn a_program_can_be_generic_over_its_database() {
    #[expect(clippy::manual_async_fn, reason = "that the future is Send is the claim")]
    fn on_any<C: EmitConnection>(connection: &mut C) -> impl Future<Output = bool> + Send {
        async { emit(connection, paid()).await.is_ok() }
    }
    on_both(async |database| {
        assert!(in_program!(database, |program| on_any(&mut program).await));
    })
    .await;
}
