//! Fresh rows of single lanes. The index of the fresh rows has those of all lanes of a shard in the
//! order of their events: to read one lane is to step over the others, from an event to an event.

use super::{Db, Row, StoreError, Tx, row::columns_of_row};
use crate::domain::id::{EndpointId, EventId};

/// A stretch of events among which fresh rows of one lane are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The lane's shard.
    pub shard: i16,
    /// And its endpoint.
    pub endpoint: EndpointId,
    /// The first event,
    pub first: EventId,
    /// and the last.
    pub last: EventId,
    /// How many rows, at most.
    pub limit: i64,
}

impl Stretch {
    /// The event behind those that a read of it gave; `None` when that was all there is.
    pub fn rest(&self, rows: &[Row]) -> Option<EventId> {
        let full = i64::try_from(rows.len()).is_ok_and(|many| many >= self.limit);
        rows.last().filter(|_| full).map(|last| EventId(last.event_id.0 + 1))
    }
}

impl Tx {
    /// The fresh rows of each stretch, in the order of their events.
    pub async fn list_fresh_of_lanes(&mut self, lanes: &[Stretch]) -> Result<Vec<Row>, StoreError> {
        self.faults.step()?;
        let rows = match &mut self.db {
            Db::Postgres(connection) => {
                sqlx::query_as(concat!(
                    "SELECT ",
                    columns_of_row!(q),
                    "
                     FROM unnest($1::int2[], $2::int8[], $3::int8[], $4::int8[], $5::int8[])
                         l (shard, endpoint_id, first, last, many)
                     CROSS JOIN LATERAL (
                         SELECT ",
                    columns_of_row!(postgres),
                    "
                         FROM snaphook.queue
                         WHERE shard = l.shard AND endpoint_id = l.endpoint_id AND state = 0
                             AND event_id >= l.first AND event_id <= l.last
                         ORDER BY event_id LIMIT l.many
                     ) q"
                ))
                .bind(lanes.iter().map(|lane| lane.shard).collect::<Vec<_>>())
                .bind(lanes.iter().map(|lane| lane.endpoint).collect::<Vec<_>>())
                .bind(lanes.iter().map(|lane| lane.first).collect::<Vec<_>>())
                .bind(lanes.iter().map(|lane| lane.last).collect::<Vec<_>>())
                .bind(lanes.iter().map(|lane| lane.limit).collect::<Vec<_>>())
                .fetch_all(&mut **connection)
                .await?
            }
            Db::Sqlite(connection) => {
                let mut rows = Vec::new();
                for lane in lanes {
                    let some: Vec<Row> = sqlx::query_as(concat!(
                        "SELECT ",
                        columns_of_row!(sqlite),
                        "
                         FROM snaphook_queue
                         WHERE endpoint_id = $1 AND state = 0 AND event_id BETWEEN $2 AND $3
                         ORDER BY event_id LIMIT $4"
                    ))
                    .bind(lane.endpoint)
                    .bind(lane.first)
                    .bind(lane.last)
                    .bind(lane.limit)
                    .fetch_all(&mut **connection)
                    .await?;
                    rows.extend(some);
                }
                rows
            }
        };
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{domain::time::Timestamp, store::Slot};

    fn row(event: i64) -> Row {
        Row {
            slot: Slot::default(),
            event_id: EventId(event),
            endpoint_id: EndpointId(1),
            tenant: "acme".to_owned(),
            shard: 0,
            run: 0,
            attempt: 0,
            rung: 0,
            due_at: Timestamp::default(),
        }
    }

    #[test]
    fn what_is_left_of_a_stretch_begins_behind_its_last_row_and_leaves_none_out() {
        let (first, last) = (EventId(1), EventId(100));
        let stretch = Stretch { shard: 0, endpoint: EndpointId(1), first, last, limit: 2 };
        for (events, expected, why) in [
            (&[][..], None, "nothing was there"),
            (&[7], None, "less than wanted is all there is"),
            (&[7, 8], Some(9), "the very next event may have a row"),
        ] {
            let rows: Vec<Row> = events.iter().copied().map(row).collect();
            assert_eq!(stretch.rest(&rows), expected.map(EventId), "{why}");
        }
    }
}
