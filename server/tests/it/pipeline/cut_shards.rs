//! The connection is cut at every step of taking and giving back shards. The two nodes still end
//! up with all of them, each with what the database says that it has, and read.

use std::{sync::Arc, time::Duration};

use snaphook::{
    engine::{Engine, EngineSettings, Owner},
    faults::Faults,
    store::SHARDS,
    telemetry::metrics::Metrics,
};
use sqlx::{Connection, PgConnection};

use super::crash_sweep::empty;
use crate::support::{
    databases::{Database, Kind},
    simulated::{Simulated, at, event, keyring, plant},
};

const ENDPOINTS: usize = 30;

#[tokio::test]
async fn every_shard_has_one_owner_that_reads_it_whenever_a_connection_is_cut() {
    let database = Database::migrated(Kind::Postgres).await;
    for leaves in [false, true] {
        for step in 1.. {
            if !survives(&database, step, leaves).await {
                assert!(step > 8, "only {step} steps were swept");
                break;
            }
        }
    }
    database.remove().await;
}

/// The second node comes, or, when it `leaves`, has come and goes; the first one's claim is cut
/// at `step`. Gives whether it came to that.
async fn survives(database: &Database, step: u64, leaves: bool) -> bool {
    empty(database).await;
    let (world, store) = (Simulated::new(|_, _| 200), database.open().await);
    let faults = Arc::new(Faults::cut_at(0));
    let node = |name: &str, faults: Arc<Faults>| {
        let settings = EngineSettings { node: name.to_owned(), ..EngineSettings::default() };
        let store = store.with_faults(faults);
        Owner::new(Engine::new(store, world.clone(), settings, keyring(), Metrics::new()))
    };
    let (mut one, mut two) = (node("one", faults.clone()), node("two", Arc::default()));
    one.claim().await.unwrap();
    two.claim().await.unwrap();
    if leaves {
        one.claim().await.unwrap();
        two.claim().await.unwrap();
        two.release_all().await.unwrap();
    }
    faults.fail_in(step);
    let cut = one.claim().await.is_err();
    faults.fail_in(0); // never again
    for _ in 0..2 {
        world.pass(Duration::from_secs(5));
        one.claim().await.unwrap();
        if !leaves {
            two.claim().await.unwrap();
        }
    }

    let owners = owners(database).await;
    for shard in 0..SHARDS {
        let expected = match owners[usize::try_from(shard).unwrap()].as_str() {
            "one" => (true, false),
            "two" => (false, true),
            nobody => panic!("step {step}: shard {shard} is {nobody:?}'s"),
        };
        let ours = (one.owns(shard), two.owns(shard) && !leaves);
        assert_eq!(ours, expected, "step {step}: shard {shard}");
    }
    for n in 0..ENDPOINTS {
        plant(&store, &world, at(&format!("https://e{n}.example/"))).await;
    }
    store.accept(event("order.paid", None)).await.unwrap();
    let mut jobs = 0;
    for owner in [&mut one, &mut two] {
        owner.refresh().await.unwrap();
        owner.fetch().await.unwrap();
        jobs += owner.take(64).await.unwrap().len();
    }
    assert_eq!(jobs, ENDPOINTS, "step {step}: all shards are read");
    store.close().await;
    cut
}

async fn owners(database: &Database) -> Vec<String> {
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    let owners = sqlx::query_scalar("SELECT coalesce(owner, '') FROM snaphook.shards ORDER BY id")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
    owners
}
