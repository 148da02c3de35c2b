//! What people ask for while a delivery is anywhere: in the database, in the owner's memory, on
//! the wire, or in a shard that is on its way to another node.

use std::time::Duration;

use snaphook::{
    domain::{attempt::Mark, id::DeliveryId},
    engine::Owner,
    manage::endpoint_state::Held,
    store::SHARDS,
};

use crate::support::{
    databases::{Database, Kind, on_both},
    pipeline::Pipeline,
    simulated::{Reply::Status, engine_named},
};

#[tokio::test]
async fn what_is_canceled_before_its_turn_is_not_sent() {
    on_both(async |database| {
        let mut p = Pipeline::new(database, |_, _| Status(200)).await;
        let endpoint = p.plant("a").await;
        for in_memory in [false, true] {
            let event = p.emit("order.paid").await;
            if in_memory {
                p.owner.refresh().await.unwrap();
                p.owner.fetch().await.unwrap();
            }
            let delivery = DeliveryId { event, endpoint };
            p.manage.cancel(&p.actor, &p.acme, delivery).await.unwrap();

            assert_eq!(p.turn().await, 0, "in memory: {in_memory}");
            assert_eq!(p.standing(event, endpoint).await, "canceled");
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_canceled_on_its_way_stays_canceled_and_on_record() {
    on_both(async |database| {
        let mut p = Pipeline::new(database, |_, _| Status(500)).await;
        let endpoint = p.plant("a").await;
        let event = p.emit("order.paid").await;
        p.owner.refresh().await.unwrap();
        p.owner.fetch().await.unwrap();
        let job = p.owner.take(1).await.unwrap().remove(0);

        p.world.pass(Duration::from_millis(20));
        p.manage.cancel(&p.actor, &p.acme, DeliveryId { event, endpoint }).await.unwrap();
        p.owner.obey().await.unwrap();
        p.world.pass(Duration::from_millis(20));
        let done = p.engine.attempt(&job).await;
        let completion = p.engine.complete_surely(std::slice::from_ref(&done.finished)).await;
        p.owner.finish(std::slice::from_ref(&done), &completion);

        assert_eq!(p.pass(Duration::from_hours(1)).await, 0);
        assert_eq!(p.standing(event, endpoint).await, "canceled");
        let mut marks: Vec<Mark> =
            p.history(event, endpoint).await.into_iter().map(|(mark, _)| mark).collect();
        marks.sort_by_key(|mark| mark.code());
        assert_eq!(marks, [Mark::Canceled, Mark::Late]);
        p.emit("order.paid").await;
        assert_eq!(p.turn().await, 1, "its slot is free again");
    })
    .await;
}

#[tokio::test]
async fn a_delivery_that_waits_for_hours_is_attempted_now_when_asked() {
    on_both(async |database| {
        let mut p =
            Pipeline::new(database, |_, count| Status(if count < 4 { 500 } else { 200 })).await;
        let endpoint = p.plant("a").await;
        let event = p.emit("order.paid").await;
        p.turn().await;
        p.pass(Duration::from_secs(9)).await;
        p.pass(Duration::from_mins(9)).await; // and now half an hour

        p.manage.try_now(&p.actor, &p.acme, DeliveryId { event, endpoint }).await.unwrap();
        assert_eq!(p.turn().await, 1);

        assert_eq!(p.standing(event, endpoint).await, "delivered");
    })
    .await;
}

#[tokio::test]
async fn a_dead_delivery_gets_a_new_ladder_and_keeps_its_history() {
    on_both(async |database| {
        let mut p =
            Pipeline::new(database, |_, count| Status(if count <= 9 { 500 } else { 200 })).await;
        let endpoint = p.plant("a").await;
        let event = p.emit("order.paid").await;
        p.run_dry().await;
        assert_eq!(p.standing(event, endpoint).await, "dead of exhausted");

        let delivery = DeliveryId { event, endpoint };
        p.manage.redeliver(&p.actor, &p.acme, delivery).await.unwrap();
        assert_eq!(p.turn().await, 1);
        assert_eq!(p.standing(event, endpoint).await, "pending", "the ladder's first rung again");
        p.run_dry().await;

        assert_eq!(p.standing(event, endpoint).await, "delivered");
        let attempts = p.attempts(event, endpoint).await;
        let numbers: Vec<i32> = attempts.iter().map(|one| one.number).collect();
        assert_eq!(numbers, (1..=10).collect::<Vec<_>>(), "numbered through");
        assert_eq!(attempts.iter().filter(|one| one.run == 1).count(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_command_that_nobody_heard_is_made_good_by_the_next_look_at_all_lanes() {
    on_both(async |database| {
        let mut p =
            Pipeline::new(database, |_, count| Status(if count == 1 { 410 } else { 200 })).await;
        let endpoint = p.plant("a").await;
        let event = p.emit("order.paid").await;
        p.turn().await;
        p.manage.enable_endpoint(&p.actor, &p.acme, endpoint, Held::Send).await.unwrap();
        p.pass(Duration::from_secs(5)).await;
        p.manage.redeliver(&p.actor, &p.acme, DeliveryId { event, endpoint }).await.unwrap();
        let table =
            if database.kind == Kind::Sqlite { "snaphook_commands" } else { "snaphook.commands" };
        database.execute(&format!("DELETE FROM {table}")).await;

        p.pass(Duration::from_mins(2)).await;

        assert_eq!(p.standing(event, endpoint).await, "delivered");
    })
    .await;
}

/// A shard that is to go has requests under way; a command for it must not bring its lanes back.
#[tokio::test]
async fn a_command_for_a_shard_that_is_leaving_starts_nothing_twice() {
    let database = Database::migrated(Kind::Postgres).await;
    let mut p = Pipeline::new(&database, |_, _| Status(200)).await;
    let mut endpoints = Vec::new();
    for n in 0..120 {
        endpoints.push(p.plant(&format!("e{n}")).await);
    }
    let event = p.emit("order.paid").await;
    p.owner.refresh().await.unwrap();
    p.owner.fetch().await.unwrap();
    let jobs = p.owner.take(200).await.unwrap();
    assert_eq!(jobs.len(), 120, "all under way");
    let busy: std::collections::BTreeSet<i16> = jobs.iter().map(|job| job.row.shard).collect();
    assert!(busy.len() > usize::try_from(SHARDS).unwrap() * 2 / 3, "in most shards");

    let mut other = Owner::new(engine_named(p.store.clone(), p.world.clone(), "other"));
    other.claim().await.unwrap();
    p.owner.claim().await.unwrap(); // half of them are to go, some of them busy
    for endpoint in &endpoints {
        let delivery = DeliveryId { event, endpoint: *endpoint };
        p.manage.try_now(&p.actor, &p.acme, delivery).await.unwrap();
    }
    p.owner.obey().await.unwrap();
    p.owner.fetch().await.unwrap();
    assert_eq!(p.owner.take(200).await.unwrap().len(), 0, "all are under way already");

    let mut done = Vec::new();
    for job in &jobs {
        done.push(p.engine.attempt(job).await);
    }
    let finished: Vec<_> = done.iter().map(|done| done.finished.clone()).collect();
    let completion = p.engine.complete_surely(&finished).await;
    p.owner.finish(&done, &completion);
    assert!(completion.late.is_empty());
    p.owner.claim().await.unwrap(); // what had to go is gone
    other.claim().await.unwrap();
    other.obey().await.unwrap();
    let mut tx = p.store.read().await.unwrap();
    assert_eq!(tx.list_commands(&(0..SHARDS).collect::<Vec<_>>()).await.unwrap(), []);
    drop(tx);
    database.remove().await;
}
