//! What is measured: names, units, and the figures that must and should be reached. The figures
//! are ratios to a ceiling of the same run, or the value itself; docs/benchmarks.md says why these.

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Measure {
    /// One-row insert-commit.
    #[value(name = "r32")]
    R32,
    /// Signing and posting with no database.
    #[value(name = "raw")]
    Raw,
    /// `snaphook.emit`, each event for one endpoint.
    #[value(name = "emit-sql-fanout-1")]
    EmitOne,
    /// `snaphook.emit`, each event for ten endpoints.
    #[value(name = "emit-sql-fanout-10")]
    EmitTen,
    /// HTTP in, delivered and recorded.
    #[value(name = "delivered-postgres-fanout-1")]
    PostgresOne,
    /// HTTP in, ten deliveries an event.
    #[value(name = "delivered-postgres-fanout-10")]
    PostgresTen,
    /// The same on SQLite, one delivery an event.
    #[value(name = "delivered-sqlite-fanout-1")]
    SqliteOne,
    /// Deliveries that waited when the server started.
    #[value(name = "drain-postgres")]
    Drain,
    /// An inbound request, from its bytes to its verdict.
    #[value(name = "verify-hmac-1k")]
    Verify,
    /// The server's own HTTP reading a body and answering, with nothing behind it.
    #[value(name = "ack0")]
    Ack0,
    /// Genuine inbound requests, verified, on disk with their deliveries, answered.
    #[value(name = "inbound-postgres")]
    InboundPostgres,
    /// The same on SQLite.
    #[value(name = "inbound-sqlite")]
    InboundSqlite,
    /// Forged inbound requests, refused.
    #[value(name = "inbound-forged")]
    InboundForged,
    /// From an inbound request to its answer at 100 a second, median.
    #[value(name = "inbound-ack-p50")]
    AckHalf,
    /// From an inbound request to its answer at 100 a second, 99th percentile.
    #[value(name = "inbound-ack-p99")]
    AckMost,
    /// From an inbound request to its answer in a storm of repeats, 99th percentile.
    #[value(name = "inbound-storm-p99")]
    InboundStorm,
    /// From the commit to the request, median.
    #[value(name = "latency-p50")]
    LatencyHalf,
    /// From the commit to the request, 99th percentile.
    #[value(name = "latency-p99")]
    LatencyMost,
    /// HTTP in, delivered and recorded, beside one endpoint that is down and has a great backlog.
    #[value(name = "beside-dead-rate")]
    DeadRate,
    /// From the commit to the request, 99th percentile, beside the same.
    #[value(name = "beside-dead-p99")]
    DeadMost,
    /// HTTP in, delivered and recorded, beside many endpoints with a backlog each.
    #[value(name = "beside-crowd-rate")]
    CrowdRate,
    /// From the commit to the request, 99th percentile, beside the same.
    #[value(name = "beside-crowd-p99")]
    CrowdMost,
    /// HTTP in, delivered and recorded, beside one endpoint that takes ten seconds.
    #[value(name = "beside-slow-rate")]
    SlowRate,
    /// From the commit to the request, 99th percentile, beside the same.
    #[value(name = "beside-slow-p99")]
    SlowMost,
    /// What of a core it takes with many endpoints and nothing to do.
    #[value(name = "idle-cpu")]
    IdleCpu,
    /// Memory after that.
    #[value(name = "memory-idle")]
    MemoryIdle,
    /// Memory at its most while as much as can be is coming in, ten deliveries an event.
    #[value(name = "memory-saturated")]
    MemorySaturated,
    /// Memory at its most beside a great backlog.
    #[value(name = "memory-backlog")]
    MemoryBacklog,
    /// The rate of a server's first minute.
    #[value(name = "rate-first")]
    RateFirst,
    /// The rate after so many deliveries.
    #[value(name = "rate-later")]
    RateLater,
    /// The rate then, beside a transaction that is left open.
    #[value(name = "rate-beside-open-transaction")]
    RateBesideTransaction,
}

/// What must be reached, and what is aimed at: of the ratio to the ceiling, or of the value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// The least that will do.
    pub must: f64,
    /// What would be good.
    pub aim: f64,
    /// Whether less is better.
    pub low: bool,
}

/// What is known of a measure before it is measured.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// For the table.
    pub title: &'static str,
    /// `events/s`, `deliveries/s`, `ms`, `µs`, `%`, `MB`.
    pub unit: &'static str,
    /// What it is compared with.
    pub ceiling: Option<Measure>,
    /// What is to be reached.
    pub goal: Option<Goal>,
    /// The measure in whose run it is found.
    pub comes_with: Option<Measure>,
    /// Whether one round is enough: it is long, and no rate that others' work would shake.
    pub once: bool,
}

