//! `snaphook secrets`: what requests are signed with, ours and those of providers. `reseal` works on the database itself,
//! because the master key never travels.

use std::{sync::Arc, time::Duration};

use http::Method;
use serde_json::{Map, Value, json};

use super::{
    ask,
    client::Client,
    connect::ClientArgs,
    exit::{Exit, Failure},
    find, note,
    output::{Column, Output, columns},
    settings_args::{SettingsArgs, load, open},
    source_fields::GivenSecrets,
};
use crate::{
    config::master_key::keyring,
    manage::Manage,
    store::Options,
    world::{offline::Offline, real::chance},
};

const LIST: &[Column] = columns!["id", "kind", "created_at", "expires_at", "fingerprint"];
const OF_SOURCE: &[Column] = columns!["id", "live", "created_at", "expires_at", "secret"];
const REVEALED: &[Column] = columns!["id", "kind", "secret", "public_key", "live", "created_at"];
const ROTATED: &[Column] = columns!["id", "kind", "secret", "public_key", "created_at"];

/// List, add, rotate, reveal and revoke the secrets of an endpoint or a source
#[derive(clap::Args)]
#[command(after_help = "OF is an endpoint, ep_…, or a source, src_… or its name.\n\nExamples:\n  \
                        snaphook secrets rotate ep_… --overlap 24h\n  \
                        snaphook secrets rotate src_… --secret-file new.txt\n  \
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
    /// Its live secrets, without their texts
    List {
        #[arg(value_name = "OF")]
        of: String,
    },
    /// Add a secret beside those that are live: one that receivers know, or the provider's
    Add {
        #[arg(value_name = "OF")]
        of: String,
        #[command(flatten)]
        secret: GivenSecrets,
    },
    /// Make a new secret and print it, or take a provider's; the old ones work on for a while
    Rotate {
        #[arg(value_name = "OF")]
        of: String,
        /// How long the old secrets go on
        #[arg(long, value_name = "DURATION")]
        overlap: Option<String>,
        /// Of an endpoint: hmac or ed25519
        #[arg(long)]
        kind: Option<String>,
        #[command(flatten)]
        secret: GivenSecrets,
    },
    /// Print a secret's text; the audit keeps who saw it
    Reveal {
        #[arg(value_name = "OF")]
        of: String,
        /// The secret's id, sec_…
        secret: String,
    },
    /// Seal everything anew with the current master key, in the database itself, while servers run
    Reseal(SettingsArgs),
    /// Use a secret no more, within five seconds
    Revoke {
        #[arg(value_name = "OF")]
        of: String,
        /// The secret's id, sec_…
        secret: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

/// The place of an endpoint or a source, and the columns of its secrets in a list and alone.
struct Of<'a> {
    place: find::Place<'a>,
    list: &'static [Column],
    one: &'static [Column],
    revealed: &'static [Column],
}

async fn find_of<'a>(client: &'a Client, of: &str, tenant: Option<&str>) -> anyhow::Result<Of<'a>> {
    Ok(if find::is_endpoint(of) {
        let place = find::endpoint(client, of, tenant).await?;
        Of { place, list: LIST, one: ROTATED, revealed: REVEALED }
    } else {
        let place = find::source(client, of).await?;
        Of { place, list: OF_SOURCE, one: OF_SOURCE, revealed: OF_SOURCE }
    })
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
        Action::List { of } => {
            let of = find_of(&client, &of, tenant).await?;
            output.list(of.list, &client.list(&of.place.url(&["secrets"]), 250).await?.0)?;
        }
        Action::Add { of, secret } => {
            let of = find_of(&client, &of, tenant).await?;
            let text = secret.one()?.ok_or_else(|| {
                Failure::usage("give the secret with --secret-file FILE or --secret SECRET")
            })?;
            let (at, body) = (of.place.url(&["secrets"]), json!({ "secret": text }));
            output.one(of.one, &client.send(Method::POST, &at, &body).await?)?;
        }
        Action::Rotate { of, overlap, kind, secret } => {
            let secret = secret.one()?;
            if secret.is_some() && find::is_endpoint(&of) {
                return Err(Failure::usage("an endpoint's new secret is made by the server")
                    .hint("`snaphook secrets add` takes one that receivers know")
                    .into());
            }
            let of = find_of(&client, &of, tenant).await?;
            let given = [("overlap", overlap), ("kind", kind), ("secret", secret)];
            let body: Map<String, Value> = given
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value?.into())))
                .collect();
            let at = of.place.url(&["secrets", "rotate"]);
            output.one(of.one, &client.send(Method::POST, &at, &body.into()).await?)?;
        }
        Action::Reveal { of, secret } => {
            let of = find_of(&client, &of, tenant).await?;
            let at = of.place.url(&["secrets", &secret, "reveal"]);
            output.one(of.revealed, &client.send(Method::POST, &at, &json!({})).await?)?;
        }
        Action::Reseal(_) => {}
        Action::Revoke { of, secret, yes } => {
            let (what, verb) = if find::is_endpoint(&of) {
                ("Receivers that know only it", "refuse us")
            } else {
                ("What is signed with it", "is refused")
            };
            ask::confirm(yes, &format!("Revoke {secret}? {what} {verb}."))?;
            let of = find_of(&client, &of, tenant).await?;
            client.delete(&of.place.url(&["secrets", &secret])).await?;
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
        reread: crate::manage::no_door(),
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
