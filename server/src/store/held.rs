//! PostgreSQL connections of the engine between two of its statements. sqlx asks a connection
//! whether it lives each time that it goes back into its pool, which is a journey for every
//! statement; a node has a handful of them, and uses them all the time.

use std::{
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, PoisonError},
};

use sqlx::{PgConnection, PgPool, Postgres, pool::PoolConnection};

/// Connections that are out of their pool, and rest. The last to come goes first.
#[derive(Clone, Default)]
pub(super) struct Kept(Arc<Mutex<Vec<PoolConnection<Postgres>>>>);

impl Kept {
    /// One of them, or else one of the pool's.
    pub(super) async fn acquire(&self, pool: &PgPool) -> Result<Held, sqlx::Error> {
        let resting = self.with(Vec::pop);
        let connection = match resting {
            Some(connection) => connection,
            None => pool.acquire().await?,
        };
        Ok(Held { connection: Some(connection), home: Some(self.clone()), is_sound: false })
    }

    /// Gives all back to their pool.
    pub(super) fn release(&self) {
        self.with(|resting| drop(std::mem::take(resting)));
    }

    fn with<T>(&self, work: impl FnOnce(&mut Vec<PoolConnection<Postgres>>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A connection in use. Dropped, it goes back into its pool, with all that rest, and is asked
/// there, unless it was said to be sound.
pub(super) struct Held {
    connection: Option<PoolConnection<Postgres>>,
    home: Option<Kept>,
    is_sound: bool,
}

impl Held {
    /// Of a pool that keeps its own.
    pub(super) fn new(connection: PoolConnection<Postgres>) -> Self {
        Self { connection: Some(connection), home: None, is_sound: false }
    }

    /// The last statement has ended well, and no transaction is open.
    pub(super) fn is_sound(&mut self) {
        self.is_sound = true;
    }

    /// Closes it when it is dropped.
    pub(super) fn close_on_drop(&mut self) {
        self.is_sound = false;
        if let Some(connection) = &mut self.connection {
            connection.close_on_drop();
        }
    }
}

impl Deref for Held {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.connection.as_deref().expect("only its drop takes the connection")
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.is_sound = false;
        self.connection.as_deref_mut().expect("only its drop takes the connection")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        match &self.home {
            Some(home) if self.is_sound => {
                home.with(|resting| resting.extend(self.connection.take()));
            }
            // What it failed of may be what all will fail of: the pool shall ask them.
            Some(home) => home.release(),
            None => {}
        }
    }
}
