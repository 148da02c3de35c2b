//! The process dies at every step it takes while it receives, once each. Its sender gets no answer
//! and sends again, as providers do, until it is thanked.

use std::sync::Arc;

use snaphook::{
    domain::request_state::RequestState,
    engine::Owner,
    faults::Faults,
    store::{
        deliveries::{DeliveryFilter, Standing},
        page::Page,
    },
};

use super::{TestDoor, TestSource, shop};
use crate::{
    pipeline::crash_sweep::empty,
    support::{
        databases::on_both,
        simulated::{Simulated, run_dry},
    },
};

/// What comes, in this order: an event, the same again, a copy under another id, another body under
/// its id, and another event.
const REQUESTS: [(&str, &[u8]); 5] =
    [("1", b"{}"), ("1", b"{}"), ("2", b"{}"), ("1", b"[]"), ("3", b"3")];

#[tokio::test]
async fn a_crash_at_any_step_of_receiving_loses_nothing_and_doubles_nothing() {
    on_both(async |database| {
        let store = database.open().await;
        for step in 1.. {
            empty(database).await;
            // A world of its own, for the receivers' sake.
            let door = TestDoor::on(store.with_faults(Arc::default()), Simulated::new(|_, _| 200));
            door.add_endpoint("a").await;
            let source = door.add_source(shop("github")).await;
            if !survives(&door, &source, step).await {
                assert!(step > 25, "only {step} steps were swept");
                eprintln!("{}: a crash at each of {} steps", database.kind, step - 1);
                break;
            }
        }
        store.close().await;
    })
    .await;
}

/// Gives whether the crash came at all.
async fn survives(door: &TestDoor, source: &TestSource, step: u64) -> bool {
    let faults = Arc::new(Faults::crash_at(step));
    door.world.set_faults(faults.clone());
    let mut process = TestDoor::on(door.store.with_faults(faults), door.world.clone());
    let mut crashed = process.engine.sources.refresh().await.is_err();
    let restart = async || {
        door.world.set_faults(Arc::default());
        let next = TestDoor::on(door.store.with_faults(Arc::default()), door.world.clone());
        next.engine.sources.refresh().await.unwrap();
        next
    };
    if crashed {
        process = restart().await;
    }
    for (id, body) in REQUESTS {
        while process.post(source, id, body).await != 200 {
            assert!(!crashed, "step {step}: it dies once");
            crashed = true;
            process = restart().await;
        }
    }
    let ran = run_dry(&process.engine, &mut Owner::new(process.engine.clone()), &door.world).await;
    if ran.is_err() {
        crashed = true;
        process = restart().await;
        let mut owner = Owner::new(process.engine.clone());
        run_dry(&process.engine, &mut owner, &door.world).await.unwrap();
    }

    let events = door.events().await;
    assert_eq!(events.len(), 2, "step {step}: each event once");
    assert_eq!(door.world.pleased().len(), 2, "step {step}: and at least once to its endpoint");
    let expected = [RequestState::Conflict, RequestState::ReplaySuspected];
    assert_eq!(door.states(source).await, expected, "step {step}: what is kept apart, once");
    let mut tx = door.store.read().await.unwrap();
    let filter = DeliveryFilter::default();
    let deliveries = tx.list_deliveries(&filter, Page::first(9)).await.unwrap().rows;
    assert_eq!(deliveries.len(), 2, "step {step}");
    assert!(deliveries.iter().all(|one| one.standing == Standing::Delivered), "step {step}");
    crashed
}
