//! Where the database is. The scheme decides which of the two kinds it is.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use url::Url;

/// Which database, and where.
#[derive(Clone, PartialEq, Eq)]
pub enum DatabaseUrl {
    /// A file in this process's reach.
    Sqlite(PathBuf),
    /// A server; the URL may hold a password.
    Postgres(Url),
}

/// Why a text is no database URL. Never repeats the text: it may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseUrlError {
    /// `mysql:`, `http:`, a path without scheme …
    #[error(
        "write sqlite:PATH for a file, or postgres://USER:PASSWORD@HOST/NAME for a PostgreSQL server"
    )]
    Scheme,
    /// `sqlite::memory:`
    #[error("sqlite needs a file, because several connections read it: write sqlite:PATH")]
    Memory,
    /// `sqlite:x.db?mode=ro`
    #[error("options behind the SQLite file's name are not taken; write sqlite:PATH alone")]
    Options,
    /// No name behind the host.
    #[error("the PostgreSQL URL names no database; write postgres://USER:PASSWORD@HOST/NAME")]
    NoName,
    /// The URL's own grammar.
    #[error("the PostgreSQL URL cannot be read ({0}); write special characters as %XX")]
    Postgres(url::ParseError),
}

impl DatabaseUrl {
    /// Reads `sqlite:PATH`, `sqlite://PATH`, `postgres://…` or `postgresql://…`.
    pub fn parse(text: &str) -> Result<Self, DatabaseUrlError> {
        match text.split_once(':') {
            Some(("sqlite", rest)) => {
                let path = rest.strip_prefix("//").unwrap_or(rest);
                if path.is_empty() || path.starts_with(":memory:") {
                    return Err(DatabaseUrlError::Memory);
                }
                if path.contains('?') {
                    return Err(DatabaseUrlError::Options);
                }
                Ok(Self::Sqlite(path.into()))
            }
            Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => {
                let url = Url::parse(text).map_err(DatabaseUrlError::Postgres)?;
                let in_query = url.query_pairs().any(|(name, _)| name == "dbname");
                if url.path().len() < 2 && !in_query {
                    return Err(DatabaseUrlError::NoName);
                }
                Ok(Self::Postgres(url))
            }
            _ => Err(DatabaseUrlError::Scheme),
        }
    }

    /// The whole URL, password included: for the driver alone.
    pub fn expose(&self) -> String {
        match self {
            Self::Sqlite(path) => format!("sqlite://{}", path.display()),
            Self::Postgres(url) => url.to_string(),
        }
    }

    /// The file, with SQLite.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Sqlite(path) => Some(path),
            Self::Postgres(_) => None,
        }
    }
}

/// Without password and options.
impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) => {
                let host = url.host_str().filter(|host| !host.is_empty()).unwrap_or("localhost");
                write!(f, "postgres://{host}")?;
                url.port().map_or(Ok(()), |port| write!(f, ":{port}"))?;
                f.write_str(url.path())
            }
        }
    }
}

/// The same: a password must not come into a log by way of `{:?}`.
impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_are_read_and_shown_without_password() {
        for (text, expected) in [
            ("sqlite:.snaphook/snaphook.db", "sqlite:.snaphook/snaphook.db"),
            ("sqlite:///var/lib/snaphook.db", "sqlite:/var/lib/snaphook.db"),
            ("sqlite:/var/lib/snaphook.db", "sqlite:/var/lib/snaphook.db"),
            ("postgres://me:pw@db:5433/app?sslmode=verify-full", "postgres://db:5433/app"),
            ("postgresql:///app?host=/var/run/postgresql", "postgres://localhost/app"),
        ] {
            let url = DatabaseUrl::parse(text).unwrap();
            assert_eq!(url.to_string(), expected, "{text}");
            assert_eq!(format!("{url:?}"), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_database_url_is_told_how_to_write_one() {
        use DatabaseUrlError::{Memory, NoName, Options, Scheme};
        for (text, expected) in [
            ("", Scheme),
            ("snaphook.db", Scheme),
            ("mysql://db/app", Scheme),
            ("postgres:db", Scheme),
            ("sqlite::memory:", Memory),
            ("sqlite:", Memory),
            ("sqlite:a.db?mode=ro", Options),
            ("postgres://me@db", NoName),
            ("postgres://me@db/", NoName),
        ] {
            assert_eq!(DatabaseUrl::parse(text), Err(expected), "{text}");
        }
        let error = DatabaseUrl::parse("postgres://me:p#w@db/app").unwrap_err().to_string();
        assert!(!error.contains("p#w") && error.contains("%XX"), "{error}");
    }
}
