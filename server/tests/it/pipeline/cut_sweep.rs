//! The connection is cut at every step, once each, and is back at once; the process lives on with
//! what it has in memory. Nothing that was accepted is lost, or left lying until a restart.

use std::{sync::Arc, time::Duration};

use snaphook::{
    domain::{endpoint_state::EndpointState, id::EndpointId},
    engine::{Engine, EngineSettings, Owner},
    faults::Faults,
    store::{Store, StoreError},
    telemetry::metrics::Metrics,
    world::World,
};

use super::crash_sweep::empty;
use crate::support::{
    databases::{Database, on_both},
    simulated::{Simulated, at, event, keyring, plant},
};

const EVENTS: usize = 3;

#[tokio::test]
async fn a_cut_connection_at_any_step_leaves_nothing_behind() {
    on_both(async |database| {
        let store = database.open().await;
        for (pauses, old) in [(false, false), (true, false), (true, true)] {
            for step in 1.. {
                if !survives(database, &store, step, pauses, old).await {
                    assert!(step > 50, "only {step} steps were swept");
                    break;
                }
            }
        }
    })
    .await;
}

/// One scenario with a cut at `step`; one of the endpoints `pauses` for a while, which has its
/// lane read anew. What is `old` is not parked at first. Gives whether it came to that.
async fn survives(database: &Database, store: &Store, step: u64, pauses: bool, old: bool) -> bool {
    empty(database).await;
    let world =
        Simulated::new(|url, count| if url.contains("flaky") && count == 1 { 503 } else { 200 });
    let mut narrow = at("https://narrow.example/");
    narrow.max_in_flight = Some(1); // so that some are parked
    let narrow = plant(store, &world, narrow).await;
    plant(store, &world, at("https://flaky.example/")).await;
    for _ in 0..EVENTS {
        store.accept(event("order.paid", None)).await.unwrap();
    }
    world.pass(Duration::from_secs(if old { 10 } else { 0 }));
    let faults = Arc::new(Faults::cut_at(step));
    let settings = EngineSettings::default();
    let engine = Engine::new(
        store.with_faults(faults.clone()),
        world.clone(),
        settings,
        keyring(),
        Metrics::new(),
    );
    let mut owner = Owner::new(engine.clone());
    let mut idle = 0;
    for round in 0.. {
        assert!(round < 400, "step {step}: it does not come to an end");
        if pauses && round == 1 {
            hold(store, narrow, EndpointState::Paused, &world).await;
        } else if pauses && round == 3 {
            hold(store, narrow, EndpointState::Active, &world).await;
        }
        let done = turn(&engine, &mut owner).await.unwrap_or_else(|_| {
            owner.doubt(); // as the worker does
            1
        });
        idle = if done > 0 || owner.has_more() { 0 } else { idle + 1 };
        if idle > 2 {
            break;
        }
        world.pass(Duration::from_millis(if idle == 0 { 100 } else { 9_000 }));
    }

    assert_eq!(
        world.pleased().len(),
        2 * EVENTS,
        "step {step}: all are delivered, within half a minute"
    );
    let mut tx = store.read().await.unwrap();
    let queue = tx.count_queue(world.now()).await.unwrap();
    assert_eq!(queue.oldest_due, None, "step {step}: nothing is left behind");
    faults.steps() >= step
}

/// What the worker does in a turn.
async fn turn(engine: &Engine, owner: &mut Owner) -> Result<usize, StoreError> {
    owner.claim().await?;
    owner.refresh().await?;
    owner.obey().await?;
    owner.fetch().await?;
    let jobs = owner.take(64).await?;
    let mut done = Vec::new();
    for job in &jobs {
        done.push(engine.attempt(job).await);
    }
    let finished: Vec<_> = done.iter().map(|done| done.finished.clone()).collect();
    let completion = engine.complete_surely(&finished).await;
    owner.finish(&done, &completion);
    Ok(jobs.len())
}

async fn hold(store: &Store, endpoint: EndpointId, state: EndpointState, world: &Simulated) {
    let mut tx = store.begin().await.unwrap();
    let mut row = tx.find_endpoint(endpoint).await.unwrap().unwrap();
    (row.state, row.updated_at) = (state, world.now());
    tx.update_endpoint(&mut row).await.unwrap();
    tx.commit().await.unwrap();
}
