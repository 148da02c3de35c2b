//! The body of a request, by the endpoint's `format`.

use serde::{Deserialize, Serialize};

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
