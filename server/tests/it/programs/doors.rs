//! One event through any door: over HTTP, by the command line, from Rust, in SQL.

use std::fmt::Write as _;

use serde_json::{Value, json};
use snaphook::{Emit, Timestamp, emit, emit_many};
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};

use super::node::Node;
use crate::support::{
    databases::{Database, Kind},
    program::exchange,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    Http,
    Batch,
    Raw,
    CommandLine,
    Rust,
    RustMany,
    /// `snaphook.emit` with data as this type, or `outbox`.
    Sql(&'static str),
    SqlMany,
    View,
}
pub use Door::{Batch, CommandLine, Http, Raw, Rust, RustMany, Sql, SqlMany, View};

/// One event, all of it text.
#[derive(Clone, Debug)]
pub struct Given {
    pub tenant: String,
    pub event_type: String,
    pub data: Option<String>,
    pub key: Option<String>,
    pub version: Option<String>,
    pub occurred_at: Option<String>,
    pub traceparent: Option<String>,
}

pub fn given(field: &str, value: &str) -> Given {
    let mut given = Given {
        tenant: "acme".to_owned(),
        event_type: "order.paid".to_owned(),
        data: Some("{}".to_owned()),
        key: None,
        version: None,
        occurred_at: None,
        traceparent: None,
    };
    let value = value.to_owned();
    match field {
        "tenant" => given.tenant = value,
        "type" => given.event_type = value,
        "key" => given.key = Some(value),
        "version" => given.version = Some(value),
        "occurred_at" => given.occurred_at = Some(value),
        "traceparent" => given.traceparent = Some(value),
        _ => given.data = Some(value),
    }
    given
}

/// A server, and another program's connection to its database.
pub struct Place<'a> {
    pub node: &'a Node,
    pub database: &'a Database,
}

enum Program {
    Postgres(PgConnection),
    Sqlite(SqliteConnection),
}

