//! What an attempt's row tells beside its columns: as JSON, for people read it and nothing
//! searches it.

use std::time::Duration;

use http::HeaderMap;
use serde::{Deserialize, Serialize};

use crate::world::{Sent, Timings};

/// Bytes of the answer's headers that are kept, names and values together.
const HEADER_BYTES_MAX: usize = 4_096;

/// Where an attempt went and how it passed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Detail {
    /// The URL as of this attempt.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// The address that was connected to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Which node sent it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// The reason in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Who asked for it, for endings that somebody asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Microseconds of each part.
    #[serde(skip_serializing_if = "Parts::is_empty")]
    pub took: Parts,
    /// The answer's headers, cut to 4 KiB.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// Whether the answer's body was longer than what is kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// Microseconds of each part of an attempt.
#[expect(clippy::struct_field_names, reason = "the unit stands last in every name")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Parts {
    /// Asking for addresses.
    pub dns_us: u64,
    /// TCP.
    pub connect_us: u64,
    /// The TLS handshake.
    pub tls_us: u64,
    /// From the request to the answer's status.
    pub waiting_us: u64,
    /// Reading the answer's body.
    pub reading_us: u64,
}

impl Parts {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl From<Timings> for Parts {
    fn from(timings: Timings) -> Self {
        let micros = |part: Duration| u64::try_from(part.as_micros()).unwrap_or(u64::MAX);
        Self {
            dns_us: micros(timings.dns),
            connect_us: micros(timings.connect),
            tls_us: micros(timings.tls),
            waiting_us: micros(timings.waiting),
            reading_us: micros(timings.reading),
        }
    }
}

impl Detail {
    /// Of a request that was tried.
    pub fn of(url: &str, node: &str, sent: &Sent) -> Self {
        let (headers, truncated, error) = match &sent.result {
            Ok(response) => (shown(&response.headers), response.truncated, None),
            Err(error) => (Vec::new(), false, Some(error.detail.clone())),
        };
        Self {
            url: url.to_owned(),
            address: sent.address.map(|address| address.to_string()),
            node: node.to_owned(),
            error,
            by: None,
            took: sent.timings.into(),
            headers,
            truncated,
        }
    }

    /// As it is stored.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers are JSON")
    }
}

fn shown(headers: &HeaderMap) -> Vec<(String, String)> {
    let mut room = HEADER_BYTES_MAX;
    let mut shown = Vec::new();
    for (name, value) in headers {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        let Some(left) = room.checked_sub(name.as_str().len() + value.len()) else { break };
        room = left;
        shown.push((name.as_str().to_owned(), value));
    }
    shown
}
