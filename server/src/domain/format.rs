//! The body of a request, by the endpoint's `format`: the same bytes on every attempt.
//!
//! The payload is put in as it is, by joining bytes; it is never parsed and written again, so
//! numbers, order and white space stay as they were emitted. What is no JSON goes as base64.
//! Signatures and headers of other kinds are for `engine/prepare.rs`.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde::{Deserialize, Serialize, de::IgnoredAny};

use super::{id::EventId, json::syntax, time::Timestamp};

/// What the body of a request looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// `{"id","type","version","created_at","data"}`.
    #[default]
    Event,
    /// The same without `data`, with the `url` to fetch the event from.
    Thin,
    /// `{"type","timestamp","data"}`, as Standard Webhooks proposes.
    Standard,
    /// CloudEvents 1.0, structured mode.
    Cloudevents,
    /// CloudEvents 1.0, binary mode: attributes in headers, the payload as the body.
    CloudeventsBinary,
    /// The payload alone, with its own content type.
    Raw,
}

/// What an event's body is made of.
#[derive(Clone, Copy, Debug)]
pub struct EventView<'a> {
    /// The event.
    pub id: EventId,
    /// Whose it is.
    pub tenant: &'a str,
    /// What happened.
    pub event_type: &'a str,
    /// The version of its schema, if the emitter gave one.
    pub version: Option<&'a str>,
    /// When it happened, if the emitter gave a time.
    pub occurred_at: Option<Timestamp>,
    /// The bytes, as emitted.
    pub payload: &'a Bytes,
    /// As the emitter said; `None` is for [`content_type_of`] to say.
    pub content_type: Option<&'a str>,
}

/// A body, and what its receiver must know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The value of `content-type`.
    pub content_type: String,
    /// Further headers, names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The bytes to sign and to send.
    pub body: Bytes,
}

/// What bytes are that are text and no JSON, when nobody said what they are.
const TEXT: &str = "text/plain; charset=utf-8";

/// What bytes are of which nothing is known (RFC 9110, 8.3).
const BYTES: &str = "application/octet-stream";

const JSON: &str = "application/json";
const CLOUDEVENTS_JSON: &str = "application/cloudevents+json; charset=utf-8";

/// Renders an event. `base_url` is the operator's public URL, of which only `thin` makes use.
pub fn render(format: Format, event: &EventView<'_>, base_url: &str) -> Rendered {
    let body = match format {
        Format::Event => Object::new()
            .text("id", &event.id.to_string())
            .text("type", event.event_type)
            .maybe("version", event.version)
            .text("created_at", &event.time().to_string())
            .data(event),
        Format::Thin => Object::new()
            .text("id", &event.id.to_string())
            .text("type", event.event_type)
            .maybe("version", event.version)
            .text("created_at", &event.time().to_string())
            .text("url", &format!("{}/v1/events/{}", base_url.trim_end_matches('/'), event.id)),
        Format::Standard => Object::new()
            .text("type", event.event_type)
            .text("timestamp", &event.time().to_string())
            .data(event),
        Format::Cloudevents => {
            let attributes = event.attributes().into_iter();
            let object =
                attributes.fold(Object::new(), |object, (name, value)| object.text(name, &value));
            object.text("datacontenttype", event.content_type()).data(event)
        }
        Format::CloudeventsBinary => return binary(event),
        Format::Raw => return alone(event, vec![]),
    };
    let content_type = if format == Format::Cloudevents { CLOUDEVENTS_JSON } else { JSON };
    Rendered { content_type: content_type.to_owned(), headers: vec![], body: body.end() }
}

impl EventView<'_> {
    /// `occurred_at` if it was given, else when the event was accepted. A time that RFC 3339 has
    /// no digits for (before the year 1, after 9999) counts as not given.
    pub fn time(&self) -> Timestamp {
        let writable = |time: &Timestamp| (Timestamp::FIRST..=Timestamp::LAST).contains(time);
        self.occurred_at.filter(writable).unwrap_or_else(|| self.id.created_at())
    }

    /// The context attributes of CloudEvents 1.0, and our own extension `version`.
    ///
    /// `source` is `urn:snaphook:{tenant}`: it must not change between two attempts, which a URL
    /// of the operator's might.
    fn attributes(&self) -> Vec<(&'static str, String)> {
        let mut attributes = vec![
            ("specversion", "1.0".to_owned()),
            ("id", self.id.to_string()),
            ("source", format!("urn:snaphook:{}", self.tenant)),
            ("type", self.event_type.to_owned()),
            ("time", self.time().to_string()),
        ];
        attributes.extend(self.version.map(|version| ("version", version.to_owned())));
        attributes
    }

    fn content_type(&self) -> &str {
        content_type_of(self.content_type, self.payload)
    }

    /// Whether the payload can stand in a JSON document as it is.
    fn is_json(&self) -> bool {
        is_json(self.content_type, self.payload)
    }
}

