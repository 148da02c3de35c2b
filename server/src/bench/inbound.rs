//! The door for providers: how many genuine requests a second are on disk and thanked, how fast
//! forged ones are refused, how long a thank-you takes when little is going on, and in a storm of
//! repeats. The ceiling is the same HTTP server that reads a body and answers.
//!
//! Each event has one delivery, to a queue of which nobody claims: it is stored with the event, as
//! always, and nothing is sent while the door is measured.

mod ceiling;
mod load;

use std::{collections::HashSet, sync::Arc, time::Duration};

use super::{
    Plan,
    database::Database,
    machine::{Cpu, Usage},
    program::{Program, rest},
    report::{self, Sample, as_number, per_second},
    setup::{self, Fixture, Kind, Prepared},
};
use crate::world::real::{chance, monotonic};

pub use ceiling::ceiling;
use load::{Provider, push, push_until};

/// Providers' connections at once.
const CLIENTS: usize = 32;

/// How long a server settles: shards are claimed, the sources are read.
const SETTLE: Duration = Duration::from_millis(1_500);

/// Connections of a calm door, and the mean pause of each: together 100 requests a second.
const CALM_CLIENTS: usize = 8;
const CALM_PAUSE: Duration = Duration::from_millis(80);

/// Events of a storm, and how often each of them comes: nine of ten requests are repeats.
const STORM_EVENTS: usize = 2_000;
const STORM_REPEATS: usize = 10;

/// Of a storm's events, one in a short run.
const STORM_SHORT: usize = 10;

/// A server with a source.
struct Door {
    program: Program,
    provider: Arc<Provider>,
    prepared: Prepared,
}

impl Door {
    async fn open(plan: &Plan, fixture: &Fixture, kind: Kind) -> anyhow::Result<Self> {
        let prepared = fixture.copy(kind).await?;
        let path = setup::add_source(&prepared.database).await?;
        let program = Program::start(&prepared, &plan.folder).await?;
        rest(SETTLE).await;
        let provider = Arc::new(Provider::new(program.address(), path)?);
        Ok(Self { program, provider, prepared })
    }

    fn usage(&self, fixture: &Fixture) -> Usage {
        Usage::now(Some(self.program.process()), &fixture.cluster)
    }

    /// Ends it. A figure of what was lost, or stored twice, is no figure.
    async fn close(self, fixture: &Fixture, events: u64) -> anyhow::Result<()> {
        drop(self.program);
        let stored = self.prepared.database.count_inbound().await?;
        anyhow::ensure!(
            stored == (events, events),
            "of {events} events {} are stored, with {} deliveries",
            stored.0,
            stored.1
        );
        self.prepared.database.remove(&fixture.cluster).await
    }
}

/// Genuine requests a second, each of another event.
pub async fn genuine(plan: &Plan, fixture: &Fixture, kind: Kind) -> anyhow::Result<Sample> {
    let door = Door::open(plan, fixture, kind).await?;
    let (begun, usage) = (monotonic(), door.usage(fixture));
    let many = push_until(&door.provider, CLIENTS, begun + plan.time, true).await?;
    let took = monotonic().saturating_sub(begun);
    let cpu = door.usage(fixture).each_since(usage, as_number(many));
    door.close(fixture, many).await?;
    Ok(Sample { value: per_second(many, took), cpu })
}

/// Forged requests a second.
pub async fn forged(plan: &Plan, fixture: &Fixture) -> anyhow::Result<Sample> {
    let door = Door::open(plan, fixture, Kind::Postgres).await?;
    let (begun, usage) = (monotonic(), door.usage(fixture));
    let many = push_until(&door.provider, CLIENTS, begun + plan.time, false).await?;
    let took = monotonic().saturating_sub(begun);
    let cpu = door.usage(fixture).each_since(usage, as_number(many));
    door.close(fixture, 0).await?;
    Ok(Sample { value: per_second(many, took), cpu })
}

/// Milliseconds from a request to its answer, at 100 requests a second; and what one costs.
pub async fn calm(plan: &Plan, fixture: &Fixture) -> anyhow::Result<(Vec<f64>, Cpu)> {
    let door = Door::open(plan, fixture, Kind::Postgres).await?;
    // The first of each connection is not counted: plans are made and pages read.
    let warm = push_until(&door.provider, CALM_CLIENTS, monotonic(), true).await?;
    let usage = door.usage(fixture);
    let millis = load::calmly(&door.provider, CALM_CLIENTS, CALM_PAUSE, plan.time).await?;
    let many = u64::try_from(millis.len())?;
    let cpu = door.usage(fixture).each_since(usage, as_number(many));
    door.close(fixture, warm + many).await?;
    Ok((millis, cpu))
}

/// Milliseconds within which 99 of 100 requests of a storm are answered.
pub async fn storm(plan: &Plan, fixture: &Fixture) -> anyhow::Result<Sample> {
    let events = if plan.rounds == 1 { STORM_EVENTS / STORM_SHORT } else { STORM_EVENTS };
    let door = Door::open(plan, fixture, Kind::Postgres).await?;
    let usage = door.usage(fixture);
    let millis = push(&door.provider, CLIENTS, shuffled(events)).await?;
    let cpu = door.usage(fixture).each_since(usage, as_number(u64::try_from(millis.len())?));
    door.close(fixture, u64::try_from(events)?).await?;
    Ok(Sample { value: report::quantile(&millis, 0.99), cpu })
}

/// Ids in any order, each as often as it comes.
fn shuffled(events: usize) -> Vec<String> {
    let ids = (0..events).flat_map(|event| vec![format!("evt_storm_{event}"); STORM_REPEATS]);
    let mut ids: Vec<_> = ids.map(|id| (chance(), id)).collect();
    ids.sort_unstable();
    debug_assert_eq!(ids.iter().map(|(_, id)| id).collect::<HashSet<_>>().len(), events);
    ids.into_iter().map(|(_, id)| id).collect()
}

impl Database {
    /// Events that came in at a source, and deliveries of them that wait.
    async fn count_inbound(&self) -> anyhow::Result<(u64, u64)> {
        let (events, queue) = match self {
            Self::Postgres { .. } => ("snaphook.events", "snaphook.queue"),
            Self::Sqlite(_) => ("snaphook_events", "snaphook_queue"),
        };
        let events = self.count_of(&format!("{events} WHERE source_id IS NOT NULL")).await?;
        let waiting =
            self.count_of(&format!("{queue} WHERE tenant = '{}'", setup::INBOUND)).await?;
        Ok((u64::try_from(events)?, u64::try_from(waiting)?))
    }
}
