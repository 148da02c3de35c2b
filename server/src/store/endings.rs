//! Endings of all that waits for one endpoint, without a request: it was deleted, or its owner
//! does not want any more what was held. In steps: how far it got is what is left in the queue.

use super::{Dialect, StoreError, Tx, on};
use crate::domain::{
    attempt::Mark, delivery::Cause, id::EndpointId, shard::shard_of, time::Timestamp,
};

/// Deliveries that are ended in one transaction: about 20 ms.
pub const STEP: i64 = 1_000;

/// The rows of one step; each state has an index of its own.
const STEP_OF: &str = "(SELECT slot FROM (SELECT {slot} AS slot FROM snaphook.queue
         WHERE shard = $1 AND endpoint_id = $2 AND state = 1 ORDER BY due_at LIMIT $4) laned
     UNION ALL
     SELECT slot FROM (SELECT {slot} AS slot FROM snaphook.queue
         WHERE shard = $1 AND endpoint_id = $2 AND state = 0 ORDER BY event_id LIMIT $4) fresh
     UNION ALL
     SELECT slot FROM (SELECT {slot} AS slot FROM snaphook.queue
         WHERE endpoint_id = $2 AND state = 2 ORDER BY due_at LIMIT $4) pulled
     LIMIT $4)";

impl Tx {
    /// Ends up to 1,000 deliveries that wait for `endpoint`, and keeps that: canceled, or dead of
    /// `cause`. Gives back how many; fewer than 1,000 were the last.
    pub async fn end_waiting(
        &mut self,
        endpoint: EndpointId,
        cause: Option<Cause>,
        now: Timestamp,
        detail: &str,
    ) -> Result<u64, StoreError> {
        let mark = if cause.is_some() { Mark::Dead } else { Mark::Canceled };
        let add =
            "INSERT INTO snaphook.attempts (event_id, endpoint_id, n, started_at, run, tenant,
                 outcome, cause, sent, status, reason, duration_us, detail, response)
             SELECT event_id, endpoint_id, attempt + 1, $3, run, tenant, $5, CAST($6 AS smallint),
                 false, NULL, $7, 0, $8, NULL FROM ";
        let bury =
            "INSERT INTO snaphook.dead_letters (event_id, endpoint_id, tenant, cause, died_at)
             SELECT event_id, endpoint_id, tenant, CAST($6 AS smallint), $3 FROM ";
        let bury_end = "CAST($6 AS smallint) IS NOT NULL ON CONFLICT DO NOTHING";
        let texts = match self.dialect() {
            Dialect::Postgres => {
                let step = STEP_OF.replace("{slot}", "ctid");
                vec![format!(
                    "WITH gone AS (
                         DELETE FROM snaphook.queue WHERE ctid = ANY (ARRAY{step})
                         RETURNING event_id, endpoint_id, attempt, run, tenant
                     ), buried AS ({bury} gone WHERE {bury_end})
                     {add} gone"
                )]
            }
            // A statement has one effect here; the transaction keeps them all on the same rows.
            Dialect::Sqlite => {
                let step = STEP_OF.replace("{slot}", "slot");
                let of = format!("snaphook.queue WHERE slot IN {step}");
                vec![
                    format!("{bury} {of} AND {bury_end}"),
                    format!("{add} {of}"),
                    format!("DELETE FROM {of}"),
                ]
            }
        };
        let mut done = 0;
        for text in texts {
            done = on!(self, sqlx::AssertSqlSafe(text.as_str()), |sql, connection| {
                sqlx::query(sql)
                    .bind(shard_of(endpoint))
                    .bind(endpoint)
                    .bind(now)
                    .bind(STEP)
                    .bind(mark.code())
                    .bind(cause.map(Cause::code))
                    .bind(cause.map(Cause::name))
                    .bind(detail)
                    .execute(connection)
                    .await?
                    .rows_affected()
            });
        }
        Ok(done)
    }
}
