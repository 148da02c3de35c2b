//! A batch in one statement: arrays in, and each row's own three writes. A row is found by where
//! it lies, which costs no index; one that has moved is looked up by its key and tried again.
//! What was settled carries its columns along: to look for each in the batch again would cost the
//! square of the batch, as these sessions know no join but nested loops. Nothing comes back as
//! long as all was settled.
//!
//! Nearly all attempts deliver. They have a statement of their own, as every column of a batch has
//! its price: what is the same for all of them is written down there instead.

use std::collections::HashSet;

use super::{Completion, Finished, is_plain, micros};
use crate::{
    domain::{
        attempt::Mark,
        delivery::Cause,
        id::{EndpointId, EventId},
        time::Timestamp,
    },
    store::{Db, Row, Slot, StoreError, Tx},
};

impl Tx {
    pub(super) async fn complete_in_postgres(
        &mut self,
        batch: &[Finished],
        now: Timestamp,
    ) -> Result<Completion, StoreError> {
        let (delivered, others): (Vec<&Finished>, Vec<&Finished>) =
            batch.iter().partition(|one| is_plain(one));
        let mut missed = self.settle(Settle::Delivered, delivered, now).await?;
        missed.extend(self.settle(Settle::Any, others, now).await?);
        let mut late = HashSet::new();
        if !missed.is_empty() {
            // The row may only have moved: somebody else wrote to it, or it was parked.
            let found = self.find_slots(&missed).await?;
            let again: Vec<Finished> = missed
                .iter()
                .filter_map(|finished| {
                    let (.., slot) = found
                        .iter()
                        .find(|(event, endpoint, _)| (*event, *endpoint) == finished.pair())?;
                    let row = Row { slot: *slot, ..finished.row.clone() };
                    Some(Finished { row, ..(*finished).clone() })
                })
                .collect();
            let lost = self.settle(Settle::Any, again.iter().collect(), now).await?;
            let lost: HashSet<_> = lost.into_iter().map(Finished::pair).collect();
            let found: HashSet<_> = again.iter().map(Finished::pair).collect();
            missed.retain(|one| lost.contains(&one.pair()) || !found.contains(&one.pair()));
            self.add_late(&missed).await?;
            late.extend(missed.iter().map(|finished| finished.pair()));
        }
        Ok(Completion { late, ..Completion::default() })
    }

    /// Gives those back that were not found where they were said to lie.
    async fn settle<'a>(
        &mut self,
        settle: Settle,
        mut batch: Vec<&'a Finished>,
        now: Timestamp,
    ) -> Result<Vec<&'a Finished>, StoreError> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let Db::Postgres(connection) = &mut self.db else { unreachable!("asked by complete") };
        self.faults.step()?;
        let many = i64::try_from(batch.len()).unwrap_or(i64::MAX);
        let query = match settle {
            Settle::Delivered => bind_delivered(sqlx::query_as(SETTLE_DELIVERED), &batch),
            Settle::Any => bind_batch(sqlx::query_as(SETTLE), &batch).bind(now),
        };
        let settled: Vec<(EventId, EndpointId)> =
            query.bind(many).fetch_all(&mut **connection).await?;
        self.faults.step()?;
        if settled.is_empty() {
            return Ok(Vec::new());
        }
        let settled: HashSet<_> = settled.into_iter().collect();
        batch.retain(|one| !settled.contains(&one.pair()));
        Ok(batch)
    }

    async fn find_slots(
        &mut self,
        batch: &[&Finished],
    ) -> Result<Vec<(EventId, EndpointId, Slot)>, StoreError> {
        let Db::Postgres(connection) = &mut self.db else { unreachable!("asked by complete") };
        self.faults.step()?;
        let found = sqlx::query_as(
            "SELECT u.event_id, u.endpoint_id, q.slot
             FROM unnest($1::int8[], $2::int8[], $3::int2[]) u (event_id, endpoint_id, shard)
             CROSS JOIN LATERAL (
                 SELECT ctid AS slot FROM snaphook.queue
                 WHERE shard = u.shard AND event_id = u.event_id AND endpoint_id = u.endpoint_id AND state = 0
                 UNION ALL
                 SELECT ctid FROM snaphook.queue
                 WHERE event_id = u.event_id AND endpoint_id = u.endpoint_id AND state <> 0
             ) q",
        )
        .bind(batch.iter().map(|one| one.row.event_id).collect::<Vec<_>>())
        .bind(batch.iter().map(|one| one.row.endpoint_id).collect::<Vec<_>>())
        .bind(batch.iter().map(|one| one.row.shard).collect::<Vec<_>>())
        .fetch_all(&mut **connection)
        .await?;
        Ok(found)
    }

    async fn add_late(&mut self, batch: &[&Finished]) -> Result<(), StoreError> {
        // What never left is not on record when it also changed nothing.
        let sent: Vec<&Finished> = batch.iter().filter(|one| one.sent).copied().collect();
        if sent.is_empty() {
            return Ok(());
        }
        let Db::Postgres(connection) = &mut self.db else { unreachable!("asked by complete") };
        self.faults.step()?;
        bind_batch(sqlx::query_as::<_, (i32,)>(ADD_LATE), &sent)
            .bind(Mark::Late.code())
            .fetch_all(&mut **connection)
            .await?;
        self.faults.step()?;
        Ok(())
    }
}

