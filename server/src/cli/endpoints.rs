//! `snaphook endpoints`: the URLs that events go to.

use http::Method;
use serde_json::{Map, Value, json};
use url::Url;

use super::{
    ask,
    client::Client,
    connect::ClientArgs,
    endpoint_fields::EndpointFields,
    exit::{Exit, checked},
    filters::Range,
    find, note,
    output::{Column, Output, columns, field},
    tenants::note_more,
};

const LIST: &[Column] = columns![
    "id",
    "state",
    "health.state",
    "health.circuit.state",
    "url",
    "event_types",
    "description"
];
const ONE: &[Column] = columns![
    "id",
    "tenant",
    "kind",
    "url",
    "state",
    "state_reason",
    "health.state",
    "health.since",
    "health.reason",
    "health.last_success_at",
    "health.last_failure_at",
    "health.disables_at",
    "health.circuit.state",
    "health.circuit.next_probe_at",
    "description",
    "event_types",
    "filter",
    "format",
    "signature",
    "headers",
    "timeout",
    "retry_schedule",
    "final_statuses",
    "max_in_flight",
    "rate_limit",
    "ordered",
    "reach",
    "metadata",
    "created_at",
    "updated_at",
    "secret",
];

/// List, show, create, update, pause, resume, enable, probe, test and delete endpoints
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  snaphook endpoints create acme --url https://acme.example/hooks \
                  --event-types 'order.*'\n  snaphook endpoints list acme"
)]
pub struct Args {
    #[command(flatten)]
    to: ClientArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// All endpoints of a tenant
    List {
        #[arg(env = "SNAPHOOK_TENANT")]
        tenant: String,
        #[command(flatten)]
        range: Range,
    },
    /// One endpoint with its settings
    Show(Which),
    /// Create an endpoint; shows its secret
    Create {
        tenant: String,
        /// Where requests go; not for one of kind queue
        #[arg(long, required_unless_present = "kind")]
        url: Option<String>,
        #[command(flatten)]
        fields: Box<EndpointFields>,
    },
    /// Change what is given and leave the rest
    Update {
        #[command(flatten)]
        which: Which,
        /// Where requests go
        #[arg(long)]
        url: Option<String>,
        #[command(flatten)]
        fields: Box<EndpointFields>,
    },
    /// Hold what comes for it
    Pause(Which),
    /// Send again, beginning with what was held
    Resume(Which),
    /// Use a disabled endpoint again, beginning with what was held
    Enable {
        #[command(flatten)]
        which: Which,
        /// What becomes of what was held: send or discard
        #[arg(long, value_name = "WHAT", default_value = "send", value_parser = ["send", "discard"])]
        held: String,
    },
    /// Attempt what waits longest now, although the endpoint rests after failures
    Probe(Which),
    /// Send a signed test event now and show what came back
    Test(Which),
    /// Delete an endpoint; what waits for it is canceled
    Delete {
        #[command(flatten)]
        which: Which,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

/// An endpoint, and its tenant where that is known.
#[derive(clap::Args)]
struct Which {
    endpoint: String,
    /// The endpoint's tenant; found by itself, but faster when given
    #[arg(long, env = "SNAPHOOK_TENANT")]
    tenant: Option<String>,
}

/// Runs the command.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    let client = Client::new(&args.to)?;
    let mut output = Output::new(args.to.json);
    let find = async |which: &Which| {
        find::endpoint(&client, &which.endpoint, which.tenant.as_deref()).await
    };
    match args.action {
        Action::List { tenant, range } => {
            let url = client.url(&["v1", "tenants", &tenant, "endpoints"]);
            let (items, more) = client.list(&url, range.limit).await?;
            output.list(LIST, &items)?;
            note_more(more);
        }
        Action::Show(which) => {
            let shown = client.get(&find(&which).await?.url(&[])).await?;
            output.one(ONE, &shown)?;
        }
        Action::Create { tenant, url, fields } => {
            let body = body(url, *fields)?;
            let url = client.url(&["v1", "tenants", &tenant, "endpoints"]);
            output.one(ONE, &client.send(Method::POST, &url, &body).await?)?;
        }
        Action::Update { which, url, fields } => {
            let at = find(&which).await?.url(&[]);
            let body = body(url, *fields)?;
            output.one(ONE, &client.send(Method::PATCH, &at, &body).await?)?;
        }
        Action::Pause(which) => {
            switch(&client, find(&which).await?.url(&["pause"]), json!({}), &mut output).await?;
        }
        Action::Resume(which) => {
            switch(&client, find(&which).await?.url(&["resume"]), json!({}), &mut output).await?;
        }
        Action::Enable { which, held } => {
            let (at, body) = (find(&which).await?.url(&["enable"]), json!({ "held": held }));
            switch(&client, at, body, &mut output).await?;
        }
        Action::Probe(which) => {
            switch(&client, find(&which).await?.url(&["probe"]), json!({}), &mut output).await?;
        }
        Action::Test(which) => {
            let at = find(&which).await?.url(&["test"]);
            return show_test(&client.send(Method::POST, &at, &json!({})).await?, &mut output);
        }
        Action::Delete { which, yes } => {
            ask::confirm(yes, &format!("Delete endpoint {}?", which.endpoint))?;
            client.delete(&find(&which).await?.url(&[])).await?;
            note(&format!("{} is deleted", which.endpoint));
        }
    }
    Ok(Exit::Done)
}

async fn switch(client: &Client, at: Url, body: Value, output: &mut Output) -> anyhow::Result<()> {
    output.one(ONE, &client.send(Method::POST, &at, &body).await?)
}

fn body(url: Option<String>, fields: EndpointFields) -> anyhow::Result<Value> {
    let mut body: Map<String, Value> = fields.body()?;
    body.extend(url.map(|url| ("url".to_owned(), Value::from(url))));
    Ok(body.into())
}

/// A test that did not deliver is a check that failed.
fn show_test(answer: &serde_json::value::RawValue, output: &mut Output) -> anyhow::Result<Exit> {
    const TEST: &[Column] =
        columns!["id", "delivery", "event", "outcome", "status", "reason", "detail", "took_ms"];
    let shown = output.one(TEST, answer);
    let answer: Value = serde_json::from_str(answer.get())?;
    checked(field(&answer, "outcome") == "delivered", shown)
}
