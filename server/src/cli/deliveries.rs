//! `snaphook deliveries`: events on their way to endpoints, and what became of them.

use http::Method;
use serde_json::{Value, json};

use super::{
    client::Client,
    connect::ClientArgs,
    exit::Exit,
    filters::{Range, Span, with},
    output::{Column, Output, columns, field},
    tail,
    tenants::note_more,
};

const LIST: &[Column] =
    columns!["id", "state", "held_by", "cause", "type", "endpoint", "attempts", "next_attempt_at"];
/// What a command on one delivery shows of it.
pub const ONE: &[Column] = columns![
    "id",
    "tenant",
    "event",
    "type",
    "endpoint",
    "state",
    "held_by",
    "cause",
    "created_at",
    "next_attempt_at",
    "attempts_left",
    "gives_up_at",
];
const ATTEMPTS: &[Column] =
    columns!["number", "at", "outcome", "probe", "status", "reason", "took_ms", "error"];

/// List, show, follow, hasten and cancel deliveries
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  snaphook deliveries list --state dead --since 24h\n  \
                        snaphook deliveries show dlv_…\n  snaphook redeliver dlv_…")]
pub struct Args {
    #[command(flatten)]
    to: ClientArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Deliveries, newest first
    List {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        range: Range,
    },
    /// One delivery, its attempts and what comes next
    Show { delivery: String },
    /// Deliveries as they come and change, until interrupted
    Tail {
        #[command(flatten)]
        which: Which,
    },
    /// Make the next attempt at once
    TryNow { delivery: String },
    /// Give up a delivery that still waits
    Cancel { delivery: String },
}

#[derive(clap::Args)]
struct Which {
    /// Of this tenant
    #[arg(long)]
    tenant: Option<String>,
    /// To this endpoint
    #[arg(long)]
    endpoint: Option<String>,
    /// Of this event
    #[arg(long)]
    event: Option<String>,
    /// Of this event type
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// pending, held, delivered, dead, canceled or filtered
    #[arg(long)]
    state: Option<String>,
    /// exhausted, gone, refused, blocked, disabled, expired or invalid
    #[arg(long)]
    cause: Option<String>,
    #[command(flatten)]
    span: Span,
}

impl Which {
    fn conditions(&self) -> [(&'static str, Option<&str>); 8] {
        [
            ("tenant", self.tenant.as_deref()),
            ("endpoint", self.endpoint.as_deref()),
            ("event", self.event.as_deref()),
            ("type", self.event_type.as_deref()),
            ("state", self.state.as_deref()),
            ("cause", self.cause.as_deref()),
            ("since", self.span.since.as_deref()),
            ("until", self.span.until.as_deref()),
        ]
    }
}

/// Runs the command.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    let client = Client::new(&args.to)?;
    let mut output = Output::new(args.to.json);
    let filtered = |which: &Which| with(&client, &["v1", "deliveries"], &which.conditions());
    match args.action {
        Action::List { which, range } => {
            let (items, more) = client.list(&filtered(&which), range.limit).await?;
            output.list(LIST, &items)?;
            note_more(more);
        }
        Action::Show { delivery } => {
            let shown = client.get(&client.url(&["v1", "deliveries", &delivery])).await?;
            output.one(ONE, &shown)?;
            if !output.is_json() {
                output.list(ATTEMPTS, &attempts(shown.get())?)?;
            }
        }
        Action::Tail { which } => {
            // A delivery comes again when it has changed.
            let seen = |delivery: &Value| {
                let parts = ["id", "state", "attempts"].map(|name| field(delivery, name));
                Some(parts.join(" "))
            };
            return tail::follow(&client, &filtered(&which), seen, LIST, &mut output).await;
        }
        Action::TryNow { delivery } => command(&client, &delivery, "try-now", &mut output).await?,
        Action::Cancel { delivery } => command(&client, &delivery, "cancel", &mut output).await?,
    }
    Ok(Exit::Done)
}

/// Posts to one delivery and shows it.
pub async fn command(
    client: &Client,
    delivery: &str,
    what: &str,
    output: &mut Output,
) -> anyhow::Result<()> {
    let url = client.url(&["v1", "deliveries", delivery, what]);
    let shown = client.send(Method::POST, &url, &json!({})).await?;
    output.one(ONE, &shown)
}

fn attempts(delivery: &str) -> anyhow::Result<Vec<Box<serde_json::value::RawValue>>> {
    #[derive(serde::Deserialize)]
    struct Delivery {
        #[serde(default)]
        attempts: Vec<Box<serde_json::value::RawValue>>,
    }
    Ok(serde_json::from_str::<Delivery>(delivery)?.attempts)
}
