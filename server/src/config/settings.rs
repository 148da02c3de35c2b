//! The settings as the program uses them. Names, defaults and reasons of each stand in `keys`;
//! limits that one value can break alone stand here, those between two values in `validate`.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use super::{
    choices::{self, Roles},
    database::DatabaseUrl,
    parse::{self, Confidential},
    read::Reader,
};
use crate::{
    domain::{
        duration,
        endpoint::{IN_FLIGHT_MAX, TIMEOUT_RANGE},
        retry::{Jitter, RetrySchedule},
        size::size,
        source::GivenSource,
    },
    store::seal::MasterKey,
    telemetry::logs,
    world::{
        guard::Policy, proxy::ProxySettings, resolver::ResolverKind, settings::ClientSettings,
        tls::Roots,
    },
};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// All settings, each within its limits.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where everything is kept.
    pub database: DatabaseUrl,
    /// Where the HTTP server listens.
    pub listen: SocketAddr,
    /// How others reach it, without a slash at the end.
    pub base_url: String,
    /// What this process does.
    pub roles: Roles,
    /// This node's name, unique among those that share the database.
    pub node: String,
    /// Seals secrets at rest. `None` only with SQLite, where a file holds it.
    pub master_key: Option<Confidential>,
    /// Still open what they sealed.
    pub master_keys_old: Vec<Confidential>,
    /// Attempts and their schedule.
    pub delivery: Delivery,
    /// When an endpoint is given up.
    pub health: Health,
    /// When an endpoint is left alone for a while.
    pub circuit: Circuit,
    /// Who may be reached.
    pub guard: Policy,
    /// The only road out, where there is one.
    pub proxy: Option<ProxySettings>,
    /// Who is asked for addresses.
    pub resolver: ResolverKind,
    /// Whom receivers' certificates must come from.
    pub roots: Roots,
    /// How long things are kept.
    pub retention: Retention,
    /// The largest payload, in bytes.
    pub payload_bytes_max: usize,
    /// Whether events of undeclared types are refused.
    pub strict_event_types: bool,
    /// Where `/metrics` is served alone and without a key.
    pub metrics_listen: Option<SocketAddr>,
    /// How logs are written.
    pub log: Log,
    /// The `[[source]]` tables of the file.
    pub sources: Vec<GivenSource>,
}

/// Attempts and their schedule.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// For DNS, TCP and TLS together.
    pub connect_timeout: Duration,
    /// For a whole attempt, where the endpoint sets nothing else.
    pub timeout: Duration,
    /// Of a shard, without renewal.
    pub lease: Duration,
    /// Requests on the wire at once, over all endpoints.
    pub concurrency: usize,
    /// Requests to one endpoint at once, where it sets nothing else.
    pub max_in_flight_per_endpoint: u32,
    /// The pauses before each attempt.
    pub retry_schedule: RetrySchedule,
    /// The part of a pause that chance may add.
    pub jitter: Jitter,
    /// How much of an answer is kept.
    pub response_bytes: usize,
}

/// When an endpoint is given up.
#[derive(Clone, Debug)]
pub struct Health {
    /// Without a success for so long, it is disabled.
    pub disable_after: Duration,
    /// Its owner is told then, in order.
    pub warn_after: Vec<Duration>,
}

/// When an endpoint is left alone for a while.
#[derive(Clone, Debug)]
pub struct Circuit {
    /// Deliveries that fail in a row.
    pub open_after: u32,
    /// The first pause.
    pub probe_first: Duration,
    /// The longest pause.
    pub probe_max: Duration,
}

/// How long things are kept.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// Events and their payloads.
    pub events: Duration,
    /// Attempts.
    pub attempts: Duration,
    /// Keys that make two events one.
    pub dedup: Duration,
}

/// How logs are written.
#[derive(Clone, Debug)]
pub struct Log {
    /// For people or for machines.
    pub format: logs::Format,
    /// Which lines.
    pub level: logs::Level,
}