impl Place<'_> {
    async fn program(&self) -> Program {
        match self.database.kind {
            Kind::Postgres => {
                Program::Postgres(PgConnection::connect(&self.database.url).await.unwrap())
            }
            Kind::Sqlite => {
                Program::Sqlite(SqliteConnection::connect(&self.database.url).await.unwrap())
            }
        }
    }

    /// Emits by one door: nothing, or what it says. `None` where the door has no such field.
    pub async fn emit(&self, door: Door, event: &Given) -> Option<Result<(), String>> {
        Some(match door {
            Http => self.http(event),
            Batch => self.batch(event),
            Raw => self.raw(event),
            CommandLine => return self.command_line(event),
            Rust | RustMany => return self.rust(door, event).await,
            Sql(_) | SqlMany | View => self.sql(door, event).await,
        })
    }

    fn http(&self, event: &Given) -> Result<(), String> {
        let (status, answer) = self.node.client.try_call("POST /v1/events", &body(event)).unwrap();
        verdict(status, &answer)
    }

    fn batch(&self, event: &Given) -> Result<(), String> {
        let batch = json!({ "events": [body(event)] });
        let answer = self.node.client.call("POST /v1/events/batch", &batch);
        let result = &answer["results"][0];
        verdict(u16::try_from(result["status"].as_u64().unwrap()).unwrap(), &result["error"])
    }

    fn raw(&self, event: &Given) -> Result<(), String> {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        for (name, value) in [
            ("key", &event.key),
            ("version", &event.version),
            ("occurred_at", &event.occurred_at),
            ("traceparent", &event.traceparent),
        ] {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        let [tenant, event_type] = [&event.tenant, &event.event_type].map(|part| escaped(part));
        let path = format!("POST /v1/tenants/{tenant}/events/{event_type}?{}", query.finish());
        let bearer = format!("Bearer {}", self.node.client.key);
        let headers = [("authorization", &*bearer), ("content-type", "application/json")];
        let data = event.data.clone().unwrap_or_default();
        let (status, answer) =
            exchange(&self.node.client.address, &path, &headers, data.as_bytes()).unwrap();
        verdict(status, &serde_json::from_str(&answer).unwrap_or_default())
    }

    fn command_line(&self, event: &Given) -> Option<Result<(), String>> {
        let all = [&event.key, &event.version].into_iter().flatten();
        let texts = all.chain([&event.tenant, &event.event_type]);
        let cannot = event.occurred_at.is_some() || event.traceparent.is_some();
        if cannot || texts.into_iter().any(|text| text.contains('\0')) {
            return None;
        }
        let data = event.data.as_deref().unwrap_or_default();
        let mut arguments = vec!["emit", &event.tenant, &event.event_type, "--data", data];
        for (name, value) in [("--key", &event.key), ("--version", &event.version)] {
            arguments.extend(value.iter().flat_map(|value| [name, value.as_str()]));
        }
        let ended = self.node.run(&arguments);
        Some(if ended.code == 0 { Ok(()) } else { Err(ended.err) })
    }

    async fn rust(&self, door: Door, event: &Given) -> Option<Result<(), String>> {
        let data = event.data.clone()?;
        let mut one = Emit::new(event.tenant.as_str(), event.event_type.as_str(), data);
        if let Some(key) = &event.key {
            one = one.key(key.as_str());
        }
        if let Some(version) = &event.version {
            one = one.version(version.as_str());
        }
        if let Some(traceparent) = &event.traceparent {
            one = one.traceparent(traceparent.as_str());
        }
        if let Some(time) = &event.occurred_at {
            one = one.occurred_at(Timestamp::parse(time)?); // else it is no time to begin with
        }
        let many = [one.clone(), one.clone()];
        let emitted = match (self.program().await, door) {
            (Program::Postgres(mut program), Rust) => emit(&mut program, one).await.map(drop),
            (Program::Postgres(mut program), _) => emit_many(&mut program, &many).await.map(drop),
            (Program::Sqlite(mut program), Rust) => emit(&mut program, one).await.map(drop),
            (Program::Sqlite(mut program), _) => emit_many(&mut program, &many).await.map(drop),
        };
        Some(emitted.map_err(|error| error.to_string()))
    }

    async fn sql(&self, door: Door, event: &Given) -> Result<(), String> {
        let columns = "tenant, type, data, key, version, occurred_at, traceparent";
        let statement = match (door, self.database.kind) {
            (Sql(kind), _) => {
                format!("SELECT snaphook.emit($1, $2, $3::{kind}, $4, $5, $6::timestamptz, $7)")
            }
            (SqlMany, _) => "SELECT snaphook.emit_many(ARRAY[$1], ARRAY[$2], ARRAY[$3]::text[],
                 ARRAY[$4], ARRAY[$5], ARRAY[$6::timestamptz], ARRAY[$7])"
                .to_owned(),
            (_, Kind::Postgres) => format!(
                "INSERT INTO snaphook.outbox ({columns})
                 VALUES ($1, $2, $3, $4, $5, $6::timestamptz, $7)"
            ),
            (_, Kind::Sqlite) => {
                format!(
                    "INSERT INTO snaphook_outbox ({columns}) VALUES ($1, $2, $3, $4, $5, $6, $7)"
                )
            }
        };
        macro_rules! run {
            ($program:expr) => {
                sqlx::query(AssertSqlSafe(statement))
                    .bind(&event.tenant)
                    .bind(&event.event_type)
                    .bind(&event.data)
                    .bind(&event.key)
                    .bind(&event.version)
                    .bind(&event.occurred_at)
                    .bind(&event.traceparent)
                    .execute($program)
                    .await
                    .map(drop)
            };
        }
        let done = match &mut self.program().await {
            Program::Postgres(program) => run!(program),
            Program::Sqlite(program) => run!(program),
        };
        done.map_err(|error| error.as_database_error().unwrap().message().to_owned())
    }
}

fn body(event: &Given) -> Value {
    let mut body = json!({
        "tenant": event.tenant, "type": event.event_type, "key": event.key,
        "version": event.version, "occurred_at": event.occurred_at,
        "traceparent": event.traceparent,
    });
    if let Some(data) = &event.data {
        body["data"] = serde_json::from_str(data).unwrap();
    }
    body
}

fn verdict(status: u16, answer: &Value) -> Result<(), String> {
    if status == 202 {
        return Ok(());
    }
    assert!(matches!(status, 400 | 413 | 422), "{status} {answer}");
    let problem = |error: &Value| {
        format!("{}: {}", error["field"].as_str().unwrap(), error["problem"].as_str().unwrap())
    };
    let errors = answer["errors"].as_array().unwrap().iter().map(problem);
    let errors = errors.collect::<Vec<_>>().join("; ");
    Err(if errors.is_empty() { format!("data: {}", answer["detail"]) } else { errors })
}

fn escaped(part: &str) -> String {
    part.bytes().fold(String::new(), |mut text, byte| {
        write!(text, "%{byte:02X}").unwrap();
        text
    })
}
