//! What can be set on an endpoint from the command line. Each flag is the API's field of that
//! name; the server judges the values, so that there is one judge.

use serde_json::{Map, Value, json};

use super::{exit::Failure, input};

/// Flags of `endpoints create` and `endpoints update`.
#[derive(Debug, clap::Args)]
pub struct EndpointFields {
    /// http, or queue: consumers pull from it, and it has no URL
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// For people
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Which events it wants: order.paid, 'order.*' or '*'; several with commas
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    event_types: Option<Vec<String>>,
    /// Conditions on the payload, JSON
    #[arg(long, value_name = "JSON")]
    filter: Option<String>,
    /// event, thin, standard, cloudevents, cloudevents-binary or raw
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
    /// standard, t-v1, sha256-hex or source; several with commas; sha256-hex:X-My-Header names the header
    #[arg(long, value_name = "PROFILES", value_delimiter = ',')]
    signature: Option<Vec<String>>,
    /// A further header of each request, 'Name: value'; may be repeated
    #[arg(long = "header", value_name = "HEADER")]
    headers: Option<Vec<String>>,
    /// For a whole attempt, 1s to 30s
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
    /// standard, long, brisk, or pauses with commas: 0s,5m,2h
    #[arg(long, value_name = "PAUSES")]
    retry_schedule: Option<String>,
    /// Answers that end a delivery at once: 400,4xx
    #[arg(long, value_name = "STATUSES", value_delimiter = ',')]
    final_statuses: Option<Vec<String>>,
    /// Requests under way at once
    #[arg(long, value_name = "N")]
    max_in_flight: Option<u32>,
    /// Requests in a time, such as 10/s
    #[arg(long, value_name = "RATE")]
    rate_limit: Option<String>,
    /// One event after another, in order: true or false
    #[arg(long, value_name = "BOOL")]
    ordered: Option<bool>,
    /// public, or internal: your own network (operator keys only)
    #[arg(long, value_name = "REACH")]
    reach: Option<String>,
    /// Your own notes, a JSON object
    #[arg(long, value_name = "JSON")]
    metadata: Option<String>,
    /// Certificates of its own, a JSON object with ca, client_cert, client_key
    #[arg(long, value_name = "JSON")]
    tls: Option<String>,
}

impl EndpointFields {
    /// The fields that were given, as the API takes them.
    pub fn body(self) -> anyhow::Result<Map<String, Value>> {
        let mut body = Map::new();
        let mut set = |name: &str, value: Option<Value>| {
            body.extend(value.map(|value| (name.to_owned(), value)));
        };
        let json = |flag: &str, text: Option<String>| {
            text.map(|text| input::json(flag, &text)).transpose()
        };
        set("kind", self.kind.map(Value::from));
        set("description", self.description.map(Value::from));
        set("event_types", self.event_types.map(Value::from));
        set("filter", json("filter", self.filter)?);
        set("format", self.format.map(Value::from));
        set("signature", self.signature.map(|list| list.into_iter().map(profile).collect()));
        set("headers", self.headers.map(headers).transpose()?);
        set("timeout", self.timeout.map(Value::from));
        set("retry_schedule", self.retry_schedule.map(schedule));
        set(
            "final_statuses",
            self.final_statuses.map(|list| list.into_iter().map(status).collect()),
        );
        set("max_in_flight", self.max_in_flight.map(Value::from));
        set("rate_limit", self.rate_limit.map(Value::from));
        set("ordered", self.ordered.map(Value::from));
        set("reach", self.reach.map(Value::from));
        set("metadata", json("metadata", self.metadata)?);
        set("tls", json("tls", self.tls)?);
        Ok(body)
    }
}

fn headers(lines: Vec<String>) -> anyhow::Result<Value> {
    let pair = |line: String| match line.split_once(':') {
        Some((name, value)) => Ok((name.trim().to_owned(), Value::from(value.trim()))),
        None => Err(Failure::usage(format!("--header {line:?} has no colon"))
            .hint("write --header 'Name: value'")),
    };
    Ok(Value::Object(lines.into_iter().map(pair).collect::<Result<_, _>>()?))
}

/// Pauses have digits or commas in them; a preset is one word.
fn schedule(text: String) -> Value {
    if text.contains(|c: char| c == ',' || c.is_ascii_digit()) {
        text.split(',').map(|pause| Value::from(pause.trim())).collect()
    } else {
        text.into()
    }
}

fn profile(text: String) -> Value {
    match text.split_once(':') {
        Some((profile, header)) => json!({"profile": profile, "header": header.trim()}),
        None => text.into(),
    }
}

fn status(text: String) -> Value {
    text.parse::<u16>().map_or_else(|_| text.into(), Value::from)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        fields: EndpointFields,
    }

    fn body(flags: &[&str]) -> anyhow::Result<Value> {
        let line = Line::try_parse_from(["x"].iter().chain(flags))?;
        line.fields.body().map(Value::Object)
    }

    #[test]
    fn flags_become_the_fields_of_the_api() {
        let flags = [
            "--event-types=order.*,invoice.paid",
            "--header=X-One: 1",
            "--header=X-Two: a: b",
            "--retry-schedule=0s, 5m",
            "--final-statuses=400,5xx",
            "--signature=standard,sha256-hex:X-Sig",
            "--ordered=true",
            "--filter={\"/n\":{\"gt\":1.10}}",
        ];
        let expected = json!({
            "event_types": ["order.*", "invoice.paid"],
            "headers": {"X-One": "1", "X-Two": "a: b"},
            "retry_schedule": ["0s", "5m"],
            "final_statuses": [400, "5xx"],
            "signature": ["standard", {"profile": "sha256-hex", "header": "X-Sig"}],
            "ordered": true,
            "filter": {"/n": {"gt": 1.1}},
        });
        assert_eq!(body(&flags).unwrap(), expected);
        assert_eq!(body(&["--retry-schedule=brisk"]).unwrap(), json!({"retry_schedule": "brisk"}));
        assert_eq!(body(&[]).unwrap(), json!({}), "what is not given is left as it is");
        assert!(body(&["--header=X-One"]).unwrap_err().to_string().contains("has no colon"));
    }
}
