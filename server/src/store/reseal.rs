//! All that is sealed, walked row by row, so that a new master key can take over. Values do not
//! change, only what seals them: no epoch is counted up.

use sqlx::AssertSqlSafe;

use super::{StoreError, Tx, on, seal::Place};

/// Rows of one step of the walk: few enough that nobody waits long for the transaction.
const STEP: i64 = 200;

/// The tables that hold something sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealedIn {
    /// Secrets of endpoints.
    Secrets,
    /// Header values and private keys of endpoints.
    Endpoints,
    /// Secrets of sources.
    SourceSecrets,
    /// Verify tokens of sources.
    Sources,
}

impl SealedIn {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Secrets, Self::Endpoints, Self::SourceSecrets, Self::Sources];

    /// The table's name, as its places have it too.
    fn table(self) -> &'static str {
        match self {
            Self::Secrets => "secrets",
            Self::Endpoints => "endpoints",
            Self::SourceSecrets => "source_secrets",
            Self::Sources => "sources",
        }
    }
}

/// A sealed value and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The table.
    pub table: SealedIn,
    /// The row.
    pub id: i64,
    /// Whose it is.
    pub tenant: String,
    /// As it is kept.
    pub sealed: Vec<u8>,
}

impl Sealed {
    /// The one place where it opens.
    pub fn place(&self) -> Place<'_> {
        Place { table: self.table.table(), tenant: &self.tenant, row: self.id }
    }
}

impl Tx {
    /// Sealed values of a table after `after`, at most 200, in the order of their ids.
    pub async fn list_sealed(
        &mut self,
        table: SealedIn,
        after: i64,
    ) -> Result<Vec<Sealed>, StoreError> {
        let text = format!(
            "SELECT id, tenant, sealed
             FROM snaphook.{}
             WHERE id > $1 AND sealed IS NOT NULL
             ORDER BY id
             LIMIT $2",
            table.table()
        );
        let rows: Vec<(i64, String, Vec<u8>)> =
            on!(self, AssertSqlSafe(text), |sql, connection| {
                sqlx::query_as(sql).bind(after).bind(STEP).fetch_all(connection).await?
            });
        let sealed = |(id, tenant, sealed)| Sealed { table, id, tenant, sealed };
        Ok(rows.into_iter().map(sealed).collect())
    }

    /// Replaces a sealed value, if it is still `old`.
    pub async fn update_sealed(&mut self, old: &Sealed, new: &[u8]) -> Result<bool, StoreError> {
        let text = format!(
            "UPDATE snaphook.{}
             SET sealed = $1
             WHERE id = $2 AND sealed = $3",
            old.table.table()
        );
        let done = on!(self, AssertSqlSafe(text), |sql, connection| {
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