const fn facts(title: &'static str, unit: &'static str) -> Facts {
    Facts { title, unit, ceiling: None, goal: None, comes_with: None, once: false }
}

impl Facts {
    /// Compared with `ceiling`; the ratio should be high.
    const fn of(self, ceiling: Measure, must: f64, aim: f64) -> Self {
        Self { ceiling: Some(ceiling), goal: Some(Goal { must, aim, low: false }), ..self }
    }

    /// Compared with `ceiling`; the ratio should be low.
    const fn at_most(self, ceiling: Measure, must: f64, aim: f64) -> Self {
        Self { ceiling: Some(ceiling), goal: Some(Goal { must, aim, low: true }), ..self }
    }

    /// The value should be low.
    const fn within(self, must: f64, aim: f64) -> Self {
        Self { goal: Some(Goal { must, aim, low: true }), ..self }
    }

    const fn with(self, measure: Measure) -> Self {
        Self { comes_with: Some(measure), ..self }
    }

    const fn once(self) -> Self {
        Self { once: true, ..self }
    }

    /// Whether the goal is reached; `None` when there is none, or its ceiling was not measured.
    pub fn met(&self, value: f64, ratio: Option<f64>) -> Option<bool> {
        let goal = self.goal?;
        let found = if self.ceiling.is_some() { ratio? } else { value };
        Some(if goal.low { found <= goal.must } else { found >= goal.must })
    }
}

/// Within 1.25 times of what it is without, at best 1.05 times.
const BESIDE: (f64, f64) = (1.25, 1.05);

impl Measure {
    /// All, in the order in which a round takes them: ceilings first.
    pub const ALL: &[Self] = &[
        Self::R32,
        Self::Raw,
        Self::EmitOne,
        Self::EmitTen,
        Self::PostgresOne,
        Self::PostgresTen,
        Self::SqliteOne,
        Self::Drain,
        Self::Verify,
        Self::Ack0,
        Self::InboundPostgres,
        Self::InboundSqlite,
        Self::InboundForged,
        Self::AckHalf,
        Self::AckMost,
        Self::InboundStorm,
        Self::LatencyHalf,
        Self::LatencyMost,
        Self::DeadRate,
        Self::DeadMost,
        Self::CrowdRate,
        Self::CrowdMost,
        Self::SlowRate,
        Self::SlowMost,
        Self::IdleCpu,
        Self::MemoryIdle,
        Self::MemorySaturated,
        Self::MemoryBacklog,
        Self::RateFirst,
        Self::RateLater,
        Self::RateBesideTransaction,
    ];

    /// As in the JSON; stable.
    pub fn name(self) -> String {
        let value = clap::ValueEnum::to_possible_value(&self);
        value.map_or_else(String::new, |value| value.get_name().replace('-', "_"))
    }

