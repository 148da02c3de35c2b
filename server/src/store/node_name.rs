//! A node's name, held by one process at a time: two of one name would each take the other's
//! shards for its own of before a restart. The lock ends with its session, and so with the process.

use sqlx::{Connection as _, PgConnection};

use super::{Pool, Store, StoreError, Tx, migrate::LOCKS, on};
use crate::domain::time::Timestamp;

/// The first key of the locks on names; the second is the name's hash.
const NAMES: i32 = LOCKS + 1;

/// As long as it is held, no other process takes the name.
pub struct NameLock {
    session: Option<PgConnection>,
}

impl NameLock {
    /// Whether its session lives: the lock is gone with a session that the database has ended.
    pub async fn is_held(&mut self) -> bool {
        match &mut self.session {
            Some(session) => session.ping().await.is_ok(),
            None => true,
        }
    }
}

impl Store {
    /// Takes a node's name. `None` while another session has it. On SQLite the file's lock is
    /// enough.
    pub async fn take_name(&self, name: &str) -> Result<Option<NameLock>, StoreError> {
        let Pool::Postgres { engine, .. } = &self.pool else {
            return Ok(Some(NameLock { session: None }));
        };
        let mut session = PgConnection::connect_with(&engine.connect_options()).await?;
        let taken = sqlx::query_scalar("SELECT pg_try_advisory_lock($1, hashtext($2))")
            .bind(NAMES)
            .bind(name)
            .fetch_one(&mut session)
            .await?;
        Ok(if taken { Some(NameLock { session: Some(session) }) } else { None })
    }
}

impl Tx {
    /// When a node of this name last said that it lives.
    pub async fn node_seen_at(&mut self, name: &str) -> Result<Option<Timestamp>, StoreError> {
        let text = "SELECT seen_at FROM snaphook.nodes WHERE name = $1";
        let seen = on!(self, text, |sql, connection| {
            sqlx::query_scalar(sql).bind(name).fetch_optional(connection).await?
        });
        Ok(seen)
    }
}