/// Which statement settles.
#[derive(Clone, Copy)]
enum Settle {
    Delivered,
    Any,
}

/// The columns of a batch as the rows `u`, in the order in which `bind_batch` binds them.
macro_rules! batch {
    () => {
        "WITH u AS (
    SELECT * FROM unnest($1::tid[], $2::int8[], $3::int8[], $4::int4[], $5::int4[], $6::int4[],
        $7::timestamptz[], $8::timestamptz[], $9::text[], $10::int2[], $11::int2[], $12::bool[],
        $13::int2[], $14::text[], $15::int8[], $16::text[], $17::bytea[], $18::bool[])
    AS u (slot, event_id, endpoint_id, run, attempt, rung, due_at, started_at, tenant, outcome, cause,
        sent, status, reason, duration_us, detail, response, probe)
)"
    };
}

/// What was settled, unless it was all; a row of zeros where it was none.
macro_rules! unless_all {
    ($settled:literal, $many:literal) => {
        concat!(
            "SELECT event_id, endpoint_id FROM ",
            $settled,
            " WHERE (SELECT count(*) FROM ",
            $settled,
            ") < ",
            $many,
            " UNION ALL SELECT 0, 0 WHERE NOT EXISTS (SELECT FROM ",
            $settled,
            ")"
        )
    };
}

// `attempts` gets no second row of the same key: a row of the queue that still has the number of
// attempts that this one saw has no attempt of this start on record.
const SETTLE: &str = concat!(
    batch!(),
    ", gone AS (
    DELETE FROM snaphook.queue q USING u
    WHERE q.ctid = u.slot AND q.event_id = u.event_id AND q.endpoint_id = u.endpoint_id
        AND q.run = u.run AND q.attempt = u.attempt AND u.outcome <> 0
    RETURNING u.*
), again AS (
    UPDATE snaphook.queue q SET state = CASE q.state WHEN 2 THEN 2 ELSE 1 END,
        attempt = u.attempt + 1, rung = u.rung, due_at = u.due_at, claimed_at = NULL
    FROM u
    WHERE q.ctid = u.slot AND q.event_id = u.event_id AND q.endpoint_id = u.endpoint_id
        AND q.run = u.run AND q.attempt = u.attempt AND u.outcome = 0
    RETURNING u.*
), settled AS (
    SELECT * FROM gone UNION ALL SELECT * FROM again
), kept AS (
    INSERT INTO snaphook.attempts (event_id, endpoint_id, n, started_at, run, tenant, outcome, cause,
        sent, status, reason, duration_us, detail, response, probe)
    SELECT u.event_id, u.endpoint_id, u.attempt + 1, u.started_at, u.run, u.tenant, u.outcome, u.cause,
        u.sent, u.status, u.reason, u.duration_us, u.detail, u.response, u.probe
    FROM settled u
), buried AS (
    INSERT INTO snaphook.dead_letters (event_id, endpoint_id, tenant, cause, died_at)
    SELECT u.event_id, u.endpoint_id, u.tenant, u.cause, $19
    FROM gone u
    WHERE u.outcome = 2
    ON CONFLICT DO NOTHING
)
",
    unless_all!("settled", "$20")
);

