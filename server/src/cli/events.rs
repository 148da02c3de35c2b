//! `snaphook events`: what happened.

use serde_json::Value;

use super::{
    client::Client,
    connect::ClientArgs,
    exit::Exit,
    filters::{Range, Span, with},
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
    /// With this key
    #[arg(long)]
    key: Option<String>,
    #[command(flatten)]
    span: Span,
}

/// Runs the command.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    let client = Client::new(&args.to)?;
    let mut output = Output::new(args.to.json);
    let filtered = |which: &Which| {
        let conditions = [
            ("tenant", which.tenant.as_deref()),
            ("type", which.event_type.as_deref()),
            ("key", which.key.as_deref()),
            ("since", which.span.since.as_deref()),
            ("until", which.span.until.as_deref()),
        ];
        with(&client, &["v1", "events"], &conditions)
    };
    match args.action {
        Action::List { which, range } => {
            let (items, more) = client.list(&filtered(&which), range.limit).await?;
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
            return tail::follow(&client, &filtered(&which), id, LIST, &mut output).await;
        }
    }
    Ok(Exit::Done)
}
