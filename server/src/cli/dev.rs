//! `snaphook dev`: everything at once on one machine, to see an event delivered.
//!
//! A server on an embedded database, a tenant with an endpoint, and a receiver that verifies what
//! it gets. The sample is set up through the server's own API, as anyone would do it.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use tokio::{net::TcpListener, sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    client::Client,
    connect::{CLIENT_FILE, ClientArgs, leave},
    exit::Exit,
    note,
    output::{Output, visible},
    receiver::{Judge, Rules, Seen, serve},
    sample::{self, Sample},
    serve::{failure, until_signal},
    settings_args::{SettingsArgs, load},
};
use crate::{
    config::{self, Settings},
    domain::scope::{Actor, Scopes},
    manage::{
        Manage,
        api_keys::{NewApiKey, create_api_key, hash_of},
    },
    server::{Server, bind, signals::Signals},
    store::files::make_folder_of,
    telemetry::logs,
    world::real::wall_clock,
};

/// What endpoints may reach beside the public internet: this machine, for its receivers.
const LOOPBACK: &str = "127.0.0.0/8,::1/128";

/// How long the sample event may take. It takes milliseconds; longer means that something is
/// wrong, and the person should hear of it.
const PATIENCE: Duration = Duration::from_secs(15);

/// Run a server with a sample tenant, endpoint and receiver, and deliver a first event
#[derive(clap::Args)]
#[command(after_help = "Everything is kept in .snaphook/ in this folder; remove it to begin anew.")]
pub struct Args {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Address and port; when 127.0.0.1:8080 is taken, a free port
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
}

/// Runs the command until a signal ends it.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    let (settings, listener) = prepare(&args).await?;
    logs::start(settings.log.format, &settings.log.level);
    let mut signals = Signals::listen()?;
    let (database, base_url) = (settings.database.clone(), settings.base_url.clone());
    let server = Server::open(settings, listener).await;
    let server = server.map_err(|error| failure(&database, error))?;
    let manage = server.manage.clone();

    let key = api_key(&manage).await?;
    leave(Path::new(CLIENT_FILE), &base_url, &key)?;
    let client = Client::new(&ClientArgs {
        server: Some(base_url.clone()),
        api_key: Some(key.clone()),
        json: false,
    })?;
    let receiver = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let receiver_url = format!("http://{}/", receiver.local_addr()?);

    let (tell, seen) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    let receiving = serve(receiver, rules(manage), tell, stop.clone());
    let showing = async {
        let shown = show(&Shown { client, base_url, key, receiver_url }, seen).await;
        // A sample that fails is told; the server goes on, so that one can look.
        if let Err(error) = shown {
            note(&format!("the sample could not be delivered: {error:#}"));
        }
        std::future::pending::<()>().await;
    };
    let serving = async {
        let exit = until_signal(server, &mut signals).await;
        stop.cancel();
        exit
    };
    tokio::select! {
        exit = async { tokio::join!(serving, receiving).0 } => Ok(exit),
        () = showing => Ok(Exit::Done),
    }
}

