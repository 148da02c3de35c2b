//! How a node that has nothing to do learns that it has. Polling alone would be enough; the bell
//! only makes it prompt.

use sqlx::{Connection as _, SqliteConnection, postgres::PgListener, sqlite::SqliteConnectOptions};

use super::{Pool, Store, StoreError, migrate::LOCKS};

/// The second key of the advisory lock that a sleeping node holds; `snaphook.ring` has it too.
const ASLEEP: i32 = 1;

/// Listens for changes made by other connections and other processes.
pub enum Bell {
    /// Notifications, and the lock that makes emits send them.
    Postgres(PgListener),
    /// The file's version, which every commit of another connection changes.
    Sqlite {
        /// A connection that does nothing else.
        connection: SqliteConnection,
        /// The version as last seen.
        seen: i64,
    },
}

impl Store {
    /// A bell of its own connection.
    pub async fn bell(&self) -> Result<Bell, StoreError> {
        match &self.pool {
            Pool::Postgres { engine, .. } => {
                let mut listener = PgListener::connect_with(engine).await?;
                // A new connection does not hold the lock: whoever sleeps must know.
                listener.eager_reconnect(false);
                listener.listen("snaphook").await?;
                Ok(Bell::Postgres(listener))
            }
            Pool::Sqlite { path, .. } => {
                let options = SqliteConnectOptions::new().filename(path);
                let connection = SqliteConnection::connect_with(&options).await?;
                Ok(Bell::Sqlite { connection, seen: 0 })
            }
        }
    }
}

impl Bell {
    /// Asks to be woken by emits: they notify only while a sleeper holds the lock. False when an
    /// emit that took us for awake is still uncommitted, or another node sleeps already; then
    /// look again soon. After true, look once more before sleeping.
    pub async fn fall_asleep(&mut self) -> Result<bool, StoreError> {
        match self {
            Self::Postgres(listener) => {
                Ok(sqlx::query_scalar("SELECT pg_try_advisory_lock($1, $2)")
                    .bind(LOCKS)
                    .bind(ASLEEP)
                    .fetch_one(listener)
                    .await?)
            }
            Self::Sqlite { .. } => Ok(true),
        }
    }

    /// Lets emits stop notifying, and passes the bell on to another node that may want it.
    pub async fn wake_up(&mut self) -> Result<(), StoreError> {
        if let Self::Postgres(listener) = self {
            sqlx::query("SELECT pg_advisory_unlock($1, $2)")
                .bind(LOCKS)
                .bind(ASLEEP)
                .execute(listener)
                .await?;
        }
        Ok(())
    }

    /// On PostgreSQL, waits for a notification and tells what it says; empty means an event. When
    /// the connection broke, so that rings may have been missed, it is an error.
    /// On SQLite there is nothing to wait for: see [`Bell::has_changed`].
    pub async fn heard(&mut self) -> Result<String, StoreError> {
        match self {
            Self::Postgres(listener) => match listener.try_recv().await? {
                Some(notification) => Ok(notification.payload().to_owned()),
                None => Err(sqlx::Error::Io(std::io::ErrorKind::ConnectionAborted.into()).into()),
            },
            Self::Sqlite { .. } => std::future::pending().await,
        }
    }

    /// On SQLite, whether anybody committed since the last call. Cheap enough to ask often.
    pub async fn has_changed(&mut self) -> Result<bool, StoreError> {
        match self {
            Self::Postgres(_) => Ok(false),
            Self::Sqlite { connection, seen } => {
                let now: i64 =
                    sqlx::query_scalar("PRAGMA data_version").fetch_one(connection).await?;
                let changed = now != *seen;
                *seen = now;
                Ok(changed)
            }
        }
    }
}
