//! `snaphook events`: what happened.

use serde_json::Value;
use url::Url;

use super::{
    client::Client,
    connect::ClientArgs,
    exit::Exit,
    filters::{Range, Span, with},
    find,
    output::{Column, Output, columns},
    tail,
    tenants::note_more,
};

const LIST: &[Column] = columns!["id", "created_at", "tenant", "type", "key"];
const ONE: &[Column] = columns![
    "id",
    "tenant",
    "type",
    "version",
    "key",
    "created_at",
    "occurred_at",
    "content_type",
    "bytes",
    "traceparent",
    "held",
    "data",
];
const DELIVERIES: &[Column] = columns!["id", "state", "endpoint", "attempts", "next_attempt_at"];

/// List, show and follow events
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    to: ClientArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Events, newest first
    List {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        range: Range,
    },
    /// One event and its deliveries
    Show {
        event: String,
        /// Print its payload alone, byte for byte
        #[arg(long)]
        payload: bool,
    },
    /// Events as they come, until interrupted
    Tail {
        #[command(flatten)]
        which: Which,
    },
}

#[derive(clap::Args)]
struct Which {
    /// Of this tenant
    #[arg(long)]
    tenant: Option<String>,
    /// Of this type
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// That this source took, by its id or name
    #[arg(long)]
    source: Option<String>,
    /// With this key
    #[arg(long)]
    key: Option<String>,
    #[command(flatten)]
    span: Span,
}

/// The listing of those that are wanted.
async fn filtered(client: &Client, which: &Which) -> anyhow::Result<Url> {
    let source = match &which.source {
        Some(source) => Some(find::source_id(client, source).await?),
        None => None,
    };
    let conditions = [
        ("tenant", which.tenant.as_deref()),
        ("type", which.event_type.as_deref()),
        ("source", source.as_deref()),
        ("key", which.key.as_deref()),
        ("since", which.span.since.as_deref()),
        ("until", which.span.until.as_deref()),
    ];
    Ok(with(client, &["v1", "events"], &conditions))
}

/// Runs the command.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    let client = Client::new(&args.to)?;
    let mut output = Output::new(args.to.json);
    match args.action {
        Action::List { which, range } => {
            let (items, more) = client.list(&filtered(&client, &which).await?, range.limit).await?;
            output.list(LIST, &items)?;
            note_more(more);
        }
        Action::Show { event, payload: true } => {
            let url = client.url(&["v1", "events", &event, "payload"]);
            output.bytes(&client.get_bytes(&url).await?)?;
        }
        Action::Show { event, payload: false } => {
            output.one(ONE, &client.get(&client.url(&["v1", "events", &event])).await?)?;
            if !output.is_json() {
                let url = client.url(&["v1", "events", &event, "deliveries"]);
                output.list(DELIVERIES, &client.list(&url, 250).await?.0)?;
            }
        }
        Action::Tail { which } => {
            let id = |event: &Value| event["id"].as_str().map(str::to_owned);
            let url = filtered(&client, &which).await?;
            return tail::follow(&client, &url, id, LIST, &mut output).await;
        }
    }
    Ok(Exit::Done)
}
