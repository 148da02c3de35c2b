//! The one list of settings: name, default, what it does and why the default is what it is. A
//! setting that is not here is refused; one that is here is read by `settings`, which a test checks.

/// One setting.
#[derive(Debug)]
pub struct Key {
    /// As in the file: `delivery.timeout` stands in table `[delivery]`.
    pub name: &'static str,
    /// As it would be written; empty means not set. Lists are separated by commas.
    pub default: &'static str,
    /// One value, several, or one that must not be shown.
    pub kind: Kind,
    /// What it does, its unit and limits, and the reason of its default.
    pub doc: &'static str,
}

/// How a setting is written and shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One value.
    One,
    /// An array in the file, commas in a variable.
    List,
    /// One value that is never shown; may be `env:NAME` or `file:PATH`.
    Secret,
    /// Several of those.
    Secrets,
}

impl Key {
    /// The variable that sets it: `SNAPHOOK_DELIVERY_TIMEOUT`.
    pub fn variable(&self) -> String {
        format!("{PREFIX}{}", self.name.to_uppercase().replace('.', "_"))
    }

    /// Whether it takes several values.
    pub fn is_list(&self) -> bool {
        matches!(self.kind, Kind::List | Kind::Secrets)
    }

    /// Whether its value must not be shown.
    pub fn is_secret(&self) -> bool {
        matches!(self.kind, Kind::Secret | Kind::Secrets)
    }
}

/// What our variables begin with.
pub const PREFIX: &str = "SNAPHOOK_";

