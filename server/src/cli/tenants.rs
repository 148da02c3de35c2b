//! `snaphook tenants`: whose endpoints and events they are.

use http::Method;
use serde_json::{Map, Value};

use super::{
    ask,
    client::Client,
    connect::ClientArgs,
    exit::Exit,
    filters::Range,
    input, note,
    output::{Column, Output, columns},
};

const LIST: &[Column] = columns!["id", "owner_email", "created_at"];
const ONE: &[Column] = columns!["id", "owner_email", "metadata", "created_at", "updated_at"];

/// List, show, create, update and delete tenants
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  snaphook tenants create acme --owner-email it@acme.example\n  \
                        snaphook tenants list"
)]
pub struct Args {
    #[command(flatten)]
    to: ClientArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// All tenants
    List(Range),
    /// One tenant
    Show { tenant: String },
    /// Create a tenant; its name is your own key for it, such as a customer number
    Create {
        tenant: String,
        #[command(flatten)]
        fields: Fields,
    },
    /// Change what is given and leave the rest
    Update {
        tenant: String,
        #[command(flatten)]
        fields: Fields,
    },
    /// Delete a tenant and its endpoints; what waits is canceled, history stays
    Delete {
        tenant: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

#[derive(clap::Args)]
struct Fields {
    /// Whom to tell when an endpoint fails
    #[arg(long, value_name = "EMAIL")]
    owner_email: Option<String>,
    /// Your own notes, a JSON object
    #[arg(long, value_name = "JSON")]
    metadata: Option<String>,
}

impl Fields {
    fn body(&self) -> anyhow::Result<Value> {
        let mut body = Map::new();
        if let Some(email) = &self.owner_email {
            body.insert("owner_email".to_owned(), email.as_str().into());
        }
        if let Some(metadata) = &self.metadata {
            body.insert("metadata".to_owned(), input::json("metadata", metadata)?);
        }
        Ok(body.into())
    }
}

/// Runs the command.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    let client = Client::new(&args.to)?;
    let mut output = Output::new(args.to.json);
    let at = |tenant: &str| client.url(&["v1", "tenants", tenant]);
    match args.action {
        Action::List(range) => {
            let (items, more) = client.list(&client.url(&["v1", "tenants"]), range.limit).await?;
            output.list(LIST, &items)?;
            note_more(more);
        }
        Action::Show { tenant } => output.one(ONE, &client.get(&at(&tenant)).await?)?,
        Action::Create { tenant, fields } => {
            output.one(ONE, &client.send(Method::PUT, &at(&tenant), &fields.body()?).await?)?;
        }
        Action::Update { tenant, fields } => {
            output.one(ONE, &client.send(Method::PATCH, &at(&tenant), &fields.body()?).await?)?;
        }
        Action::Delete { tenant, yes } => {
            ask::confirm(yes, &format!("Delete tenant {tenant} and all its endpoints?"))?;
            client.delete(&at(&tenant)).await?;
            note(&format!("{tenant} is deleted"));
        }
    }
    Ok(Exit::Done)
}

/// Says that a listing was cut, so that nobody takes it for the whole.
pub fn note_more(more: bool) {
    if more {
        note("there are more; --limit shows them");
    }
}
