//! Whether it gets slower: the first minute of a server, the minute after a million deliveries,
//! and one beside a transaction that somebody left open, so that nothing dead can be cleared away.

use std::{sync::Arc, time::Duration};

use sqlx::{Connection as _, PgConnection};

use super::{
    Measure, Plan,
    machine::Usage,
    pipeline::{self, Flow},
    program::Program,
    report::{Sample, as_number, per_second},
    setup::{Fixture, Kind, TEN},
    sink::Sink,
};
use crate::world::real::monotonic;

/// How long events come in before all of them must be delivered. They come in faster than they can
/// be: in a minute without a pause a backlog of millions would grow, and its draining be measured.
const PUSH: Duration = Duration::from_secs(1);

/// Pushes for so long, and until so many are delivered. Gives how many were.
async fn push(flow: &Flow<'_>, time: Duration, least: u64) -> anyhow::Result<(Sample, u64)> {
    let usage = || Usage::now(Some(flow.program.process()), &flow.fixture.cluster);
    let (begun, before, mut many) = (monotonic(), usage(), 0);
    while monotonic().saturating_sub(begun) < time || many < least {
        many += flow.run(TEN, PUSH).await?.1;
    }
    let took = monotonic().saturating_sub(begun);
    let cpu = usage().each_since(before, as_number(many));
    Ok((Sample { value: per_second(many, took), cpu }, many))
}

/// The three rates, all of one server.
pub async fn measure(
    plan: &Plan,
    fixture: &Fixture,
    sink: &Sink,
) -> anyhow::Result<Vec<(Measure, Sample)>> {
    let prepared = fixture.copy(Kind::Postgres).await?;
    let program = Arc::new(Program::start(&prepared, &plan.folder).await?);
    let requests = sink.requests();
    let flow = Flow { program: &program, fixture };
    let (first, many) = push(&flow, plan.minute, 0).await?;
    let between = u64::from(plan.waiting).saturating_sub(many);
    let (_, between) = push(&flow, Duration::ZERO, between).await?;
    let (later, more) = push(&flow, plan.minute, 0).await?;
    let mut idler = PgConnection::connect(&prepared.database.url()).await?;
    sqlx::raw_sql(
        "BEGIN ISOLATION LEVEL REPEATABLE READ;
         SELECT pg_current_xact_id(), count(*) FROM snaphook.queue",
    )
    .execute(&mut idler)
    .await?;
    let (beside, last) = push(&flow, plan.minute, 0).await?;
    idler.close().await?;
    let many = many + between + more + last;
    drop(program);
    pipeline::check(&prepared, many, sink.requests() - requests).await?;
    prepared.database.remove(&fixture.cluster).await?;
    Ok(vec![
        (Measure::RateFirst, first),
        (Measure::RateLater, later),
        (Measure::RateBesideTransaction, beside),
    ])
}
