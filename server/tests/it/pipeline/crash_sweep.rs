//! The process dies at every step it takes, once each: before and after each statement, commit
//! and send. Whatever it was doing, nothing that was accepted is lost.

use std::{sync::Arc, time::Duration};

use snaphook::{
    engine::Owner,
    faults::Faults,
    store::{
        Store,
        deliveries::{DeliveryFilter, Standing},
        page::Page,
    },
    world::World,
};
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};

use crate::support::{
    databases::{Database, Kind, on_both},
    simulated::{Simulated, at, engine, event, plant, run_dry},
};

#[tokio::test]
async fn a_crash_at_any_step_loses_nothing() {
    on_both(async |database| {
        // One store for the whole sweep, and rows deleted in between: a new database each time
        // would cost a hundred times what the scenario does.
        let store = database.open().await;
        for step in 1.. {
            empty(database).await;
            if !survives(&store, step).await {
                assert!(step > 60, "only {step} steps were swept");
                eprintln!("{}: a crash at each of {} steps", database.kind, step - 1);
                break;
            }
        }
    })
    .await;
}

/// As new.
pub async fn empty(database: &Database) {
    let tables = [
        "events",
        "queue",
        "attempts",
        "keys",
        "dead_letters",
        "endpoints",
        "subscriptions",
        "secrets",
        "commands",
        "nodes",
        "sources",
        "source_secrets",
        "received",
        "held_events",
        "requests",
    ];
    let statements: Vec<String> = tables
        .iter()
        .map(|table| format!("DELETE FROM snaphook.{table}"))
        .chain(["UPDATE snaphook.shards SET owner = NULL, lease_until = DEFAULT".to_owned()])
        .collect();
    let text = statements.join(";\n");
    match database.kind {
        Kind::Postgres => {
            let mut connection = PgConnection::connect(&database.url).await.unwrap();
            sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut connection).await.unwrap();
            connection.close().await.unwrap();
        }
        Kind::Sqlite => {
            let text = text.replace("snaphook.", "snaphook_").replace("DEFAULT", "0");
            let mut connection = SqliteConnection::connect(&database.url).await.unwrap();
            let text = format!("PRAGMA busy_timeout = 5000; BEGIN IMMEDIATE; {text}; COMMIT");
            sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut connection).await.unwrap();
            connection.close().await.unwrap();
        }
    }
}

/// One scenario with a crash at `step`, a restart, and the invariants. Gives whether the crash
/// came at all.
async fn survives(store: &Store, step: u64) -> bool {
    // Down for the first call, well after.
    let world = Simulated::new(|_, count| if count <= 1 { 503 } else { 200 });
    for name in ["a", "b"] {
        plant(store, &world, at(&format!("https://{name}.example/"))).await;
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
    world.pass(Duration::from_millis(50));
    let second = engine(store.with_faults(Arc::default()), world.clone());
    if !accepted {
        assert!(emit(&second.store).await, "step {step}: the caller tries again");
    }
    run_dry(&second, &mut Owner::new(second.clone()), &world).await.unwrap();

    assert_eq!(world.pleased().len(), 2, "step {step}: one event, two endpoints");
    let mut tx = store.read().await.unwrap();
    let queue = tx.count_queue(world.now()).await.unwrap();
    assert_eq!(queue.oldest_due, None, "step {step}: nothing waits any more");
    let filter = DeliveryFilter::default();
    for delivery in tx.list_deliveries(&filter, Page::first(9)).await.unwrap().rows {
        assert_eq!(delivery.standing, Standing::Delivered, "step {step}");
        let attempts = tx.list_attempts(delivery.id).await.unwrap();
        for (attempt, number) in attempts.iter().zip(1..) {
            assert_eq!(attempt.number, number, "step {step}: what is on record is there once");
        }
    }
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
