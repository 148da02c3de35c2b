//! Answers kept for a while, so that a request that is sent again gets the same one and does its
//! work once. A row without a status stands for a request that is still at work.

use std::time::Duration;

use super::{StoreError, Tx, on};
use crate::domain::{id::ApiKeyId, time::Timestamp};

/// How long an answer is kept.
const KEPT: Duration = Duration::from_hours(24);

/// After so long without an answer, the process that was at work is taken for dead. Longer than
/// any request takes.
const ABANDONED: Duration = Duration::from_mins(2);

/// Which request it is: the key is the caller's own, and each route has its own keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// Whose.
    pub api_key: ApiKeyId,
    /// Method and path.
    pub route: String,
    /// As the caller gave it.
    pub key: String,
}

/// What is known of a request when it arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It is new, or was given up: it is for the caller to do now.
    New,
    /// The same key came with another request.
    Differs,
    /// It is at work elsewhere.
    AtWork,
    /// It was answered.
    Answered {
        /// The status code.
        status: u16,
        /// The body, sealed.
        body: Vec<u8>,
    },
}

type Columns = (Vec<u8>, Option<i16>, Option<Vec<u8>>, Timestamp);

impl Tx {
    /// Takes a request on, unless it was taken on before. `digest` stands for all of it.
    pub async fn claim_idempotency(
        &mut self,
        key: &IdempotencyKey,
        digest: &[u8],
        now: Timestamp,
    ) -> Result<Seen, StoreError> {
        if self.add_idempotency(key, digest, now).await? {
            return Ok(Seen::New);
        }
        let Some((kept, status, body, created_at)) = self.find_idempotency(key).await? else {
            return Ok(Seen::AtWork); // taken away a moment ago; the caller tries again
        };
        let over = if status.is_some() { KEPT } else { ABANDONED };
        if now.since(created_at) >= over {
            self.delete_idempotency(key).await?;
            let ours = self.add_idempotency(key, digest, now).await?;
            return Ok(if ours { Seen::New } else { Seen::AtWork });
        }
        Ok(match (kept == digest, status.and_then(|status| u16::try_from(status).ok())) {
            (false, _) => Seen::Differs,
            (true, Some(status)) => Seen::Answered { status, body: body.unwrap_or_default() },
            (true, None) => Seen::AtWork,
        })
    }

    async fn add_idempotency(
        &mut self,
        key: &IdempotencyKey,
        digest: &[u8],
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let text = "INSERT INTO snaphook.idempotency (api_key_id, route, key, digest, created_at)
             VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT DO NOTHING";
        let done = on!(self, text, |sql, connection| {
            sqlx::query(sql)
                .bind(key.api_key)
                .bind(key.route.as_str())
                .bind(key.key.as_str())
                .bind(digest)
                .bind(now)
                .execute(connection)
                .await?
                .rows_affected()
        });
        Ok(done == 1)
    }

    async fn find_idempotency(
        &mut self,
        key: &IdempotencyKey,
    ) -> Result<Option<Columns>, StoreError> {
        let text = "SELECT digest, status, body, created_at
             FROM snaphook.idempotency
             WHERE api_key_id = $1 AND route = $2 AND key = $3";
        Ok(on!(self, text, |sql, connection| {
            sqlx::query_as(sql)
                .bind(key.api_key)
                .bind(key.route.as_str())
                .bind(key.key.as_str())
                .fetch_optional(connection)
                .await
        })?)
    }

    /// Keeps the answer to a request that was taken on.
    pub async fn finish_idempotency(
        &mut self,
        key: &IdempotencyKey,
        status: u16,
        body: &[u8],
    ) -> Result<(), StoreError> {
        let text = "UPDATE snaphook.idempotency
             SET status = $1, body = $2
             WHERE api_key_id = $3 AND route = $4 AND key = $5";
        on!(self, text, |sql, connection| {
            sqlx::query(sql)
                .bind(i16::try_from(status).unwrap_or(i16::MAX))
                .bind(body)
                .bind(key.api_key)
                .bind(key.route.as_str())
                .bind(key.key.as_str())
                .execute(connection)
                .await
                .map(drop)
        })?;
        Ok(())
    }

    /// Lets go of a request that came to nothing: sent again, it is done again.
    pub async fn delete_idempotency(&mut self, key: &IdempotencyKey) -> Result<(), StoreError> {
        let text = "DELETE FROM snaphook.idempotency
             WHERE api_key_id = $1 AND route = $2 AND key = $3";
        on!(self, text, |sql, connection| {
            sqlx::query(sql)
                .bind(key.api_key)
                .bind(key.route.as_str())
                .bind(key.key.as_str())
                .execute(connection)
                .await
                .map(drop)
        })?;
        Ok(())
    }
}
