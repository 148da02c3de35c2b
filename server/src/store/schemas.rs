//! The one question that the engine asks about event types.

use super::{StoreError, Tx, on};

impl Tx {
    /// Whether a type is declared, and the schema of this version if it has one. The empty
    /// version is the one of events that name none.
    pub async fn find_schema(
        &mut self,
        event_type: &str,
        version: &str,
    ) -> Result<Option<Option<String>>, StoreError> {
        let text = "SELECT s.schema FROM snaphook.event_types t
             LEFT JOIN snaphook.event_schemas s ON s.name = t.name AND s.version = $2
             WHERE t.name = $1";
        let found = on!(self, text, |sql, connection| {
            sqlx::query_scalar::<_, Option<String>>(sql)
                .bind(event_type)
                .bind(version)
                .fetch_optional(connection)
                .await?
        });
        Ok(found)
    }
}
