//! Bringing the schema up to what this binary knows, one process at a time.

use std::{borrow::Cow, path::Path};

use sqlx::migrate::{AppliedMigration, Migrate, MigrateError, Migrator};

use super::{Pool, Store, StoreError, files};

/// The second key of our advisory locks that means "migrating". Two integers, for it is the
/// user's database, and one integer is a space that others use too.
pub(super) const MIGRATING: i32 = 2;

/// The first key of all our advisory locks: "snah" in ASCII, read as a number.
pub(super) const LOCKS: i32 = 1_936_617_832;

static POSTGRES: Migrator = sqlx::migrate!("migrations/postgres");
static SQLITE: Migrator = sqlx::migrate!("migrations/sqlite");

/// Ours under its own table's name, for the file or database is shared with the user's own.
fn named(migrator: &'static Migrator, table: &'static str) -> Migrator {
    let mut named = Migrator::with_migrations(migrator.iter().cloned().collect());
    named.dangerous_set_table_name(Cow::Borrowed(table));
    named.set_locking(false);
    named
}

impl Store {
    /// The migrations that are not applied yet, by name, oldest first.
    pub async fn list_pending_migrations(&self) -> Result<Vec<String>, StoreError> {
        let (migrator, applied) = match &self.pool {
            Pool::Postgres { .. } => (&POSTGRES, self.list_applied().await?),
            Pool::Sqlite { .. } => (&SQLITE, self.list_applied().await?),
        };
        let known = migrator.iter().map(|migration| migration.version).max().unwrap_or(0);
        let newest = applied.iter().map(|one| one.version).max();
        if let Some(found) = newest.filter(|found| *found > known) {
            return Err(StoreError::NewerSchema { found, known });
        }
        let pending = migrator
            .iter()
            .filter(|migration| !applied.iter().any(|one| one.version == migration.version))
            .map(|migration| format!("{:04} {}", migration.version, migration.description));
        Ok(pending.collect())
    }

    async fn list_applied(&self) -> Result<Vec<AppliedMigration>, StoreError> {
        match &self.pool {
            Pool::Postgres { doors, .. } => {
                let there: bool =
                    sqlx::query_scalar("SELECT to_regclass('snaphook.migrations') IS NOT NULL")
                        .fetch_one(doors)
                        .await?;
                if !there {
                    return Ok(Vec::new());
                }
                let mut connection = doors.acquire().await?;
                Ok(connection.list_applied_migrations("snaphook.migrations").await?)
            }
            Pool::Sqlite { writer, .. } => {
                let mut connection = writer.turn().await?;
                let there: Option<i64> = sqlx::query_scalar(
                    "SELECT 1 FROM sqlite_master WHERE name = 'snaphook_migrations'",
                )
                .fetch_optional(&mut *connection)
                .await?;
                if there.is_none() {
                    return Ok(Vec::new());
                }
                Ok(connection.list_applied_migrations("snaphook_migrations").await?)
            }
        }
    }

    /// Applies what is missing, if it may; refuses a schema newer than this binary.
    pub(super) async fn bring_up(&self, migrate: bool) -> Result<(), StoreError> {
        match (self.list_pending_migrations().await?.len(), migrate) {
            (0, _) => Ok(()),
            (lacking, false) => Err(StoreError::NotMigrated(lacking)),
            (_, true) => self.migrate().await,
        }
    }

    /// Applies what is missing. Processes that start together wait for one another.
    async fn migrate(&self) -> Result<(), StoreError> {
        match &self.pool {
            Pool::Postgres { doors, .. } => {
                let mut connection = doors.acquire().await?;
                // The lock is the session's; closing it lets go also when a migration failed.
                connection.close_on_drop();
                sqlx::query("SELECT pg_advisory_lock($1, $2)")
                    .bind(LOCKS)
                    .bind(MIGRATING)
                    .execute(&mut *connection)
                    .await?;
                sqlx::query("CREATE SCHEMA IF NOT EXISTS snaphook")
                    .execute(&mut *connection)
                    .await?;
                named(&POSTGRES, "snaphook.migrations").run(&mut *connection).await?;
            }
            Pool::Sqlite { writer, .. } => {
                let mut connection = writer.turn().await?;
                let path: String =
                    sqlx::query_scalar("SELECT file FROM pragma_database_list WHERE name = 'main'")
                        .fetch_one(&mut *connection)
                        .await?;
                let lock = format!("{path}.migrating");
                let lock = files::open_lock(Path::new(&lock)).map_err(failed)?;
                let lock = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock))
                    .await
                    .map_err(|error| MigrateError::Source(Box::new(error)))?
                    .map_err(failed)?;
                named(&SQLITE, "snaphook_migrations").run(&mut *connection).await?;
                drop(lock);
            }
        }
        Ok(())
    }
}

fn failed(error: std::io::Error) -> StoreError {
    StoreError::Migrate(MigrateError::Source(Box::new(error)))
}
