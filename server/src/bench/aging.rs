//! Whether it gets slower: the first minute of a server, the minute after a million deliveries,
//! and one beside a transaction that somebody left open, so that nothing dead can be cleared away.

use std::sync::Arc;

use sqlx::{Connection as _, PgConnection};

use super::{
    Measure, Plan,
    pipeline::{self, Flow},
    program::Program,
    report::Sample,
    setup::{Fixture, Kind, TEN},
    sink::Sink,
};

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
    let (first, mut many) = flow.run(TEN, plan.minute).await?;
    while many < plan.waiting.into() {
        many += flow.run(TEN, plan.time).await?.1;
    }
    let (later, more) = flow.run(TEN, plan.minute).await?;
    let mut idler = PgConnection::connect(&prepared.database.url()).await?;
    sqlx::raw_sql(
        "BEGIN ISOLATION LEVEL REPEATABLE READ;
         SELECT pg_current_xact_id(), count(*) FROM snaphook.queue",
    )
    .execute(&mut idler)
    .await?;
    let (beside, last) = flow.run(TEN, plan.minute).await?;
    idler.close().await?;
    let many = many + more + last;
    drop(program);
    pipeline::check(&prepared, many, sink.requests() - requests).await?;
    prepared.database.remove(&fixture.cluster).await?;
    Ok(vec![
        (Measure::RateFirst, first),
        (Measure::RateLater, later),
        (Measure::RateBesideTransaction, beside),
    ])
}
