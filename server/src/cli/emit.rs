//! `snaphook emit`: an event from the command line, its data byte for byte as given.

use bytes::Bytes;

use super::{
    client::Client,
    connect::ClientArgs,
    exit::{Exit, Failure},
    filters::with,
    input,
    output::{Column, Output, field},
};
use crate::domain::format::json_problem;

const SHOWN: &[Column] = &[
    Column { title: "id", text: |event| field(event, "id") },
    Column { title: "type", text: |event| field(event, "type") },
    Column { title: "key", text: |event| field(event, "key") },
    // Only worth a line when it is so.
    Column { title: "duplicate", text: |event| yes(event, "duplicate") },
    Column { title: "differs", text: |event| yes(event, "differs") },
    Column { title: "created_at", text: |event| field(event, "created_at") },
];

fn yes(event: &serde_json::Value, name: &str) -> String {
    if event[name] == true { "true".to_owned() } else { String::new() }
}

const JSON: &str = "application/json";

/// Emit an event
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  snaphook emit acme order.paid --data '{\"order_id\":42}' \
                        --key order-42-paid\n  snaphook emit acme report.ready --data @report.json")]
pub struct Args {
    #[command(flatten)]
    to: ClientArgs,
    tenant: String,
    /// The event's type, such as order.paid
    #[arg(value_name = "TYPE")]
    event_type: String,
    /// The payload: text, @FILE, or - for standard input
    #[arg(long, default_value = "{}", value_name = "DATA")]
    data: String,
    /// Makes two events one: the same key again is a duplicate
    #[arg(long)]
    key: Option<String>,
    /// The version of the type's schema
    #[arg(long = "version", value_name = "VERSION")]
    version: Option<String>,
    /// The payload's type
    #[arg(long, default_value = JSON, value_name = "TYPE")]
    content_type: String,
}

/// Runs the command.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    let data = input::bytes(&args.data)?;
    if args.content_type == JSON
        && let Some(error) = json_problem(&data)
    {
        return Err(Failure::usage(format!("--data is no JSON: {error}"))
            .hint("quote it for the shell, or name what it is with --content-type")
            .into());
    }
    let client = Client::new(&args.to)?;
    let path = ["v1", "tenants", &args.tenant, "events", &args.event_type];
    let conditions = [("key", args.key.as_deref()), ("version", args.version.as_deref())];
    let url = with(&client, &path, &conditions);
    let event = client.post_bytes(&url, &args.content_type, Bytes::from(data)).await?;
    Output::new(args.to.json).one(SHOWN, &event)?;
    Ok(Exit::Done)
}
