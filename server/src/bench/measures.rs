//! What is measured: names, units, and the figures that must and should be reached. The figures
//! are ratios to a ceiling of the same run, or milliseconds; docs/benchmarks.md says why these.

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
    /// From the commit to the request, median.
    #[value(name = "latency-p50")]
    LatencyHalf,
    /// From the commit to the request, 99th percentile.
    #[value(name = "latency-p99")]
    LatencyMost,
}

/// What is known of a measure before it is measured.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// For the table.
    pub title: &'static str,
    /// `events/s`, `deliveries/s`, `ms`, `µs`.
    pub unit: &'static str,
    /// What it is compared with.
    pub ceiling: Option<Measure>,
    /// The ratio to the ceiling, or the time, that must be reached; and that are aimed at.
    pub goal: Option<(f64, f64)>,
    /// The measure in whose run it is found.
    pub comes_with: Option<Measure>,
}

const fn facts(title: &'static str, unit: &'static str) -> Facts {
    Facts { title, unit, ceiling: None, goal: None, comes_with: None }
}

impl Facts {
    const fn of(self, ceiling: Measure, must: f64, aim: f64) -> Self {
        Self { ceiling: Some(ceiling), goal: Some((must, aim)), ..self }
    }

    const fn within(self, must: f64, aim: f64) -> Self {
        Self { goal: Some((must, aim)), ..self }
    }

    const fn with(self, measure: Measure) -> Self {
        Self { comes_with: Some(measure), ..self }
    }

    /// Whether `value` reaches the goal; `None` when there is none. Rates must be high, times low.
    pub fn met(&self, value: f64, ratio: Option<f64>) -> Option<bool> {
        let (must, _) = self.goal?;
        Some(ratio.map_or(value <= must, |ratio| ratio >= must))
    }
}

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
        Self::LatencyHalf,
        Self::LatencyMost,
    ];

    /// As in the JSON; stable.
    pub fn name(self) -> String {
        let value = clap::ValueEnum::to_possible_value(&self);
        value.map_or_else(String::new, |value| value.get_name().replace('-', "_"))
    }

    /// What is known of it.
    pub fn facts(self) -> Facts {
        match self {
            Self::R32 => facts("R32: insert and commit one row, 32 clients", "events/s"),
            Self::Raw => facts("RAW: sign and post, no database", "deliveries/s"),
            Self::EmitOne => {
                facts("emit by SQL, 32 clients, fan-out 1", "events/s").of(Self::R32, 0.35, 0.5)
            }
            Self::EmitTen => {
                facts("emit by SQL, 32 clients, fan-out 10", "events/s").of(Self::R32, 0.25, 0.4)
            }
            Self::PostgresOne => facts(
                "HTTP in to recorded, PostgreSQL, fan-out 1",
                "deliveries/s",
            )
            .of(Self::R32, 0.2, 0.35),
            Self::PostgresTen => facts(
                "HTTP in to recorded, PostgreSQL, fan-out 10",
                "deliveries/s",
            )
            .of(Self::R32, 0.5, 0.8),
            Self::SqliteOne => facts("HTTP in to recorded, SQLite, fan-out 1", "deliveries/s").of(
                Self::Raw,
                0.08,
                0.15,
            ),
            Self::Drain => {
                facts("draining a backlog, PostgreSQL", "deliveries/s").of(Self::Raw, 0.35, 0.5)
            }
            Self::Verify => facts("verify 1 KiB, HMAC-SHA256, whole path", "µs").within(3.0, 2.0),
            Self::LatencyHalf => {
                facts("commit to request at 50 events/s, p50", "ms").within(5.0, 2.0)
            }
            Self::LatencyMost => facts("commit to request at 50 events/s, p99", "ms")
                .within(25.0, 8.0)
                .with(Self::LatencyHalf),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_must_be_high_and_times_low() {
        let (rate, time) = (Measure::EmitOne.facts(), Measure::LatencyHalf.facts());
        for (facts, value, ratio, expected, why) in [
            (rate, 1.0, Some(0.35), Some(true), "just reached"),
            (rate, 1e9, Some(0.349), Some(false), "the ratio counts, not the value"),
            (time, 5.0, None, Some(true), "just in time"),
            (time, 5.1, None, Some(false), "too late"),
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
