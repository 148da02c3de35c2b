//! The whole way: in over HTTP, or waiting already, to the receiver and on record.

use std::{sync::Arc, time::Duration};

use super::{
    Plan, load,
    machine::Usage,
    program::{PATIENCE, Program, rest},
    report::{Sample, as_number, per_second},
    setup::{FanOut, Fixture, HEALTHY, Kind, Prepared},
    sink::Sink,
};
use crate::world::real::monotonic;

/// A server under load.
pub struct Flow<'a> {
    /// The server.
    pub program: &'a Arc<Program>,
    /// Where its database is.
    pub fixture: &'a Fixture,
}

impl Flow<'_> {
    /// From the first event sent to the last delivery on record; and how many those were.
    pub async fn run(&self, to: FanOut, time: Duration) -> anyhow::Result<(Sample, u64)> {
        let Self { program, fixture } = self;
        let before = program.delivered().await?;
        let usage = Usage::now(Some(program.process()), &fixture.cluster);
        let begun = monotonic();
        let events = load::send(program, to, time).await?;
        let many = events * u64::from(to.endpoints);
        program.until_delivered(before + many).await?;
        let took = monotonic().saturating_sub(begun);
        let now = Usage::now(Some(program.process()), &fixture.cluster);
        let cpu = now.each_since(usage, as_number(many));
        Ok((Sample { value: per_second(many, took), cpu }, many))
    }
}

/// The rate of a new server, and its memory at its most.
pub async fn flow(
    plan: &Plan,
    fixture: &Fixture,
    sink: &Sink,
    kind: Kind,
    to: FanOut,
) -> anyhow::Result<(Sample, Sample)> {
    let prepared = fixture.copy(kind).await?;
    let program = Arc::new(Program::start(&prepared, &plan.folder).await?);
    // Settled: shards are claimed and the first scans are over.
    rest(Duration::from_millis(300)).await;
    let before = sink.requests();
    let (rate, many) = Flow { program: &program, fixture }.run(to, plan.time).await?;
    let memory = Sample { value: program.memory_most(), cpu: rate.cpu };
    drop(program);
    check(&prepared, many, sink.requests() - before).await?;
    prepared.database.remove(&fixture.cluster).await?;
    Ok((rate, memory))
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

/// Waits until so many deliveries to healthy endpoints are on record, where the server's own
/// count has others in it too.
pub async fn until_recorded(prepared: &Prepared, many: u64) -> anyhow::Result<()> {
    let end = monotonic() + PATIENCE;
    while u64::try_from(prepared.database.count(HEALTHY).await?.0)? < many && monotonic() < end {
        rest(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// A rate of what was lost, or sent twice, is no rate.
pub async fn check(prepared: &Prepared, many: u64, requests: u64) -> anyhow::Result<()> {
    let (delivered, left) = prepared.database.count(HEALTHY).await?;
    agree(many, delivered, left, requests)
}

fn agree(many: u64, delivered: i64, left: i64, requests: u64) -> anyhow::Result<()> {
    anyhow::ensure!(
        u64::try_from(delivered) == Ok(many) && requests == many && left == 0,
        "of {many} deliveries {delivered} are on record and {left} wait; {requests} requests came"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_lost_or_comes_twice_is_no_figure() {
        for (delivered, left, requests, good, why) in [
            (10, 0, 10, true, "each once"),
            (9, 0, 10, false, "one is not on record"),
            (10, 1, 10, false, "one waits, for it was stored twice"),
            (10, 0, 11, false, "one was sent twice"),
            (10, 0, 9, false, "one is on record and was never sent"),
            (11, 0, 11, false, "one that nobody emitted"),
        ] {
            assert_eq!(agree(10, delivered, left, requests).is_ok(), good, "{why}");
        }
    }
}
