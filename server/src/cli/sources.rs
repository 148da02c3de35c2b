//! `snaphook sources`: where signed requests of providers come in.

use http::Method;
use serde_json::{Value, json, value::RawValue};

use super::{
    ask,
    client::Client,
    connect::ClientArgs,
    exit::Exit,
    filters::Range,
    find, note,
    output::{Column, Output, columns},
    source_fields::{GivenSecrets, SourceFields},
    tenants::note_more,
};

const LIST: &[Column] = columns!["id", "tenant", "name", "scheme", "state", "from_file", "url"];
const ONE: &[Column] = columns![
    "id",
    "tenant",
    "name",
    "url",
    "scheme",
    "state",
    "state_since",
    "armed_until",
    "from_file",
    "signature_header",
    "tolerance",
    "public_key",
    "verify_token",
    "public_url",
    "id_from",
    "id_scope",
    "type_from",
    "body_limit",
    "reject_status",
    "answer",
    "schemas",
    "keep_rejected",
    "created_at",
    "updated_at",
];

/// List, show, create, update, pause, resume, arm and delete sources
#[derive(clap::Args)]
#[command(
    after_help = "SOURCE is an id, src_…, or a name that only one source has.\n\nExamples:\n  \
                  snaphook sources create acme --name stripe --scheme stripe --secret-file s.txt\n  \
                  snaphook sources pause stripe"
)]
pub struct Args {
    #[command(flatten)]
    to: ClientArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// All sources, or those of a tenant
    List {
        #[arg(env = "SNAPHOOK_TENANT")]
        tenant: Option<String>,
        #[command(flatten)]
        range: Range,
    },
    /// One source with its settings
    Show { source: String },
    /// Create a source; shows its URL and what is left to do
    Create {
        tenant: String,
        #[command(flatten)]
        fields: Box<SourceFields>,
        #[command(flatten)]
        secrets: GivenSecrets,
    },
    /// Change what is given and leave the rest
    Update {
        source: String,
        #[command(flatten)]
        fields: Box<SourceFields>,
    },
    /// Answer and keep what comes, and hold it
    Pause { source: String },
    /// Let it go on, beginning with what was held
    Resume { source: String },
    /// Let the provider's handshake set the secret anew within the next hour
    Arm { source: String },
    /// Delete a source: its URL is answered with 404 from then on
    Delete {
        source: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

/// Runs the command.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    let client = Client::new(&args.to)?;
    let mut output = Output::new(args.to.json);
    match args.action {
        Action::List { tenant, range } => {
            let mut url = client.url(&["v1", "sources"]);
            if let Some(tenant) = &tenant {
                url.query_pairs_mut().append_pair("tenant", tenant);
            }
            let (items, more) = client.list(&url, range.limit).await?;
            output.list(LIST, &items)?;
            note_more(more);
        }
        Action::Show { source } => {
            let at = find::source(&client, &source).await?.url(&[]);
            output.one(ONE, &client.get(&at).await?)?;
        }
        Action::Create { tenant, fields, secrets } => {
            let mut body = fields.body()?;
            body.insert("tenant".to_owned(), tenant.into());
            body.insert("secrets".to_owned(), secrets.read()?.into());
            let url = client.url(&["v1", "sources"]);
            let made = client.send(Method::POST, &url, &body.into()).await?;
            output.one(ONE, &made)?;
            if !output.is_json() {
                note_steps(&made)?;
            }
        }
        Action::Update { source, fields } => {
            let at = find::source(&client, &source).await?.url(&[]);
            let body = Value::from(fields.body()?);
            output.one(ONE, &client.send(Method::PATCH, &at, &body).await?)?;
        }
        Action::Pause { source } => switch(&client, &source, "pause", &mut output).await?,
        Action::Resume { source } => switch(&client, &source, "resume", &mut output).await?,
        Action::Arm { source } => switch(&client, &source, "arm", &mut output).await?,
        Action::Delete { source, yes } => {
            let at = find::source(&client, &source).await?.url(&[]);
            let question = format!("Delete source {source}? Its provider gets 404 from then on.");
            ask::confirm(yes, &question)?;
            client.delete(&at).await?;
            note(&format!("{source} is deleted"));
        }
    }
    Ok(Exit::Done)
}

async fn switch(
    client: &Client,
    source: &str,
    what: &str,
    output: &mut Output,
) -> anyhow::Result<()> {
    let at = find::source(client, source).await?.url(&[what]);
    output.one(ONE, &client.send(Method::POST, &at, &json!({})).await?)
}

/// What is left to do, one step a line.
fn note_steps(made: &RawValue) -> anyhow::Result<()> {
    let made: Value = serde_json::from_str(made.get())?;
    for (number, step) in (1..).zip(made["next_steps"].as_array().into_iter().flatten()) {
        note(&format!("{number}. {}", step.as_str().unwrap_or_default()));
    }
    Ok(())
}
