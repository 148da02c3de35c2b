//! The connection is cut at every step of taking and giving back shards. The two nodes still end
//! up with all of them, each with what the database says that it has, and read.

use std::{sync::Arc, time::Duration};

use snaphook::{
    domain::time::Timestamp,
    engine::{Engine, EngineSettings, Owner},
    faults::Faults,
    store::{SHARDS, Store},
    telemetry::metrics::Metrics,
    world::World,
};
use sqlx::{Connection, Decode, PgConnection, Postgres, Type};

use super::crash_sweep::empty;
use crate::support::{
    databases::{Database, Kind},
    simulated::{Simulated, at, event, keyring, plant},
};

const ENDPOINTS: usize = 30;

#[tokio::test]
async fn every_shard_has_one_owner_that_reads_it_whenever_a_connection_is_cut() {
    let database = Database::migrated(Kind::Postgres).await;
    let store = database.open().await;
    for leaves in [false, true] {
        for step in 1.. {
            if !survives(&database, &store, step, leaves).await {
                assert!(step > 8, "only {step} steps were swept");
                break;
            }
        }
    }
    database.remove().await;
}

/// The second node comes, or, when it `leaves`, has come and goes; the first one's claim is cut
/// at `step`. Gives whether it came to that.
async fn survives(database: &Database, store: &Store, step: u64, leaves: bool) -> bool {
    empty(database).await;
    let world = Simulated::new(|_, _| 200);
    let faults = Arc::new(Faults::cut_at(0));
    let mut one = node("one", store, &world, faults.clone());
    let mut two = node("two", store, &world, Arc::default());
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
        plant(store, &world, at(&format!("https://e{n}.example/"))).await;
    }
    store.accept(event("order.paid", None)).await.unwrap();
    let mut jobs = 0;
    for owner in [&mut one, &mut two] {
        owner.refresh().await.unwrap();
        owner.fetch().await.unwrap();
        jobs += owner.take(64).await.unwrap().len();
    }
    assert_eq!(jobs, ENDPOINTS, "step {step}: all shards are read");
    cut
}

#[tokio::test]
async fn nothing_starts_under_a_lease_that_the_database_may_not_have_granted() {
    let database = Database::migrated(Kind::Postgres).await;
    let store = database.open().await;
    for step in 1.. {
        empty(&database).await;
        let world = Simulated::new(|_, _| 200);
        plant(&store, &world, at("https://a.example/")).await;
        store.accept(event("order.paid", None)).await.unwrap();
        let faults = Arc::new(Faults::cut_at(0));
        let mut one = node("one", &store, &world, faults.clone());
        one.claim().await.unwrap();
        world.pass(Duration::from_secs(25)); // of 45
        faults.fail_in(step);
        let cut = one.claim().await.is_err();
        faults.fail_in(0);
        world.pass(Duration::from_secs(10));
        one.refresh().await.unwrap();
        one.fetch().await.unwrap();

        let started = one.take(9).await.unwrap().len();

        let ends = "SELECT (extract(epoch FROM min(lease_until)) * 1000000)::bigint
                    FROM snaphook.shards";
        let ends: i64 = ask(&database, ends).await[0];
        let timeout = EngineSettings::default().timeout;
        assert!(started == 0 || Timestamp(ends) > world.now() + timeout, "step {step}");
        assert!(cut || started == 1, "step {step}: with a lease it starts");
        if !cut {
            assert!(step > 4, "only {step} steps were swept");
            break;
        }
    }
    database.remove().await;
}

#[tokio::test]
async fn a_node_that_leaves_is_off_the_list_before_its_shards_are_offered() {
    let database = Database::migrated(Kind::Postgres).await;
    let store = database.open().await;
    for step in 1.. {
        empty(&database).await;
        let world = Simulated::new(|_, _| 200);
        let faults = Arc::new(Faults::cut_at(0));
        let mut one = node("one", &store, &world, faults.clone());
        one.claim().await.unwrap();
        faults.fail_in(step);
        let cut = one.release_all().await.is_err();

        let free = "SELECT count(*) FROM snaphook.shards WHERE owner IS NULL";
        let free: i64 = ask(&database, free).await[0];
        let listed: i64 = ask(&database, "SELECT count(*) FROM snaphook.nodes").await[0];
        assert!(listed == 0 || free == 0, "step {step}: the others would leave half of them");
        if !cut {
            assert_eq!((free, listed), (64, 0));
            break;
        }
    }
    database.remove().await;
}

fn node(name: &str, store: &Store, world: &Arc<Simulated>, faults: Arc<Faults>) -> Owner {
    let settings = EngineSettings { node: name.to_owned(), ..EngineSettings::default() };
    let store = store.with_faults(faults);
    Owner::new(Engine::new(store, world.clone(), settings, keyring(), Metrics::new()))
}

async fn owners(database: &Database) -> Vec<String> {
    ask(database, "SELECT coalesce(owner, '') FROM snaphook.shards ORDER BY id").await
}

/// The first column of what `query` gives.
async fn ask<T>(database: &Database, query: &'static str) -> Vec<T>
where
    T: for<'r> Decode<'r, Postgres> + Type<Postgres> + Send + Unpin,
{
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    let values = sqlx::query_scalar(query).fetch_all(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    values
}
