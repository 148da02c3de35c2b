//! Whether deliveries go to an endpoint or are fetched from it. It is chosen when the endpoint is
//! made, and stays.

use serde::{Deserialize, Serialize};

use super::{endpoint::EndpointSettings, problem::Problem};

/// How deliveries get to whoever processes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EndpointKind {
    /// They are posted to its URL.
    #[default]
    Http,
    /// Consumers pull them: `POST /v1/queues/{endpoint}/claim`.
    Queue,
}

impl EndpointKind {
    /// The state in which its rows of the queue begin: 0, fresh, or 2, to be pulled.
    pub const fn queue_state(self) -> i16 {
        match self {
            Self::Http => 0,
            Self::Queue => 2,
        }
    }
}

/// Settings of requests, on an endpoint to which none go.
pub fn pulled_problems(settings: &EndpointSettings) -> Vec<Problem> {
    let none = EndpointSettings::default();
    [
        ("url", settings.url != none.url),
        ("format", settings.format != none.format),
        ("signature", !settings.signature.eq(&none.signature)),
        ("headers", !settings.headers.is_empty()),
        ("timeout", settings.timeout.is_some()),
        ("final_statuses", !settings.final_statuses.is_empty()),
        ("max_in_flight", settings.max_in_flight.is_some()),
        ("rate_limit", settings.rate_limit.is_some()),
        ("reach", settings.reach != none.reach),
        ("tls", !settings.tls.is_empty()),
    ]
    .into_iter()
    .filter(|(_, set)| *set)
    .map(|(field, _)| {
        Problem::new(
            field,
            "no requests go to an endpoint of kind queue, it is pulled; leave it out",
        )
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_endpoint_that_is_pulled_has_no_settings_of_requests() {
        for (change, field) in [
            (json!({}), None),
            (json!({"description": "x", "metadata": {"a": 1}, "event_types": ["a.*"]}), None),
            (json!({"filter": {"/a": 1}, "retry_schedule": "brisk", "ordered": true}), None),
            (json!({"url": "https://example.com/"}), Some("url")),
            (json!({"format": "raw"}), Some("format")),
            (json!({"signature": "t-v1"}), Some("signature")),
            (json!({"headers": {"X-A": "1"}}), Some("headers")),
            (json!({"timeout": "5s"}), Some("timeout")),
            (json!({"final_statuses": [400]}), Some("final_statuses")),
            (json!({"max_in_flight": 1}), Some("max_in_flight")),
            (json!({"rate_limit": "1/s"}), Some("rate_limit")),
            (json!({"reach": "internal"}), Some("reach")),
            (json!({"tls": {"ca": "x"}}), Some("tls")),
        ] {
            let mut settings =
                EndpointSettings { kind: EndpointKind::Queue, ..EndpointSettings::default() };
            assert_eq!(settings.apply(change.as_object().unwrap()), [], "{change}");
            let problems = settings.validate();
            let fields: Vec<_> = problems.iter().map(|problem| problem.field.as_str()).collect();
            assert!(
                fields.iter().all(|found| found.starts_with(field.unwrap_or("none"))),
                "{fields:?}"
            );
            assert_eq!(fields.is_empty(), field.is_none(), "{change}");
        }
    }
}