/// What a payload is: as its emitter said, and where none did (SQL has no place for it) what its
/// bytes are. JSON is what is expected; text that is none must not go out under that name.
pub fn content_type_of<'a>(given: Option<&'a str>, payload: &[u8]) -> &'a str {
    match given {
        Some(given) => given,
        None if json_problem(payload).is_none() => JSON,
        None if std::str::from_utf8(payload).is_ok() => TEXT,
        None => BYTES,
    }
}

/// Whether a payload is JSON: by what its emitter said, and by its bytes.
pub fn is_json(given: Option<&str>, payload: &[u8]) -> bool {
    given.is_none_or(is_json_type) && json_problem(payload).is_none()
}

/// Why bytes are no JSON text (RFC 8259, in UTF-8), if they are none.
pub fn json_problem(payload: &[u8]) -> Option<String> {
    match std::str::from_utf8(payload) {
        Ok(text) => serde_json::from_str::<IgnoredAny>(text).err().map(|error| syntax(&error)),
        Err(error) => Some(error.to_string()),
    }
}

/// `application/json`, `text/json` and `…+json` (RFC 6839), unless in another encoding.
fn is_json_type(content_type: &str) -> bool {
    let lower = content_type.to_ascii_lowercase();
    let (essence, parameters) = lower.split_once(';').unwrap_or((&lower, ""));
    let essence = essence.trim();
    let charset = parameters.split(';').find_map(|part| part.trim().strip_prefix("charset="));
    let named = matches!(essence, JSON | "text/json") || essence.ends_with("+json");
    named
        && charset
            .is_none_or(|name| matches!(name.trim_matches('"'), "utf-8" | "utf8" | "us-ascii"))
}

/// CloudEvents over HTTP, binary mode: the payload with its own type, attributes as `ce-…`.
fn binary(event: &EventView<'_>) -> Rendered {
    let headers = event.attributes().into_iter().map(|(name, value)| {
        let header = match name {
            "specversion" => "ce-specversion",
            "id" => "ce-id",
            "source" => "ce-source",
            "type" => "ce-type",
            "time" => "ce-time",
            _ => "ce-version",
        };
        (header, header_value(&value))
    });
    alone(event, headers.collect())
}

fn alone(event: &EventView<'_>, headers: Vec<(&'static str, String)>) -> Rendered {
    let content_type = event.content_type().to_owned();
    Rendered { content_type, headers, body: event.payload.clone() }
}

/// Percent-encodes all but printable ASCII, and of that the blank, `"` and `%` (HTTP Protocol
/// Binding for CloudEvents 1.0.2, 3.1.3.2).
fn header_value(text: &str) -> String {
    use std::fmt::Write as _;
    let mut value = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'!'..=b'~' if !matches!(byte, b'"' | b'%') => value.push(char::from(byte)),
            _ => write!(value, "%{byte:02X}").expect("a string takes everything"),
        }
    }
    value
}

/// A JSON object that is written member by member.
struct Object(Vec<u8>);

impl Object {
    fn new() -> Self {
        Self(vec![b'{'])
    }

    /// `name` is one of ours and needs no escape.
    fn name(mut self, name: &str) -> Self {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        self.0.push(b'"');
        self.0.extend(name.as_bytes());
        self.0.extend(b"\":");
        self
    }

    fn text(self, name: &str, value: &str) -> Self {
        let mut object = self.name(name);
        serde_json::to_writer(&mut object.0, value).expect("a vector takes every text");
        object
    }

    fn maybe(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.text(name, value),
            None => self,
        }
    }

    fn data(self, event: &EventView<'_>) -> Self {
        if !event.is_json() {
            return self.text("data_base64", &BASE64_STANDARD.encode(event.payload));
        }
        let mut object = self.name("data");
        object.0.extend_from_slice(event.payload);
        object
    }

    fn end(mut self) -> Bytes {
        self.0.push(b'}');
        self.0.into()
    }
}

#[cfg(test)]
mod tests;
