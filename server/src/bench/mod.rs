//! Measures emit and delivery beside their ceilings: what the database alone can commit, and what
//! the delivery client alone can post. All in one run, for only ratios outlive a machine.
//!
//! The server under test is a process of its own, as a user runs it. The load and the receiver are
//! in this one, on the same cores.

mod aging;
mod beside;
mod database;
mod emit;
mod idle;
mod inbound;
mod latency;
mod load;
mod machine;
mod measures;
mod pipeline;
mod program;
mod raw;
mod report;
mod setup;
mod sink;
mod verifying;
mod waiting;

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;

pub use measures::Measure;
pub use report::Report;

use self::{
    database::Cluster,
    machine::Machine,
    report::{Sample, Samples},
    setup::{Fixture, Kind},
    sink::Sink,
};

/// What to measure, and for how long.
#[derive(Clone, Debug)]
pub struct Plan {
    /// A PostgreSQL server in which databases may be made and dropped.
    pub postgres: String,
    /// Everything once a round, one after the other; medians are taken over rounds.
    pub rounds: usize,
    /// How long each measurement puts load on.
    pub time: Duration,
    /// Deliveries that wait when the draining begins.
    pub backlog: u32,
    /// Deliveries that wait for a dead endpoint, or for a hundredth as many endpoints; and after
    /// which to look whether it got slower.
    pub waiting: u32,
    /// How long the load lasts when it is looked whether it gets slower.
    pub minute: Duration,
    /// Only these, and the ceilings that they need; all when empty.
    pub only: Vec<Measure>,
    /// For SQLite files and logs. Made when it is not there; only our own files are removed.
    pub folder: PathBuf,
}

impl Plan {
    fn wants(&self, measure: Measure) -> bool {
        let needed = |other: &Measure| *other == measure || other.facts().ceiling == Some(measure);
        self.only.is_empty() || self.only.iter().any(needed)
    }

    /// Whether anything is wanted that is found in the run of `measure`.
    fn wants_run_of(&self, measure: Measure) -> bool {
        let with =
            |other: &&Measure| **other == measure || other.facts().comes_with == Some(measure);
        Measure::ALL.iter().filter(with).any(|other| self.wants(*other))
    }
}

/// Runs all rounds. `tell` is called with what is about to be done.
pub async fn run(plan: &Plan, tell: &(dyn Fn(&str) + Sync)) -> anyhow::Result<Report> {
    std::fs::create_dir_all(&plan.folder)
        .with_context(|| format!("cannot make {}", plan.folder.display()))?;
    let sink = Sink::start().await?;
    let mut fixture = Fixture::new(plan, Cluster::connect(&plan.postgres).await?);
    let load_before = machine::load();
    let mut samples = Samples::default();
    let measured = async {
        tell("preparing databases");
        fixture.prepare(plan, sink.address()).await?;
        measure(plan, &fixture, &sink, &mut samples, tell).await
    };
    let measured = measured.await;
    let machine = Machine::here(&fixture.cluster, load_before);
    let removed = fixture.remove().await;
    sink.stop().await;
    measured?;
    removed?;
    Ok(Report::new(machine, &samples))
}

