//! What a receiver's answer makes of a delivery, and of its endpoint.

use std::time::Duration;

use serde_json::json;
use snaphook::{
    domain::{
        address::Verdict, attempt::Mark, endpoint::ScheduleText, endpoint_state::EndpointState,
        outcome::Reason,
    },
    manage::endpoint_state::Held,
};

use crate::support::{
    databases::on_both,
    pipeline::Pipeline,
    simulated::Reply::{self, Fails, RetryAfter, Status},
};

#[tokio::test]
async fn gone_ends_one_delivery_disables_the_endpoint_and_holds_the_rest() {
    on_both(async |database| {
        let mut p = Pipeline::new(database, |url, count| {
            Status(if url.contains("gone") && count == 1 { 410 } else { 200 })
        })
        .await;
        let gone = p.plant_with("gone", |endpoint| endpoint.max_in_flight = Some(1)).await;
        let healthy = p.plant("healthy").await;
        let (first, second) = (p.emit("order.paid").await, p.emit("order.paid").await);

        p.run_dry().await;
        let third = p.emit("order.paid").await;
        p.pass(Duration::from_hours(1)).await;

        assert_eq!(p.standing(first, gone).await, "dead of gone");
        assert_eq!(p.state(gone).await, EndpointState::Disabled);
        assert_eq!(p.standing(second, gone).await, "held");
        assert_eq!(p.standing(third, gone).await, "none", "new events make no rows");
        assert_eq!((p.requests("gone"), p.requests("healthy")), (1, 3));
        for event in [first, second, third] {
            assert_eq!(p.standing(event, healthy).await, "delivered");
        }

        p.manage.enable_endpoint(&p.actor, &p.acme, gone, Held::Send).await.unwrap();
        p.run_dry().await;
        assert_eq!(p.standing(second, gone).await, "delivered");
        assert_eq!(p.standing(first, gone).await, "dead of gone", "what is dead stays dead");
    })
    .await;
}

#[tokio::test]
async fn nothing_more_starts_for_an_endpoint_that_has_just_said_that_it_is_gone() {
    on_both(async |database| {
        let mut p = Pipeline::new(database, |_, _| Status(410)).await;
        p.plant_with("gone", |endpoint| endpoint.max_in_flight = Some(1)).await;
        p.emit("order.paid").await;
        p.emit("order.paid").await;
        p.owner.refresh().await.unwrap();
        p.owner.fetch().await.unwrap();
        let job = p.owner.take(9).await.unwrap().remove(0);
        let done = p.engine.attempt(&job).await;
        let completion = p.engine.complete(std::slice::from_ref(&done.finished)).await.unwrap();
        p.owner.finish(std::slice::from_ref(&done), &completion);

        assert_eq!(p.owner.take(9).await.unwrap().len(), 0, "though nobody has read it yet");
    })
    .await;
}

#[tokio::test]
async fn a_final_status_ends_its_delivery_and_nothing_else() {
    on_both(async |database| {
        let answer = |_: &str, count| Status([404, 429, 200][count as usize - 1]);
        let mut p = Pipeline::new(database, answer).await;
        let endpoint = p.plant("a").await;
        p.change(endpoint, json!({ "final_statuses": ["4xx"] })).await;

        let refused = p.emit("order.paid").await;
        p.run_dry().await;
        let slowed = p.emit("order.paid").await;
        p.run_dry().await;

        assert_eq!(p.standing(refused, endpoint).await, "dead of refused");
        assert_eq!(p.standing(slowed, endpoint).await, "delivered", "429 is never final");
        assert_eq!(p.state(endpoint).await, EndpointState::Active);
    })
    .await;
}

#[tokio::test]
async fn what_fails_to_the_end_is_dead_of_what_failed_last() {
    on_both(async |database| {
        let mut p = Pipeline::new(database, |url, _| {
            if url.contains("inside") {
                Fails(Reason::Blocked(Verdict::Private))
            } else {
                Status(500)
            }
        })
        .await;
        let brisk = || Some(ScheduleText::Preset("brisk".to_owned()));
        let inside = p.plant_with("inside", |endpoint| endpoint.retry_schedule = brisk()).await;
        let broken = p.plant_with("broken", |endpoint| endpoint.retry_schedule = brisk()).await;
        let event = p.emit("order.paid").await;

        p.run_dry().await;

        for (endpoint, end, reason) in [
            (inside, "dead of blocked", "blocked_private"),
            (broken, "dead of exhausted", "status"),
        ] {
            assert_eq!(p.standing(event, endpoint).await, end);
            let history = p.history(event, endpoint).await;
            let mut expected = vec![(Mark::Retry, reason.to_owned()); 6];
            expected[5].0 = Mark::Dead;
            assert_eq!(history, expected, "retried like any failure, as names change addresses");
        }
    })
    .await;
}

/// After a first answer: whether another event goes at once, and how long the first one waits.
/// The ladder's own pause is 5 s.
const PAUSES: [(Reply, bool, u64, &str); 6] = [
    (Status(500), true, 5, "a plain failure is about one delivery"),
    (RetryAfter(500, "60"), true, 60, "it asks for this one to wait"),
    (RetryAfter(500, "1"), true, 5, "asking never shortens"),
    (Status(503), false, 5, "it asks for less of everything"),
    (RetryAfter(503, "120"), false, 120, "and says for how long"),
    (RetryAfter(429, "1"), false, 5, "the endpoint rests a second, the delivery its ladder"),
];

#[tokio::test]
async fn an_answer_stretches_the_pause_and_may_slow_the_whole_endpoint() {
    on_both(async |database| {
        let mut p = Pipeline::new(database, |url, count| {
            let case = PAUSES.iter().enumerate().find(|(n, _)| url.contains(&format!("case-{n}.")));
            if count == 1 { case.unwrap().1.0.clone() } else { Status(200) }
        })
        .await;
        for (n, (_, others_go, pause, why)) in PAUSES.iter().enumerate() {
            let name = format!("case-{n}");
            p.plant_with(&name, |endpoint| endpoint.event_types = vec![name.clone()]).await;
            let first = p.emit(&name).await;
            let start = p.now();
            assert_eq!(p.turn().await, 1);

            p.emit(&name).await;
            p.turn().await;
            p.turn().await;
            assert_eq!(p.requests(&name) == 2, *others_go, "{why}");

            p.run_dry().await;
            let requests = p.world.requests();
            let of_first =
                requests.iter().rfind(|one| one.headers["webhook-id"] == *first.to_string());
            let time = of_first.unwrap().headers["webhook-timestamp"].to_str().unwrap();
            let waited = time.parse::<i64>().unwrap() - start.seconds();
            let (least, most) = (pause.cast_signed(), pause.cast_signed() * 6 / 5 + 1);
            assert!((least..=most).contains(&waited), "{waited} s: {why}");
            assert_eq!(p.requests(&name), 3, "{why}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_endpoint_that_asked_for_a_day_is_attempted_at_once_when_somebody_wants_it() {
    on_both(async |database| {
        let mut p = Pipeline::new(database, |_, count| {
            if count == 1 { RetryAfter(503, "86400") } else { Status(200) }
        })
        .await;
        let endpoint = p.plant("a").await;
        let event = p.emit("order.paid").await;
        assert_eq!(p.turn().await, 1);
        assert_eq!(p.pass(Duration::from_hours(23)).await, 0);

        let delivery = snaphook::domain::id::DeliveryId { event, endpoint };
        p.manage.try_now(&p.actor, &p.acme, delivery).await.unwrap();
        p.turn().await;

        assert_eq!(p.standing(event, endpoint).await, "delivered");
    })
    .await;
}
