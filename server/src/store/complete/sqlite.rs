//! Few, large statements, for each costs a journey to the thread that runs it. Nearly all attempts
//! deliver, and go through a view of their own; the others, and those whose rows have moved on,
//! through a statement for each kind of write, over a JSON array.

use std::collections::HashSet;

use super::{Completion, Finished, is_plain, micros};
use crate::{
    domain::{attempt::Mark, delivery::Cause, time::Timestamp},
    store::{
        Db, StoreError, Tx,
        in_file::{ROWS_MAX, View},
    },
};

static DELIVER: View = View::new(
    "INSERT INTO snaphook_deliver (n, slot, event_id, endpoint_id, run, attempt, started_at, status,
         duration_us, detail, response)",
    11,
);

impl Tx {
    pub(super) async fn complete_in_sqlite(
        &mut self,
        batch: &[Finished],
        now: Timestamp,
    ) -> Result<Completion, StoreError> {
        let (delivered, mut others): (Vec<&Finished>, Vec<&Finished>) =
            batch.iter().partition(|one| is_plain(one));
        for some in delivered.chunks(ROWS_MAX) {
            let moved_on = self.deliver(some).await?;
            others.extend(moved_on.into_iter().map(|n| some[n]));
        }
        if others.is_empty() {
            return Ok(Completion::default());
        }
        let alone = !self.open;
        if alone {
            self.begin().await?;
        }
        let completion = self.complete_by_kind(&others, now).await?;
        if alone {
            self.end("COMMIT").await?;
        }
        Ok(completion)
    }

    /// Gives the places of those whose rows have moved on.
    async fn deliver(&mut self, batch: &[&Finished]) -> Result<Vec<usize>, StoreError> {
        let found = self
            .put_rows(&DELIVER, batch, |query, one| {
                query
                    .bind(one.row.slot)
                    .bind(one.row.event_id)
                    .bind(one.row.endpoint_id)
                    .bind(one.row.run)
                    .bind(one.row.attempt)
                    .bind(one.started_at)
                    .bind(one.status)
                    .bind(micros(one.took))
                    .bind(one.detail.as_str())
                    .bind(one.response.as_deref())
            })
            .await?;
        Ok(found.into_iter().map(|(n, ..)| n).collect())
    }

    async fn complete_by_kind(
        &mut self,
        batch: &[&Finished],
        now: Timestamp,
    ) -> Result<Completion, StoreError> {
        let Db::Sqlite(connection) = &mut self.db else { unreachable!("asked by complete") };
        self.faults.step()?;
        let matched: Vec<i64> = sqlx::query_scalar(
            "SELECT CAST(j.key AS INTEGER) FROM json_each($1) j JOIN snaphook_queue q
                 ON q.slot = j.value->>0 AND q.event_id = j.value->>1 AND q.endpoint_id = j.value->>2
                 AND q.run = j.value->>3 AND q.attempt = j.value->>4",
        )
        .bind(json_of(batch, |_, one| {
            let row = &one.row;
            serde_json::json!([row.slot.0, row.event_id.0, row.endpoint_id.0, row.run, row.attempt])
        }))
        .fetch_all(&mut **connection)
        .await?;
        let matched: HashSet<usize> =
            matched.into_iter().filter_map(|index| usize::try_from(index).ok()).collect();
        let mut completion = Completion::default();
        for (index, one) in batch.iter().enumerate() {
            if !matched.contains(&index) {
                completion.late.insert(one.pair());
            }
        }
        for (text, rows) in statements(batch, &matched, now) {
            if let Some(rows) = rows {
                self.faults.step()?;
                sqlx::query(text).bind(rows).execute(&mut **connection).await?;
            }
        }
        Ok(completion)
    }
}

