//! Settings for commands that work on the database: file, environment, and a flag or two.

use std::path::PathBuf;

use super::exit::{Exit, Failure};
use crate::{
    config::{self, Settings, Sources, database::DatabaseUrl},
    store::{Options, Store, StoreError},
};

/// Flags of every command that reads settings.
#[derive(Clone, Debug, clap::Args)]
pub struct SettingsArgs {
    /// The settings' file; snaphook.toml in this folder when there is one
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// sqlite:PATH or postgres://…
    #[arg(long, value_name = "URL")]
    pub database: Option<String>,
}

impl SettingsArgs {
    /// Everything that says something about settings.
    pub fn sources(&self) -> Sources {
        let mut sources = Sources::of_process();
        if self.config.is_some() {
            sources.file.clone_from(&self.config);
        }
        sources.with_flag("database", self.database.as_deref())
    }
}

/// The settings, or all that is wrong with them.
pub fn load(sources: &Sources) -> anyhow::Result<Settings> {
    Ok(config::load(sources).map_err(|error| {
        Failure::usage(format!("the settings cannot be used\n  {}", error.0.join("\n  ")))
    })?)
}

/// Opens the database of `settings`.
pub async fn open(settings: &Settings, options: Options) -> anyhow::Result<Store> {
    let opened = Store::open(&settings.database.expose(), options).await;
    Ok(opened.map_err(|error| store_failure(&settings.database, &error))?)
}

/// Connects to the database of `settings`, whatever its schema.
pub async fn connect(settings: &Settings) -> anyhow::Result<Store> {
    let options = Options { migrate: false, serve: false };
    let connected = Store::connect(&settings.database.expose(), options).await;
    Ok(connected.map_err(|error| store_failure(&settings.database, &error))?)
}

/// Why a database does not open, with its exit code.
pub fn store_failure(database: &DatabaseUrl, error: &StoreError) -> Failure {
    let exit = match error {
        StoreError::Unreachable(_) | StoreError::Busy(_) => Exit::Unreachable,
        StoreError::NewerSchema { .. } | StoreError::NotMigrated(_) | StoreError::FileLocked(_) => {
            Exit::Refused
        }
        StoreError::Url { .. } => Exit::Usage,
        _ => Exit::Failed,
    };
    let mut message = format!("{database}: {error}");
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        // Some of the driver's errors repeat their cause in their own words.
        let text = error.to_string();
        if !message.contains(&text) {
            message = format!("{message}: {text}");
        }
        cause = error.source();
    }
    Failure::new(exit, message)
}