async fn measure(
    plan: &Plan,
    fixture: &Fixture,
    sink: &Sink,
    samples: &mut Samples,
    tell: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<()> {
    for round in 1..=plan.rounds {
        for measure in Measure::ALL.iter().copied() {
            // Some come out of the same run as another.
            let facts = measure.facts();
            if facts.comes_with.is_some() || !plan.wants_run_of(measure) || facts.once && round > 1
            {
                continue;
            }
            tell(&format!("round {round} of {}: {}", plan.rounds, measure.facts().title));
            let found = one(plan, fixture, sink, measure).await;
            let found = found.with_context(|| format!("while measuring {}", measure.name()))?;
            for (measure, sample) in found.into_iter().filter(|(one, _)| plan.wants(*one)) {
                samples.add(measure, sample);
            }
        }
    }
    Ok(())
}

/// One measurement of one round, and what else came out of it.
async fn one(
    plan: &Plan,
    fixture: &Fixture,
    sink: &Sink,
    measure: Measure,
) -> anyhow::Result<Vec<(Measure, Sample)>> {
    let beside = async |kind| {
        anyhow::Ok(beside::named(kind, beside::measure(plan, fixture, sink, kind).await?))
    };
    let flow = async |kind, to| pipeline::flow(plan, fixture, sink, kind, to).await;
    let sample = match measure {
        Measure::R32 => emit::reference(plan, fixture).await?,
        Measure::EmitOne => emit::emit(plan, fixture, setup::ONE).await?,
        Measure::EmitTen => emit::emit(plan, fixture, setup::TEN).await?,
        Measure::Raw => raw::post(plan, fixture, sink).await?,
        Measure::PostgresOne => flow(Kind::Postgres, setup::ONE).await?.0,
        Measure::PostgresTen | Measure::MemorySaturated => {
            let (rate, memory) = flow(Kind::Postgres, setup::TEN).await?;
            return Ok(vec![(Measure::PostgresTen, rate), (Measure::MemorySaturated, memory)]);
        }
        Measure::SqliteOne => flow(Kind::Sqlite, setup::ONE).await?.0,
        Measure::Drain => pipeline::drain(plan, fixture, sink).await?,
        Measure::Verify => verifying::measure(plan, fixture)?,
        Measure::LatencyHalf | Measure::LatencyMost => {
            let (millis, cpu) = latency::measure(plan, fixture, sink).await?;
            let at = |part| Sample { value: report::quantile(&millis, part), cpu };
            return Ok(vec![(Measure::LatencyHalf, at(0.5)), (Measure::LatencyMost, at(0.99))]);
        }
        Measure::DeadRate | Measure::DeadMost | Measure::MemoryBacklog => {
            return beside(Kind::Dead).await;
        }
        Measure::CrowdRate | Measure::CrowdMost => return beside(Kind::Crowd).await,
        Measure::SlowRate | Measure::SlowMost => return beside(Kind::Slow).await,
        Measure::IdleCpu | Measure::MemoryIdle => return idle::measure(plan, fixture).await,
        Measure::Ack0 => inbound::ceiling(plan, fixture).await?,
        Measure::InboundPostgres => inbound::genuine(plan, fixture, Kind::Postgres).await?,
        Measure::InboundSqlite => inbound::genuine(plan, fixture, Kind::Sqlite).await?,
        Measure::InboundForged => inbound::forged(plan, fixture).await?,
        Measure::AckHalf | Measure::AckMost => {
            let (millis, cpu) = inbound::calm(plan, fixture).await?;
            let at = |part| Sample { value: report::quantile(&millis, part), cpu };
            return Ok(vec![(Measure::AckHalf, at(0.5)), (Measure::AckMost, at(0.99))]);
        }
        Measure::InboundStorm => inbound::storm(plan, fixture).await?,
        Measure::RateFirst | Measure::RateLater | Measure::RateBesideTransaction => {
            return aging::measure(plan, fixture, sink).await;
        }
    };
    Ok(vec![(measure, sample)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_wanted_for_whatever_is_found_in_it_and_as_a_ceiling() {
        let plan = |only: &[Measure]| Plan {
            postgres: String::new(),
            rounds: 1,
            time: Duration::ZERO,
            backlog: 0,
            waiting: 0,
            minute: Duration::ZERO,
            only: only.to_vec(),
            folder: PathBuf::new(),
        };
        for (only, run, expected) in [
            (&[][..], Measure::Drain, true),
            (&[Measure::Drain], Measure::Drain, true),
            (&[Measure::Drain], Measure::Raw, true),
            (&[Measure::Drain], Measure::R32, false),
            (&[Measure::MemoryBacklog], Measure::DeadRate, true),
            (&[Measure::SlowMost], Measure::LatencyHalf, true),
            (&[Measure::RateLater], Measure::RateFirst, true),
            (&[Measure::RateLater], Measure::PostgresOne, false),
        ] {
            assert_eq!(plan(only).wants_run_of(run), expected, "{run:?} for {only:?}");
        }
    }
}
