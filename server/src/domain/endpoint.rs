//! What an owner can set on an endpoint, as it is written in JSON; and what is wrong with it.
//!
//! A setting that is `None` follows the operator's configuration. `apply` takes a change from
//! the API or the command line and reports every bad field at once; `validate` judges the whole.
//! State, health and secrets of an endpoint are not settings and not here.

use std::{fmt, time::Duration};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, SeqAccess, Unexpected, Visitor, value::SeqAccessDeserializer},
};
use serde_json::{Map, Value};

use super::{
    duration,
    endpoint_kind::{self, EndpointKind},
    event_type::Pattern,
    filter::Filter,
    final_statuses::FinalStatuses,
    format::Format,
    json,
    own_headers::OwnHeaders,
    problem::{Problem, shorten, shown},
    profile::Profiles,
    rate::RateLimit,
    retry::RetrySchedule,
    tls_settings::TlsSettings,
    url::EndpointUrl,
};

/// The shortest and the longest time that a whole attempt may take. Under a second, distant
/// receivers would never answer; Standard Webhooks asks for 15 s to 30 s, and leases rest on 30 s.
pub const TIMEOUT_RANGE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Bytes of a description: a few sentences.
pub const DESCRIPTION_BYTES_MAX: usize = 1_024;

/// Bytes of `metadata` as compact JSON: notes and ids of the owner, not documents.
pub const METADATA_BYTES_MAX: usize = 16_384;

/// Patterns of one endpoint. Each is looked up at every emit.
pub const EVENT_TYPES_MAX: usize = 256;

/// Requests that may be under way to one endpoint; more would be an attack on it.
pub const IN_FLIGHT_MAX: u32 = 1_000;

/// Settings of one endpoint. `Debug` shows neither header values nor private keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EndpointSettings {
    /// Whether deliveries are posted or pulled. Stays as it was made.
    pub kind: EndpointKind,
    /// Where requests go. The stored form of `EndpointUrl` once it is saved.
    pub url: String,
    /// For people.
    pub description: String,
    /// Which events it wants: exact types, `order.*`, `*`. All by default.
    pub event_types: Vec<String>,
    /// Conditions on the payload, as written; `null` for none.
    pub filter: Value,
    /// What the body looks like.
    pub format: Format,
    /// How requests are signed.
    pub signature: Profiles,
    /// Further headers of each request.
    pub headers: OwnHeaders,
    /// For the whole attempt, the answer's body inside.
    pub timeout: Option<duration::Text>,
    /// The pauses between attempts.
    pub retry_schedule: Option<ScheduleText>,
    /// Statuses that end a delivery at once.
    pub final_statuses: Vec<StatusText>,
    /// Requests that may be under way at once.
    pub max_in_flight: Option<u32>,
    /// Requests in a time.
    pub rate_limit: Option<RateLimit>,
    /// Whether events go one after another, in the order of their ids.
    pub ordered: bool,
    /// Whether the endpoint may lie inside the operator's own network.
    pub reach: Reach,
    /// The owner's own notes; never read by snaphook.
    pub metadata: Map<String, Value>,
    /// Certificates for this endpoint alone.
    pub tls: TlsSettings,
}

impl Default for EndpointSettings {
    fn default() -> Self {
        Self {
            kind: EndpointKind::default(),
            url: String::new(),
            description: String::new(),
            event_types: vec!["*".to_owned()],
            filter: Value::Null,
            format: Format::default(),
            signature: Profiles::default(),
            headers: OwnHeaders::default(),
            timeout: None,
            retry_schedule: None,
            final_statuses: Vec::new(),
            max_in_flight: None,
            rate_limit: None,
            ordered: false,
            reach: Reach::default(),
            metadata: Map::new(),
            tls: TlsSettings::default(),
        }
    }
}

/// How far into our own network requests to an endpoint may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reach {
    /// Public addresses only.
    #[default]
    Public,
    /// Private addresses too. Only an operator may set it.
    Internal,
}

/// A retry schedule as written: the name of a preset, or the pauses themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum ScheduleText {
    /// `standard`, `long` or `brisk`.
    Preset(String),
    /// The first is the wait before attempt 1.
    Pauses(Vec<duration::Text>),
}

/// A status, or a class of them, as written: `400` or `"4xx"`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum StatusText {
    /// One status.
    Code(u16),
    /// `"4xx"`; also a status in quotes.
    Class(String),
}

