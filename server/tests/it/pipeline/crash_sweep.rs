//! The process dies at every step it takes, once each: before and after each statement, commit
//! and send. Whatever it was doing, nothing that was accepted is lost.

use std::sync::Arc;

use snaphook::{engine::Owner, faults::Faults, store::Store, world::World};
use sqlx::{Connection, PgConnection};

use crate::support::{
    databases::{Database, Kind, on_both},
    simulated::{Simulated, at, engine, event, plant, run_dry},
};

#[tokio::test]
async fn a_crash_at_any_step_loses_nothing() {
    on_both(async |database| {
        for step in 1.. {
            let fresh = match database.kind {
                Kind::Sqlite => Some(Database::migrated(Kind::Sqlite).await),
                Kind::Postgres => None,
            };
            if fresh.is_none() {
                empty(&database.url).await;
            }
            let crashed = survives(fresh.as_ref().unwrap_or(database), step).await;
            if !crashed {
                assert!(step > 60, "only {step} steps were swept");
                eprintln!("{}: a crash at each of {} steps", database.kind, step - 1);
                break;
            }
        }
    })
    .await;
}

/// As new, at a hundredth of the price of a new PostgreSQL database.
async fn empty(url: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(
        "TRUNCATE snaphook.events, snaphook.queue, snaphook.attempts, snaphook.keys,
             snaphook.dead_letters, snaphook.endpoints, snaphook.subscriptions, snaphook.secrets,
             snaphook.commands, snaphook.nodes;
         UPDATE snaphook.shards SET owner = NULL, lease_until = '-infinity'",
    )
    .execute(&mut connection)
    .await
    .unwrap();
    connection.close().await.unwrap();
}

/// One scenario with a crash at `step`, a restart, and the invariants. Gives whether the crash
/// came at all.
async fn survives(database: &Database, step: u64) -> bool {
    // Down for the first call, well after.
    let world = Simulated::new(|_, count| if count <= 1 { 503 } else { 200 });
    let store = database.open().await;
    for name in ["a", "b"] {
        plant(&store, &world, at(&format!("https://{name}.example/"))).await;
    }

    let faults = Arc::new(Faults::crash_at(step));
    world.set_faults(faults.clone());
    let mortal = store.with_faults(faults);
    let accepted = emit(&mortal).await;
    let first = engine(mortal, world.clone());
    let ran = run_dry(&first, &mut Owner::new(first.clone()), &world).await;
    let crashed = !accepted || ran.is_err();

    // The process comes back under its name: same database, same world, no more faults.
    world.set_faults(Arc::default());
    let second = engine(store.with_faults(Arc::default()), world.clone());
    if !accepted {
        assert!(emit(&second.store).await, "step {step}: the caller tries again");
    }
    run_dry(&second, &mut Owner::new(second.clone()), &world).await.unwrap();

    assert_eq!(world.pleased().len(), 2, "step {step}: one event, two endpoints");
    let mut tx = store.read().await.unwrap();
    let queue = tx.count_queue(world.now()).await.unwrap();
    assert_eq!(queue.oldest_due, None, "step {step}: nothing waits any more");
    drop(tx);
    store.close().await;
    crashed
}

async fn emit(store: &Store) -> bool {
    let run = async {
        let mut tx = store.begin().await?;
        tx.accept(&event("order.paid", Some("order-1"))).await?;
        tx.commit().await
    };
    run.await.is_ok()
}
