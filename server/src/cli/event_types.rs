//! `snaphook event-types`: what kinds of events there are, and what their data looks like.

use http::Method;
use serde_json::{Map, Value, json};

use super::{
    ask,
    client::Client,
    connect::ClientArgs,
    exit::Exit,
    filters::Range,
    input, note,
    output::{Column, Output, columns},
    tenants::note_more,
};

const LIST: &[Column] = columns!["name", "archived", "description"];
const ONE: &[Column] =
    columns!["name", "description", "schemas", "example", "archived", "created_at", "updated_at"];

/// List, show, create, update and delete event types
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  snaphook event-types create order.paid --description 'An \
                        order was paid' --schema @order.json --schema-version 2024-01")]
pub struct Args {
    #[command(flatten)]
    to: ClientArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// All event types
    List(Range),
    /// One event type with its schemas
    Show { name: String },
    /// Declare an event type
    Create {
        name: String,
        #[command(flatten)]
        fields: Fields,
    },
    /// Change what is given and leave the rest
    Update {
        name: String,
        #[command(flatten)]
        fields: Fields,
    },
    /// Take back the declaration; events of the type stay
    Delete {
        name: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

#[derive(clap::Args)]
struct Fields {
    /// For those who subscribe
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// A JSON Schema of the data: JSON, @FILE or -
    #[arg(long, value_name = "JSON")]
    schema: Option<String>,
    /// The version that the schema is for
    #[arg(long, value_name = "VERSION", requires = "schema", default_value = "1")]
    schema_version: String,
    /// Data as it may look: JSON, @FILE or -
    #[arg(long, value_name = "JSON")]
    example: Option<String>,
    /// Whether it is out of use: true or false
    #[arg(long, value_name = "BOOL")]
    archived: Option<bool>,
}

impl Fields {
    fn body(self) -> anyhow::Result<Value> {
        let mut body = Map::new();
        if let Some(description) = self.description {
            body.insert("description".to_owned(), description.into());
        }
        if let Some(schema) = self.schema {
            let schema = input::json("schema", &schema)?;
            body.insert("schemas".to_owned(), json!({ self.schema_version: schema }));
        }
        if let Some(example) = self.example {
            body.insert("example".to_owned(), input::json("example", &example)?);
        }
        if let Some(archived) = self.archived {
            body.insert("archived".to_owned(), archived.into());
        }
        Ok(body.into())
    }
}

/// Runs the command.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    let client = Client::new(&args.to)?;
    let mut output = Output::new(args.to.json);
    let at = |name: &str| client.url(&["v1", "event-types", name]);
    match args.action {
        Action::List(range) => {
            let (items, more) =
                client.list(&client.url(&["v1", "event-types"]), range.limit).await?;
            output.list(LIST, &items)?;
            note_more(more);
        }
        Action::Show { name } => output.one(ONE, &client.get(&at(&name)).await?)?,
        Action::Create { name, fields } => {
            output.one(ONE, &client.send(Method::PUT, &at(&name), &fields.body()?).await?)?;
        }
        Action::Update { name, fields } => {
            output.one(ONE, &client.send(Method::PATCH, &at(&name), &fields.body()?).await?)?;
        }
        Action::Delete { name, yes } => {
            ask::confirm(yes, &format!("Delete event type {name}?"))?;
            client.delete(&at(&name)).await?;
            note(&format!("{name} is deleted"));
        }
    }
    Ok(Exit::Done)
}
