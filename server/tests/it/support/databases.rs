//! A fresh database for each test, and each test on both kinds: SQLite as a file in a temporary
//! folder, PostgreSQL as a database of its own in the cluster that `make test` starts. Tests that
//! share a database disturb one another, so none do.

use std::{
    collections::hash_map::DefaultHasher,
    fmt, fs,
    hash::{Hash, Hasher},
    panic::AssertUnwindSafe,
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
};

use futures_util::FutureExt;
use snaphook::store::{Options, Store};
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};
use tempfile::TempDir;

/// Held while the template is made, so that tests that start together make it once.
const TEMPLATE_LOCK: i64 = 7_014_201;

/// The two databases that the product runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Embedded: one file, one node.
    Sqlite,
    /// A server, shared by many nodes.
    Postgres,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
        })
    }
}

/// A database of a test's own. It exists until [`Database::remove`].
pub struct Database {
    /// Which of the two.
    pub kind: Kind,
    /// What the setting `database` would say.
    pub url: String,
    name: String,
    folder: Option<TempDir>,
}

impl Database {
    /// A new database of this kind, without any table.
    pub async fn empty(kind: Kind) -> Self {
        match kind {
            Kind::Sqlite => Self::sqlite(),
            Kind::Postgres => Self::postgres("template1").await,
        }
    }

    /// A new database of this kind with all of our tables.
    pub async fn migrated(kind: Kind) -> Self {
        match kind {
            Kind::Sqlite => {
                let database = Self::sqlite();
                database.open().await.close().await;
                database
            }
            // A copy of a migrated one costs a tenth of migrating.
            Kind::Postgres => Self::postgres(&template().await).await,
        }
    }

    /// As `migrated`, on a disk that is memory where there is one: for tests that commit often
    /// and need nothing to outlive them.
    pub async fn quick(kind: Kind) -> Self {
        if kind == Kind::Postgres {
            return Self::migrated(kind).await;
        }
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let database = Self::sqlite_in(folder);
        database.open().await.close().await;
        database
    }

    /// A migrated SQLite file in this folder, which stays.
    pub async fn in_folder(folder: &Path) -> Self {
        let file = folder.join("snaphook.db");
        let url = format!("sqlite:{}", file.display());
        let name = file.display().to_string();
        let database = Self { kind: Kind::Sqlite, url, name, folder: None };
        database.open().await.close().await;
        database
    }

    /// A migrated PostgreSQL database whose files lie in this folder, which the server may write.
    pub async fn in_tablespace(folder: &Path) -> Self {
        let database = Self::postgres(&template().await).await;
        let name = &database.name;
        for statement in [
            format!("CREATE TABLESPACE {name} LOCATION '{}'", folder.display()),
            format!("ALTER DATABASE {name} SET TABLESPACE {name}"),
        ] {
            sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut admin().await).await.unwrap();
        }
        database
    }

    /// The one database of a cluster that is not the one all tests share.
    pub fn of_cluster(url: &str) -> Self {
        Self {
            kind: Kind::Postgres,
            url: url.to_owned(),
            name: "postgres".to_owned(),
            folder: None,
        }
    }

    /// Removes it and its tablespace.
    pub async fn remove_with_tablespace(self) {
        let drop = format!("DROP TABLESPACE {}", self.name);
        self.remove().await;
        sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut admin().await).await.unwrap();
    }

    /// Its name in the cluster, or its file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Of PostgreSQL: host and port of its server.
    pub fn server(&self) -> std::net::SocketAddr {
        let server = self.url.rsplit_once('@').unwrap().1.split('/').next().unwrap();
        server.parse().unwrap()
    }

    /// Its URL, for whom its server is at another address.
    pub fn url_at(&self, address: std::net::SocketAddr) -> String {
        self.url.replace(&self.server().to_string(), &address.to_string())
    }

    /// A store on it, as a server would open it. Several stores are as many nodes, but on SQLite.
    pub async fn open(&self) -> Store {
        Store::open(&self.url, Options { migrate: true, serve: false }).await.unwrap()
    }

    /// Runs statements as another program would, on a connection of its own.
    pub async fn execute(&self, statements: &str) {
        let statements = AssertSqlSafe(statements.to_owned());
        match self.kind {
            Kind::Sqlite => {
                let mut connection = SqliteConnection::connect(&self.url).await.unwrap();
                sqlx::raw_sql(statements).execute(&mut connection).await.unwrap();
                connection.close().await.unwrap();
            }
            Kind::Postgres => {
                let mut connection = PgConnection::connect(&self.url).await.unwrap();
                sqlx::raw_sql(statements).execute(&mut connection).await.unwrap();
                connection.close().await.unwrap();
            }
        }
    }

    /// The folder of the SQLite file, for tests that put something beside it.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_ref().map(TempDir::path)
    }

    fn sqlite() -> Self {
        Self::sqlite_in(tempfile::tempdir().unwrap())
    }

    fn sqlite_in(folder: TempDir) -> Self {
        let file = folder.path().join("snaphook.db");
        let url = format!("sqlite:{}", file.display());
        Self { kind: Kind::Sqlite, url, name: file.display().to_string(), folder: Some(folder) }
    }

    async fn postgres(template: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);

        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{count}", std::process::id());
        let mut admin = admin().await;
        let create = format!("CREATE DATABASE {name} TEMPLATE {template}");
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut admin).await.unwrap();
        Self { kind: Kind::Postgres, url: url_of(&name), name, folder: None }
    }

    /// Drops the database, also from under connections that are still open.
    pub async fn remove(self) {
        if self.kind == Kind::Postgres {
            let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
            sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut admin().await).await.unwrap();
        }
    }
}