/// Settings for development, and the address to listen on.
async fn prepare(args: &Args) -> anyhow::Result<(Settings, TcpListener)> {
    make_folder_of(Path::new(CLIENT_FILE)).with_context(|| format!("cannot make {CLIENT_FILE}"))?;
    let mut sources = args
        .settings
        .sources()
        .with_flag("guard.allow", Some(LOOPBACK))
        .with_flag("listen", args.listen.as_deref());
    let shown = config::show(&sources);
    let is_default =
        |name: &str| shown.iter().any(|shown| shown.key.name == name && shown.origin == "default");
    if is_default("log.level") {
        // What is printed here says more than the log's lines.
        sources = sources.with_flag("log.level", Some("warn"));
    }
    let mut settings = load(&sources)?;
    let mut taken = bind("listen", settings.listen).await;
    if taken.is_err() && is_default("listen") {
        taken = bind("listen", SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await;
    }
    let listener = taken.map_err(|error| failure(&settings.database, error))?;
    settings.move_to(listener.local_addr()?);
    Ok((settings, listener))
}

/// The key that an earlier run left, while it is good; else a new one.
async fn api_key(manage: &Manage) -> anyhow::Result<String> {
    if let Some(key) = super::connect::left_key(Path::new(CLIENT_FILE))? {
        let found = manage.store.read().await?.find_api_key_by_hash(&hash_of(&key)).await?;
        if found.is_some_and(|row| row.tenant.is_none() && row.is_live(wall_clock())) {
            return Ok(key);
        }
    }
    let new = NewApiKey {
        name: "snaphook dev".to_owned(),
        tenant: None,
        scopes: Scopes::all(),
        expires_at: None,
    };
    let actor = Actor::command_line();
    let (_, text) = create_api_key(&manage.store, &*manage.world, &actor, new).await?;
    Ok(text.expose().to_owned())
}

/// The receiver knows the sample endpoint's secrets of the moment, also after a rotation.
fn rules(manage: Arc<Manage>) -> Rules {
    Rules {
        judge: Judge::Standard(Arc::new(move || {
            let manage = manage.clone();
            Box::pin(async move { sample::secrets(&manage).await.unwrap_or_default() })
        })),
        forward_to: None,
        status: http::StatusCode::NO_CONTENT,
        fail_first: 0,
        delay: Duration::ZERO,
        clock: wall_clock,
    }
}

/// What a person is shown.
struct Shown {
    client: Client,
    base_url: String,
    key: String,
    receiver_url: String,
}

async fn show(shown: &Shown, mut seen: mpsc::UnboundedReceiver<Seen>) -> anyhow::Result<()> {
    let mut output = Output::new(false);
    let Sample { endpoint, event } = sample::set_up(&shown.client, &shown.receiver_url).await?;
    output.bytes(heading(shown, &endpoint).as_bytes())?;
    let first = async {
        while let Some(next) = seen.recv().await {
            output.line(&line(&next))?;
            if next.event_id.as_deref() == Some(event.as_str()) {
                break;
            }
        }
        anyhow::Ok(())
    };
    match timeout(PATIENCE, first).await {
        Ok(done) => done?,
        Err(_) => note(&format!(
            "{event} has not arrived in {} s; `snaphook events show {event}` tells why",
            PATIENCE.as_secs()
        )),
    }
    output.bytes(invitation(shown).as_bytes())?;
    while let Some(next) = seen.recv().await {
        output.line(&line(&next))?;
    }
    Ok(())
}

fn heading(Shown { base_url, key, receiver_url, .. }: &Shown, endpoint: &str) -> String {
    format!(
        "\n  API       {base_url}   (read it at {base_url}/docs)\n  \
           API key   {key}\n  \
           endpoint  {endpoint} of tenant acme, which wants all events\n  \
           receiver  {receiver_url} verifies what that endpoint gets\n\n"
    )
}

fn invitation(Shown { base_url, key, .. }: &Shown) -> String {
    let program = called_as();
    format!(
        "\nSend one yourself, from another terminal:\n\n  \
         curl -X POST {base_url}/v1/events \\\n    \
         -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' \\\n    \
         -d '{{\"tenant\":\"acme\",\"type\":\"order.paid\",\"data\":{{\"order_id\":42,\"amount\":4999}}}}'\n\n\
         or, in this folder, with no setting:\n\n  \
         {program} emit acme order.paid --data '{{\"order_id\":42}}'\n  \
         {program} deliveries list\n\n\
         Ctrl-C ends it.\n\n"
    )
}

/// The program as it was called, for `cargo run` puts none of that name on the path.
fn called_as() -> String {
    let called = std::env::args_os().next();
    called.map_or("snaphook".to_owned(), |program| program.to_string_lossy().into_owned())
}

/// One request that the receiver got.
fn line(seen: &Seen) -> String {
    let sign = if seen.is_genuine() { "✓" } else { "✗" };
    let time = seen.at.to_string();
    let time = time.get(11..19).unwrap_or(&time);
    let shown = |part: &Option<String>| part.as_deref().map_or("-".to_owned(), visible);
    let verdict = match &seen.reason {
        None => "signature verified".to_owned(),
        Some(reason) => format!("{}: {reason}", seen.verdict),
    };
    format!(
        "  {sign} {time}  {}  {}  {verdict}, answered {}",
        shown(&seen.event_type),
        shown(&seen.event_id),
        seen.status
    )
}