    /// What is known of it.
    pub fn facts(self) -> Facts {
        let rate = |title| facts(title, "deliveries/s");
        let beside = |title| rate(title).of(Self::PostgresOne, 1.0 / BESIDE.0, 1.0 / BESIDE.1);
        let late = |title| facts(title, "ms").at_most(Self::LatencyMost, BESIDE.0, BESIDE.1);
        match self {
            Self::R32 => facts("R32: insert and commit one row, 32 clients", "events/s"),
            Self::Raw => rate("RAW: sign and post, no database"),
            Self::EmitOne => {
                facts("emit by SQL, 32 clients, fan-out 1", "events/s").of(Self::R32, 0.35, 0.5)
            }
            Self::EmitTen => {
                facts("emit by SQL, 32 clients, fan-out 10", "events/s").of(Self::R32, 0.25, 0.4)
            }
            Self::PostgresOne => {
                rate("HTTP in to recorded, PostgreSQL, fan-out 1").of(Self::R32, 0.2, 0.35)
            }
            Self::PostgresTen => {
                rate("HTTP in to recorded, PostgreSQL, fan-out 10").of(Self::R32, 0.5, 0.8)
            }
            Self::SqliteOne => {
                rate("HTTP in to recorded, SQLite, fan-out 1").of(Self::Raw, 0.08, 0.15)
            }
            Self::Drain => rate("draining a backlog, PostgreSQL").of(Self::Raw, 0.35, 0.5),
            Self::Verify => facts("verify 1 KiB, HMAC-SHA256, whole path", "µs").within(3.0, 2.0),
            Self::Ack0
            | Self::InboundPostgres
            | Self::InboundSqlite
            | Self::InboundForged
            | Self::AckHalf
            | Self::AckMost
            | Self::InboundStorm => self.inbound(),
            Self::LatencyHalf => {
                facts("commit to request at 50 events/s, p50", "ms").within(5.0, 2.0)
            }
            Self::LatencyMost => facts("commit to request at 50 events/s, p99", "ms")
                .within(25.0, 8.0)
                .with(Self::LatencyHalf),
            Self::DeadRate => beside("rate beside a dead endpoint's backlog"),
            Self::DeadMost => late("p99 beside a dead endpoint's backlog").with(Self::DeadRate),
            Self::CrowdRate => beside("rate beside many endpoints' backlogs"),
            Self::CrowdMost => late("p99 beside many endpoints' backlogs").with(Self::CrowdRate),
            Self::SlowRate => beside("rate beside an endpoint that takes 10 s"),
            Self::SlowMost => late("p99 beside an endpoint that takes 10 s").with(Self::SlowRate),
            Self::IdleCpu => facts("idle, of a core", "%").within(1.0, 0.2),
            Self::MemoryIdle => facts("memory, idle", "MB").within(40.0, 25.0).with(Self::IdleCpu),
            Self::MemorySaturated => {
                facts("memory, saturated", "MB").within(150.0, 80.0).with(Self::PostgresTen)
            }
            Self::MemoryBacklog => {
                facts("memory, beside a backlog", "MB").within(150.0, 80.0).with(Self::DeadRate)
            }
            Self::RateFirst => rate("rate of the first minute").once(),
            Self::RateLater => {
                rate("rate after a million deliveries").of(Self::RateFirst, 0.9, 1.0).later()
            }
            Self::RateBesideTransaction => {
                rate("rate beside an open transaction").of(Self::RateFirst, 0.9, 1.0).later()
            }
        }
    }
}

impl Measure {
    /// What is known of it, of the door for providers.
    fn inbound(self) -> Facts {
        let requests = |title| facts(title, "requests/s");
        match self {
            Self::InboundPostgres => {
                requests("inbound acknowledged, PostgreSQL, 32 clients").of(Self::R32, 0.35, 0.55)
            }
            Self::InboundSqlite => {
                requests("inbound acknowledged, SQLite, 32 clients").of(Self::Ack0, 0.1, 0.2)
            }
            Self::InboundForged => {
                requests("inbound forged, refused, 32 clients").of(Self::Ack0, 0.5, 0.8)
            }
            Self::AckHalf => {
                facts("inbound to answer at 100 requests/s, p50", "ms").within(4.0, 2.0)
            }
            Self::AckMost => facts("inbound to answer at 100 requests/s, p99", "ms")
                .within(20.0, 8.0)
                .with(Self::AckHalf),
            Self::InboundStorm => facts("inbound storm, nine of ten are repeats, p99", "ms")
                .at_most(Self::AckMost, 10.0, 5.0),
            _ => requests("ACK0: read a body and answer, 32 clients"),
        }
    }
}

impl Facts {
    const fn later(self) -> Self {
        self.with(Measure::RateFirst).once()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_must_be_high_and_times_low() {
        let (rate, time) = (Measure::EmitOne.facts(), Measure::LatencyHalf.facts());
        let beside = Measure::DeadMost.facts();
        for (facts, value, ratio, expected, why) in [
            (rate, 1.0, Some(0.35), Some(true), "just reached"),
            (rate, 1e9, Some(0.349), Some(false), "the ratio counts, not the value"),
            (rate, 1e9, None, None, "nothing to compare it with"),
            (time, 5.0, None, Some(true), "just in time"),
            (time, 5.1, None, Some(false), "too late"),
            (beside, 90.0, Some(1.25), Some(true), "not much later than without"),
            (beside, 1.0, Some(1.26), Some(false), "later than without"),
            (Measure::Raw.facts(), 1.0, None, None, "a ceiling has no goal"),
        ] {
            assert_eq!(facts.met(value, ratio), expected, "{why}");
        }
    }

    #[test]
    fn every_measure_is_in_the_list_once_and_after_its_ceiling() {
        use clap::ValueEnum as _;
        let mut all = Measure::ALL.to_vec();
        all.dedup();
        assert_eq!(all.len(), Measure::value_variants().len());
        for (place, measure) in all.iter().enumerate() {
            for before in
                [measure.facts().ceiling, measure.facts().comes_with].into_iter().flatten()
            {
                assert!(all[..place].contains(&before), "{measure:?} stands before {before:?}");
            }
        }
    }
}
