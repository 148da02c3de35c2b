//! An owner that outlives its lease decides nothing, and what it sent stays on record.

use std::time::Duration;

use snaphook::{domain::attempt::Mark, engine::Owner, store::deliveries::Standing};

use crate::support::{
    databases::{Database, Kind},
    pipeline::Pipeline,
    simulated::{Reply::Status, Simulated, at, engine_named, event, plant, run_dry, turn},
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

/// Two owners, one after the other, have the same attempt under way; the first to record it wins.
#[tokio::test]
async fn an_attempt_that_was_overtaken_is_kept_and_decides_nothing() {
    let database = Database::migrated(Kind::Postgres).await;
    for (overtaking, overtaken, why) in
        [(500, 200, "a yes that came late"), (500, 500, "a no"), (500, 410, "an end")]
    {
        let answers = [overtaking, overtaken, 200];
        let answer = move |_: &str, count| Status(answers[usize::try_from(count).unwrap() - 1]);
        let mut p = Pipeline::new(&database, answer).await;
        let name = format!("late-{overtaken}");
        let types = vec![name.clone()];
        let endpoint = p.plant_with(&name, |settings| settings.event_types = types).await;
        let event = p.emit(&name).await;
        p.owner.refresh().await.unwrap();
        p.owner.fetch().await.unwrap();
        let job = p.owner.take(1).await.unwrap().remove(0);
        p.world.pass(Duration::from_mins(2));
        let other = engine_named(p.store.clone(), p.world.clone(), "other");
        let mut heir = Owner::new(other.clone());
        heir.claim().await.unwrap();
        assert_eq!(turn(&other, &mut heir).await.unwrap(), 1);

        p.world.pass(Duration::from_secs(1));
        let late = p.engine.attempt(&job).await;
        let completion = p.engine.complete_surely(std::slice::from_ref(&late.finished)).await;
        p.owner.finish(std::slice::from_ref(&late), &completion);

        assert_eq!(completion.late.len(), 1, "{why}");
        let row = p.find(event, endpoint).await.unwrap();
        assert_eq!((row.standing, row.rung), (Standing::Pending, 1), "{why}");
        let marks: Vec<_> =
            p.history(event, endpoint).await.into_iter().map(|(mark, _)| mark).collect();
        assert_eq!(marks, [Mark::Retry, Mark::Late], "{why}");
        run_dry(&other, &mut heir, &p.world).await.unwrap();
        assert_eq!(p.standing(event, endpoint).await, "delivered", "{why}");
        heir.release_all().await.unwrap();
    }
    database.remove().await;
}