macro_rules! keys {
    ($($(#[doc = $doc:literal])+ $name:literal = $default:literal, $kind:ident;)+) => {
        /// Every setting of this version, in the order in which documents list them.
        pub const KEYS: &[Key] = &[$(Key {
            name: $name,
            default: $default,
            kind: Kind::$kind,
            doc: concat!($($doc),+).trim_ascii_start(),
        }),+];
    };
}

keys! {
    /// Where everything is kept: `sqlite:PATH` or `postgres://…`. The default needs no server. A
    /// PostgreSQL URL holds a password, so it is not shown.
    "database" = "sqlite:.snaphook/snaphook.db", Secret;
    /// Address and port of the HTTP server. The default is reachable from this machine only.
    "listen" = "127.0.0.1:8080", One;
    /// How others reach this server, for links in events. `http://` and `listen` when not set.
    "base_url" = "", One;
    /// What this process does. Nodes may share the work: some answer the API, some deliver.
    "roles" = "api,ingress,console,worker", List;
    /// This node's name, unique among those that share the database. A node that starts again under
    /// its name takes its shards back at once; while another node has the name, it waits up to 30 s
    /// for that to stop, and then does not start. The host's name and the port when not set.
    "node" = "", One;
    /// 32 bytes, base64 or hex, that seal secrets at rest. Required with PostgreSQL, so that no
    /// copy of the database alone can sign; with SQLite made at first start, in a file beside the
    /// database's.
    "master_key" = "", Secret;
    /// Earlier master keys, which still open what they sealed. Run `snaphook secrets reseal`, then
    /// remove them.
    "master_keys_old" = "", Secrets;
    /// For DNS, TCP and TLS together, up to `delivery.timeout`. Whoever does not answer within 5 s
    /// is down or black-holed.
    "delivery.connect_timeout" = "5s", One;
    /// For a whole attempt, the answer's body included: 1 to 30 s. Standard Webhooks asks receivers
    /// to answer within 15 to 30 s.
    "delivery.timeout" = "15s", One;
    /// How long a node owns a shard without renewing. Must exceed the longest timeout (30 s) by 10
    /// s, or a slow request could overlap with the next owner's.
    "delivery.lease" = "45s", One;
    /// Requests on the wire at once, over all endpoints: 1 to 10,000. Each may hold a payload and
    /// 16 KiB of answer.
    "delivery.concurrency" = "256", One;
    /// Requests to one endpoint at once: 1 to 1,000. An endpoint may set less or more for itself.
    "delivery.max_in_flight_per_endpoint" = "16", One;
    /// The pauses before each attempt; the first is before attempt 1. Or `standard` (this, 27 h 35
    /// min in all), `long` or `brisk`.
    "delivery.retry_schedule" = "0s,5s,5m,30m,2h,5h,10h,10h", List;
    /// The part of a pause, 0 to 1, that chance may add, so that a thousand deliveries that failed
    /// together do not come back together. Never earlier than the schedule.
    "delivery.jitter" = "0.2", One;
    /// How much of an answer is kept, up to 64 KiB: enough for an error page's first lines, small
    /// enough to store with every attempt.
    "delivery.response_bytes" = "16384", One;
    /// How long an endpoint may fail without a success before it is disabled: longer than the retry
    /// schedule and a long weekend.
    "health.disable_after" = "5d", One;
    /// When its owner is told, each shorter than `health.disable_after`, in order.
    "health.warn_after" = "1d,3d", List;
    /// Deliveries that fail in a row before an endpoint's circuit opens: 1 to 1,000.
    "circuit.open_after" = "5", One;
    /// How long an open circuit waits before its first probe.
    "circuit.probe_first" = "30s", One;
    /// The longest wait between two probes.
    "circuit.probe_max" = "30m", One;
    /// CIDR ranges or hosts (`*.example.com`) that endpoints may reach although the guard's table
    /// says no.
    "guard.allow" = "", List;
    /// CIDR ranges or hosts that no endpoint may reach. Beats `guard.allow`.
    "guard.deny" = "", List;
    /// Whether endpoints must use https. Off, because a platform's first test is plain http.
    "guard.https_only" = "false", One;
    /// Ports that endpoints may use. The default leaves out mail, SSH and other services of old.
    "guard.ports" = "80,443,1024-65535", List;
    /// `http://[user:password@]host:port` of a proxy for all deliveries. Never taken from
    /// HTTP_PROXY.
    "egress.proxy" = "", Secret;
    /// Whether the proxy judges addresses itself. Then it gets names, not addresses that our guard
    /// judged.
    "egress.proxy_guards" = "false", One;
    /// `own`: asks the name servers of this host directly, in time and with limits. `system`:
    /// getaddrinfo, for /etc/nsswitch.conf and mDNS. Or addresses of name servers.
    "dns.resolver" = "own", List;
    /// Whom receivers' certificates must come from: `system`, `bundled` (Mozilla's list in this
    /// binary) or a PEM file.
    "tls.roots" = "system", One;
    /// How long events and their payloads are kept: 2 days (the retry schedule must end before) to
    /// 10 years.
    "retention.events" = "30d", One;
    /// How long attempts are kept, up to `retention.events`.
    "retention.attempts" = "30d", One;
    /// How long a key makes two events one: 1 hour to 1 year.
    "retention.dedup" = "14d", One;
    /// The largest payload: 1 KiB to 10 MiB (a whole batch). Larger things belong in a store, with
    /// a link in the event.
    "limits.payload" = "1MiB", One;
    /// Whether events of undeclared or archived types, and of undeclared versions, are refused.
    /// Off, so that a first event needs no preparation.
    "event_types.strict" = "false", One;
    /// Address and port for `/metrics` alone, without a key. When not set, `/metrics` is on
    /// `listen` and needs an operator's key.
    "metrics.listen" = "", One;
    /// `text` for people, `json` for machines.
    "log.format" = "text", One;
    /// `error`, `warn`, `info`, `debug`, `trace`, or directives such as `info,sqlx=debug`.
    "log.level" = "info", One;
}

/// Settings of versions to come. Accepting them would promise what is not done.
pub const LATER: &[(&str, &str)] = &[
    ("notify.smtp", "this version sends no mail"),
    ("notify.from", "this version sends no mail"),
    ("portal.frame_ancestors", "this version has no portal"),
    ("otel.endpoint", "this version exports no traces"),
];

/// The setting of that name.
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// What was probably meant by `name`, which is no setting; `spell` writes a key as the reader does.
pub fn meant(name: &str, spell: impl Fn(&Key) -> String) -> String {
    let distance = |key: &Key| strsim::damerau_levenshtein(key.name, name);
    let misplaced = KEYS.iter().find(|key| last_part(key.name) == last_part(name));
    // Three slips of the finger; further away a suggestion misleads.
    let near = KEYS.iter().filter(|key| distance(key) <= 3.min(key.name.len() / 2));
    match misplaced.or_else(|| near.min_by_key(|key| distance(key))) {
        Some(key) => format!("did you mean {}?", spell(key)),
        None => "docs/operating.md lists all settings".to_owned(),
    }
}

fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_or_a_wrong_table_is_understood_and_nothing_else_is() {
        for (name, expected, why) in [
            ("delivery.timeuot", "did you mean delivery.timeout?", "two letters swapped"),
            ("timeout", "did you mean delivery.timeout?", "the table is missing"),
            ("delivery.listen", "did you mean listen?", "stands below a table's header"),
            ("database_url", "docs/operating.md lists all settings", "four letters more"),
            ("colour", "docs/operating.md lists all settings", "nothing like it"),
        ] {
            assert_eq!(meant(name, |key| key.name.to_owned()), expected, "{name}: {why}");
        }
    }

    #[test]
    fn every_variable_sets_one_key_only() {
        let mut variables: Vec<_> = KEYS.iter().map(Key::variable).collect();
        variables.sort();
        variables.dedup();
        assert_eq!(variables.len(), KEYS.len());
    }

    #[test]
    fn every_key_says_what_it_does() {
        for key in KEYS {
            assert!(key.doc.ends_with('.') && key.doc.len() > 20, "{}: {:?}", key.name, key.doc);
        }
    }
}