impl Settings {
    /// From what was written. Problems stay in `reader`; where there are any, defaults stand in.
    pub(super) fn read(reader: &mut Reader, environment: &[(String, String)]) -> Self {
        let secret = parse::confidential(environment);
        let database = |text: &str| {
            let text = secret(text)?;
            DatabaseUrl::parse(text.expose()).map_err(|error| error.to_string())
        };
        let master_key = |text: &str| {
            let text = secret(text)?;
            MasterKey::parse(text.expose()).map(|_| text).map_err(|error| error.to_string())
        };
        let listen = reader.one("listen", parse::listen);
        Self {
            sources: Vec::new(),
            database: reader.one("database", database),
            listen,
            base_url: reader
                .optional("base_url", parse::base_url)
                .unwrap_or_else(|| base_url_of(listen)),
            roles: reader.whole_list("roles", Roles::parse),
            node: reader.optional("node", node).unwrap_or_else(|| node_of(listen)),
            master_key: reader.optional("master_key", master_key),
            master_keys_old: reader.list("master_keys_old", master_key),
            delivery: Delivery::read(reader),
            health: Health {
                disable_after: reader.one("health.disable_after", parse::duration(HOUR, DAY * 365)),
                warn_after: reader.list("health.warn_after", parse::duration(HOUR, DAY * 365)),
            },
            circuit: Circuit {
                open_after: reader.one("circuit.open_after", parse::number(1, 1_000)),
                probe_first: reader.one("circuit.probe_first", parse::duration(seconds(1), HOUR)),
                probe_max: reader.one("circuit.probe_max", parse::duration(seconds(1), DAY)),
            },
            guard: guard(reader),
            proxy: proxy(reader, environment),
            resolver: reader.whole_list("dns.resolver", choices::resolver),
            roots: reader.one("tls.roots", choices::roots),
            retention: Retention {
                events: reader.one("retention.events", parse::duration(DAY * 2, DAY * 3650)),
                attempts: reader.one("retention.attempts", parse::duration(DAY, DAY * 3650)),
                dedup: reader.one("retention.dedup", parse::duration(HOUR, DAY * 365)),
            },
            payload_bytes_max: reader.one("limits.payload", size(1 << 10, 10 << 20)),
            strict_event_types: reader.one("event_types.strict", parse::flag),
            metrics_listen: reader.optional("metrics.listen", parse::listen),
            log: Log {
                format: reader.one("log.format", str::parse),
                level: reader.one("log.level", str::parse),
            },
        }
    }

    /// Listens at `address` instead; base URL and node name follow, unless they were set.
    pub fn move_to(&mut self, address: SocketAddr) {
        if self.node == node_of(self.listen) {
            self.node = node_of(address);
        }
        if self.base_url == base_url_of(self.listen) {
            self.base_url = base_url_of(address);
        }
        self.listen = address;
    }

    /// What the delivery client is told.
    pub fn client(&self) -> ClientSettings {
        let client = ClientSettings::new(Arc::new(self.guard.clone()));
        ClientSettings {
            connect_timeout: self.delivery.connect_timeout,
            response_bytes: self.delivery.response_bytes,
            resolver: self.resolver.clone(),
            roots: self.roots.clone(),
            proxy: self.proxy.clone(),
            // Twice what can be under way, so that connections are kept for the next request.
            connections_max: self
                .delivery
                .concurrency
                .saturating_mul(2)
                .max(client.connections_max),
            ..client
        }
    }

    /// All defaults, as if nothing were written: for tests, and where only a part matters.
    pub fn defaults() -> Self {
        Self::read(&mut Reader::new(std::collections::BTreeMap::new()), &[])
    }
}

impl Delivery {
    fn read(reader: &mut Reader) -> Self {
        let (least, most) = TIMEOUT_RANGE;
        let connect = parse::duration(Duration::from_millis(100), most);
        Self {
            connect_timeout: reader.one("delivery.connect_timeout", connect),
            timeout: reader.one("delivery.timeout", parse::duration(least, most)),
            lease: reader.one("delivery.lease", parse::duration(seconds(1), HOUR)),
            concurrency: reader.one("delivery.concurrency", parse::number(1, 10_000)),
            max_in_flight_per_endpoint: reader
                .one("delivery.max_in_flight_per_endpoint", parse::number(1, IN_FLIGHT_MAX)),
            retry_schedule: reader.whole_list("delivery.retry_schedule", retry_schedule),
            jitter: reader.one("delivery.jitter", jitter),
            response_bytes: reader.one("delivery.response_bytes", size(0, 64 << 10)),
        }
    }
}

