//! The door for programs in Rust: an event goes in inside of the caller's own sqlx transaction,
//! on PostgreSQL or SQLite. It needs no server beside it, only the schema; whichever server has
//! this database delivers.

use crate::{domain::id::EventId, store::StoreError};
pub use crate::{
    domain::{emit::Emit, problem::Problem},
    store::embed::EmitConnection,
};

/// Why an event was not emitted.
#[derive(Debug, thiserror::Error)]
pub enum EmitError {
    /// The event is wrong. The database has not heard of it, and the transaction goes on.
    #[error("{}", list(.0))]
    Invalid(Vec<Problem>),
    /// The database refuses the event, for its data is over `limits.payload`. On PostgreSQL the
    /// transaction can only be rolled back now.
    #[error("{0}")]
    Refused(String),
    /// This database has no schema of ours, or one that is older than this crate.
    #[error("this database knows no snaphook; run `snaphook migrate` on it")]
    NotMigrated(#[source] sqlx::Error),
    /// The connection's role may not emit.
    #[error("this role may not emit; run GRANT snaphook_emitter TO it")]
    NotAllowed(#[source] sqlx::Error),
    /// Anything else, as sqlx tells it: a broken connection, a busy file, a serialization failure
    /// that asks for the transaction to be run again.
    #[error("the database failed: {0}")]
    Database(#[source] sqlx::Error),
}

/// Emits an event in the transaction that is open on `connection`, and gives its id, or that of
/// the first event of the same key. Committed, it is delivered; rolled back, nobody hears of it.
/// With no transaction open it is committed at once.
///
/// ```no_run
/// # async fn pay(pool: &sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// use snaphook::Emit;
///
/// let mut tx = pool.begin().await?;
/// sqlx::query("UPDATE orders SET state = 'paid' WHERE id = 42").execute(&mut *tx).await?;
/// let event = Emit::new("acme", "order.paid", r#"{"order_id": 42}"#).key("order-42-paid");
/// let id = snaphook::emit(&mut *tx, event).await?;
/// tx.commit().await?;
/// println!("{id} is on its way");
/// # Ok(())
/// # }
/// ```
///
/// On SQLite the same, with the file's own pool. Begin with `BEGIN IMMEDIATE`: a transaction that
/// read before it writes can fail as busy, at once, when another program wrote in between.
///
/// ```no_run
/// # async fn pay(pool: &sqlx::SqlitePool) -> Result<(), Box<dyn std::error::Error>> {
/// # #[derive(serde::Serialize)]
/// # struct Paid { order_id: i64 }
/// let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
/// sqlx::query("UPDATE orders SET state = 'paid' WHERE id = 42").execute(&mut *tx).await?;
/// let paid = Paid { order_id: 42 };
/// snaphook::emit(&mut *tx, snaphook::Emit::json("acme", "order.paid", &paid)?).await?;
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
pub async fn emit<C>(connection: &mut C, event: Emit<'_>) -> Result<EventId, EmitError>
where
    C: EmitConnection + ?Sized,
{
    let mut ids = emit_many(connection, &[event]).await?;
    ids.pop().ok_or_else(|| EmitError::Database(sqlx::Error::RowNotFound))
}

/// As [`emit`], for many events, whose ids come in the same order. On PostgreSQL it is one
/// statement, and cheaper by the event. On an error, roll the transaction back: on SQLite the
/// events before the one that failed are in it.
pub async fn emit_many<C>(
    connection: &mut C,
    events: &[Emit<'_>],
) -> Result<Vec<EventId>, EmitError>
where
    C: EmitConnection + ?Sized,
{
    let problems = problems(events);
    if !problems.is_empty() {
        return Err(EmitError::Invalid(problems));
    }
    connection.emit_each(events).await.map_err(EmitError::from)
}

/// Of several events, a field is named with its place: `[2].key`.
fn problems(events: &[Emit<'_>]) -> Vec<Problem> {
    let placed = |(place, event): (usize, &Emit<'_>)| {
        let within = move |problem: Problem| match events {
            [_] => problem,
            _ => Problem::new(format!("[{place}].{}", problem.field), problem.problem),
        };
        event.problems().into_iter().map(within)
    };
    events.iter().enumerate().flat_map(placed).collect()
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl From<sqlx::Error> for EmitError {
    fn from(error: sqlx::Error) -> Self {
        let Some(database) = error.as_database_error() else { return Self::Database(error) };
        let code = database.code().unwrap_or_default().into_owned();
        // SQLSTATE (PostgreSQL, appendix A); SQLite has one code for all that it cannot read.
        let unknown_to_sqlite = database.message().contains("no such table: snaphook_outbox")
            || database.message().contains("no such table: main.snaphook_outbox");
        match code.as_str() {
            "42501" => Self::NotAllowed(error),
            "3F000" | "42883" => Self::NotMigrated(error),
            "1" if unknown_to_sqlite => Self::NotMigrated(error),
            "22023" | "1811" => Self::Refused(StoreError::from(error).to_string()),
            _ => Self::Database(error),
        }
    }
}
