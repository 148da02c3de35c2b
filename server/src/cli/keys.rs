//! `snaphook keys`: API keys. `create` works on the database itself, because the first key cannot
//! come from an API that needs one; the others ask the API.

use super::{
    ask,
    client::Client,
    connect::ClientArgs,
    exit::{Exit, Failure},
    filters::Range,
    note,
    output::{Column, Output, columns},
    settings_args::{SettingsArgs, load, open},
    tenants::note_more,
};
use crate::{
    domain::{
        duration,
        scope::{Actor, Scope, Scopes},
        tenant::TenantId,
    },
    manage::api_keys::{NewApiKey, create_api_key},
    store::Options,
    world::{World as _, offline::Offline},
};

const LIST: &[Column] = columns!["id", "role", "tenant", "scopes", "name", "created_at"];
const ONE: &[Column] =
    columns!["id", "role", "tenant", "scopes", "name", "created_at", "expires_at", "revoked_at"];

/// Create, list, show and delete API keys
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  snaphook keys create --role operator\n  \
                        snaphook keys create --role tenant --tenant acme --scope emit")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Make a key in the database and print it; no server is needed, and it is shown only now
    Create(Create),
    /// All keys, without their text
    List {
        #[command(flatten)]
        to: ClientArgs,
        #[command(flatten)]
        range: Range,
    },
    /// One key, without its text
    Show {
        #[command(flatten)]
        to: ClientArgs,
        /// The key's id, key_…
        key: String,
    },
    /// End a key; nodes follow within five seconds
    Delete {
        #[command(flatten)]
        to: ClientArgs,
        /// The key's id, key_…
        key: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

/// Whose a key is.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Role {
    /// Sees all tenants
    Operator,
    /// Bound to the one that --tenant names
    Tenant,
}

#[derive(clap::Args)]
struct Create {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Whose key it is
    #[arg(long)]
    role: Role,
    /// The only tenant that the key can see
    #[arg(long)]
    tenant: Option<String>,
    /// read, emit or manage; may be repeated; all when not given
    #[arg(long = "scope", value_name = "SCOPE", value_delimiter = ',')]
    scopes: Vec<String>,
    /// For people
    #[arg(long, default_value = "")]
    name: String,
    /// The key ends by itself after so long: 90d
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    expires_in: Option<std::time::Duration>,
}

impl Create {
    fn key(&self) -> anyhow::Result<NewApiKey> {
        let tenant = match (self.role, &self.tenant) {
            (Role::Tenant, None) => {
                return Err(Failure::usage("a tenant's key needs its tenant")
                    .hint("add --tenant, or make an operator's key with --role operator")
                    .into());
            }
            // An operator's key that sees one tenant is a tenant's key.
            (_, Some(name)) => {
                let read = TenantId::parse(name);
                Some(read.map_err(|error| Failure::usage(format!("--tenant: {error}")))?)
            }
            (Role::Operator, None) => None,
        };
        let scope = |name: &String| {
            let unknown = || {
                Failure::usage(format!("there is no scope {name:?}"))
                    .hint("scopes are read, emit and manage")
            };
            Scope::from_name(name).ok_or_else(unknown)
        };
        let scopes: Vec<_> = self.scopes.iter().map(scope).collect::<Result<_, _>>()?;
        Ok(NewApiKey {
            name: self.name.clone(),
            tenant,
            scopes: Scopes::new(scopes).unwrap_or_else(Scopes::all),
            expires_at: self.expires_in.map(|good_for| Offline.now() + good_for),
        })
    }
}

/// Runs the command.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    match args.action {
        Action::Create(create) => self::create(create).await?,
        Action::List { to, range } => {
            let client = Client::new(&to)?;
            let (items, more) = client.list(&client.url(&["v1", "keys"]), range.limit).await?;
            Output::new(to.json).list(LIST, &items)?;
            note_more(more);
        }
        Action::Show { to, key } => {
            let client = Client::new(&to)?;
            let shown = client.get(&client.url(&["v1", "keys", &key])).await?;
            Output::new(to.json).one(ONE, &shown)?;
        }
        Action::Delete { to, key, yes } => {
            ask::confirm(yes, &format!("Delete {key}? Programs that use it are refused."))?;
            let client = Client::new(&to)?;
            client.delete(&client.url(&["v1", "keys", &key])).await?;
            note(&format!("{key} is deleted"));
        }
    }
    Ok(Exit::Done)
}

async fn create(create: Create) -> anyhow::Result<()> {
    let key = create.key()?;
    let settings = load(&create.settings.sources())?;
    let store = open(&settings, Options { migrate: true, serve: false }).await?;
    if let Some(tenant) = &key.tenant
        && store.read().await?.find_tenant(tenant).await?.is_none()
    {
        return Err(Failure::new(Exit::NotFound, format!("there is no tenant {tenant}"))
            .hint(format!("make it first: snaphook tenants create {tenant}"))
            .into());
    }
    let (_, text) = create_api_key(&store, &Offline, &Actor::command_line(), key).await?;
    store.close().await;
    Output::new(false).line(text.expose())
}