/// Runs a test on a migrated database of each kind; a failure names the kinds that it failed on.
///
/// ```ignore
/// on_both(async |database| {
///     let store = database.open().await;
///     …
/// })
/// .await;
/// ```
pub async fn on_both(test: impl AsyncFn(&Database)) {
    run(&test, async |kind| Database::migrated(kind).await).await;
}

/// As [`on_both`], on databases without any table.
pub async fn on_both_empty(test: impl AsyncFn(&Database)) {
    run(&test, async |kind| Database::empty(kind).await).await;
}

async fn run(test: &impl AsyncFn(&Database), make: impl AsyncFn(Kind) -> Database) {
    let mut failed = Vec::new();
    for kind in [Kind::Sqlite, Kind::Postgres] {
        if !passes(test, make(kind).await).await {
            failed.push(kind.to_string());
        }
    }
    assert!(failed.is_empty(), "failed on {}", failed.join(" and "));
}

/// Whether `test` ends without a panic; the panic's own words are on standard error by then.
async fn passes(test: &impl AsyncFn(&Database), database: Database) -> bool {
    let result = AssertUnwindSafe(test(&database)).catch_unwind().await;
    database.remove().await;
    result.is_ok()
}

/// The name of a migrated database without data, made by whichever test comes first. It is named
/// for the migrations' content, so that a cluster that is kept for long never serves an old one.
async fn template() -> String {
    let mut admin = admin().await;
    let name = format!("snaphook_template_{:016x}", migrations_hash());
    sqlx::query("SELECT pg_advisory_lock($1)")
        .bind(TEMPLATE_LOCK)
        .execute(&mut admin)
        .await
        .unwrap();
    let there: bool =
        sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)")
            .bind(&name)
            .fetch_one(&mut admin)
            .await
            .unwrap();
    if !there {
        let draft = Database::empty(Kind::Postgres).await;
        draft.open().await.close().await;
        let rename = format!("ALTER DATABASE {} RENAME TO {name}", draft.name);
        sqlx::raw_sql(AssertSqlSafe(rename)).execute(&mut admin).await.unwrap();
    }
    admin.close().await.unwrap(); // and with it goes the lock
    name
}

fn migrations_hash() -> u64 {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations/postgres");
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        fs::read(file).unwrap().hash(&mut hasher);
    }
    hasher.finish()
}

/// The cluster's own database, from which others are made.
async fn admin() -> PgConnection {
    PgConnection::connect(&cluster()).await.unwrap()
}

/// The URL of the test cluster. A machine without one is told what to do; nothing is skipped.
fn cluster() -> String {
    #[expect(clippy::disallowed_methods, reason = "the test's own setting, not the product's")]
    std::env::var("SNAPHOOK_TEST_POSTGRES").expect(
        "this test needs PostgreSQL: run `make test`, or one test by \
         `scripts/with-postgres cargo test -p snaphook --test it NAME`",
    )
}

fn url_of(database: &str) -> String {
    let cluster = cluster();
    let (server, _) = cluster.rsplit_once('/').expect("SNAPHOOK_TEST_POSTGRES names a database");
    format!("{server}/{database}")
}

mod tests {
    use super::*;

    #[tokio::test]
    async fn each_test_gets_a_database_of_its_own_on_both_kinds() {
        on_both_empty(async |database| {
            let other = Database::empty(database.kind).await;
            assert_ne!(database.url, other.url);
            other.remove().await;
        })
        .await;
    }

    #[tokio::test]
    async fn a_migrated_database_lacks_no_migration() {
        on_both(async |database| {
            let store = database.open().await;
            assert_eq!(store.list_pending_migrations().await.unwrap(), [""; 0]);
        })
        .await;
    }

    #[tokio::test]
    #[should_panic(expected = "failed on PostgreSQL")]
    async fn a_failure_names_the_database() {
        on_both_empty(async |database| assert_eq!(database.kind, Kind::Sqlite)).await;
    }
}
