//! How long from a commit to the request at the receiver, when little is going on: 50 events a
//! second, so that the server falls asleep and is woken again and again.

use std::{collections::HashMap, time::Duration};

use sqlx::{Connection as _, PgConnection};

use super::{
    Plan,
    program::{Program, rest},
    setup::{EVENT_TYPE, Fixture, Kind, ONE, TENANTS, payload},
    sink::Sink,
};
use crate::world::real::{chance, monotonic};

/// The mean pause between two events.
const PAUSE: Duration = Duration::from_millis(20);

/// Connections are made and plans cached in the first moment, of which nothing is kept.
const WARM_UP: Duration = Duration::from_secs(1);

/// How long the last may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Milliseconds of each event, from when its COMMIT was sent: the flush is in it.
pub async fn measure(plan: &Plan, fixture: &Fixture, sink: &Sink) -> anyhow::Result<Vec<f64>> {
    let prepared = fixture.copy(Kind::Postgres).await?;
    let program = Program::start(&prepared, &plan.folder).await?;
    let mut emitter = PgConnection::connect(&prepared.database.url()).await?;
    emit_for(&mut emitter, WARM_UP).await?;
    sink.watch();
    let before = sink.requests();
    let committed = emit_for(&mut emitter, plan.time).await?;
    let end = monotonic() + PATIENCE;
    let many = u64::try_from(committed.len())?;
    while sink.requests() - before < many && monotonic() < end {
        rest(Duration::from_millis(5)).await;
    }
    let arrivals = sink.arrivals();
    emitter.close().await?;
    drop(program);
    prepared.database.remove(&fixture.cluster).await?;
    let mut millis = Vec::with_capacity(committed.len());
    for (event, at) in committed {
        let arrived = arrivals.get(&event);
        let arrived = arrived.ok_or_else(|| anyhow::anyhow!("{event} has not arrived"))?;
        millis.push(arrived.saturating_sub(at).as_secs_f64() * 1e3);
    }
    Ok(millis)
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