/// Each statement with the rows that it is about, if there are any.
fn statements(
    batch: &[&Finished],
    matched: &HashSet<usize>,
    now: Timestamp,
) -> [(&'static str, Option<String>); 4] {
    let slot = |one: &Finished| one.row.slot.0;
    let is =
        |mark| move |index: usize, one: &Finished| matched.contains(&index) && one.mark == mark;
    let added = json_of_some(
        batch,
        |index, one| matched.contains(&index) || one.sent,
        |index, one| {
            let mark = if matched.contains(&index) { one.mark } else { Mark::Late };
            attempt_json(one, mark)
        },
    );
    let deleted = json_of_some(
        batch,
        |index, one| matched.contains(&index) && one.mark != Mark::Retry,
        |_, one| serde_json::json!([slot(one)]),
    );
    let due_again = json_of_some(batch, is(Mark::Retry), |_, one| {
        serde_json::json!([slot(one), one.row.attempt + 1, one.rung(), one.due_at.0])
    });
    let buried = json_of_some(batch, is(Mark::Dead), |_, one| {
        let (row, cause) = (&one.row, one.cause.map(Cause::code));
        serde_json::json!([row.event_id.0, row.endpoint_id.0, row.tenant, cause, now.0])
    });
    [
        (SQLITE_ADD, added),
        (SQLITE_DELETE, deleted),
        (SQLITE_RETRY, due_again),
        (SQLITE_BURY, buried),
    ]
}

const SQLITE_ADD: &str =
    "INSERT INTO snaphook_attempts (event_id, endpoint_id, n, started_at, run, tenant,
        outcome, cause, sent, status, reason, duration_us, detail, response, probe)
    SELECT value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, value->>6, value->>7,
        value->>8, value->>9, value->>10, value->>11, value->>12, unhex(value->>13), value->>14
    FROM json_each($1) WHERE true
    ON CONFLICT DO NOTHING";

const SQLITE_DELETE: &str =
    "DELETE FROM snaphook_queue WHERE slot IN (SELECT value->>0 FROM json_each($1))";

const SQLITE_RETRY: &str = "UPDATE snaphook_queue
    SET state = CASE state WHEN 2 THEN 2 ELSE 1 END, claimed_at = NULL,
        attempt = j.value->>1, rung = j.value->>2, due_at = j.value->>3
    FROM json_each($1) j WHERE slot = j.value->>0";

const SQLITE_BURY: &str =
    "INSERT INTO snaphook_dead_letters (event_id, endpoint_id, tenant, cause, died_at)
    SELECT value->>0, value->>1, value->>2, value->>3, value->>4 FROM json_each($1) WHERE true
    ON CONFLICT DO NOTHING";

fn attempt_json(one: &Finished, mark: Mark) -> serde_json::Value {
    let row = &one.row;
    serde_json::json!([
        row.event_id.0,
        row.endpoint_id.0,
        row.attempt + 1,
        one.started_at.0,
        row.run,
        row.tenant,
        mark.code(),
        one.cause.map(Cause::code).filter(|_| mark == Mark::Dead),
        one.sent,
        one.status,
        one.reason,
        micros(one.took),
        one.detail,
        one.response.as_ref().map(hex::encode),
        one.probe(),
    ])
}

fn json_of(batch: &[&Finished], row: impl Fn(usize, &Finished) -> serde_json::Value) -> String {
    json_of_some(batch, |_, _| true, row).unwrap_or_else(|| "[]".to_owned())
}

/// `None` when there is none, so that no statement runs for nothing.
fn json_of_some(
    batch: &[&Finished],
    wanted: impl Fn(usize, &Finished) -> bool,
    row: impl Fn(usize, &Finished) -> serde_json::Value,
) -> Option<String> {
    let rows: Vec<serde_json::Value> = batch
        .iter()
        .enumerate()
        .filter(|(index, one)| wanted(*index, one))
        .map(|(index, one)| row(index, one))
        .collect();
    (!rows.is_empty()).then(|| serde_json::Value::Array(rows).to_string())
}
