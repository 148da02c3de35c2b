//! Figures for the metrics, sampled: bounded, for they are asked every few seconds and must cost
//! the same however much waits.

use super::{StoreError, Tx, on};
use crate::domain::endpoint_state::EndpointState;

impl Tx {
    /// Deliveries that wait because their endpoint is paused or disabled; counts to
    /// 100,000 and no further: that is "very many", and counting on would only cost.
    pub async fn count_held(&mut self) -> Result<i64, StoreError> {
        let text = "SELECT count(*) FROM (
                 SELECT 1
                 FROM snaphook.endpoints e
                 JOIN snaphook.queue q ON q.shard = e.shard AND q.endpoint_id = e.id
                 WHERE e.state <> 0 AND e.deleted_at IS NULL
                 LIMIT 100000
             ) held";
        Ok(on!(self, text, |sql, connection| {
            sqlx::query_scalar(sql).fetch_one(connection).await?
        }))
    }

    /// How many endpoints there are in each state; states without any are left out.
    pub async fn count_endpoint_states(&mut self) -> Result<Vec<(EndpointState, i64)>, StoreError> {
        let text = "SELECT state, count(*)
             FROM snaphook.endpoints
             WHERE deleted_at IS NULL
             GROUP BY state";
        let counts: Vec<(i16, i64)> =
            on!(self, text, |sql, connection| sqlx::query_as(sql).fetch_all(connection).await?);
        let known = |(state, count)| Some((EndpointState::from_code(state)?, count));
        Ok(counts.into_iter().filter_map(known).collect())
    }
}
