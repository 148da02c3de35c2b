//! Sample requests of providers, for `snaphook trigger`: small, and shaped like theirs.
//!
//! In a sample `{id}` stands for a new id and `{seconds}` for the time, since a receiver that
//! remembers ids would take a second one with the same for a repeat.

/// One kind of request that a provider sends.
pub struct Sample {
    /// The scheme's name.
    pub provider: &'static str,
    /// The event's name, as the provider writes it.
    pub event: &'static str,
    /// How the provider's ids begin.
    pub id_prefix: &'static str,
    /// What it sends besides its signature; `{id}` as in the body.
    pub headers: &'static [(&'static str, &'static str)],
    /// The body.
    pub body: &'static str,
}

macro_rules! sample {
    ($provider:literal, $event:literal, $file:literal, $prefix:literal, [$($header:expr),*]) => {
        Sample {
            provider: $provider,
            event: $event,
            id_prefix: $prefix,
            headers: &[("Content-Type", "application/json"), $($header),*],
            body: include_str!(concat!("samples/", $provider, "/", $file, ".json")),
        }
    };
}

/// All there are.
pub const SAMPLES: &[Sample] = &[
    sample!("stripe", "charge.succeeded", "charge.succeeded", "evt_", []),
    sample!("stripe", "payment_intent.succeeded", "payment_intent.succeeded", "evt_", []),
    sample!("stripe", "invoice.paid", "invoice.paid", "evt_", []),
    sample!("github", "ping", "ping", "", [("X-GitHub-Event", "ping")]),
    sample!("github", "push", "push", "", [("X-GitHub-Event", "push")]),
    sample!("github", "pull_request", "pull_request", "", [("X-GitHub-Event", "pull_request")]),
    sample!(
        "shopify",
        "orders/create",
        "orders_create",
        "",
        [
            ("X-Shopify-Topic", "orders/create"),
            ("X-Shopify-Shop-Domain", "sample.myshopify.com"),
            ("X-Shopify-API-Version", "2025-01")
        ]
    ),
    sample!(
        "shopify",
        "app/uninstalled",
        "app_uninstalled",
        "",
        [
            ("X-Shopify-Topic", "app/uninstalled"),
            ("X-Shopify-Shop-Domain", "sample.myshopify.com"),
            ("X-Shopify-API-Version", "2025-01")
        ]
    ),
    sample!("slack", "app_mention", "app_mention", "Ev", []),
    sample!("slack", "message", "message", "Ev", []),
    sample!("slack", "url_verification", "url_verification", "", []),
    sample!("standardwebhooks", "order.paid", "order.paid", "msg_", []),
    sample!("standardwebhooks", "user.created", "user.created", "msg_", []),
];

impl Sample {
    /// The one of this name.
    pub fn find(provider: &str, event: &str) -> Option<&'static Self> {
        SAMPLES.iter().find(|sample| sample.provider == provider && sample.event == event)
    }

    /// The body with its placeholders filled.
    pub fn body(&self, id: &str, seconds: i64) -> String {
        let body = self.body.trim_end();
        body.replace("{id}", id).replace("{seconds}", &seconds.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_json_of_a_provider_that_there_is() {
        for sample in SAMPLES {
            let body = sample.body("x_1", 1_800_000_000);
            let parsed: Result<serde_json::Value, _> = serde_json::from_str(&body);
            assert!(parsed.is_ok(), "{} {}: {parsed:?}", sample.provider, sample.event);
            assert!(snaphook_signature::Scheme::named(sample.provider).is_ok());
            assert!(!body.contains("{id}") && !body.contains("{seconds}"));
        }
    }
}
