//! The memory in a table of one's own database, for an sqlx transaction.

use std::{future::Future, time::Duration};

/// Remembers which events of one source were seen, in the table `seen_webhooks`.
///
/// ```
/// # #[cfg(feature = "sqlite")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use snaphook_signature::Dedup;
/// use sqlx::{Connection as _, SqliteConnection};
///
/// let mut connection = SqliteConnection::connect("sqlite::memory:").await?; // or a PgConnection
/// Dedup::create_table(&mut connection).await?;
/// let dedup = Dedup::of("stripe");
///
/// for expected in [true, false] {
///     let mut transaction = connection.begin().await?;
///     let is_new = dedup.is_new(&mut *transaction, "evt_1").await?;
///     assert_eq!(is_new, expected);
///     // … the work, in the same transaction, if it is new …
///     transaction.commit().await?;
/// }
///
/// // Once a day, and for longer than any sender repeats itself.
/// dedup.prune(&mut connection, Duration::from_hours(24 * 30)).await?;
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "sqlite"))]
/// # fn main() {}
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dedup {
    source: String,
}

impl Dedup {
    /// For one source: two sources may use the same ids.
    pub fn of(source: impl Into<String>) -> Self {
        Self { source: source.into() }
    }

    /// Makes the table, if it is not there.
    pub async fn create_table<M: Memory>(memory: &mut M) -> Result<(), sqlx::Error> {
        memory.create().await
    }

    /// Remembers an event; `false` when it was seen before, and there is nothing to do but answer
    /// 2xx. On PostgreSQL a second transaction with the same event waits here for the first: when
    /// that one fails, the event is new.
    pub async fn is_new<M: Memory>(&self, memory: &mut M, key: &str) -> Result<bool, sqlx::Error> {
        memory.remember(&self.source, key).await
    }

    /// Forgets what was seen longer ago than `keep`, at most 10,000 events a call so that no lock
    /// is held for long. Gives how many; call again while it is 10,000.
    pub async fn prune<M: Memory>(
        &self,
        memory: &mut M,
        keep: Duration,
    ) -> Result<u64, sqlx::Error> {
        memory.forget(&self.source, i64::try_from(keep.as_secs()).unwrap_or(i64::MAX)).await
    }
}

/// A database that can remember: a connection of PostgreSQL or SQLite, or a transaction's.
pub trait Memory: Send {
    #[doc(hidden)]
    fn create(&mut self) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    #[doc(hidden)]
    fn remember(
        &mut self,
        source: &str,
        key: &str,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;
    #[doc(hidden)]
    fn forget(
        &mut self,
        source: &str,
        keep_seconds: i64,
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;
}

const REMEMBER: &str =
    "INSERT INTO seen_webhooks (source, key) VALUES ($1, $2) ON CONFLICT DO NOTHING";

#[cfg(feature = "postgres")]
impl Memory for sqlx::PgConnection {
    async fn create(&mut self) -> Result<(), sqlx::Error> {
        let table = "CREATE TABLE IF NOT EXISTS seen_webhooks (
                source text NOT NULL,
                key text NOT NULL,
                seen_at timestamptz NOT NULL DEFAULT now(),
                PRIMARY KEY (source, key)
            )";
        let index = "CREATE INDEX IF NOT EXISTS seen_webhooks_seen_at
            ON seen_webhooks (source, seen_at)";
        sqlx::query(table).execute(&mut *self).await?;
        sqlx::query(index).execute(&mut *self).await.map(drop)
    }

    async fn remember(&mut self, source: &str, key: &str) -> Result<bool, sqlx::Error> {
        let done = sqlx::query(REMEMBER).bind(source).bind(key).execute(self).await?;
        Ok(done.rows_affected() == 1)
    }

    async fn forget(&mut self, source: &str, keep_seconds: i64) -> Result<u64, sqlx::Error> {
        let forget = "DELETE FROM seen_webhooks
            WHERE source = $1
            AND key IN (
                SELECT key
                FROM seen_webhooks
                WHERE source = $1
                AND seen_at < now() - CAST($2 AS double precision) * interval '1 second'
                ORDER BY seen_at
                LIMIT 10000
            )";
        #[expect(clippy::cast_precision_loss, reason = "a pause is no matter of microseconds")]
        let keep = keep_seconds.min(1 << 40) as f64;
        let done = sqlx::query(forget).bind(source).bind(keep).execute(self).await?;
        Ok(done.rows_affected())
    }
}

#[cfg(feature = "sqlite")]
impl Memory for sqlx::SqliteConnection {
    async fn create(&mut self) -> Result<(), sqlx::Error> {
        let table = "CREATE TABLE IF NOT EXISTS seen_webhooks (
                source TEXT NOT NULL,
                key TEXT NOT NULL,
                seen_at INTEGER NOT NULL DEFAULT (CAST(strftime('%s', 'now') AS INTEGER)),
                PRIMARY KEY (source, key)
            ) WITHOUT ROWID";
        let index = "CREATE INDEX IF NOT EXISTS seen_webhooks_seen_at
            ON seen_webhooks (source, seen_at)";
        sqlx::query(table).execute(&mut *self).await?;
        sqlx::query(index).execute(&mut *self).await.map(drop)
    }

    async fn remember(&mut self, source: &str, key: &str) -> Result<bool, sqlx::Error> {
        let done = sqlx::query(REMEMBER).bind(source).bind(key).execute(self).await?;
        Ok(done.rows_affected() == 1)
    }

    async fn forget(&mut self, source: &str, keep_seconds: i64) -> Result<u64, sqlx::Error> {
        let forget = "DELETE FROM seen_webhooks
            WHERE source = $1
            AND key IN (
                SELECT key
                FROM seen_webhooks
                WHERE source = $1
                AND seen_at < CAST(strftime('%s', 'now') AS INTEGER) - $2
                ORDER BY seen_at
                LIMIT 10000
            )";
        let done = sqlx::query(forget).bind(source).bind(keep_seconds).execute(self).await?;
        Ok(done.rows_affected())
    }
}
