//! Who may emit in SQL. On PostgreSQL that is the role `snaphook_emitter`; on SQLite, whoever may
//! write the file.

use super::{Pool, Store, StoreError};

/// For an administrator, where this program's role may not create roles.
pub const GRANTS_SCRIPT: &str = "\
CREATE ROLE snaphook_emitter NOLOGIN;
SELECT snaphook.grant_emitter();
";

impl Store {
    /// Grants the emitter's role what it may do, once more where that was done before. `false`
    /// when there is no such role: then someone who may has to run [`GRANTS_SCRIPT`].
    pub async fn grant_emitter(&self) -> Result<bool, StoreError> {
        match &self.pool {
            Pool::Postgres { doors, .. } => {
                Ok(sqlx::query_scalar("SELECT snaphook.grant_emitter()").fetch_one(doors).await?)
            }
            Pool::Sqlite { .. } => Ok(true),
        }
    }
}
