//! Who may emit in SQL. On PostgreSQL that is the role `snaphook_emitter`; on SQLite, whoever may
//! write the file.

use super::{
    Pool, Store, StoreError,
    migrate::{LOCKS, MIGRATING},
};

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
                let mut tx = doors.begin().await?;
                // Two that grant at once would change the same rows of the catalog, and one fail.
                sqlx::query("SELECT pg_advisory_xact_lock($1, $2)")
                    .bind(LOCKS)
                    .bind(MIGRATING)
                    .execute(&mut *tx)
                    .await?;
                let there = sqlx::query_scalar("SELECT snaphook.grant_emitter()");
                let there = there.fetch_one(&mut *tx).await?;
                tx.commit().await?;
                Ok(there)
            }
            Pool::Sqlite { .. } => Ok(true),
        }
    }
}
