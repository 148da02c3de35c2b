//! `snaphook requests`: what sources kept apart.

use http::Method;
use serde_json::{Map, Value, json};

use super::{
    ask,
    client::Client,
    connect::ClientArgs,
    exit::{Exit, checked},
    filters::Range,
    find,
    output::{Column, Output, columns, field},
    tenants::note_more,
};

const LIST: &[Column] =
    columns!["id", "received_at", "state", "step", "provider_type", "verdict", "reason"];
const ONE: &[Column] = columns![
    "id",
    "source",
    "tenant",
    "received_at",
    "state",
    "step",
    "reason",
    "verdict",
    "verified_at",
    "provider_id",
    "provider_type",
    "event",
    "accepted_at",
    "accepted_by",
    "method",
    "target",
    "headers",
    "body",
    "body_base64",
    "size",
];

/// List, show, verify, accept and redeliver requests that sources kept apart
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  snaphook requests list stripe --state rejected\n  \
                  snaphook requests verify req_…")]
pub struct Args {
    #[command(flatten)]
    to: ClientArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// What a source kept apart, the newest first
    List {
        /// Its id, src_…, or its name
        source: String,
        /// rejected, conflict, replay_suspected or accepted
        #[arg(long, value_name = "STATE")]
        state: Option<String>,
        #[command(flatten)]
        range: Range,
    },
    /// One request, with its headers and its body
    Show { request: String },
    /// Verify it again, as of its arrival, with the secrets that are live now
    Verify { request: String },
    /// Make it an event, whatever was found of it
    Accept {
        request: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Send the event of an accepted one once more
    Redeliver { request: String },
}

/// Runs the command. A request that still is not genuine is exit code 8 of `verify`.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    let client = Client::new(&args.to)?;
    let mut output = Output::new(args.to.json);
    let at = |request: &str, below: &[&str]| {
        client.url(&[&["v1", "requests", request][..], below].concat())
    };
    let nothing = Value::from(Map::new());
    match args.action {
        Action::List { source, state, range } => {
            let mut url = find::source(&client, &source).await?.url(&["requests"]);
            if let Some(state) = &state {
                url.query_pairs_mut().append_pair("state", state);
            }
            let (items, more) = client.list(&url, range.limit).await?;
            output.list(LIST, &items)?;
            note_more(more);
        }
        Action::Show { request } => output.one(ONE, &client.get(&at(&request, &[])).await?)?,
        Action::Verify { request } => {
            let url = at(&request, &["verify"]);
            let answer = client.send(Method::POST, &url, &nothing).await?;
            let shown = output.one(ONE, &answer);
            let answer: Value = serde_json::from_str(answer.get())?;
            return checked(field(&answer, "verdict") == "ok", shown);
        }
        Action::Accept { request, yes } => {
            ask::confirm(yes, &format!("Make {request} an event, on your word alone?"))?;
            let url = at(&request, &["accept"]);
            output.one(ONE, &client.send(Method::POST, &url, &json!({})).await?)?;
        }
        Action::Redeliver { request } => {
            let url = at(&request, &["redeliver"]);
            let answer = client.send(Method::POST, &url, &nothing).await?;
            output.one(columns!["redelivered"], &answer)?;
        }
    }
    Ok(Exit::Done)
}
