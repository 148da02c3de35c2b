//! The metrics that `/metrics` shows. Each is counted by the code that knows the fact, through a
//! method here; the names are promises to whoever drew a dashboard.
//!
//! Labels are `&'static str`: a tenant, an endpoint or a URL cannot become one, so the number of
//! series is bounded by the program's text.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, AtomicU64},
    },
    time::Duration,
};

use prometheus_client::{
    encoding::{EncodeLabelSet, prometheus_text},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

/// The `Content-Type` of [`Metrics::render`]: Prometheus text format 0.0.4, which every scraper
/// of the last ten years reads.
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// Seconds. One attempt takes from a millisecond (same machine) to 30 s, the longest timeout that
/// an endpoint may have; 15 s is the default timeout, so it is a boundary too.
const ATTEMPT_BUCKETS: [f64; 12] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 30.0];

/// Seconds. Milliseconds when all is well, an hour when a node was down: the wide steps at the end
/// tell an outage from a busy minute.
const LATENCY_BUCKETS: [f64; 12] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0, 3600.0];

/// Seconds. A fetch over 64 shards takes 0.1 ms, a full batch about 5 ms; the database's own
/// lock and statement time-outs are a few seconds.
const DATABASE_BUCKETS: [f64; 11] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0];

/// Seconds. A request is acknowledged after one flush of the disk, a few milliseconds; providers give
/// up after 3 s (Slack) to 30 s.
const ACK_BUCKETS: [f64; 12] =
    [0.001, 0.002, 0.004, 0.008, 0.02, 0.05, 0.1, 0.25, 1.0, 3.0, 10.0, 30.0];

