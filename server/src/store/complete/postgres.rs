//! A batch in one statement: arrays in, and each row's own three writes. A row is found by where
//! it lies, which costs no index; one that has moved is looked up by its key and tried again.
//! What was settled carries its columns along: to look for each in the batch again would cost the
//! square of the batch, as these sessions know no join but nested loops.

use std::collections::HashSet;

use super::{Completion, Finished, micros};
use crate::{
    domain::{
        attempt::Mark,
        delivery::Cause,
        id::{EndpointId, EventId},
        time::Timestamp,
    },
    store::{Db, Row, StoreError, Tx},
};

impl Tx {
    pub(super) async fn complete_in_postgres(
        &mut self,
        batch: &[Finished],
        now: Timestamp,
    ) -> Result<Completion, StoreError> {
        let refs: Vec<&Finished> = batch.iter().collect();
        let mut settled = self.settle_by_slot(&refs, now).await?;
        let known: HashSet<_> =
            settled.iter().map(|(event, endpoint, _)| (*event, *endpoint)).collect();
        let missed: Vec<&Finished> =
            batch.iter().filter(|finished| !known.contains(&finished.pair())).collect();
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
                    let row = Row { slot: slot.clone(), ..finished.row.clone() };
                    Some(Finished { row, ..(*finished).clone() })
                })
                .collect();
            let second = self.settle_by_slot(&again.iter().collect::<Vec<_>>(), now).await?;
            let known: HashSet<_> =
                second.iter().map(|(event, endpoint, _)| (*event, *endpoint)).collect();
            settled.extend(second);
            let lost: Vec<&Finished> =
                missed.into_iter().filter(|finished| !known.contains(&finished.pair())).collect();
            self.add_late(&lost).await?;
            late.extend(lost.iter().map(|finished| finished.pair()));
        }
        let moved = settled
            .into_iter()
            .filter_map(|(event, endpoint, slot)| Some((event, endpoint, slot?)))
            .collect();
        Ok(Completion { moved, late, ..Completion::default() })
    }

    /// Gives the pairs that were settled, with the new place of those that stay.
    async fn settle_by_slot(
        &mut self,
        batch: &[&Finished],
        now: Timestamp,
    ) -> Result<Vec<(EventId, EndpointId, Option<String>)>, StoreError> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let Db::Postgres(connection) = &mut self.db else { unreachable!("asked by complete") };
        self.faults.step()?;
        let settled = bind_batch(sqlx::query_as(SETTLE), batch)
            .bind(now)
            .fetch_all(&mut **connection)
            .await?;
        self.faults.step()?;
        Ok(settled)
    }

    async fn find_slots(
        &mut self,
        batch: &[&Finished],
    ) -> Result<Vec<(EventId, EndpointId, String)>, StoreError> {
        let Db::Postgres(connection) = &mut self.db else { unreachable!("asked by complete") };
        self.faults.step()?;
        let found = sqlx::query_as(
            "SELECT u.event_id, u.endpoint_id, q.slot
             FROM unnest($1::int8[], $2::int8[], $3::int2[]) u (event_id, endpoint_id, shard)
             CROSS JOIN LATERAL (
                 SELECT ctid::text AS slot FROM snaphook.queue
                 WHERE shard = u.shard AND event_id = u.event_id AND endpoint_id = u.endpoint_id AND state = 0
                 UNION ALL
                 SELECT ctid::text FROM snaphook.queue
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

/// The columns of a batch as the rows `u`, in the order in which `bind_batch` binds them.
macro_rules! batch {
    () => {
        "WITH u AS (
    SELECT * FROM unnest($1::text[]::tid[], $2::int8[], $3::int8[], $4::int4[], $5::int4[], $6::int4[],
        $7::timestamptz[], $8::timestamptz[], $9::text[], $10::int2[], $11::int2[], $12::bool[],
        $13::int2[], $14::text[], $15::int8[], $16::text[], $17::bytea[], $18::bool[])
    AS u (slot, event_id, endpoint_id, run, attempt, rung, due_at, started_at, tenant, outcome, cause,
        sent, status, reason, duration_us, detail, response, probe)
)"
    };
}

const SETTLE: &str = concat!(
    batch!(),
    ", gone AS (
    DELETE FROM snaphook.queue q USING u
    WHERE q.ctid = u.slot AND q.event_id = u.event_id AND q.endpoint_id = u.endpoint_id
        AND q.run = u.run AND q.attempt = u.attempt AND u.outcome <> 0
    RETURNING u.*, NULL::text AS moved
), again AS (
    UPDATE snaphook.queue q SET state = 1, attempt = u.attempt + 1, rung = u.rung, due_at = u.due_at
    FROM u
    WHERE q.ctid = u.slot AND q.event_id = u.event_id AND q.endpoint_id = u.endpoint_id
        AND q.run = u.run AND q.attempt = u.attempt AND u.outcome = 0
    RETURNING u.*, q.ctid::text AS moved
), settled AS (
    SELECT * FROM gone UNION ALL SELECT * FROM again
), kept AS (
    INSERT INTO snaphook.attempts (event_id, endpoint_id, n, started_at, run, tenant, outcome, cause,
        sent, status, reason, duration_us, detail, response, probe)
    SELECT u.event_id, u.endpoint_id, u.attempt + 1, u.started_at, u.run, u.tenant, u.outcome, u.cause,
        u.sent, u.status, u.reason, u.duration_us, u.detail, u.response, u.probe
    FROM settled u
    ON CONFLICT DO NOTHING
), buried AS (
    INSERT INTO snaphook.dead_letters (event_id, endpoint_id, tenant, cause, died_at)
    SELECT u.event_id, u.endpoint_id, u.tenant, u.cause, $19
    FROM gone u
    WHERE u.outcome = 2
    ON CONFLICT DO NOTHING
)
SELECT event_id, endpoint_id, moved FROM settled"
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

/// Binds the columns of a batch, in the order of `batch!`.
fn bind_batch<'q, O>(query: PgQuery<'q, O>, batch: &[&'q Finished]) -> PgQuery<'q, O> {
    macro_rules! column {
        ($one:ident, $value:expr) => {
            batch.iter().map(|$one| $value).collect::<Vec<_>>()
        };
    }
    query
        .bind(column!(one, one.row.slot.as_str()))
        .bind(column!(one, one.row.event_id))
        .bind(column!(one, one.row.endpoint_id))
        .bind(column!(one, one.row.run))
        .bind(column!(one, one.row.attempt))
        .bind(column!(one, one.rung()))
        .bind(column!(one, one.due_at))
        .bind(column!(one, one.started_at))
        .bind(column!(one, one.row.tenant.as_str()))
        .bind(column!(one, one.mark.code()))
        .bind(column!(one, one.cause.map(Cause::code)))
        .bind(column!(one, one.sent))
        .bind(column!(one, one.status.and_then(|status| i16::try_from(status).ok())))
        .bind(column!(one, one.reason))
        .bind(column!(one, micros(one.took)))
        .bind(column!(one, one.detail.as_str()))
        .bind(column!(one, one.response.as_deref()))
        .bind(column!(one, one.probe()))
}
