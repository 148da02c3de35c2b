//! The memory in Redis, which knows no transaction of yours: so an event is first taken into work,
//! for a while, and only then done. A program that dies in between leaves it for the next attempt.

use std::time::Duration;

use redis::{RedisResult, aio::ConnectionLike, cmd};

/// What Redis knows of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// Not seen, and now in our hands: work, then [`RedisDedup::done`] or
    /// [`RedisDedup::give_back`].
    New,
    /// In the hands of another at this moment. Answer 503: the sender comes again, and by then it
    /// is done or free.
    InWork,
    /// Done. Answer 2xx.
    Done,
}

/// Remembers which events of one source were seen, in Redis or what speaks its protocol.
///
/// ```no_run
/// # async fn hook(connection: &mut redis::aio::MultiplexedConnection) -> redis::RedisResult<u16> {
/// use std::time::Duration;
///
/// use snaphook_signature::{RedisDedup, Sight};
///
/// let dedup = RedisDedup::of("stripe", Duration::from_hours(24 * 30));
/// Ok(match dedup.begin(connection, "evt_1").await? {
///     Sight::New => {
///         // … the work …
///         dedup.done(connection, "evt_1").await?;
///         204
///     }
///     Sight::InWork => 503,
///     Sight::Done => 204,
/// })
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisDedup {
    source: String,
    keep: Duration,
    lease: Duration,
}

const IN_WORK: &str = "work";
const DONE: &str = "done";

impl RedisDedup {
    /// For one source. What is done is remembered for `keep`: longer than the sender repeats itself.
    pub fn of(source: impl Into<String>, keep: Duration) -> Self {
        // Longer than a sender waits for an answer.
        Self { source: source.into(), keep, lease: Duration::from_mins(2) }
    }

    /// How long an event is ours while we work on it; two minutes unless said otherwise. Must be
    /// longer than the work takes.
    #[must_use]
    pub fn with_lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    /// Takes an event into work, unless it is in work or done.
    pub async fn begin(
        &self,
        connection: &mut impl ConnectionLike,
        key: &str,
    ) -> RedisResult<Sight> {
        let key = self.key(key);
        let taken: Option<String> = cmd("SET")
            .arg(&key)
            .arg(IN_WORK)
            .arg("NX")
            .arg("PX")
            .arg(millis(self.lease))
            .query_async(connection)
            .await?;
        if taken.is_some() {
            return Ok(Sight::New);
        }
        let state: Option<String> = cmd("GET").arg(&key).query_async(connection).await?;
        // Gone between the two: the other's lease ended, and the sender comes again.
        Ok(if state.as_deref() == Some(DONE) { Sight::Done } else { Sight::InWork })
    }

    /// Says that the work is done, and remembers it.
    pub async fn done(&self, connection: &mut impl ConnectionLike, key: &str) -> RedisResult<()> {
        let keep = millis(self.keep);
        cmd("SET").arg(self.key(key)).arg(DONE).arg("PX").arg(keep).query_async(connection).await
    }

    /// Says that the work failed: the event is new when it comes again.
    pub async fn give_back(
        &self,
        connection: &mut impl ConnectionLike,
        key: &str,
    ) -> RedisResult<()> {
        cmd("DEL").arg(self.key(key)).query_async::<i64>(connection).await.map(drop)
    }

    fn key(&self, key: &str) -> String {
        format!("seen_webhooks:{}:{key}", self.source)
    }
}

/// Redis takes no pause of zero.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX >> 1).clamp(1, u64::MAX >> 1)
}
