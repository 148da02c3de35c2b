//! Opening a database from its URL, with the settings that durability and fairness need.

use std::{fs::File, path::Path, str::FromStr, sync::Arc, time::Duration};

use sqlx::{
    Connection as _, Executor as _, PgConnection, Row as _,
    postgres::{PgConnectOptions, PgPoolOptions},
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use super::{Pool, Store, StoreError, files, group::Groups, writer::Writer};

/// How long a caller waits for a connection, or for a foreign writer of the same SQLite file.
const WAIT: Duration = Duration::from_secs(5);

/// A connection that rested no longer than this is lent out again without a question.
const TRUSTED: Duration = Duration::from_millis(500);

/// Connections for the doors of one node: enough for 32 callers at once with short statements,
/// few enough that four nodes stay below PostgreSQL's default of 100.
const DOOR_CONNECTIONS: u32 = 16;

/// For the engine: fetch, complete, leases and upkeep run side by side; more gain nothing.
const ENGINE_CONNECTIONS: u32 = 6;

/// The pages that the writer of a SQLite file keeps in memory, in KiB as the minus says: the upper
/// parts of all its indexes.
const WRITER_CACHE: &str = "-8192";

/// Pages that gather before they are moved from the log into the file: 16 MB. A page that is
/// written to again and again is moved once.
const WAL_PAGES: &str = "4000";

/// Readers of a SQLite file: they never wait for one another.
const READERS: u32 = 8;

/// One way is left for each of the engine's statements: by the index that has its order. Else a
/// plan that is made while a table is nearly empty, when all ways seem to cost the same, may read
/// and sort all that is parked for the few rows of one lane. Set by statement and not at the
/// start of a connection, which a pooler in between may refuse.
const ONE_PLAN: &str = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off;
    SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off;
    SET enable_sort = off; SET jit = off";

/// What to do while opening.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Apply migrations that are missing; else lacking any is an error.
    pub migrate: bool,
    /// On SQLite, lock the file against a second server.
    pub serve: bool,
}

impl Store {
    /// Opens `url`: `sqlite:PATH` (made if it is not there) or `postgres://…`.
    pub async fn open(url: &str, options: Options) -> Result<Self, StoreError> {
        let store = Self::connect(url, options).await?;
        store.bring_up(options.migrate).await?;
        let groups = Groups::start(&store);
        Ok(Self { groups: Some(groups), ..store })
    }

    /// As `open`, but looks at no schema: to ask what is missing.
    pub async fn connect(url: &str, options: Options) -> Result<Self, StoreError> {
        let pool = if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            open_postgres(url).await?
        } else if let Some(path) = url.strip_prefix("sqlite:") {
            open_sqlite(url, path.trim_start_matches("//"), options).await?
        } else {
            return Err(bad_url(url, "write sqlite:PATH or postgres://USER@HOST/DATABASE"));
        };
        Ok(Self { pool, faults: Arc::default(), groups: None, catalog: Arc::default() })
    }
}

async fn open_postgres(url: &str) -> Result<Pool, StoreError> {
    let options = PgConnectOptions::from_str(url)
        .map_err(|error| bad_url(url, &error.to_string()))?
        .application_name("snaphook")
        // No column of ours has digits to lose, and a pooler in between would refuse to be asked.
        .extra_float_digits(None);
    // The pool tries again and again, and then tells of a time-out; this tells what happened.
    let first = tokio::time::timeout(WAIT, own_sessions(url, &options)).await;
    first.map_err(|_| sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()))??;
    // To ask a connection whether it lives costs a journey; one that was used just now does.
    let pool = || {
        PgPoolOptions::new().acquire_timeout(WAIT).test_before_acquire(false).before_acquire(
            |connection, meta| {
                Box::pin(
                    async move { Ok(meta.idle_for < TRUSTED || connection.ping().await.is_ok()) },
                )
            },
        )
    };
    let engine = pool().max_connections(ENGINE_CONNECTIONS).after_connect(|connection, _| {
        Box::pin(async move { connection.execute(ONE_PLAN).await.map(drop) })
    });
    Ok(Pool::Postgres {
        doors: pool().max_connections(DOOR_CONNECTIONS).connect_with(options.clone()).await?,
        engine: engine.connect_lazy_with(options),
        kept: super::held::Kept::default(),
    })
}

/// Fails where sessions are lent out for one transaction each. A bell that listens, the lock of a
/// node that sleeps and prepared statements belong to sessions, and all would be lost in silence.
async fn own_sessions(url: &str, options: &PgConnectOptions) -> Result<(), StoreError> {
    async fn session(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
        sqlx::raw_sql("SELECT pg_backend_pid()").fetch_one(connection).await?.try_get(0)
    }

    let mut one = PgConnection::connect_with(options).await?;
    let before = session(&mut one).await?;
    let mut other = PgConnection::connect_with(options).await?;
    // Whoever lends sessions lends the one that was used last.
    other.execute("BEGIN").await?;
    let others = session(&mut other).await?;
    let after = session(&mut one).await?;
    other.execute("ROLLBACK").await?;
    if others == before || after != before {
        return Err(bad_url(
            url,
            "sessions are shared by transactions here, as by pgbouncer with pool_mode = \
             transaction; name PostgreSQL itself, or a pool with pool_mode = session",
        ));
    }
    one.close().await?;
    other.close().await?;
    Ok(())
}

async fn open_sqlite(url: &str, path: &str, options: Options) -> Result<Pool, StoreError> {
    let path = path.split('?').next().unwrap_or(path);
    if path.is_empty() || path.contains(":memory:") {
        return Err(bad_url(url, "events must outlive the process: name a file, as sqlite:PATH"));
    }
    let file = Path::new(path);
    let failed = |error: std::io::Error| bad_url(url, &error.to_string());
    files::make_folder_of(file).map_err(failed)?;
    let lock = if options.serve { Some(Arc::new(lock_file(url, path)?)) } else { None };
    files::make_file(file).map_err(failed)?;
    let connect = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        // FULL: what a caller was told is on disk survives a loss of power. Group commit pays.
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(WAIT)
        .foreign_keys(false)
        .statement_cache_capacity(256);
    let readers = SqlitePoolOptions::new()
        .acquire_timeout(WAIT)
        .max_connections(READERS)
        .test_before_acquire(false); // a file does not go away
    let writes = connect
        .clone()
        // What a statement would undo if it failed, in memory: its default is a file.
        .pragma("temp_store", "memory")
        .pragma("cache_size", WRITER_CACHE)
        .pragma("wal_autocheckpoint", WAL_PAGES);
    Ok(Pool::Sqlite {
        writer: Writer::open(writes, WAIT).await?,
        readers: readers.connect_lazy_with(connect.create_if_missing(false)),
        kept: super::held::Kept::default(),
        path: file.into(),
        _lock: lock,
    })
}

/// Two servers on one file would each believe that they own all shards.
fn lock_file(url: &str, path: &str) -> Result<File, StoreError> {
    let name = format!("{path}.lock");
    let file = files::open_lock(Path::new(&name))
        .map_err(|error| bad_url(url, &format!("{name}: {error}")))?;
    file.try_lock().map_err(|_| StoreError::FileLocked(path.to_owned()))?;
    Ok(file)
}

/// Names the URL without its password.
fn bad_url(url: &str, problem: &str) -> StoreError {
    let shown = match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://…@{host}"),
        _ => url.to_owned(),
    };
    StoreError::Url { url: shown, problem: problem.to_owned() }
}
