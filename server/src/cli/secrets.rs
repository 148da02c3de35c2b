//! `snaphook secrets`: what requests are signed with. `reseal` works on the database itself,
//! because the master key never travels.

use std::{sync::Arc, time::Duration};

use http::Method;
use serde_json::{Map, Value};

use super::{
    ask,
    client::Client,
    connect::ClientArgs,
    exit::Exit,
    find, note,
    output::{Column, Output, columns},
    settings_args::{SettingsArgs, load, open},
};
use crate::{
    config::master_key::keyring,
    manage::Manage,
    store::Options,
    world::{offline::Offline, real::chance},
};

const LIST: &[Column] = columns!["id", "kind", "created_at", "expires_at", "fingerprint"];
const REVEALED: &[Column] = columns!["id", "kind", "secret", "public_key", "live", "created_at"];
const ROTATED: &[Column] = columns!["id", "kind", "secret", "public_key", "created_at"];

/// List, rotate, reveal and revoke an endpoint's secrets
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  snaphook secrets rotate ep_… --overlap 24h\n  \
                        snaphook secrets reveal ep_… sec_…")]
pub struct Args {
    #[command(flatten)]
    to: ClientArgs,
    /// The endpoint's tenant; found by itself, but faster when given
    #[arg(long, global = true, env = "SNAPHOOK_TENANT")]
    tenant: Option<String>,
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// The endpoint's live secrets, without their text
    List { endpoint: String },
    /// Make a new secret and print it; the old ones sign beside it for a while
    Rotate {
        endpoint: String,
        /// How long the old secrets go on signing
        #[arg(long, value_name = "DURATION")]
        overlap: Option<String>,
        /// hmac or ed25519
        #[arg(long)]
        kind: Option<String>,
    },
    /// Print a secret's text; the audit keeps who saw it
    Reveal {
        endpoint: String,
        /// The secret's id, sec_…
        secret: String,
    },
    /// Seal everything anew with the current master key, in the database itself, while servers run
    Reseal(SettingsArgs),
    /// Stop signing with a secret within five seconds
    Revoke {
        endpoint: String,
        /// The secret's id, sec_…
        secret: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

/// Runs the command.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    if let Action::Reseal(settings) = &args.action {
        return reseal(settings).await;
    }
    let client = Client::new(&args.to)?;
    let mut output = Output::new(args.to.json);
    let tenant = args.tenant.as_deref();
    match args.action {
        Action::List { endpoint } => {
            let at = find::endpoint(&client, &endpoint, tenant).await?.url(&["secrets"]);
            output.list(LIST, &client.list(&at, 250).await?.0)?;
        }
        Action::Rotate { endpoint, overlap, kind } => {
            let at = find::endpoint(&client, &endpoint, tenant).await?.url(&["secrets", "rotate"]);
            let given = [("overlap", overlap), ("kind", kind)];
            let body: Map<String, Value> = given
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value?.into())))
                .collect();
            output.one(ROTATED, &client.send(Method::POST, &at, &body.into()).await?)?;
        }
        Action::Reveal { endpoint, secret } => {
            let found = find::endpoint(&client, &endpoint, tenant).await?;
            let at = found.url(&["secrets", &secret, "reveal"]);
            output.one(REVEALED, &client.send(Method::POST, &at, &Map::new().into()).await?)?;
        }
        Action::Reseal(_) => {}
        Action::Revoke { endpoint, secret, yes } => {
            ask::confirm(yes, &format!("Revoke {secret}? Receivers that know only it refuse us."))?;
            let at = find::endpoint(&client, &endpoint, tenant).await?.url(&["secrets", &secret]);
            client.delete(&at).await?;
            note(&format!("{secret} is revoked"));
        }
    }
    Ok(Exit::Done)
}

async fn reseal(settings: &SettingsArgs) -> anyhow::Result<Exit> {
    let settings = load(&settings.sources())?;
    let keyring = keyring(&settings, chance)?;
    let store = open(&settings, Options { migrate: false, serve: false }).await?;
    let manage = Manage {
        store,
        world: Arc::new(Offline),
        keyring: Arc::new(keyring),
        policy: Arc::new(settings.guard),
        wake: Arc::new(|| ()),
        owner_wait: Duration::ZERO,
    };
    let done = manage.reseal().await?;
    manage.store.close().await;
    note(&format!(
        "{} values are sealed with key {}, {} of them anew; when all nodes have that key, take \
         the old ones out of master_keys_old",
        done.values,
        manage.keyring.current(),
        done.changed,
    ));
    Ok(Exit::Done)
}