macro_rules! labels {
    ($($name:ident { $($label:ident),+ })+) => { $(
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
        struct $name { $($label: &'static str),+ }
    )+ };
}

labels! {
    ByDoor { door }
    ByOutcome { outcome }
    ByState { state, cause }
    ByHealth { health, circuit }
    ByVerdict { verdict }
    ByStatement { statement }
    ByScheme { scheme, result }
}

/// A histogram in seconds for each statement.
type PerStatement = Family<ByStatement, Histogram, fn() -> Histogram>;

/// All metrics of one process. Made once, shared by `Arc`; a test makes its own.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    events_accepted: Family<ByDoor, Counter>,
    attempts: Family<ByOutcome, Counter>,
    attempt_seconds: Histogram,
    deliveries: Family<ByState, Counter>,
    delivery_latency_seconds: Histogram,
    due: Gauge,
    oldest_due_seconds: Gauge<f64, AtomicU64>,
    oldest_transaction_seconds: Gauge<f64, AtomicU64>,
    held: Gauge,
    endpoints: Family<ByHealth, Gauge>,
    /// The pairs that `endpoints` has shown, so that one that empties goes to zero.
    endpoint_pairs: Mutex<BTreeMap<(&'static str, &'static str), i64>>,
    guard_refusals: Family<ByVerdict, Counter>,
    claims_lost: Counter,
    database_seconds: PerStatement,
    inbound_requests: Family<ByScheme, Counter>,
    inbound_ack_seconds: Histogram,
}

impl Metrics {
    /// All metrics, at zero.
    pub fn new() -> Arc<Self> {
        let mut metrics = Self {
            registry: Registry::with_prefix("snaphook"),
            events_accepted: Family::default(),
            attempts: Family::default(),
            attempt_seconds: Histogram::new(ATTEMPT_BUCKETS),
            deliveries: Family::default(),
            delivery_latency_seconds: Histogram::new(LATENCY_BUCKETS),
            due: Gauge::<i64, AtomicI64>::default(),
            oldest_due_seconds: Gauge::default(),
            oldest_transaction_seconds: Gauge::default(),
            held: Gauge::default(),
            endpoints: Family::default(),
            endpoint_pairs: Mutex::default(),
            guard_refusals: Family::default(),
            claims_lost: Counter::default(),
            database_seconds: Family::new_with_constructor(|| Histogram::new(DATABASE_BUCKETS)),
            inbound_requests: Family::default(),
            inbound_ack_seconds: Histogram::new(ACK_BUCKETS),
        };
        metrics.register();
        Arc::new(metrics)
    }

    /// The encoder ends each counter's name with `_total`.
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "events_accepted",
            "Events on disk, by the door they came in",
            self.events_accepted.clone(),
        );
        registry.register("attempts", "Requests to endpoints, by outcome", self.attempts.clone());
        registry.register(
            "attempt_seconds",
            "Whole attempts, the answer's body included",
            self.attempt_seconds.clone(),
        );
        registry.register(
            "deliveries",
            "Deliveries that ended, by state and cause",
            self.deliveries.clone(),
        );
        registry.register(
            "delivery_latency_seconds",
            "From the commit of an event to its first attempt",
            self.delivery_latency_seconds.clone(),
        );
        registry.register("due", "Deliveries whose due time has passed", self.due.clone());
        registry.register(
            "oldest_due_seconds",
            "How long the oldest due delivery has been due",
            self.oldest_due_seconds.clone(),
        );
        registry.register(
            "oldest_transaction_seconds",
            "How long the oldest transaction on the database has been open, anybody's",
            self.oldest_transaction_seconds.clone(),
        );
        registry.register(
            "held",
            "Deliveries that wait for their endpoint to be enabled, resumed or well again",
            self.held.clone(),
        );
        registry.register("endpoints", "Endpoints, by health and circuit", self.endpoints.clone());
        registry.register(
            "guard_refusals",
            "Connections that the address guard refused, by verdict",
            self.guard_refusals.clone(),
        );
        registry.register(
            "claims_lost",
            "Results that came after the shard had gone to another owner",
            self.claims_lost.clone(),
        );
        registry.register(
            "database_seconds",
            "Statements of the pipeline",
            self.database_seconds.clone(),
        );
        self.register_inbound();
    }

    fn register_inbound(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "inbound_requests",
            "Requests of providers, by the scheme of their source and what became of them",
            self.inbound_requests.clone(),
        );
        registry.register(
            "inbound_ack_seconds",
            "From the head of a provider's request to the answer that acknowledges it",
            self.inbound_ack_seconds.clone(),
        );
    }

    /// Counts an event that is on disk. `door`: `http`, `sql`, `source` or `notice`.
    pub fn event_accepted(&self, door: &'static str) {
        self.events_accepted_many(door, 1);
    }

    /// Counts `events` that are on disk: a batch, or what a fetch found that came in by SQL.
    pub fn events_accepted_many(&self, door: &'static str, events: u64) {
        self.events_accepted.get_or_create(&ByDoor { door }).inc_by(events);
    }

    /// Counts an attempt. `outcome`: `delivered`, `gone`, `refused`, or the name of the reason.
    pub fn attempt(&self, outcome: &'static str, took: Duration) {
        self.attempts.get_or_create(&ByOutcome { outcome }).inc();
        self.attempt_seconds.observe(took.as_secs_f64());
    }

    /// Counts a delivery that ended. `cause` is empty but for dead letters.
    pub fn delivery_ended(&self, state: &'static str, cause: &'static str) {
        self.deliveries.get_or_create(&ByState { state, cause }).inc();
    }

    /// Notes how long an event waited from its commit to its first attempt.
    pub fn delivery_latency(&self, waited: Duration) {
        self.delivery_latency_seconds.observe(waited.as_secs_f64());
    }

    /// Sets for how long the oldest transaction on the database has been open.
    pub fn set_oldest_transaction(&self, age: Duration) {
        self.oldest_transaction_seconds.set(age.as_secs_f64());
    }

    /// Sets what is due: how many deliveries, and for how long the oldest has been.
    pub fn set_due(&self, deliveries: u64, oldest: Duration) {
        self.due.set(gauge(deliveries));
        self.oldest_due_seconds.set(oldest.as_secs_f64());
    }

    /// Sets how many deliveries are held.
    pub fn set_held(&self, deliveries: u64) {
        self.held.set(gauge(deliveries));
    }

    /// Sets how many endpoints there are of each health and circuit. Pairs that are not in the
    /// list have none.
    pub fn set_endpoints(&self, counts: &[(&'static str, &'static str, u64)]) {
        let mut pairs = self.endpoint_pairs.lock().unwrap_or_else(PoisonError::into_inner);
        pairs.values_mut().for_each(|count| *count = 0);
        for (health, circuit, count) in counts {
            pairs.insert((health, circuit), gauge(*count));
        }
        for (&(health, circuit), &count) in pairs.iter() {
            self.endpoints.get_or_create(&ByHealth { health, circuit }).set(count);
        }
    }

    /// Counts a connection that the address guard refused; `verdict` is the guard's own name.
    pub fn guard_refusal(&self, verdict: &'static str) {
        self.guard_refusals.get_or_create(&ByVerdict { verdict }).inc();
    }

    /// Counts a result whose row another owner had settled before.
    pub fn claim_lost(&self) {
        self.claims_lost.inc();
    }

    /// Notes how long the database took; `statement` is a name such as `fetch`, not SQL.
    pub fn database(&self, statement: &'static str, took: Duration) {
        self.database_seconds.get_or_create(&ByStatement { statement }).observe(took.as_secs_f64());
    }

    /// Counts a request of a provider. `scheme` is a name of the table of providers, `custom`, or
    /// `none` where there is no such source.
    pub fn inbound_request(&self, scheme: &'static str, result: &'static str) {
        self.inbound_requests.get_or_create(&ByScheme { scheme, result }).inc();
    }

    /// Notes how long a genuine request waited for its answer.
    pub fn inbound_ack(&self, took: Duration) {
        self.inbound_ack_seconds.observe(took.as_secs_f64());
    }

    /// All of them as text, in the format that [`CONTENT_TYPE`] names.
    pub fn render(&self) -> String {
        let mut text = String::new();
        prometheus_text::encode(&mut text, &self.registry)
            .expect("a String takes whatever is written to it");
        text
    }
}