// Written out, because serde tells of an untagged enum neither the place nor the value.

impl<'de> Deserialize<'de> for ScheduleText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = ScheduleText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "the name of a preset (standard, long, brisk) or a list of durations in \
                     quotes, for example [\"0s\", \"5m\", \"2h\"]",
                )
            }
            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<ScheduleText, E> {
                Ok(ScheduleText::Preset(name.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, pauses: A) -> Result<ScheduleText, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(pauses)).map(ScheduleText::Pauses)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl<'de> Deserialize<'de> for StatusText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = StatusText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a status or a class of them, for example 400 or \"4xx\"")
            }
            fn visit_u64<E: serde::de::Error>(self, code: u64) -> Result<StatusText, E> {
                let wrong = || E::invalid_value(Unexpected::Unsigned(code), &self);
                u16::try_from(code).map(StatusText::Code).map_err(|_| wrong())
            }
            fn visit_str<E: serde::de::Error>(self, class: &str) -> Result<StatusText, E> {
                Ok(StatusText::Class(class.to_owned()))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// What of the settings must not be readable in the database: header values and the private key
/// of a client certificate. It is sealed and kept apart from the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Private {
    headers: OwnHeaders,
    tls: TlsSettings,
}

impl Private {
    /// Whether there is nothing to seal.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl EndpointSettings {
    /// Takes a change: each field that is named is replaced, `null` brings back its default, and
    /// the members of `headers`, `metadata` and `tls` are merged one by one (RFC 7396). Gives
    /// every field that is unknown or cannot be read; then nothing should be stored.
    pub fn apply(&mut self, change: &Map<String, Value>) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (name, value) in change {
            match (name.as_str(), value) {
                ("headers", Value::Object(change)) => problems.extend(self.headers.merge(change)),
                ("metadata", Value::Object(change)) => merge(&mut self.metadata, change),
                ("tls", Value::Object(change)) => problems.extend(self.tls.merge(change)),
                // What was written there is not shown: it may be a token or a key.
                ("headers" | "tls", value) if !value.is_null() => {
                    let problem = "write an object of names and texts, or null to remove all";
                    problems.push(Problem::new(name, problem));
                }
                _ => problems.extend(self.replace(name, value).err()),
            }
        }
        problems
    }

    fn replace(&mut self, name: &str, value: &Value) -> Result<(), Problem> {
        macro_rules! replace {
            ($($field:ident)*) => {
                match name {
                    $(stringify!($field) => self.$field = read(name, value, Self::default().$field)?,)*
                    _ => return Err(Problem::new(
                        shorten(name, 64),
                        concat!("there is no such field; an endpoint has" $(, " ", stringify!($field))*),
                    )),
                }
            };
        }
        replace!(
            kind url description event_types filter format signature headers timeout retry_schedule
            final_statuses max_in_flight rate_limit ordered reach metadata tls
        );
        Ok(())
    }

    /// Everything that is wrong with these settings taken together. Whether the guard lets the
    /// URL pass, and whether certificates can be used, is for others to say.
    pub fn validate(&self) -> Vec<Problem> {
        let mut problems = self.parsed_problems();
        problems.extend(self.limit_problems());
        problems.extend(self.signature.problems());
        let taken = self.taken_headers();
        let taken: Vec<&str> = taken.iter().map(String::as_str).collect();
        problems.extend(self.headers.problems(&taken));
        problems.extend(self.tls.problems());
        problems
    }

    /// Fields that have a parser of their own.
    fn parsed_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        match (self.kind, EndpointUrl::parse(&self.url)) {
            (EndpointKind::Http, Err(error)) => problems.push(Problem::new("url", error)),
            (EndpointKind::Http, Ok(_)) => {}
            (EndpointKind::Queue, _) => problems.extend(endpoint_kind::pulled_problems(self)),
        }
        problems.extend(self.pattern_problems());
        if let Err(error) = Filter::parse_setting(&self.filter) {
            problems.push(Problem::new("filter", error));
        }
        if let Some(Err(error)) = self.retry_schedule.as_ref().map(RetrySchedule::from_text) {
            problems.push(Problem::new("retry_schedule", error));
        }
        if let Err(error) = FinalStatuses::from_texts(&self.final_statuses) {
            problems.push(Problem::new("final_statuses", error));
        }
        problems
    }

    /// Of too many patterns the number alone is told, and of one that is given often one sentence.
    fn pattern_problems(&self) -> Vec<Problem> {
        let patterns = &self.event_types;
        let one = |problem: String| vec![Problem::new("event_types", problem)];
        match patterns.len() {
            0 => return one("it is empty; name at least one, [\"*\"] means all".to_owned()),
            1..=EVENT_TYPES_MAX => {}
            count => {
                return one(format!(
                    "there are {count}; at most {EVENT_TYPES_MAX} are allowed, use order.* or *"
                ));
            }
        }
        let mut problems = Vec::new();
        for (index, pattern) in patterns.iter().enumerate() {
            if patterns[..index].contains(pattern) {
                continue; // told at the first of them
            }
            let field = || format!("event_types[{index}]");
            let times = patterns.iter().filter(|other| *other == pattern).count();
            if let Err(error) = Pattern::parse(pattern) {
                problems.push(Problem::new(field(), error));
            } else if times > 1 {
                let problem = format!("{} is given {times} times; give it once", shown(pattern));
                problems.push(Problem::new(field(), problem));
            }
        }
        problems
    }

    fn limit_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut add = |field: &str, wrong: bool, problem: String| {
            if wrong {
                problems.push(Problem::new(field, problem));
            }
        };
        let bytes = self.description.len();
        add("description", bytes > DESCRIPTION_BYTES_MAX, over(bytes, DESCRIPTION_BYTES_MAX));
        let (shortest, longest) = TIMEOUT_RANGE;
        if let Some(timeout) = self.timeout {
            let outside = timeout.0 < shortest || timeout.0 > longest;
            add("timeout", outside, format!("{timeout} does not fit; write 1s to 30s"));
        }
        if let Some(most) = self.max_in_flight {
            let outside = !(1..=IN_FLIGHT_MAX).contains(&most);
            add(
                "max_in_flight",
                outside,
                format!("{most} does not fit; write 1 to {IN_FLIGHT_MAX}"),
            );
        }
        let bytes = serde_json::to_string(&self.metadata).map_or(usize::MAX, |text| text.len());
        add("metadata", bytes > METADATA_BYTES_MAX, over(bytes, METADATA_BYTES_MAX));
        problems
    }

    /// Lower-case names of headers that the signatures and the format set themselves.
    fn taken_headers(&self) -> Vec<String> {
        let mut taken = self.signature.headers();
        if self.format == Format::CloudeventsBinary {
            let own = self.headers.iter().map(|(name, _)| name.to_ascii_lowercase());
            taken.extend(own.filter(|name| name.starts_with("ce-")));
        }
        taken
    }

    /// These settings with write-only values replaced by [`HIDDEN`](super::own_headers::HIDDEN):
    /// what the API may show. Applied again, it changes nothing.
    #[must_use]
    pub fn shown(&self) -> Self {
        Self { headers: self.headers.hidden(), tls: self.tls.hidden(), ..self.clone() }
    }

    /// Takes out what must be sealed. What remains may be stored as it is.
    pub fn take_private(&mut self) -> Private {
        let headers = std::mem::take(&mut self.headers);
        let tls = TlsSettings { client_key: self.tls.client_key.take(), ..TlsSettings::default() };
        Private { headers, tls }
    }

    /// Puts back what [`take_private`](Self::take_private) took out.
    pub fn put_private(&mut self, private: Private) {
        self.headers = private.headers;
        self.tls.client_key = private.tls.client_key;
    }
}

fn over(bytes: usize, most: usize) -> String {
    format!("it is {bytes} bytes; at most {most} are allowed, make it shorter")
}

fn read<T: DeserializeOwned>(name: &str, value: &Value, default: T) -> Result<T, Problem> {
    match value {
        Value::Null => Ok(default),
        value => json::fit(value.clone()).map_err(|problem| problem.below(name)),
    }
}

/// JSON Merge Patch of the outermost members; a member is replaced whole.
fn merge(stored: &mut Map<String, Value>, change: &Map<String, Value>) {
    for (name, value) in change {
        match value {
            Value::Null => drop(stored.remove(name)),
            value => drop(stored.insert(name.clone(), value.clone())),
        }
    }
}

#[cfg(test)]
mod tests;
