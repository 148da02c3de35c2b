//! How long from a commit to the request at the receiver, when little is going on: 50 events a
//! second, so that the server falls asleep and is woken again and again.

use std::{collections::HashMap, time::Duration};

use sqlx::{Connection as _, PgConnection};

use super::{
    Plan,
    machine::{Cpu, Usage},
    program::{Program, rest},
    report::as_number,
    setup::{EVENT_TYPE, Fixture, Kind, ONE, Prepared, TENANTS, payload},
    sink::Sink,
};
use crate::world::real::{chance, monotonic};

/// The mean pause between two events.
const PAUSE: Duration = Duration::from_millis(20);

/// Connections are made and plans cached in the first moment, of which nothing is kept.
const WARM_UP: Duration = Duration::from_secs(1);

/// How long the last may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Milliseconds of each event, from when its COMMIT was sent, so that the flush is in it; and what
/// one of them costs.
pub async fn measure(
    plan: &Plan,
    fixture: &Fixture,
    sink: &Sink,
) -> anyhow::Result<(Vec<f64>, Cpu)> {
    let prepared = fixture.copy(Kind::Postgres).await?;
    let program = Program::start(&prepared, &plan.folder).await?;
    let found = sample(plan, fixture, sink, &program, &prepared).await?;
    drop(program);
    prepared.database.remove(&fixture.cluster).await?;
    Ok(found)
}

/// The same of a server that runs already.
pub async fn sample(
    plan: &Plan,
    fixture: &Fixture,
    sink: &Sink,
    program: &Program,
    prepared: &Prepared,
) -> anyhow::Result<(Vec<f64>, Cpu)> {
    let mut emitter = PgConnection::connect(&prepared.database.url()).await?;
    let mut expected = sink.requests();
    expected += u64::try_from(emit_for(&mut emitter, WARM_UP).await?.len())?;
    until_requests(sink, expected).await?;
    sink.watch();
    let usage = Usage::now(Some(program.process()), &fixture.cluster);
    let committed = emit_for(&mut emitter, plan.time).await?;
    until_requests(sink, expected + u64::try_from(committed.len())?).await?;
    let now = Usage::now(Some(program.process()), &fixture.cluster);
    let arrivals = sink.arrivals();
    emitter.close().await?;
    let mut millis = Vec::with_capacity(committed.len());
    for (event, at) in &committed {
        let arrived = arrivals.get(event);
        let arrived = arrived.ok_or_else(|| anyhow::anyhow!("{event} has not arrived"))?;
        millis.push(arrived.saturating_sub(*at).as_secs_f64() * 1e3);
    }
    let cpu = now.each_since(usage, as_number(u64::try_from(millis.len())?));
    Ok((millis, cpu))
}

/// Waits until the receiver has had so many.
async fn until_requests(sink: &Sink, many: u64) -> anyhow::Result<()> {
    let end = monotonic() + PATIENCE;
    while sink.requests() < many {
        let missing = many - sink.requests();
        anyhow::ensure!(monotonic() < end, "{missing} events have not arrived in {PATIENCE:?}");
        rest(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// Emits at random moments, so as not to fall into step with anything. Gives when each was
/// committed, by its id.
async fn emit_for(
    emitter: &mut PgConnection,
    time: Duration,
) -> anyhow::Result<HashMap<String, Duration>> {
    let (end, data) = (monotonic() + time, payload());
    let mut committed = HashMap::new();
    while monotonic() < end {
        // Even between nothing and twice the mean.
        let part = u32::try_from(chance() % 1_000)?;
        rest(PAUSE * 2 * part / 1_000).await;
        let tenant = chance() % u64::from(TENANTS);
        let mut tx = emitter.begin().await?;
        let event: String = sqlx::query_scalar("SELECT snaphook.emit($1, $2, $3)")
            .bind(format!("{}{tenant}", ONE.prefix))
            .bind(EVENT_TYPE)
            .bind(&data)
            .fetch_one(&mut *tx)
            .await?;
        let at = monotonic();
        tx.commit().await?;
        committed.insert(event, at);
    }
    Ok(committed)
}
