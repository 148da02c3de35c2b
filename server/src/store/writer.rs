//! The one connection that writes to a SQLite file. Whoever has it, writes; the others wait, first
//! come, first served, which SQLite's own busy handler is not. It stays open between two turns: a
//! pool would ask it whether it lives before and after each, and every question is a journey to
//! the thread that runs its statements.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
    time::Duration,
};

use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::held::Held;

/// The writing connection, and how to make it anew.
#[derive(Clone)]
pub(super) struct Writer {
    options: Arc<SqliteConnectOptions>,
    wait: Duration,
    place: Arc<Mutex<Place>>,
}

enum Place {
    /// It will be made when it is needed.
    Empty,
    Open(SqliteConnection),
    Closed,
}

impl Writer {
    /// Opens the file, and makes it if it may. Nobody waits for longer than `wait`.
    pub(super) async fn open(
        options: SqliteConnectOptions,
        wait: Duration,
    ) -> Result<Self, sqlx::Error> {
        let connection = options.connect().await?;
        let place = Arc::new(Mutex::new(Place::Open(connection)));
        Ok(Self { options: Arc::new(options), wait, place })
    }

    /// Waits for its turn.
    pub(super) async fn turn(&self) -> Result<Turn, sqlx::Error> {
        let waited = tokio::time::timeout(self.wait, self.place.clone().lock_owned()).await;
        let mut place = waited.map_err(|_| sqlx::Error::PoolTimedOut)?;
        match *place {
            Place::Open(_) => {}
            Place::Closed => return Err(sqlx::Error::PoolClosed),
            Place::Empty => *place = Place::Open(self.options.connect().await?),
        }
        Ok(Turn { place, is_unsound: false })
    }

    /// Waits for those that are before it, and lets nobody write any more.
    pub(super) async fn close(&self) {
        let mut place = self.place.lock().await;
        if let Place::Open(connection) = std::mem::replace(&mut *place, Place::Closed)
            && let Err(error) = connection.close().await
        {
            tracing::warn!("closing the database: {error}");
        }
    }
}

/// The connection, as long as it is somebody's turn.
pub(super) struct Turn {
    place: OwnedMutexGuard<Place>,
    is_unsound: bool,
}

impl Turn {
    /// Closes it when the turn ends: a transaction may be open in it.
    pub(super) fn close_on_drop(&mut self) {
        self.is_unsound = true;
    }
}

impl Deref for Turn {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        match &*self.place {
            Place::Open(connection) => connection,
            Place::Empty | Place::Closed => unreachable!("a turn begins with a connection"),
        }
    }
}

impl DerefMut for Turn {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        match &mut *self.place {
            Place::Open(connection) => connection,
            Place::Empty | Place::Closed => unreachable!("a turn begins with a connection"),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.is_unsound {
            *self.place = Place::Empty;
        }
    }
}

/// A connection to a SQLite file that is in use.
pub(super) enum InFile {
    Writes(Turn),
    Reads(Held<sqlx::Sqlite>),
}

impl InFile {
    pub(super) fn close_on_drop(&mut self) {
        match self {
            Self::Writes(turn) => turn.close_on_drop(),
            Self::Reads(held) => held.close_on_drop(),
        }
    }

    /// The last statement has ended well, and no transaction is open.
    pub(super) fn is_sound(&mut self) {
        if let Self::Reads(held) = self {
            held.is_sound();
        }
    }
}

impl Deref for InFile {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        match self {
            Self::Writes(turn) => turn,
            Self::Reads(held) => held,
        }
    }
}

impl DerefMut for InFile {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        match self {
            Self::Writes(turn) => turn,
            Self::Reads(held) => held,
        }
    }
}
