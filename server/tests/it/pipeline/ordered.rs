//! Endpoints that want their events in order: one at a time, whatever fails, whoever owns them, and
//! whatever people do.

use std::time::Duration;

use snaphook::{
    domain::id::{DeliveryId, EndpointId, EventId, id_at},
    world::World,
};

use crate::support::{
    databases::{Database, Kind, on_both},
    pipeline::Pipeline,
    simulated::Reply::Status,
};

async fn plant(p: &Pipeline) -> EndpointId {
    p.plant_with("a", |endpoint| endpoint.ordered = true).await
}

async fn emit(p: &Pipeline, many: usize) -> Vec<EventId> {
    let mut events = Vec::new();
    for _ in 0..many {
        events.push(p.emit("order.paid").await);
    }
    events
}

/// The events of all requests, each as its place in `events`.
fn places(p: &Pipeline, events: &[EventId]) -> Vec<usize> {
    let place = |request: &snaphook::world::Request| {
        let id = request.headers["webhook-id"].to_str().unwrap().to_owned();
        events.iter().position(|event| event.to_string() == id).unwrap()
    };
    p.world.requests().iter().map(place).collect()
}

/// One turn after another, until nothing goes for an hour; never two at once.
async fn one_by_one(p: &mut Pipeline) {
    loop {
        p.owner.claim().await.unwrap();
        let jobs = p.turn().await;
        assert!(jobs <= 1, "{jobs} at once");
        if jobs > 0 || p.owner.has_more() {
            continue;
        }
        match p.owner.next_due() {
            Some(due) => p.world.turn_to(due),
            None => return,
        }
    }
}

#[tokio::test]
async fn events_go_one_by_one_in_their_order_and_wait_for_what_fails() {
    on_both(async |database| {
        // The 2nd, 3rd, 4th and the 30th request fail.
        let answer = |_: &str, n: u32| Status(if [2, 3, 4, 30].contains(&n) { 500 } else { 200 });
        let mut p = Pipeline::new(database, answer).await;
        let endpoint = plant(&p).await;
        let mut events = emit(&p, 60).await;
        p.turn().await;
        events.extend(emit(&p, 10).await);
        one_by_one(&mut p).await;

        let mut expected: Vec<usize> = (0..70).collect();
        for _ in 0..3 {
            expected.insert(1, 1);
        }
        expected.insert(29, 26);
        assert_eq!(places(&p, &events), expected);
        for event in events {
            assert_eq!(p.standing(event, endpoint).await, "delivered");
        }
    })
    .await;
}

#[tokio::test]
async fn what_never_succeeds_ends_and_then_the_next_may_go() {
    on_both(async |database| {
        let mut p = Pipeline::new(database, |_, n| Status(if n <= 8 { 500 } else { 200 })).await;
        let endpoint = plant(&p).await;
        let events = emit(&p, 3).await;
        one_by_one(&mut p).await;
        assert_eq!(places(&p, &events), [0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(p.standing(events[0], endpoint).await, "dead of exhausted");
    })
    .await;
}

#[tokio::test]
async fn the_order_outlives_restarts_and_changes_of_owner() {
    on_both(async |database| {
        let mut p =
            Pipeline::new(database, |_, n| Status(if n % 7 == 3 { 500 } else { 200 })).await;
        plant(&p).await;
        let events = emit(&p, 50).await;
        let mut nodes = ["node-1", "another", "node-1", "third"].into_iter().cycle();
        let mut steps = 0;
        while p.world.pleased().len() < events.len() {
            for _ in 0..3 {
                p.owner.claim().await.unwrap();
                assert!(p.turn().await <= 1);
                if let Some(due) = p.owner.next_due() {
                    p.world.turn_to(due);
                }
            }
            p.restart_as(nodes.next().unwrap()).await;
            steps += 1;
            assert!(steps < 200, "it goes on");
        }
        let order = places(&p, &events);
        assert!(order.is_sorted(), "{order:?}");
    })
    .await;
}

#[tokio::test]
async fn what_people_do_to_a_delivery_lets_nothing_overtake() {
    on_both(async |database| {
        let mut p = Pipeline::new(database, |_, n| Status(if n == 2 { 500 } else { 200 })).await;
        let endpoint = plant(&p).await;
        let events = emit(&p, 6).await;
        let delivery = |n: usize| DeliveryId { event: events[n], endpoint };
        assert_eq!((p.turn().await, p.turn().await), (1, 1), "the second of them fails");

        p.manage.try_now(&p.actor, &p.acme, delivery(3)).await.unwrap();
        assert_eq!(p.turn().await, 0, "the second comes before it, and is not due");
        p.manage.redeliver(&p.actor, &p.acme, delivery(0)).await.unwrap();
        assert_eq!(p.turn().await, 1, "the first is before all others");
        p.manage.cancel(&p.actor, &p.acme, delivery(1)).await.unwrap();
        one_by_one(&mut p).await;

        assert_eq!(places(&p, &events), [0, 1, 0, 2, 3, 4, 5]);
        assert_eq!(p.standing(events[1], endpoint).await, "canceled");
    })
    .await;
}

#[tokio::test]
async fn an_ordered_endpoint_that_rests_is_probed_with_its_first() {
    on_both(async |database| {
        let mut p = Pipeline::new(database, |_, n| Status(if n <= 60 { 500 } else { 200 })).await;
        let endpoint = p
            .plant_with("a", |endpoint| {
                endpoint.ordered = true;
                endpoint.final_statuses = Vec::new();
                let one = vec!["0s".parse().unwrap()];
                endpoint.retry_schedule =
                    Some(snaphook::domain::endpoint::ScheduleText::Pauses(one));
            })
            .await;
        let events = emit(&p, 40).await;
        for _ in 0..200 {
            p.owner.claim().await.unwrap();
            assert!(p.turn().await <= 1);
            if let Some(due) = p.owner.next_due() {
                p.world.turn_to(due);
            }
        }
        assert!(places(&p, &events).is_sorted(), "one attempt each, in their order");
        assert_eq!(p.standing(events[39], endpoint).await, "dead of exhausted");
        assert_eq!(p.requests("a"), 40);
    })
    .await;
}

/// A transaction that commits late: its event goes as soon as it can be seen, before all that
/// wait, and not before those that went already.
#[tokio::test]
async fn what_is_committed_late_goes_before_all_that_still_wait() {
    let database = Database::migrated(Kind::Postgres).await;
    let mut p = Pipeline::new(&database, |_, _| Status(200)).await;
    plant(&p).await;
    let late = EventId(id_at(p.world.now(), 1));
    p.world.pass(Duration::from_secs(1));
    let mut events = emit(&p, 6).await;
    assert_eq!((p.turn().await, p.turn().await), (1, 1));
    database
        .execute(&format!(
            "INSERT INTO snaphook.events (id, tenant, type, payload, door)
             VALUES ({0}, 'acme', 'order.paid', '{{}}', 0);
             INSERT INTO snaphook.queue (event_id, endpoint_id, tenant, shard, due_at)
             SELECT {0}, endpoint_id, 'acme', shard, now() FROM snaphook.subscriptions",
            late.0
        ))
        .await;
    p.world.pass(Duration::from_millis(300));
    one_by_one(&mut p).await;
    events.push(late);
    assert_eq!(places(&p, &events), [0, 1, 6, 2, 3, 4, 5]);
    p.store.close().await;
    database.remove().await;
}
