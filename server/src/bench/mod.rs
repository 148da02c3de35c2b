//! Measures emit and delivery beside their ceilings: what the database alone can commit, and what
//! the delivery client alone can post. All in one run, for only ratios outlive a machine.
//!
//! The server under test is a process of its own, as a user runs it. The load and the receiver are
//! in this one, on the same cores.

mod database;
mod emit;
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
        for measure in Measure::ALL.iter().copied().filter(|measure| plan.wants(*measure)) {
            // Some come out of the same run as another.
            if measure.facts().comes_with.is_some_and(|other| plan.wants(other)) {
                continue;
            }
            tell(&format!("round {round} of {}: {}", plan.rounds, measure.facts().title));
            let found = one(plan, fixture, sink, measure).await;
            let found = found.with_context(|| format!("while measuring {}", measure.name()))?;
            for (measure, sample) in found {
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
    let sample = match measure {
        Measure::R32 => emit::reference(plan, fixture).await?,
        Measure::EmitOne => emit::emit(plan, fixture, setup::ONE).await?,
        Measure::EmitTen => emit::emit(plan, fixture, setup::TEN).await?,
        Measure::Raw => raw::post(plan, fixture, sink).await?,
        Measure::PostgresOne => {
            pipeline::flow(plan, fixture, sink, Kind::Postgres, setup::ONE).await?
        }
        Measure::PostgresTen => {
            pipeline::flow(plan, fixture, sink, Kind::Postgres, setup::TEN).await?
        }
        Measure::SqliteOne => pipeline::flow(plan, fixture, sink, Kind::Sqlite, setup::ONE).await?,
        Measure::Drain => pipeline::drain(plan, fixture, sink).await?,
        Measure::Verify => verifying::measure(plan, fixture)?,
        Measure::LatencyHalf | Measure::LatencyMost => {
            let (millis, cpu) = latency::measure(plan, fixture, sink).await?;
            let at = |part| Sample { value: report::quantile(&millis, part), cpu };
            return Ok(vec![(Measure::LatencyHalf, at(0.5)), (Measure::LatencyMost, at(0.99))]);
        }
    };
    Ok(vec![(measure, sample)])
}
