//! The whole way: in over HTTP, or waiting already, to the receiver and on record.

use std::{sync::Arc, time::Duration};

use super::{
    Plan,
    database::Cluster,
    load, machine,
    program::{Program, rest},
    report::{as_number, per_second},
    setup::{FanOut, Fixture, Kind, Prepared},
    sink::Sink,
};
use crate::world::real::monotonic;

/// What came out of one run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Deliveries a second.
    pub rate: f64,
    /// Microseconds of CPU that snaphook took for each; 0 where that cannot be known.
    pub program_micros: f64,
    /// Microseconds of CPU that PostgreSQL took for each; 0 where that cannot be known.
    pub database_micros: f64,
}

/// From the first event sent to the last delivery on record.
pub async fn flow(
    plan: &Plan,
    fixture: &Fixture,
    sink: &Sink,
    kind: Kind,
    to: FanOut,
) -> anyhow::Result<Run> {
    let prepared = fixture.copy(kind).await?;
    let program = Arc::new(Program::start(&prepared, &plan.folder).await?);
    // Settled: shards are claimed and the first scans are over.
    rest(Duration::from_millis(300)).await;
    let (before, usage) = (sink.requests(), Usage::now(&program, &fixture.cluster));
    let begun = monotonic();
    let events = load::send(&program, to, plan.time).await?;
    let many = events * u64::from(to.endpoints);
    program.until_delivered(many).await?;
    let took = monotonic().saturating_sub(begun);
    let usage = Usage::now(&program, &fixture.cluster).since(usage);
    drop(program);
    check(&prepared, many, sink.requests() - before).await?;
    prepared.database.remove(&fixture.cluster).await?;
    Ok(usage.run(many, took))
}

/// From the first request of what waits at the start to the last delivery on record.
pub async fn drain(plan: &Plan, fixture: &Fixture, sink: &Sink) -> anyhow::Result<Run> {
    let prepared = fixture.copy(Kind::Backlog).await?;
    let (before, many) = (sink.requests(), u64::from(plan.backlog));
    let program = Program::start(&prepared, &plan.folder).await?;
    let (begun, usage) = (monotonic(), Usage::now(&program, &fixture.cluster));
    // What was delivered before it was ready counts neither way.
    let early = sink.requests() - before;
    program.until_delivered(many).await?;
    let took = monotonic().saturating_sub(begun);
    let usage = Usage::now(&program, &fixture.cluster).since(usage);
    drop(program);
    check(&prepared, many, sink.requests() - before).await?;
    prepared.database.remove(&fixture.cluster).await?;
    Ok(usage.run(many - early, took))
}

/// A rate of what was lost, or sent twice, is no rate.
async fn check(prepared: &Prepared, many: u64, requests: u64) -> anyhow::Result<()> {
    let (delivered, left) = prepared.database.count().await?;
    anyhow::ensure!(
        u64::try_from(delivered) == Ok(many) && requests == many && left == 0,
        "of {many} deliveries {delivered} are on record and {left} wait; {requests} requests came"
    );
    Ok(())
}

/// CPU since the start of the processes, where the system tells.
#[derive(Clone, Copy, Debug)]
struct Usage {
    program: Duration,
    database: Duration,
}

impl Usage {
    fn now(program: &Program, cluster: &Cluster) -> Self {
        let database = cluster.postmaster().map_or(Duration::ZERO, machine::cpu_of_family);
        Self { program: machine::cpu_of(program.process()), database }
    }

    fn since(self, before: Self) -> Self {
        Self {
            program: self.program.saturating_sub(before.program),
            database: self.database.saturating_sub(before.database),
        }
    }

    fn run(self, many: u64, took: Duration) -> Run {
        let each = |cpu: Duration| cpu.as_secs_f64() * 1e6 / as_number(many.max(1));
        Run {
            rate: per_second(many, took),
            program_micros: each(self.program),
            database_micros: each(self.database),
        }
    }
}
