//! `snaphook migrate`: brings the schema up to what this binary knows.

use super::{
    exit::Exit,
    note,
    output::Output,
    settings_args::{SettingsArgs, connect, load, open, store_failure},
};
use crate::store::{Options, grants::GRANTS_SCRIPT};

/// Put the schema into the database, or bring it up to date
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  snaphook migrate --database postgres://owner@localhost/shop\n  \
                        snaphook migrate --dry-run"
)]
pub struct Args {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Show what is missing and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Runs the command.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    let settings = load(&args.settings.sources())?;
    let database = &settings.database;
    if args.dry_run && database.file().is_some_and(|file| !file.exists()) {
        // Opening it would make it.
        note(&format!("{database} does not exist; it would be made, with all migrations"));
        return Ok(Exit::Done);
    }
    let pending = connect(&settings).await?.list_pending_migrations().await;
    let pending = pending.map_err(|error| store_failure(database, &error))?;
    let mut output = Output::new(false);
    pending.iter().try_for_each(|name| output.line(name))?;
    if args.dry_run {
        note(&format!("{database} lacks {}; nothing was changed", migrations(pending.len())));
        return Ok(Exit::Done);
    }
    let store = open(&settings, Options { migrate: true, serve: false }).await?;
    note(&format!("{database} is up to date; {} applied", migrations(pending.len())));
    if !store.grant_emitter().await? {
        note(
            "there is no role snaphook_emitter, and this role may not make it: until someone who may has run the lines below, only the schema's owner can emit in SQL",
        );
        output.bytes(GRANTS_SCRIPT.as_bytes())?;
    }
    store.close().await;
    Ok(Exit::Done)
}

fn migrations(number: usize) -> String {
    match number {
        1 => "1 migration".to_owned(),
        _ => format!("{number} migrations"),
    }
}
