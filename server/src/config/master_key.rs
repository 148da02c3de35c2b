//! The master key beside a SQLite database: made at first start, read ever after.
//!
//! A copy of the database alone cannot sign; whoever backs up one file backs up both. With
//! PostgreSQL there is no such file: the key is a setting.

use std::{
    fs::{File, OpenOptions},
    io::{ErrorKind, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{Settings, parse::Confidential};
use crate::store::{
    files::make_folder_of,
    seal::{self, Keyring, MasterKey},
};

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum MasterKeyError {
    /// It is there and cannot be read, or cannot be made.
    #[error("cannot {action} the master key in {}: {cause}", path.display())]
    File {
        /// `read` or `make`.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// Everybody can read it.
    #[error("{} can be read by everybody on this machine; run chmod 600 on it", .0.display())]
    Open(PathBuf),
    /// With PostgreSQL.
    #[error(
        "master_key is not set, and PostgreSQL needs one to seal secrets at rest: put the output \
         of `openssl rand -base64 32` into SNAPHOOK_MASTER_KEY, and keep a copy outside the database"
    )]
    Missing,
    /// It is no key: a file that was edited, for instance.
    #[error(transparent)]
    Unreadable(#[from] seal::MasterKeyError),
}

/// The key that seals, and those that still open: from the settings, or from beside the database.
pub fn keyring(
    settings: &Settings,
    chance: impl FnMut() -> u64,
) -> Result<Keyring, MasterKeyError> {
    let current = match (&settings.master_key, settings.database.file()) {
        (Some(key), _) => key.clone(),
        (None, Some(file)) => read_or_make(file, chance)?,
        (None, None) => return Err(MasterKeyError::Missing),
    };
    let parse = |key: &Confidential| MasterKey::parse(key.expose());
    let older: Result<_, _> = settings.master_keys_old.iter().map(parse).collect();
    Ok(Keyring::new(parse(&current)?, older?))
}

/// Where the key of the database in `file` is kept: `snaphook.db.key`.
pub fn path_beside(file: &Path) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(".key");
    path.into()
}

/// The key beside the database in `file`, made from `chance` if there is none yet. It is on disk
/// before this returns, because what it seals is lost without it.
pub fn read_or_make(
    file: &Path,
    chance: impl FnMut() -> u64,
) -> Result<Confidential, MasterKeyError> {
    let path = path_beside(file);
    let failed = |action| {
        let path = path.clone();
        move |cause| MasterKeyError::File { action, path, cause }
    };
    match make(&path, chance) {
        Ok(key) => return Ok(key),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed("make")(error)),
    }
    let mode = std::fs::metadata(&path).map_err(failed("read"))?.permissions().mode();
    // The group may: volumes that are shared by group get its bits at every mount.
    if mode & 0o007 != 0 {
        return Err(MasterKeyError::Open(path));
    }
    let text = std::fs::read_to_string(&path).map_err(failed("read"))?;
    Ok(Confidential::new(text.trim_end()))
}

/// Fails when the file exists. Two processes that start at once agree, because the file gets its
/// name only when its content is complete.
fn make(path: &Path, mut chance: impl FnMut() -> u64) -> std::io::Result<Confidential> {
    if path.exists() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    make_folder_of(path)?;
    let bytes: Vec<u8> = (0..4).flat_map(|_| chance().to_be_bytes()).collect();
    let key = STANDARD.encode(bytes);

    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}", chance()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(format!("{key}\n").as_bytes())?;
    file.sync_all()?;
    let linked = std::fs::hard_link(&draft, path);
    std::fs::remove_file(&draft)?;
    linked?;
    File::open(folder)?.sync_all()?;
    Ok(Confidential::new(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::database::DatabaseUrl;

    #[test]
    fn the_key_is_made_once_and_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("new/snaphook.db");

        let made = read_or_make(&database, || 7).unwrap();
        let read = read_or_make(&database, || 8).unwrap();

        assert_eq!(made, read);
        assert_eq!(STANDARD.decode(made.expose()).unwrap().len(), 32);
        let folder = database.parent().unwrap();
        let path = folder.join("snaphook.db.key");
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), 1, "the draft is gone");
    }

    #[test]
    fn a_key_that_everybody_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("snaphook.db");
        read_or_make(&database, || 7).unwrap();
        let open = std::fs::Permissions::from_mode(0o604);
        std::fs::set_permissions(path_beside(&database), open).unwrap();

        let error = read_or_make(&database, || 7).unwrap_err();

        assert!(error.to_string().contains("chmod 600"), "{error}");
    }

    #[test]
    fn postgresql_needs_a_key_and_sqlite_makes_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = Settings::defaults();
        settings.database = DatabaseUrl::Sqlite(folder.path().join("snaphook.db"));
        let made = keyring(&settings, || 0x0123_4567_89ab_cdef).unwrap();
        assert_eq!(made.current(), keyring(&settings, || 7).unwrap().current());

        settings.database = DatabaseUrl::parse("postgres://db/app").unwrap();
        let error = keyring(&settings, || 7).unwrap_err().to_string();
        assert!(error.starts_with("master_key is not set, and PostgreSQL needs one"), "{error}");

        settings.master_key = Some(Confidential::new("ab".repeat(16)));
        assert!(keyring(&settings, || 7).is_err(), "16 bytes");
        settings.master_key = Some(Confidential::new("0123456789abcdef".repeat(4)));
        assert!(keyring(&settings, || 7).is_ok());
    }
}
