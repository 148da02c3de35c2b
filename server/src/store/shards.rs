//! Who owns which shard, until when. A lease is the only claim there is: inside a shard its owner
//! reads the queue without asking anybody.

use std::time::Duration;

use super::{Dialect, StoreError, Tx, on};
use crate::domain::time::Timestamp;

/// A shard that this node owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Lease {
    /// The shard.
    pub id: i16,
    /// Counts its owners: a renewal under an old epoch fails.
    pub epoch: i64,
}

impl Tx {
    /// Says that this node lives, and tells how many do.
    pub async fn mark_node(
        &mut self,
        node: &str,
        now: Timestamp,
        lease: Duration,
    ) -> Result<i64, StoreError> {
        let text = "INSERT INTO snaphook.nodes (name, seen_at) VALUES ($1, $2)
             ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at";
        on!(self, text, |sql, connection| {
            sqlx::query(sql).bind(node).bind(now).execute(connection).await.map(drop)
        })?;
        let text = "SELECT count(*) FROM snaphook.nodes WHERE seen_at > $1";
        let nodes: i64 = on!(self, text, |sql, connection| {
            sqlx::query_scalar(sql).bind(now - lease).fetch_one(connection).await?
        });
        Ok(nodes)
    }

    /// Takes back, at once, what a process of this name owned before it died.
    pub async fn claim_own_shards(
        &mut self,
        node: &str,
        until: Timestamp,
    ) -> Result<Vec<Lease>, StoreError> {
        let text = "UPDATE snaphook.shards SET epoch = epoch + 1, lease_until = $2
             WHERE owner = $1 RETURNING id, epoch";
        let leases = on!(self, text, |sql, connection| {
            sqlx::query_as(sql).bind(node).bind(until).fetch_all(connection).await?
        });
        Ok(leases)
    }

    /// Takes up to `limit` shards that nobody owns any more. Nodes that ask at the same time
    /// get different ones and never wait.
    pub async fn claim_free_shards(
        &mut self,
        node: &str,
        now: Timestamp,
        until: Timestamp,
        limit: i64,
    ) -> Result<Vec<Lease>, StoreError> {
        let text = match self.dialect() {
            Dialect::Postgres => {
                "UPDATE snaphook.shards SET owner = $1, epoch = epoch + 1, lease_until = $3
                 WHERE id IN (SELECT id FROM snaphook.shards WHERE lease_until < $2
                              ORDER BY id LIMIT $4 FOR UPDATE SKIP LOCKED)
                 RETURNING id, epoch"
            }
            Dialect::Sqlite => {
                "UPDATE snaphook.shards SET owner = $1, epoch = epoch + 1, lease_until = $3
                 WHERE id IN (SELECT id FROM snaphook.shards WHERE lease_until < $2
                              ORDER BY id LIMIT $4)
                 RETURNING id, epoch"
            }
        };
        let leases = on!(self, text, |sql, connection| {
            sqlx::query_as(sql)
                .bind(node)
                .bind(now)
                .bind(until)
                .bind(limit)
                .fetch_all(connection)
                .await?
        });
        Ok(leases)
    }

    /// Extends the leases that are still ours and gives those back; what is missing was lost.
    pub async fn renew_shards(
        &mut self,
        node: &str,
        until: Timestamp,
    ) -> Result<Vec<Lease>, StoreError> {
        let text = "UPDATE snaphook.shards SET lease_until = $2 WHERE owner = $1
             RETURNING id, epoch";
        let leases = on!(self, text, |sql, connection| {
            sqlx::query_as(sql).bind(node).bind(until).fetch_all(connection).await?
        });
        Ok(leases)
    }

    /// Takes, under a new epoch, a shard that has our name on it and that we do not remember: the
    /// answer to a commit was lost. `None` when it changed hands meanwhile.
    pub async fn adopt_shard(
        &mut self,
        node: &str,
        seen: Lease,
        until: Timestamp,
    ) -> Result<Option<Lease>, StoreError> {
        let text = "UPDATE snaphook.shards SET epoch = epoch + 1, lease_until = $4
             WHERE owner = $1 AND id = $2 AND epoch = $3 RETURNING id, epoch";
        let lease = on!(self, text, |sql, connection| {
            sqlx::query_as(sql)
                .bind(node)
                .bind(seen.id)
                .bind(seen.epoch)
                .bind(until)
                .fetch_optional(connection)
                .await?
        });
        Ok(lease)
    }

    /// Gives one shard back, so that another node may take it at once.
    pub async fn release_shard(&mut self, node: &str, lease: Lease) -> Result<(), StoreError> {
        let text = "UPDATE snaphook.shards SET owner = NULL, lease_until = $4
             WHERE owner = $1 AND id = $2 AND epoch = $3";
        on!(self, text, |sql, connection| {
            sqlx::query(sql)
                .bind(node)
                .bind(lease.id)
                .bind(lease.epoch)
                .bind(Timestamp(0))
                .execute(connection)
                .await
                .map(drop)
        })?;
        Ok(())
    }

    /// Takes this node off the list of those that live.
    pub async fn delete_node(&mut self, node: &str) -> Result<(), StoreError> {
        on!(self, "DELETE FROM snaphook.nodes WHERE name = $1", |sql, connection| {
            sqlx::query(sql).bind(node).execute(connection).await.map(drop)
        })?;
        Ok(())
    }

    /// The database's own time, which all nodes share.
    pub async fn clock(&mut self) -> Result<Timestamp, StoreError> {
        let text = match self.dialect() {
            Dialect::Postgres => "SELECT clock_timestamp()",
            Dialect::Sqlite => {
                "SELECT CAST(strftime('%s', 'now') AS INTEGER) * 1000000
                     + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000"
            }
        };
        let now = on!(self, text, |sql, connection| {
            sqlx::query_scalar(sql).fetch_one(connection).await?
        });
        Ok(now)
    }
}
