//! An event: something that happened, once, and does not change any more.

use bytes::Bytes;

use super::{
    forwarded::ForwardedHeaders,
    id::{EventId, SourceId},
    time::Timestamp,
};

/// The type of the events that test one endpoint. Its filter does not apply to them.
pub const TEST_EVENT_TYPE: &str = "snaphook.test";

coded! {
    /// Which door an event came through.
    Door {
        /// `snaphook.emit` and the outbox views.
        Sql = 0, "sql";
        /// `POST /v1/events` and its kin.
        Http = 1, "http";
        /// `POST /in/{source}`.
        Source = 2, "source";
        /// Our own.
        Notice = 3, "notice";
    }
}

/// An event as it is stored. Tenant and type were checked when it came in.
#[derive(Clone, Debug)]
pub struct Event {
    /// Also tells when it was accepted.
    pub id: EventId,
    /// Whose it is.
    pub tenant: String,
    /// What happened, for example `order.paid`.
    pub event_type: String,
    /// The version of its schema, if the emitter gave one.
    pub version: Option<String>,
    /// The bytes, as given.
    pub payload: Bytes,
    /// As the emitter said; `None` is for the bytes to say (`format::content_type_of`).
    pub content_type: Option<String>,
    /// The emitter's dedup key.
    pub key: Option<String>,
    /// When it happened, if the emitter gave a time.
    pub occurred_at: Option<Timestamp>,
    /// W3C Trace Context, passed on to receivers.
    pub traceparent: Option<String>,
    /// Where it came in, as [`Door`] has it.
    pub door: i16,
    /// Of an event that a source took.
    pub inbound: Option<Inbound>,
    /// Whether its schema was checked when it came in.
    pub checked: bool,
}

/// What is known besides of an event that a source took. Its `key` is the provider's id of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbound {
    /// The source.
    pub source: SourceId,
    /// Its type in the provider's spelling.
    pub source_type: Option<String>,
    /// The headers that it came with, as far as they are passed on.
    pub headers: ForwardedHeaders,
}
