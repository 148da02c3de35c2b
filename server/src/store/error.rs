//! Why the database said no, told apart as far as a caller can act on it.

use crate::faults::Crashed;

/// Why the database said no.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Somebody else holds the file or all connections: the same call may succeed in a moment.
    #[error("the database is busy; try again in a moment")]
    Busy(#[source] sqlx::Error),
    /// The server cannot be reached, or the connection broke: whether a commit under way took
    /// place is not known.
    #[error("the database cannot be reached")]
    Unreachable(#[source] sqlx::Error),
    /// The disk is full or not writable.
    #[error("the database cannot write: {0}")]
    Full(String),
    /// An argument that the functions in SQL refuse, in their words.
    #[error("{0}")]
    Refused(String),
    /// Any other failure: a defect of ours, or of the schema.
    #[error("the database failed: {0}")]
    Database(#[source] sqlx::Error),
    /// A migration did not apply.
    #[error("could not migrate the schema: {0}")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// The schema was made by a newer version of this program.
    #[error(
        "the schema is at version {found}, and this binary knows versions up to {known}: \
         start the newer binary again, or restore the backup from before its migration"
    )]
    NewerSchema {
        /// The newest migration that was applied.
        found: i64,
        /// The newest migration that this binary has.
        known: i64,
    },
    /// The schema lacks migrations, and the caller asked not to apply any.
    #[error("the schema lacks {0} migrations; run `snaphook migrate`")]
    NotMigrated(usize),
    /// The URL of the database is none.
    #[error("database {url:?}: {problem}")]
    Url {
        /// As given, without its password.
        url: String,
        /// What is wrong, and what to write instead.
        problem: String,
    },
    /// Another process serves this file.
    #[error("{0} is served by another snaphook; stop it first, or use PostgreSQL for many nodes")]
    FileLocked(String),
    /// What is stored cannot be read: damaged, or sealed under another master key.
    #[error("a stored value cannot be read: {0}")]
    Unreadable(String),
    /// Only in simulations.
    #[error(transparent)]
    Crashed(#[from] Crashed),
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::PoolTimedOut => Self::Busy(error),
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::Protocol(_) => Self::Unreachable(error),
            sqlx::Error::Database(database) => {
                let code = database.code().unwrap_or_default().into_owned();
                let message = database.message().to_owned();
                let hint = database
                    .try_downcast_ref::<sqlx::postgres::PgDatabaseError>()
                    .and_then(|error| error.hint().map(str::to_owned));
                Self::from_code(&code, message, hint, error)
            }
            _ => Self::Database(error),
        }
    }
}

impl StoreError {
    /// SQLSTATE (PostgreSQL, appendix A) or SQLite's extended result codes, in decimal.
    fn from_code(code: &str, message: String, hint: Option<String>, error: sqlx::Error) -> Self {
        match code {
            "22023" => Self::Refused(match hint {
                Some(hint) => format!("{message}; {hint}"),
                None => message,
            }),
            // SQLITE_CONSTRAINT_TRIGGER: a RAISE(ABORT) of ours.
            "1811" => Self::Refused(message),
            // SQLITE_BUSY, SQLITE_LOCKED and their kin; deadlock, serialization, lock time-out;
            // canceled by hand or by statement_timeout; out of memory, or of some other resource.
            "5" | "261" | "517" | "773" | "6" | "262" | "40001" | "40P01" | "55P03" | "57014"
            | "53000" | "53200" | "53400" => Self::Busy(error),
            // SQLITE_FULL, SQLITE_IOERR…, SQLITE_READONLY, SQLITE_CANTOPEN; disk_full,
            // read_only_sql_transaction.
            "13" | "10" | "778" | "1034" | "8" | "14" | "53100" | "25006" => Self::Full(message),
            // Too many connections, shutting down, starting up, killed; connection exceptions.
            "53300" | "57P01" | "57P02" | "57P03" => Self::Unreachable(error),
            _ if code.starts_with("08") => Self::Unreachable(error),
            _ => Self::Database(error),
        }
    }

    /// The same failure, for another caller of the same group.
    pub(super) fn again(&self) -> Self {
        match self {
            Self::Busy(_) => Self::Busy(sqlx::Error::PoolTimedOut),
            Self::Unreachable(_) => Self::Unreachable(sqlx::Error::PoolClosed),
            Self::Full(why) => Self::Full(why.clone()),
            Self::Refused(why) => Self::Refused(why.clone()),
            Self::Crashed(crashed) => Self::Crashed(*crashed),
            other => Self::Unreadable(other.to_string()),
        }
    }

    /// Whether the same call may succeed in a moment, with nothing mended by anybody.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Busy(_) | Self::Unreachable(_) | Self::Full(_))
    }
}
