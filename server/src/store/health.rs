//! How endpoints are doing, as the owners of their shards have written it: on transitions, many
//! together, and without counting the configuration's epoch up, for no other node needs to know.

use super::{Db, StoreError, Tx, on};
use crate::domain::{
    circuit::CircuitState, endpoint_state::EndpointState, health::Health, health::HealthState,
    id::EndpointId,
};

/// An endpoint's health, to be written.
#[derive(Clone, Debug)]
pub struct HealthRecord {
    /// Whose it is.
    pub endpoint: EndpointId,
    /// The configuration epoch of the endpoint as the writer knows it: what was reset meanwhile
    /// must not be overwritten by what was before.
    pub seen: i64,
    /// The epoch of the lease on its shard: what its next owner wrote must not be either.
    pub lease: i64,
    /// How it is doing.
    pub health: Health,
}

impl Tx {
    /// Writes what owners of shards learned. Gives the endpoints that took it; of the others the
    /// writer has an old picture, or their shard no more.
    pub async fn set_health(
        &mut self,
        node: &str,
        records: &[HealthRecord],
    ) -> Result<Vec<EndpointId>, StoreError> {
        self.faults.step()?;
        let failing = |record: &HealthRecord| record.health.state() == HealthState::Failing;
        let circuit = |record: &HealthRecord| record.health.circuit.state().code();
        let written = match &mut self.db {
            Db::Postgres(connection) => {
                sqlx::query_scalar(
                    "UPDATE snaphook.endpoints e
                     SET health = u.health, failing = u.failing, circuit = u.circuit
                     FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::text[], $5::bool[], $6::int2[])
                         u (id, seen, lease, health, failing, circuit)
                     WHERE e.id = u.id AND e.epoch = u.seen
                         AND EXISTS (SELECT 1 FROM snaphook.shards s
                             WHERE s.id = e.shard AND s.owner = $7 AND s.epoch = u.lease)
                     RETURNING e.id",
                )
                .bind(records.iter().map(|one| one.endpoint).collect::<Vec<_>>())
                .bind(records.iter().map(|one| one.seen).collect::<Vec<_>>())
                .bind(records.iter().map(|one| one.lease).collect::<Vec<_>>())
                .bind(records.iter().map(|one| one.health.to_json()).collect::<Vec<_>>())
                .bind(records.iter().map(failing).collect::<Vec<_>>())
                .bind(records.iter().map(circuit).collect::<Vec<_>>())
                .bind(node)
                .fetch_all(&mut **connection)
                .await?
            }
            // One node owns all shards here.
            Db::Sqlite(connection) => {
                let rows: Vec<_> = records
                    .iter()
                    .map(|one| {
                        let health = one.health.to_json();
                        serde_json::json!([one.endpoint.0, one.seen, health, failing(one), circuit(one)])
                    })
                    .collect();
                sqlx::query_scalar(
                    "UPDATE snaphook_endpoints
                     SET health = j.value->>2, failing = j.value->>3, circuit = j.value->>4
                     FROM json_each($1) j
                     WHERE snaphook_endpoints.id = j.value->>0 AND epoch = j.value->>1
                     RETURNING snaphook_endpoints.id",
                )
                .bind(serde_json::Value::Array(rows).to_string())
                .fetch_all(&mut **connection)
                .await?
            }
        };
        self.faults.step()?;
        Ok(written)
    }

    /// Forgets how an endpoint was doing: it is enabled, and begins anew.
    pub async fn reset_health(&mut self, endpoint: EndpointId) -> Result<(), StoreError> {
        let text = "UPDATE snaphook.endpoints
             SET health = '{}', failing = false, circuit = 0
             WHERE id = $1";
        on!(self, text, |sql, connection| {
            sqlx::query(sql).bind(endpoint).execute(connection).await.map(drop)
        })?;
        Ok(())
    }

    /// How many endpoints there are of each health and circuit; what there is none of is left out.
    pub async fn count_endpoint_health(
        &mut self,
    ) -> Result<Vec<(HealthState, CircuitState, i64)>, StoreError> {
        let text = "SELECT state, failing, circuit, count(*)
             FROM snaphook.endpoints
             WHERE deleted_at IS NULL
             GROUP BY state, failing, circuit";
        let counts: Vec<(i16, bool, i16, i64)> =
            on!(self, text, |sql, connection| sqlx::query_as(sql).fetch_all(connection).await?);
        let known = |(state, failing, circuit, count)| {
            let health = match (EndpointState::from_code(state)?, failing) {
                (EndpointState::Disabled, _) => HealthState::Disabled,
                (_, true) => HealthState::Failing,
                (_, false) => HealthState::Healthy,
            };
            Some((health, CircuitState::from_code(circuit)?, count))
        };
        Ok(counts.into_iter().filter_map(known).collect())
    }
}