/// The same of what [`is_plain`]; 1 is the outcome of what was delivered.
const SETTLE_DELIVERED: &str = concat!(
    "WITH u AS (
    SELECT * FROM unnest($1::tid[], $2::int8[], $3::int8[], $4::int4[], $5::int4[],
        $6::timestamptz[], $7::int2[], $8::int8[], $9::text[], $10::bytea[])
    AS u (slot, event_id, endpoint_id, run, attempt, started_at, status, duration_us, detail, response)
), gone AS (
    DELETE FROM snaphook.queue q USING u
    WHERE q.ctid = u.slot AND q.event_id = u.event_id AND q.endpoint_id = u.endpoint_id
        AND q.run = u.run AND q.attempt = u.attempt
    RETURNING u.*, q.tenant
), kept AS (
    INSERT INTO snaphook.attempts (event_id, endpoint_id, n, started_at, run, tenant, outcome, sent,
        status, duration_us, detail, response)
    SELECT u.event_id, u.endpoint_id, u.attempt + 1, u.started_at, u.run, u.tenant, 1, true, u.status,
        u.duration_us, u.detail, u.response
    FROM gone u
)
",
    unless_all!("gone", "$11")
);

const ADD_LATE: &str = concat!(
    batch!(),
    "
INSERT INTO snaphook.attempts (event_id, endpoint_id, n, started_at, run, tenant, outcome, cause,
    sent, status, reason, duration_us, detail, response, probe)
SELECT u.event_id, u.endpoint_id, u.attempt + 1, u.started_at, u.run, u.tenant, $19, NULL,
    u.sent, u.status, u.reason, u.duration_us, u.detail, u.response, u.probe
FROM u
ON CONFLICT DO NOTHING
RETURNING n"
);

type PgQuery<'q, O> = sqlx::query::QueryAs<'q, sqlx::Postgres, O, sqlx::postgres::PgArguments>;

macro_rules! column {
    ($batch:ident, $one:ident, $value:expr) => {
        $batch.iter().map(|$one| $value).collect::<Vec<_>>()
    };
}

/// Binds the columns of a batch, in the order of `batch!`.
fn bind_batch<'q, O>(query: PgQuery<'q, O>, batch: &[&'q Finished]) -> PgQuery<'q, O> {
    query
        .bind(column!(batch, one, one.row.slot))
        .bind(column!(batch, one, one.row.event_id))
        .bind(column!(batch, one, one.row.endpoint_id))
        .bind(column!(batch, one, one.row.run))
        .bind(column!(batch, one, one.row.attempt))
        .bind(column!(batch, one, one.rung()))
        .bind(column!(batch, one, one.due_at))
        .bind(column!(batch, one, one.started_at))
        .bind(column!(batch, one, one.row.tenant.as_str()))
        .bind(column!(batch, one, one.mark.code()))
        .bind(column!(batch, one, one.cause.map(Cause::code)))
        .bind(column!(batch, one, one.sent))
        .bind(column!(batch, one, status_of(one)))
        .bind(column!(batch, one, one.reason))
        .bind(column!(batch, one, micros(one.took)))
        .bind(column!(batch, one, one.detail.as_str()))
        .bind(column!(batch, one, one.response.as_deref()))
        .bind(column!(batch, one, one.probe()))
}

/// Binds the columns that `SETTLE_DELIVERED` has.
fn bind_delivered<'q, O>(query: PgQuery<'q, O>, batch: &[&'q Finished]) -> PgQuery<'q, O> {
    query
        .bind(column!(batch, one, one.row.slot))
        .bind(column!(batch, one, one.row.event_id))
        .bind(column!(batch, one, one.row.endpoint_id))
        .bind(column!(batch, one, one.row.run))
        .bind(column!(batch, one, one.row.attempt))
        .bind(column!(batch, one, one.started_at))
        .bind(column!(batch, one, status_of(one)))
        .bind(column!(batch, one, micros(one.took)))
        .bind(column!(batch, one, one.detail.as_str()))
        .bind(column!(batch, one, one.response.as_deref()))
}

fn status_of(one: &Finished) -> Option<i16> {
    one.status.and_then(|status| i16::try_from(status).ok())
}
