//! `snaphook serve`: the server.

use tokio_util::sync::CancellationToken;

use super::{
    exit::{Exit, Failure},
    settings_args::{SettingsArgs, load, store_failure},
};
use crate::{
    config::Settings,
    server::{Server, StartError, bind, signals::Signals},
    telemetry::logs,
};

/// Run the server: answer the API, deliver events
#[derive(clap::Args)]
#[command(after_help = "Every setting can also stand in the file or in the environment, as \
                        SNAPHOOK_DELIVERY_TIMEOUT for delivery.timeout.")]
pub struct Args {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Address and port
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// What this process does: api, ingress, console, worker; several with commas
    #[arg(long, value_name = "ROLES")]
    roles: Option<String>,
}

/// Runs the command until a signal ends it. Another one, a second later, ends it at once.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    let sources = args
        .settings
        .sources()
        .with_flag("listen", args.listen.as_deref())
        .with_flag("roles", args.roles.as_deref());
    let settings = load(&sources)?;
    logs::start(settings.log.format, &settings.log.level);
    let mut signals = Signals::listen()?;
    let server = open(settings).await?;
    let Settings { database, listen, roles, node, .. } = server.settings();
    let version = env!("CARGO_PKG_VERSION");
    tracing::info!(version, %database, %listen, %roles, node, "snaphook is ready");
    Ok(until_signal(server, &mut signals).await)
}

async fn open(settings: Settings) -> anyhow::Result<Server> {
    let database = settings.database.clone();
    let opened = async {
        let listener = bind("listen", settings.listen).await?;
        Server::open(settings, listener).await
    };
    Ok(opened.await.map_err(|error| failure(&database, error))?)
}

/// Runs a server until a signal, and ends it in order, unless there is a second one.
pub async fn until_signal(server: Server, signals: &mut Signals) -> Exit {
    let stop = CancellationToken::new();
    let mut running = std::pin::pin!(server.run(stop.clone()));
    tokio::select! {
        () = &mut running => return Exit::Done,
        () = signals.next() => {}
    }
    tracing::info!(
        "stopping: requests under way may end, for 24 s; a signal after a second ends them"
    );
    stop.cancel();
    tokio::select! {
        () = running => Exit::Done,
        () = signals.again() => {
            tracing::warn!("stopped at once; what was under way is sent again");
            Exit::Failed
        }
    }
}

/// Why a server did not start, with its exit code.
pub fn failure(database: &crate::config::database::DatabaseUrl, error: StartError) -> Failure {
    match error {
        StartError::Store(error) => store_failure(database, &error),
        StartError::MasterKey(_) => Failure::usage(error.to_string()),
        StartError::ForeignKey(_) => Failure::usage(error.to_string())
            .hint("start with the key that sealed it, as master_key or among master_keys_old; `snaphook secrets reseal` changes over to a new one"),
        StartError::Listen { .. } => Failure::new(Exit::Failed, error.to_string())
            .hint("is another server running there? --listen takes another address"),
        StartError::NameTaken(_) => Failure::new(Exit::Failed, error.to_string())
            .hint("give each node a name of its own with the setting node, or leave it out: then it is the host's name and the port"),
        StartError::Client(_) | StartError::Sources(_) => Failure::new(Exit::Failed, error.to_string()),
    }
}
