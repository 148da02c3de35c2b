//! Settings: read once, at start; file, then environment, then flags.
//!
//! `keys` is the one list of what can be set, with defaults and reasons. `file` and `environment`
//! turn what was written into texts by key; `read` parses them and keeps every problem, so that a
//! person mends a file in one go; `settings` is what the rest of the program holds.
//! The database's contents (tenants, endpoints …) are no settings.

pub mod choices;
pub mod database;
mod environment;
mod file;
pub mod keys;
pub mod master_key;
mod parse;
mod read;
pub mod settings;
mod source_tables;
mod validate;

use std::{collections::BTreeMap, fmt, path::PathBuf};

use keys::Key;
pub use parse::Confidential;
use read::{Origin, Reader, Written};
pub use settings::Settings;
use source_tables::SourceTable;

/// What is read when no file is named; it need not exist.
pub const DEFAULT_FILE: &str = "snaphook.toml";

/// Where settings come from, weakest first.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// `--config` or `SNAPHOOK_CONFIG`; a file that is named must exist.
    pub file: Option<PathBuf>,
    /// The process's environment: every pair, ours and others'.
    pub environment: Vec<(String, String)>,
    /// Settings given as flags: key, text.
    pub flags: Vec<(&'static str, String)>,
}

impl Sources {
    /// The environment of this process, the file that it names, and no flags. Variables that are
    /// no UTF-8 are left out: no setting of ours can be among them.
    pub fn of_process() -> Self {
        let utf8 = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let environment: Vec<_> = std::env::vars_os().filter_map(utf8).collect();
        let named = |(name, value): &(String, String)| {
            (name == environment::FILE_VARIABLE && !value.is_empty()).then(|| value.into())
        };
        Self { file: environment.iter().find_map(named), environment, flags: Vec::new() }
    }

    /// The same with one more flag, if it was given.
    #[must_use]
    pub fn with_flag(mut self, key: &'static str, value: Option<&str>) -> Self {
        self.flags.extend(value.map(|value| (key, value.to_owned())));
        self
    }
}

/// All that is wrong with the settings, one line each.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError(
    /// Complete sentences: key, value, where it was written, and the remedy.
    pub Vec<String>,
);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

/// One setting as it came to be, for `doctor` and for questions of "where does this come from".
#[derive(Clone, Debug)]
pub struct Shown {
    /// The setting.
    pub key: &'static Key,
    /// Its text, or dots when it is a secret.
    pub value: String,
    /// `default`, a file and line, a variable or a flag.
    pub origin: String,
}

/// Reads, layers and checks all settings.
pub fn load(sources: &Sources) -> Result<Settings, ConfigError> {
    let (written, tables, mut problems) = layers(sources);
    let mut reader = Reader::new(written);
    let mut settings = Settings::read(&mut reader, &sources.environment);
    settings.sources = source_tables::read_all(&tables, &sources.environment, &mut problems);
    problems.append(&mut reader.problems);
    if problems.is_empty() {
        problems = validate::problems(&settings);
    }
    if problems.is_empty() { Ok(settings) } else { Err(ConfigError(problems)) }
}

/// Every setting with its text and where it was written. Shows what is there also when it is wrong.
pub fn show(sources: &Sources) -> Vec<Shown> {
    let (written, ..) = layers(sources);
    let shown = |key: &'static Key| match written.get(key.name) {
        Some(found) => Shown { key, value: found.shown(key), origin: found.origin.to_string() },
        None => Shown { key, value: key.default.to_owned(), origin: "default".to_owned() },
    };
    keys::KEYS.iter().map(shown).collect()
}

/// What was written for each key by the strongest layer that wrote it, and what no key matches.
fn layers(sources: &Sources) -> (BTreeMap<&'static str, Written>, Vec<SourceTable>, Vec<String>) {
    let mut problems = Vec::new();
    let (mut written, tables) = file::read(sources.file.as_deref(), &mut problems);
    written.extend(environment::read(&sources.environment, &mut problems));
    for (name, text) in &sources.flags {
        let key = keys::find(name).expect("flags are named after keys");
        written.insert(key.name, Written::text(key, text, Origin::Flag(key.name)));
    }
    (written, tables, problems)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn sources(file: &str, environment: &[(&str, &str)]) -> (tempfile::TempDir, Sources) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snaphook.toml");
        std::fs::write(&path, file).unwrap();
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let environment = environment.iter().map(pair).collect();
        (folder, Sources { file: Some(path), environment, flags: Vec::new() })
    }

    #[test]
    fn a_flag_beats_the_environment_and_that_the_file() {
        let (_folder, sources) = sources(
            "listen = '127.0.0.1:1'\n[delivery]\ntimeout = '11s'\nconnect_timeout = '3s'",
            &[("SNAPHOOK_LISTEN", "127.0.0.1:2"), ("SNAPHOOK_DELIVERY_TIMEOUT", "12s")],
        );

        let settings = load(&sources.with_flag("listen", Some("127.0.0.1:3"))).unwrap();

        assert_eq!(settings.listen.port(), 3);
        assert_eq!(settings.delivery.timeout, Duration::from_secs(12));
        assert_eq!(settings.delivery.connect_timeout, Duration::from_secs(3));
        assert_eq!(settings.delivery.lease, Duration::from_secs(45), "the default");
    }

    #[test]
    fn every_problem_is_named_with_its_place() {
        let (_folder, sources) = sources(
            "listen = 'here'\n[delivery]\ntimeuot = '5s'\ntimeout = 15",
            &[("SNAPHOOK_LIMITS_PAYLOAD", "huge"), ("SNAPHOOK_LISTN", "x")],
        );

        let ConfigError(problems) = load(&sources).unwrap_err();

        assert_eq!(problems.len(), 5, "{problems:#?}");
        for part in [
            "snaphook.toml:3: there is no setting delivery.timeuot; did you mean delivery.timeout",
            "SNAPHOOK_LISTN is no setting; did you mean SNAPHOOK_LISTEN",
            "snaphook.toml:1: listen = \"here\"",
            "snaphook.toml:4: delivery.timeout = \"15\"",
            "SNAPHOOK_LIMITS_PAYLOAD: limits.payload = \"huge\"",
        ] {
            assert!(problems.iter().any(|problem| problem.contains(part)), "{part}: {problems:#?}");
        }
    }

    #[test]
    fn a_secret_is_never_shown() {
        let secret = "postgres://me:hunter2@db/app";
        let (_folder, sources) = sources("", &[("SNAPHOOK_DATABASE", secret)]);

        let shown = show(&sources);
        let complaint = load(&sources.with_flag("egress.proxy", Some("hunter2"))).unwrap_err();

        assert!(!format!("{shown:?} {complaint}").contains("hunter2"));
        let database = shown.iter().find(|shown| shown.key.name == "database").unwrap();
        assert_eq!(database.origin, "SNAPHOOK_DATABASE");
    }
}
