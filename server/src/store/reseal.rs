//! All that is sealed, walked row by row, so that a new master key can take over. Values do not
//! change, only what seals them: no epoch is counted up.

use super::{StoreError, Tx, on};
use crate::domain::id::{EndpointId, SecretId};

/// Rows of one step of the walk: few enough that nobody waits long for the transaction.
const STEP: i64 = 200;

/// A sealed value and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed<I> {
    /// The row.
    pub id: I,
    /// Whose it is.
    pub tenant: String,
    /// As it is kept.
    pub sealed: Vec<u8>,
}

impl Tx {
    /// Sealed secrets after `after`, at most 200, in the order of their ids.
    pub async fn list_sealed_secrets(
        &mut self,
        after: SecretId,
    ) -> Result<Vec<Sealed<SecretId>>, StoreError> {
        let text = "SELECT id, tenant, sealed
             FROM snaphook.secrets
             WHERE id > $1
             ORDER BY id
             LIMIT $2";
        let rows: Vec<(SecretId, String, Vec<u8>)> = on!(self, text, |sql, connection| {
            sqlx::query_as(sql).bind(after).bind(STEP).fetch_all(connection).await?
        });
        Ok(rows.into_iter().map(|(id, tenant, sealed)| Sealed { id, tenant, sealed }).collect())
    }

    /// Sealed settings of endpoints after `after`, at most 200, in the order of their ids.
    pub async fn list_sealed_endpoints(
        &mut self,
        after: EndpointId,
    ) -> Result<Vec<Sealed<EndpointId>>, StoreError> {
        let text = "SELECT id, tenant, sealed
             FROM snaphook.endpoints
             WHERE id > $1 AND sealed IS NOT NULL
             ORDER BY id
             LIMIT $2";
        let rows: Vec<(EndpointId, String, Vec<u8>)> = on!(self, text, |sql, connection| {
            sqlx::query_as(sql).bind(after).bind(STEP).fetch_all(connection).await?
        });
        Ok(rows.into_iter().map(|(id, tenant, sealed)| Sealed { id, tenant, sealed }).collect())
    }

    /// Replaces a secret's sealed value, if it is still `old`.
    pub async fn update_sealed_secret(
        &mut self,
        old: &Sealed<SecretId>,
        new: &[u8],
    ) -> Result<bool, StoreError> {
        let text = "UPDATE snaphook.secrets
             SET sealed = $1
             WHERE id = $2 AND sealed = $3";
        let done = on!(self, text, |sql, connection| {
            sqlx::query(sql)
                .bind(new)
                .bind(old.id)
                .bind(old.sealed.as_slice())
                .execute(connection)
                .await?
                .rows_affected()
        });
        Ok(done == 1)
    }

    /// Replaces the sealed settings of an endpoint, if they are still `old`.
    pub async fn update_sealed_endpoint(
        &mut self,
        old: &Sealed<EndpointId>,
        new: &[u8],
    ) -> Result<bool, StoreError> {
        let text = "UPDATE snaphook.endpoints
             SET sealed = $1
             WHERE id = $2 AND sealed = $3";
        let done = on!(self, text, |sql, connection| {
            sqlx::query(sql)
                .bind(new)
                .bind(old.id)
                .bind(old.sealed.as_slice())
                .execute(connection)
                .await?
                .rows_affected()
        });
        Ok(done == 1)
    }
}
