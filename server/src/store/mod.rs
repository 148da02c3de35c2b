//! The one place that speaks SQL.
//!
//! Each statement is written once, in the subset that PostgreSQL and SQLite share, beside the
//! method that runs it; the few on the hot path that cannot be are written twice, side by side.
//! Tables are written `snaphook.events`; SQLite, which has no schemas, sees `snaphook_events`.
//! Time and ids are bound by the caller, so that every test owns them; only an event's id and
//! the moment of its emit are the database's.

pub mod api_keys;
pub mod attempts;
pub mod audit;
mod bell;
mod catalog;
mod codec;
mod commands;
mod complete;
mod connect;
mod counts;
pub mod deliveries;
pub mod embed;
mod emit;
pub mod endings;
pub mod endpoints;
mod error;
pub mod event_types;
pub mod events;
pub mod files;
pub mod grants;
mod group;
mod health;
mod held;
pub mod idempotency;
mod in_file;
mod migrate;
mod node_name;
pub mod page;
pub mod pulls;
mod queue;
pub mod received;
pub mod requests;
pub mod reseal;
mod row;
pub mod seal;
pub mod secrets;
mod shards;
pub mod source_secrets;
pub mod sources;
mod stretches;
mod subscriptions;
pub mod tenants;
mod upkeep;
mod writer;

use std::sync::Arc;

use sqlx::{AssertSqlSafe, PgPool, Postgres, SqlSafeStr, SqlStr, Sqlite, SqlitePool};

pub use bell::Bell;
pub use commands::{Command, CommandKind};
pub use complete::{Completion, Finished};
pub use connect::Options;
pub use counts::QueueCounts;
pub use emit::{Accepted, NewEvent};
pub use endpoints::EndpointRow;
pub use error::StoreError;
pub use health::HealthRecord;
pub use node_name::NameLock;
pub use queue::{Cursor, Horizon, SHARDS, Transactions};
pub use received::{Arrival, ArrivalSource, Receipt};
pub use requests::{NewRequest, RequestRow};
pub use row::{Row, Slot};
pub use secrets::SecretRow;
pub use shards::Lease;
pub use source_secrets::SourceSecretRow;
pub use sources::SourceRow;
pub use stretches::Stretch;

use self::writer::InFile;
use crate::faults::Faults;

/// An open database.
#[derive(Clone)]
pub struct Store {
    pool: Pool,
    faults: Arc<Faults>,
    /// `None` where events are committed by their callers, one at a time.
    groups: Option<group::Groups>,
    catalog: Arc<catalog::Catalog>,
}

#[derive(Clone)]
enum Pool {
    Postgres {
        /// For doors: plans are the database's to choose.
        doors: PgPool,
        /// For the engine: plans are fixed, for a stale statistic must not turn a claim into a scan.
        engine: PgPool,
        /// Connections of `engine` that rest between two statements.
        kept: held::Kept<Postgres>,
    },
    Sqlite {
        writer: writer::Writer,
        readers: SqlitePool,
        /// Of `readers`, those of the engine that rest between two statements.
        kept: held::Kept<Sqlite>,
        path: Arc<std::path::Path>,
        /// Held as long as the server runs; its lock is the lease of all shards.
        _lock: Option<Arc<std::fs::File>>,
    },
}

/// An open transaction, or a connection that only reads. Every statement of the program is a
/// method on it. Dropped without [`Tx::commit`], it changes nothing.
pub struct Tx {
    db: Db,
    faults: Arc<Faults>,
    /// Whether there is a transaction to end.
    open: bool,
}

enum Db {
    Postgres(held::Held<Postgres>),
    Sqlite(writer::InFile),
}

/// Which databases a statement can run on, and what differs between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// PostgreSQL 15 or newer.
    Postgres,
    /// The SQLite that is built in.
    Sqlite,
}

/// Runs the same sqlx expression against whichever database is open.
macro_rules! on {
    ($tx:expr, $text:expr, |$sql:ident, $connection:ident| $query:expr) => {{
        $tx.faults.step().map_err($crate::store::StoreError::from)?;
        match &mut $tx.db {
            $crate::store::Db::Postgres(connection) => {
                let $sql = sqlx::SqlSafeStr::into_sql_str($text);
                let $connection = &mut **connection;
                $query
            }
            $crate::store::Db::Sqlite(connection) => {
                let $sql = $crate::store::in_sqlite($text);
                let $connection = &mut **connection;
                $query
            }
        }
    }};
}
use on;

/// The text of a statement for SQLite, where a prefix stands for the schema.
fn in_sqlite(text: impl SqlSafeStr) -> SqlStr {
    AssertSqlSafe(text.into_sql_str().as_str().replace("snaphook.", "snaphook_")).into_sql_str()
}

/// Ids, or other numbers, as SQLite takes a list of them.
fn json_of(numbers: impl Iterator<Item = i64>) -> String {
    serde_json::json!(numbers.collect::<Vec<_>>()).to_string()
}

/// Which connections a caller takes: doors and engine never wait for one another.
#[derive(Clone, Copy)]
enum Caller {
    Door,
    Engine,
}

impl Store {
    /// The same database under another countdown to a crash: for simulations.
    #[must_use]
    pub fn with_faults(&self, faults: Arc<Faults>) -> Self {
        Self { pool: self.pool.clone(), faults, groups: None, catalog: Arc::default() }
    }

    /// What kind of database it is.
    pub fn dialect(&self) -> Dialect {
        match self.pool {
            Pool::Postgres { .. } => Dialect::Postgres,
            Pool::Sqlite { .. } => Dialect::Sqlite,
        }
    }

