//! An owner that outlives its lease decides nothing, and what it sent stays on record.

use std::time::Duration;

use snaphook::engine::Owner;

use crate::support::{
    databases::{Database, Kind},
    simulated::{Simulated, at, engine_named, event, plant, turn},
};

#[tokio::test]
async fn a_result_that_comes_after_the_lease_changes_no_state() {
    let database = Database::migrated(Kind::Postgres).await;
    let store = database.open().await;
    let world = Simulated::new(|_, count| if count == 1 { 500 } else { 200 });
    plant(&store, &world, at("https://a.example/")).await;
    store.accept(event("order.paid", None)).await.unwrap();
    let frozen = engine_named(store.clone(), world.clone(), "frozen");
    let mut old = Owner::new(frozen.clone());
    old.claim().await.unwrap();
    old.refresh().await.unwrap();
    old.fetch().await.unwrap();
    let job = old.take(1).await.unwrap().remove(0);

    world.pass(Duration::from_mins(2)); // frozen in the middle of an attempt
    let other = engine_named(store.clone(), world.clone(), "other");
    let mut new = Owner::new(other.clone());
    new.claim().await.unwrap();
    let late = frozen.attempt(&job).await; // 500
    assert_eq!(turn(&other, &mut new).await.unwrap(), 1); // 200
    let completion = frozen.complete(std::slice::from_ref(&late.finished)).await.unwrap();

    assert_eq!(completion.late.len(), 1, "the fence held");
    old.claim().await.unwrap();
    assert!(old.take(1).await.unwrap().is_empty(), "it owns nothing any more");
    world.pass(Duration::from_hours(1));
    assert_eq!(turn(&other, &mut new).await.unwrap(), 0, "delivered stays delivered");
    database.remove().await;
}
