//! Databases of the bench's own: made as copies of a prepared one, so that every measurement
//! starts from the same state, and gone when it is over.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use sqlx::{
    AssertSqlSafe, Connection as _, PgConnection, SqliteConnection, sqlite::SqliteConnectOptions,
};
use url::Url;

/// A PostgreSQL server in which databases come and go.
pub struct Cluster {
    url: Url,
    /// Its parent process, if it runs on this machine.
    postmaster: Option<u32>,
    version: String,
}

impl Cluster {
    /// Takes the server behind `url`, and looks whether it is there.
    pub async fn connect(url: &str) -> anyhow::Result<Self> {
        let url = Url::parse(url).context("the URL of PostgreSQL cannot be read")?;
        let mut connection = connect(&url).await?;
        let backend: i32 =
            sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut connection).await?;
        let version: String = sqlx::query_scalar(
            "SELECT format('PostgreSQL %s, fsync %s, synchronous_commit %s, shared_buffers %s, max_wal_size %s',
                current_setting('server_version'), current_setting('fsync'),
                current_setting('synchronous_commit'), current_setting('shared_buffers'),
                current_setting('max_wal_size'))",
        )
        .fetch_one(&mut connection)
        .await?;
        connection.close().await?;
        let postmaster = u32::try_from(backend).ok().and_then(super::machine::parent_of);
        Ok(Self { url, postmaster, version })
    }

    /// The process whose children serve it, if it runs on this machine.
    pub fn postmaster(&self) -> Option<u32> {
        self.postmaster
    }

    /// Its version, and the settings that decide what a commit costs.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The URL of one of its databases.
    pub fn url_of(&self, name: &str) -> String {
        let mut url = self.url.clone();
        url.set_path(name);
        url.into()
    }

    /// Makes a database, as a copy of another if there is one.
    pub async fn create(&self, name: &str, template: Option<&str>) -> anyhow::Result<Database> {
        let template = template.map_or(String::new(), |name| format!(" TEMPLATE \"{name}\""));
        let mut admin = connect(&self.url).await?;
        let create = format!("CREATE DATABASE \"{name}\"{template}");
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut admin).await?;
        // What others wrote must not have to be flushed on our time.
        sqlx::raw_sql("CHECKPOINT").execute(&mut admin).await?;
        admin.close().await?;
        Ok(Database::Postgres { url: self.url_of(name), name: name.to_owned() })
    }

    /// Drops a database, whoever is connected to it.
    pub async fn drop(&self, name: &str) -> anyhow::Result<()> {
        let mut admin = connect(&self.url).await?;
        let drop = format!("DROP DATABASE IF EXISTS \"{name}\" WITH (FORCE)");
        sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut admin).await?;
        Ok(admin.close().await?)
    }
}

async fn connect(url: &Url) -> anyhow::Result<PgConnection> {
    let connected = PgConnection::connect(url.as_str()).await;
    connected.context("PostgreSQL does not let us in; `make bench` starts one of its own")
}

/// One database.
pub enum Database {
    /// In the cluster.
    Postgres {
        /// As the setting `database` has it.
        url: String,
        /// Its name there.
        name: String,
    },
    /// A file, with what SQLite puts beside it.
    Sqlite(PathBuf),
}

impl Database {
    /// As the setting `database` has it.
    pub fn url(&self) -> String {
        match self {
            Self::Postgres { url, .. } => url.clone(),
            Self::Sqlite(path) => format!("sqlite:{}", path.display()),
        }
    }

    /// Runs statements that give nothing back.
    pub async fn run(&self, text: impl Into<String>) -> anyhow::Result<()> {
        let text = AssertSqlSafe(text.into());
        match self {
            Self::Postgres { url, .. } => {
                let mut connection = PgConnection::connect(url).await?;
                sqlx::raw_sql(text).execute(&mut connection).await?;
                connection.close().await?;
            }
            Self::Sqlite(path) => {
                let mut connection = open(path).await?;
                sqlx::raw_sql(text).execute(&mut connection).await?;
                connection.close().await?;
            }
        }
        Ok(())
    }

    /// Deliveries that are on record as delivered, and rows that still wait: of tenants whose name
    /// is like one of these two.
    pub async fn count(&self, tenants: [&str; 2]) -> anyhow::Result<(i64, i64)> {
        Ok(match self {
            Self::Postgres { url, .. } => {
                let mut connection = PgConnection::connect(url).await?;
                sqlx::query_as(
                    "SELECT (SELECT count(*) FROM snaphook.attempts
                             WHERE outcome = 1 AND (tenant LIKE $1 OR tenant LIKE $2)),
                            (SELECT count(*) FROM snaphook.queue WHERE tenant LIKE $1 OR tenant LIKE $2)",
                )
                .bind(tenants[0])
                .bind(tenants[1])
                .fetch_one(&mut connection)
                .await?
            }
            // SQLite's LIKE has no escape character but the one it is told.
            Self::Sqlite(path) => {
                sqlx::query_as(
                    "SELECT (SELECT count(*) FROM snaphook_attempts
                             WHERE outcome = 1 AND (tenant LIKE $1 ESCAPE '\\' OR tenant LIKE $2 ESCAPE '\\')),
                            (SELECT count(*) FROM snaphook_queue WHERE tenant LIKE $1 ESCAPE '\\' OR tenant LIKE $2 ESCAPE '\\')",
                )
                .bind(tenants[0])
                .bind(tenants[1])
                .fetch_one(&mut open(path).await?)
                .await?
            }
        })
    }

    /// How many rows there are of `what`: a table, and which of its rows.
    pub async fn count_of(&self, what: &str) -> anyhow::Result<i64> {
        let text = AssertSqlSafe(format!("SELECT count(*) FROM {what}"));
        Ok(match self {
            Self::Postgres { url, .. } => {
                sqlx::query_scalar(text).fetch_one(&mut PgConnection::connect(url).await?).await?
            }
            Self::Sqlite(path) => {
                sqlx::query_scalar(text).fetch_one(&mut open(path).await?).await?
            }
        })
    }

    /// Removes it.
    pub async fn remove(self, cluster: &Cluster) -> anyhow::Result<()> {
        match self {
            Self::Postgres { name, .. } => cluster.drop(&name).await,
            Self::Sqlite(path) => {
                for end in ["", "-wal", "-shm", ".lock", ".key"] {
                    let mut file = path.clone().into_os_string();
                    file.push(end);
                    // Most of them are there only sometimes.
                    let _ = std::fs::remove_file(file);
                }
                Ok(())
            }
        }
    }
}

async fn open(path: &Path) -> anyhow::Result<SqliteConnection> {
    Ok(SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(path)).await?)
}