/// Gauges are signed; no count of rows reaches the sign.
fn gauge(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_shows_under_its_promised_name() {
        let metrics = Metrics::new();
        metrics.event_accepted("http");
        metrics.events_accepted_many("sql", 2);
        metrics.attempt("timeout_total", Duration::from_secs(15));
        metrics.delivery_ended("dead", "exhausted");
        metrics.delivery_latency(Duration::from_millis(3));
        metrics.set_due(7, Duration::from_millis(1500));
        metrics.set_held(4);
        metrics.set_endpoints(&[("healthy", "closed", 2)]);
        metrics.guard_refusal("private");
        metrics.claim_lost();
        metrics.database("fetch", Duration::from_micros(200));
        metrics.inbound_request("stripe", "accepted");
        metrics.inbound_ack(Duration::from_millis(4));

        let text = metrics.render();

        for line in [
            "snaphook_events_accepted_total{door=\"http\"} 1",
            "snaphook_events_accepted_total{door=\"sql\"} 2",
            "snaphook_attempts_total{outcome=\"timeout_total\"} 1",
            "snaphook_attempt_seconds_bucket{le=\"15\"} 1",
            "snaphook_deliveries_total{state=\"dead\",cause=\"exhausted\"} 1",
            "snaphook_delivery_latency_seconds_bucket{le=\"0.005\"} 1",
            "snaphook_due 7",
            "snaphook_oldest_due_seconds 1.5",
            "snaphook_held 4",
            "snaphook_endpoints{health=\"healthy\",circuit=\"closed\"} 2",
            "snaphook_guard_refusals_total{verdict=\"private\"} 1",
            "snaphook_claims_lost_total 1",
            "snaphook_database_seconds_count{statement=\"fetch\"} 1",
            "snaphook_inbound_requests_total{scheme=\"stripe\",result=\"accepted\"} 1",
            "snaphook_inbound_ack_seconds_bucket{le=\"0.004\"} 1",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} is missing in\n{text}");
        }
    }

    #[test]
    fn a_pair_that_has_no_endpoints_left_goes_to_zero() {
        let metrics = Metrics::new();
        metrics.set_endpoints(&[("healthy", "closed", 2), ("failing", "open", 1)]);

        metrics.set_endpoints(&[("healthy", "closed", 3)]);

        let text = metrics.render();
        assert!(text.contains("{health=\"healthy\",circuit=\"closed\"} 3"), "{text}");
        assert!(text.contains("{health=\"failing\",circuit=\"open\"} 0"), "{text}");
    }
}
