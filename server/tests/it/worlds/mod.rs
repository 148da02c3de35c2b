//! Worlds by the hundred, each from a seed: nodes that crash, freeze, lose the database and have
//! wrong clocks, beside receivers that are slow, moody, silent or gone, and programs that commit
//! late. The engine, the store and the databases are the real ones; time is not, so an hour of a
//! world takes milliseconds.
//!
//! In every world: each event that was committed ends, in each of its deliveries; nothing is sent
//! after its end, or again after a yes but for a mishap that explains it; nothing before its time,
//! nothing over an endpoint's cap or out of its order; and what is on record is what happened.

mod database;
mod dice;
mod node;
mod outside;
mod world;

use std::ops::Range;

use self::database::WorldDatabase;
use crate::support::databases::Kind;

/// Worlds of `make test`: seconds. `make soak` sets `WORLDS` to many more.
const WORLDS: [(Kind, u64); 2] = [(Kind::Sqlite, 100), (Kind::Postgres, 30)];

/// A setting of the test's own: `WORLDS` is how many, `WORLD` is one seed.
fn setting(name: &str) -> Option<u64> {
    #[expect(clippy::disallowed_methods, reason = "the test's own setting, not the product's")]
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: not a number")))
}

fn seeds(many: u64) -> Range<u64> {
    match setting("WORLD") {
        Some(seed) => seed..seed + 1,
        None => 0..setting("WORLDS").unwrap_or(many),
    }
}

async fn run_all(kind: Kind) {
    let (_, many) = WORLDS.into_iter().find(|(one, _)| *one == kind).unwrap();
    let mut database = WorldDatabase::new(kind).await;
    for seed in seeds(many) {
        if let Err(story) = world::run(&mut database, seed).await {
            panic!("{story}\nthe world of seed {seed} on {kind}; WORLD={seed} runs it again");
        }
    }
    database.remove().await;
}

#[tokio::test]
async fn every_world_keeps_its_promises_on_sqlite() {
    run_all(Kind::Sqlite).await;
}

#[tokio::test]
async fn every_world_keeps_its_promises_on_postgresql() {
    run_all(Kind::Postgres).await;
}

fn lines(story: &Result<String, String>) -> Vec<&str> {
    story.as_ref().unwrap_or_else(|story| story).lines().collect()
}

#[tokio::test]
async fn the_same_seed_makes_the_same_world() {
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let mut database = WorldDatabase::new(kind).await;
        for seed in 0..4 {
            let first = world::run(&mut database, seed).await;
            let second = world::run(&mut database, seed).await;
            let (first, second) = (lines(&first), lines(&second));
            let differ = first.iter().zip(&second).find(|(first, second)| first != second);
            assert_eq!(differ, None, "seed {seed} on {kind}");
            assert!(first.len() == second.len() && !first.is_empty(), "seed {seed} on {kind}");
        }
        database.remove().await;
    }
}
