//! The whole way: in over HTTP, or waiting already, to the receiver and on record.

use std::{sync::Arc, time::Duration};

use super::{
    Plan, load,
    machine::Usage,
    program::{Program, rest},
    report::{Sample, as_number, per_second},
    setup::{FanOut, Fixture, Kind, Prepared},
    sink::Sink,
};
use crate::world::real::monotonic;

/// From the first event sent to the last delivery on record.
pub async fn flow(
    plan: &Plan,
    fixture: &Fixture,
    sink: &Sink,
    kind: Kind,
    to: FanOut,
) -> anyhow::Result<Sample> {
    let prepared = fixture.copy(kind).await?;
    let program = Arc::new(Program::start(&prepared, &plan.folder).await?);
    // Settled: shards are claimed and the first scans are over.
    rest(Duration::from_millis(300)).await;
    let (before, usage) = (sink.requests(), Usage::now(Some(program.process()), &fixture.cluster));
    let begun = monotonic();
    let events = load::send(&program, to, plan.time).await?;
    let many = events * u64::from(to.endpoints);
    program.until_delivered(many).await?;
    let took = monotonic().saturating_sub(begun);
    let now = Usage::now(Some(program.process()), &fixture.cluster);
    drop(program);
    check(&prepared, many, sink.requests() - before).await?;
    prepared.database.remove(&fixture.cluster).await?;
    Ok(Sample { value: per_second(many, took), cpu: now.each_since(usage, as_number(many)) })
}

/// From the first request of what waits at the start to the last delivery on record.
pub async fn drain(plan: &Plan, fixture: &Fixture, sink: &Sink) -> anyhow::Result<Sample> {
    let prepared = fixture.copy(Kind::Backlog).await?;
    let (before, many) = (sink.requests(), u64::from(plan.backlog));
    let program = Program::start(&prepared, &plan.folder).await?;
    let (begun, usage) = (monotonic(), Usage::now(Some(program.process()), &fixture.cluster));
    // What was delivered before it was ready counts neither way.
    let early = sink.requests() - before;
    program.until_delivered(many).await?;
    let took = monotonic().saturating_sub(begun);
    let now = Usage::now(Some(program.process()), &fixture.cluster);
    drop(program);
    check(&prepared, many, sink.requests() - before).await?;
    prepared.database.remove(&fixture.cluster).await?;
    let many = many - early;
    Ok(Sample { value: per_second(many, took), cpu: now.each_since(usage, as_number(many)) })
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