/// Two servers on one host have two ports, so the pair is unique where the host's name is.
fn node_of(listen: SocketAddr) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host}:{}", listen.port())
}

fn node(text: &str) -> Result<String, &'static str> {
    let plain = |c: char| c.is_ascii_graphic();
    if text.len() <= 128 && text.chars().all(plain) {
        Ok(text.to_owned())
    } else {
        Err("write up to 128 letters, digits and signs, no blanks")
    }
}

fn base_url_of(listen: SocketAddr) -> String {
    if listen.ip().is_unspecified() {
        format!("http://localhost:{}", listen.port())
    } else {
        format!("http://{listen}")
    }
}

fn proxy(reader: &mut Reader, environment: &[(String, String)]) -> Option<ProxySettings> {
    let guards = reader.one("egress.proxy_guards", parse::flag);
    let url = reader.optional("egress.proxy", parse::confidential(environment));
    let Some(url) = url else {
        if guards {
            reader.complain("egress.proxy_guards", "there is no egress.proxy that could guard");
        }
        return None;
    };
    ProxySettings::parse(url.expose(), guards)
        .map_err(|error| reader.complain("egress.proxy", error))
        .ok()
}

fn guard(reader: &mut Reader) -> Policy {
    let words = |text: &str| Ok::<_, &str>(text.to_owned());
    let (allow, deny) = (reader.list("guard.allow", words), reader.list("guard.deny", words));
    let ports = reader.list("guard.ports", words);
    let https_only = reader.one("guard.https_only", parse::flag);
    Policy::new(&allow, &deny, &ports, https_only).unwrap_or_else(|errors| {
        for error in errors {
            reader.complain(error.setting, &error);
        }
        Policy::default()
    })
}

fn jitter(text: &str) -> Result<Jitter, String> {
    Jitter::new(text.parse().unwrap_or(f64::NAN)).map_err(|error| error.to_string())
}

/// One word is a preset's name; everything else is pauses.
fn retry_schedule(texts: &[String]) -> Result<RetrySchedule, String> {
    if let [name] = texts
        && !name.contains(|c: char| c.is_ascii_digit())
    {
        return RetrySchedule::preset(name).map_err(|error| error.to_string());
    }
    let pauses: Result<_, _> = texts.iter().map(|text| duration::parse(text)).collect();
    RetrySchedule::new(pauses.map_err(|error| error.to_string())?)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::config::keys::KEYS;

    #[test]
    fn every_key_is_read_and_every_default_is_valid() {
        let mut reader = Reader::new(BTreeMap::new());

        let settings = Settings::read(&mut reader, &[]);

        assert_eq!(reader.problems, Vec::<String>::new());
        let known: BTreeSet<_> = KEYS.iter().map(|key| key.name).collect();
        assert_eq!(reader.asked, known);
        assert_eq!(settings.delivery.timeout, seconds(15));
        assert_eq!(settings.delivery.retry_schedule, RetrySchedule::default());
        assert_eq!(settings.delivery.jitter, Jitter::default());
        assert_eq!(settings.payload_bytes_max, 1_048_576);
        assert_eq!(settings.roles, Roles::ALL);
        assert_eq!(settings.base_url, "http://127.0.0.1:8080");
        assert!(settings.node.ends_with(":8080"), "{}", settings.node);
    }

    #[test]
    fn a_retry_schedule_is_a_preset_or_pauses() {
        let read = |text: &str| retry_schedule(&[text].map(str::to_owned));
        assert_eq!(read("brisk"), Ok(RetrySchedule::preset("brisk").unwrap()));
        assert_eq!(read("0s").unwrap().attempts(), 1);
        assert!(read("fast").unwrap_err().contains("the presets are standard, long and brisk"));
        assert!(retry_schedule(&[]).unwrap_err().contains("the retry schedule is empty"));
        assert!(jitter("much").is_err() && jitter("1.5").is_err() && jitter("0").is_ok());
    }

    #[test]
    fn nothing_secret_is_printed() {
        let mut settings = Settings::defaults();
        settings.master_key = Some(Confidential::new("hunter2"));
        settings.database = DatabaseUrl::parse("postgres://me:hunter2@db/app").unwrap();
        assert!(!format!("{settings:?}").contains("hunter2"));
    }
}