    /// Opens a transaction that may write. On SQLite it waits for its turn, 5 s at most.
    pub async fn begin(&self) -> Result<Tx, StoreError> {
        self.start(Caller::Door).await
    }

    /// As `begin`, for the engine's own statements.
    pub async fn begin_engine(&self) -> Result<Tx, StoreError> {
        self.start(Caller::Engine).await
    }

    /// A connection for reading, outside of any transaction: each statement sees what is
    /// committed when it starts.
    pub async fn read(&self) -> Result<Tx, StoreError> {
        self.reader(Caller::Door).await
    }

    /// As `read`, for the engine's own statements.
    pub async fn read_engine(&self) -> Result<Tx, StoreError> {
        self.reader(Caller::Engine).await
    }

    /// For one statement of the engine's that changes something: it stands by itself, and commits
    /// as it ends. [`Tx::commit`] gives the connection back.
    pub async fn begin_statement(&self) -> Result<Tx, StoreError> {
        self.writer(Caller::Engine).await
    }

    async fn reader(&self, caller: Caller) -> Result<Tx, StoreError> {
        self.faults.step()?;
        let db = match (&self.pool, caller) {
            (Pool::Postgres { doors, .. }, Caller::Door) => {
                Db::Postgres(held::Held::new(doors.acquire().await?))
            }
            (Pool::Postgres { engine, kept, .. }, Caller::Engine) => {
                Db::Postgres(kept.acquire(engine).await?)
            }
            (Pool::Sqlite { readers, .. }, Caller::Door) => {
                Db::Sqlite(InFile::Reads(held::Held::new(readers.acquire().await?)))
            }
            (Pool::Sqlite { readers, kept, .. }, Caller::Engine) => {
                Db::Sqlite(InFile::Reads(kept.acquire(readers).await?))
            }
        };
        Ok(Tx { db, faults: self.faults.clone(), open: false })
    }

    async fn start(&self, caller: Caller) -> Result<Tx, StoreError> {
        let mut tx = self.writer(caller).await?;
        tx.begin().await?;
        Ok(tx)
    }

    /// A connection that may write, and no transaction yet.
    async fn writer(&self, caller: Caller) -> Result<Tx, StoreError> {
        match &self.pool {
            Pool::Postgres { .. } => self.reader(caller).await,
            Pool::Sqlite { writer, .. } => {
                self.faults.step()?;
                let db = Db::Sqlite(InFile::Writes(writer.turn().await?));
                Ok(Tx { db, faults: self.faults.clone(), open: false })
            }
        }
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let mut tx = self.read().await?;
        on!(tx, "SELECT 1", |sql, connection| {
            sqlx::query(sql).execute(connection).await.map(drop)
        })?;
        Ok(())
    }

    /// Serves the callers that wait, and closes all connections once they are idle.
    pub async fn close(&self) {
        if let Some(groups) = &self.groups {
            groups.finish().await;
        }
        match &self.pool {
            Pool::Postgres { doors, engine, kept } => {
                doors.close().await;
                kept.release();
                engine.close().await;
            }
            Pool::Sqlite { writer, readers, kept, .. } => {
                kept.release();
                readers.close().await;
                writer.close().await;
            }
        }
    }
}

impl Tx {
    async fn begin(&mut self) -> Result<(), StoreError> {
        self.open = true;
        match &mut self.db {
            Db::Postgres(connection) => {
                sqlx::query("BEGIN").execute(&mut **connection).await.map(drop)
            }
            // Take the write lock now: a read that turns into a write can only fail later.
            Db::Sqlite(connection) => {
                sqlx::query("BEGIN IMMEDIATE").execute(&mut **connection).await.map(drop)
            }
        }?;
        Ok(())
    }

    /// Makes all of it so, or fails. After an `Unreachable` it is not known which.
    pub async fn commit(mut self) -> Result<(), StoreError> {
        // A lone statement has committed itself.
        if self.open {
            self.end("COMMIT").await?;
            self.faults.step()?;
        }
        self.finish();
        Ok(())
    }

    /// Ends one that only read, and read to the end: its connection serves the next at once.
    /// Dropping does so too, at the price of a journey.
    pub fn finish(mut self) {
        match &mut self.db {
            Db::Postgres(connection) if !self.open => connection.is_sound(),
            Db::Sqlite(connection) if !self.open => connection.is_sound(),
            _ => {}
        }
    }

    /// Undoes all of it at once. Dropping does so too, at the price of the connection.
    pub async fn rollback(mut self) -> Result<(), StoreError> {
        self.end("ROLLBACK").await
    }

    async fn end(&mut self, verb: &'static str) -> Result<(), StoreError> {
        on!(self, verb, |sql, connection| sqlx::query(sql).execute(connection).await.map(drop))?;
        self.open = false;
        Ok(())
    }

    /// Which database this is, for the few statements that differ.
    fn dialect(&self) -> Dialect {
        match self.db {
            Db::Postgres(_) => Dialect::Postgres,
            Db::Sqlite(_) => Dialect::Sqlite,
        }
    }
}

/// A transaction that was not ended is undone by closing its connection: there is no way to wait
/// for a ROLLBACK here, and a connection must not go back with one open.
impl Drop for Tx {
    fn drop(&mut self) {
        if self.open {
            match &mut self.db {
                Db::Postgres(connection) => connection.close_on_drop(),
                Db::Sqlite(connection) => connection.close_on_drop(),
            }
        }
    }
}
