//! An event as a program in Rust hands it over inside of its own transaction, and what can be
//! wrong with it. Checked here before the database hears of it: an error of PostgreSQL would end
//! the caller's transaction. What only the database knows, the limit of payloads, it checks.

use std::borrow::Cow;

use serde::Serialize;

use super::{
    event_type::EventType,
    limits::{KEY_BYTES_MAX, VERSION_BYTES_MAX, check_text, check_time, check_traceparent},
    problem::Problem,
    tenant::TenantId,
    time::Timestamp,
};

/// An event that is about to be emitted. Whose it is, what happened and the data are needed;
/// the rest may be left out.
#[derive(Clone, Debug)]
pub struct Emit<'a> {
    pub(crate) tenant: Cow<'a, str>,
    pub(crate) event_type: Cow<'a, str>,
    pub(crate) data: Cow<'a, str>,
    pub(crate) key: Option<Cow<'a, str>>,
    pub(crate) version: Option<Cow<'a, str>>,
    pub(crate) occurred_at: Option<Timestamp>,
    pub(crate) traceparent: Option<Cow<'a, str>>,
}

impl<'a> Emit<'a> {
    /// An event of `tenant` (1 to 128 letters, digits, `_` and `-`; nothing need be known of it)
    /// and of `event_type`, such as `order.paid` (256 characters at most). `data` is JSON, kept
    /// byte for byte; its size is bounded by the setting `limits.payload`, 1 MiB by default.
    pub fn new(
        tenant: impl Into<Cow<'a, str>>,
        event_type: impl Into<Cow<'a, str>>,
        data: impl Into<Cow<'a, str>>,
    ) -> Self {
        Self {
            tenant: tenant.into(),
            event_type: event_type.into(),
            data: data.into(),
            key: None,
            version: None,
            occurred_at: None,
            traceparent: None,
        }
    }

    /// As `new`, with a value that is written as JSON. Fails as its `Serialize` does, and on maps
    /// whose keys are no text.
    pub fn json(
        tenant: impl Into<Cow<'a, str>>,
        event_type: impl Into<Cow<'a, str>>,
        data: &impl Serialize,
    ) -> Result<Self, serde_json::Error> {
        Ok(Self::new(tenant, event_type, serde_json::to_string(data)?))
    }

    /// Makes this event and any other of the same tenant and key one, for as long as the setting
    /// `retention.dedup` says. 1 to 256 bytes. Transactions with the same key wait for one
    /// another.
    #[must_use]
    pub fn key(mut self, key: impl Into<Cow<'a, str>>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The version of the data's form, such as `2024-01`. 1 to 64 bytes.
    #[must_use]
    pub fn version(mut self, version: impl Into<Cow<'a, str>>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// When it happened, if that was not now. SQLite keeps its milliseconds, PostgreSQL its
    /// microseconds.
    #[must_use]
    pub fn occurred_at(mut self, time: Timestamp) -> Self {
        self.occurred_at = Some(time);
        self
    }

    /// W3C Trace Context, passed on to receivers.
    #[must_use]
    pub fn traceparent(mut self, traceparent: impl Into<Cow<'a, str>>) -> Self {
        self.traceparent = Some(traceparent.into());
        self
    }

    /// Everything that is wrong with it, field by field.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut note = |field: &str, checked: Result<(), String>| {
            problems.extend(checked.err().map(|why| Problem::new(field, why)));
        };
        note("tenant", TenantId::parse(&self.tenant).map(drop).map_err(|why| why.to_string()));
        note("type", EventType::parse(&self.event_type).map(drop).map_err(|why| why.to_string()));
        note("data", check_data(&self.data));
        let check = |text: &Option<Cow<'_, str>>, most| {
            text.as_deref().map_or(Ok(()), |text| check_text(text, most))
        };
        note("key", check(&self.key, KEY_BYTES_MAX));
        note("version", check(&self.version, VERSION_BYTES_MAX));
        note("occurred_at", self.occurred_at.map_or(Ok(()), check_time));
        note("traceparent", self.traceparent.as_deref().map_or(Ok(()), check_traceparent));
        problems
    }
}

/// PostgreSQL keeps no NUL in a text, and JSON has none that is not escaped.
fn check_data(data: &str) -> Result<(), String> {
    if data.contains('\0') {
        return Err("it contains a NUL; JSON writes it as \\u0000".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn fields(emit: &Emit<'_>) -> Vec<String> {
        emit.problems().into_iter().map(|problem| problem.field).collect()
    }

    #[test]
    fn each_field_that_is_wrong_is_named() {
        let good = || Emit::new("acme", "order.paid", "{}");
        for (emit, expected, why) in [
            (good(), None, "the least"),
            (good().key("k").version("1").traceparent(TRACE), None, "all of it"),
            (good().occurred_at(Timestamp(-1)), None, "before 1970"),
            (good().occurred_at(Timestamp::FIRST), None, "the first moment"),
            (good().occurred_at(Timestamp::LAST), None, "the last moment"),
            (Emit::new("", "a", "{}"), Some("tenant"), "empty"),
            (Emit::new("a b", "a", "{}"), Some("tenant"), "a blank"),
            (Emit::new("acme", "order..paid", "{}"), Some("type"), "an empty part"),
            (Emit::new("acme", "order.*", "{}"), Some("type"), "a pattern"),
            (Emit::new("acme", "a", "{\"a\":\"\0\"}"), Some("data"), "a bare NUL"),
            (good().key(""), Some("key"), "empty"),
            (good().key("k".repeat(257)), Some("key"), "too long"),
            (good().version("a\nb"), Some("version"), "a line break"),
            (good().occurred_at(Timestamp(i64::MAX)), Some("occurred_at"), "no year of RFC 3339"),
            (good().occurred_at(Timestamp(i64::MIN)), Some("occurred_at"), "no year of RFC 3339"),
            (good().traceparent("00"), Some("traceparent"), "another form"),
        ] {
            assert_eq!(fields(&emit), expected.into_iter().collect::<Vec<_>>(), "{why}");
        }
        let all = Emit::new("", "", "\0").key("").version("").traceparent("");
        assert_eq!(fields(&all), ["tenant", "type", "data", "key", "version", "traceparent"]);
    }

    #[test]
    fn a_value_is_written_as_json_and_a_text_stays_as_it_is() {
        let emit = Emit::json("acme", "a", &serde_json::json!({ "n": 1 })).unwrap();
        assert_eq!(emit.data, r#"{"n":1}"#);
        assert_eq!(Emit::new("acme", "a", " {\"n\": 1.0} ").data, " {\"n\": 1.0} ");
        let no_text_keys = std::collections::BTreeMap::from([((1, 2), 3)]);
        assert!(Emit::json("acme", "a", &no_text_keys).is_err());
    }
}
