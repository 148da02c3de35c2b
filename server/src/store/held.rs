//! Connections of the engine between two of its statements. sqlx asks a connection whether it
//! lives each time that it goes back into its pool, which is a journey for every statement; a node
//! has a handful of them, and uses them all the time.

use std::{
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, PoisonError},
};

use sqlx::{Database, Pool, pool::PoolConnection};

/// Connections that are out of their pool, and rest. The last to come goes first.
pub(super) struct Kept<D: Database>(Arc<Mutex<Vec<PoolConnection<D>>>>);

impl<D: Database> Clone for Kept<D> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<D: Database> Default for Kept<D> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<D: Database> Kept<D> {
    /// One of them, or else one of the pool's.
    pub(super) async fn acquire(&self, pool: &Pool<D>) -> Result<Held<D>, sqlx::Error> {
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

    fn with<T>(&self, work: impl FnOnce(&mut Vec<PoolConnection<D>>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A connection in use. Dropped, it goes back into its pool, with all that rest, and is asked
/// there, unless it was said to be sound.
pub(super) struct Held<D: Database> {
    connection: Option<PoolConnection<D>>,
    home: Option<Kept<D>>,
    is_sound: bool,
}

impl<D: Database> Held<D> {
    /// Of a pool that keeps its own.
    pub(super) fn new(connection: PoolConnection<D>) -> Self {
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

impl<D: Database> Deref for Held<D> {
    type Target = D::Connection;

    fn deref(&self) -> &D::Connection {
        self.connection.as_deref().expect("only its drop takes the connection")
    }
}

impl<D: Database> DerefMut for Held<D> {
    fn deref_mut(&mut self) -> &mut D::Connection {
        self.is_sound = false;
        self.connection.as_deref_mut().expect("only its drop takes the connection")
    }
}

impl<D: Database> Drop for Held<D> {
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
