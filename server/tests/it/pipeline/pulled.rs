//! Endpoints that are pulled: claims and their leases, acks and nacks, the ladder, and what is
//! never given out. Leases go by the database's clock, so time passes here in its rows.

use std::time::Duration;

use serde_json::json;
use snaphook::{
    domain::{
        attempt::Mark,
        endpoint::EndpointSettings,
        endpoint_kind::EndpointKind,
        id::{DeliveryId, EndpointId, EventId},
        retry::{Jitter, RetrySchedule},
    },
    manage::queues::{Claim, PullRules, Said, Word},
    store::{deliveries::HeldBy, pulls::Pull},
};

use crate::support::{
    databases::{Database, Kind, on_both},
    pipeline::Pipeline,
    simulated::Reply::Status,
};

const LEASE: Duration = Duration::from_secs(30);

fn pulled(settings: &mut EndpointSettings) {
    settings.kind = EndpointKind::Queue;
    settings.url.clear();
}

async fn new(database: &Database) -> Pipeline {
    Pipeline::new(database, |_, _| Status(200)).await
}

async fn claim(p: &Pipeline, endpoint: EndpointId, limit: usize) -> Claim {
    let schedule = RetrySchedule::default();
    let rules = PullRules { schedule: &schedule, jitter: Jitter::NONE, strict: false };
    let queue = p.manage.find_queue(Some(&p.acme), endpoint).await.unwrap();
    p.manage.claim(&queue, limit, LEASE, rules).await.unwrap()
}

/// The events that a claim gives, each with the number of its attempt.
async fn take(p: &Pipeline, endpoint: EndpointId, limit: usize) -> Vec<(EventId, i32)> {
    let claimed = claim(p, endpoint, limit).await.claimed;
    claimed.iter().map(|one| (one.id.event, one.attempt)).collect()
}

async fn say(
    p: &Pipeline,
    endpoint: EndpointId,
    pull: Pull,
    delay: Option<Duration>,
    words: &[(EventId, i32)],
) -> Vec<bool> {
    let schedule = RetrySchedule::default();
    let rules = PullRules { schedule: &schedule, jitter: Jitter::NONE, strict: false };
    let word = |(event, attempt): &(EventId, i32)| Word {
        id: DeliveryId { event: *event, endpoint },
        attempt: *attempt,
    };
    let words: Vec<Word> = words.iter().map(word).collect();
    let said = Said { pull, delay, detail: r#"{"by":"a test"}"#.to_owned() };
    let queue = p.manage.find_queue(None, endpoint).await.unwrap();
    p.manage.say(&queue, &words, &said, rules).await.unwrap().0
}

/// Everything that is due later is due that much sooner.
async fn age(database: &Database, by: Duration) {
    let seconds = by.as_secs();
    database
        .execute(&match database.kind {
            Kind::Sqlite => {
                format!("UPDATE snaphook_queue SET due_at = due_at - {seconds} * 1000000")
            }
            Kind::Postgres => {
                format!("UPDATE snaphook.queue SET due_at = due_at - interval '{seconds} seconds'")
            }
        })
        .await;
}

#[tokio::test]
async fn what_is_claimed_is_its_consumers_until_it_says_so() {
    on_both(async |database| {
        let mut p = new(database).await;
        let (queue, url) = (p.plant_with("queue", pulled).await, p.plant("url").await);
        let mut events = Vec::new();
        for _ in 0..3 {
            events.push(p.emit("order.paid").await);
        }
        p.run_dry().await;
        assert_eq!(p.world.requests().len(), 3, "to the URL alone");

        let claimed = claim(&p, queue, 2).await;
        let rest = take(&p, queue, 10).await;
        let nothing = take(&p, queue, 10).await;

        assert_eq!(claimed.claimed.len(), 2);
        assert_eq!(claimed.claimed[0].event.payload, br#"{"amount": 4999}"#[..]);
        assert!(claimed.until.is_some());
        assert_eq!((rest, nothing), (vec![(events[2], 1)], vec![]));
        let both = [(events[0], 1), (events[1], 1)];
        assert_eq!(say(&p, queue, Pull::Acked, None, &both).await, [true, true]);
        assert_eq!(p.standing(events[0], queue).await, "delivered");
        assert_eq!(p.standing(events[2], queue).await, "pending");
        assert_eq!(p.standing(events[2], url).await, "delivered");
        assert_eq!(say(&p, queue, Pull::Acked, None, &both).await, [true, true], "said again");
        assert_eq!(p.attempts(events[0], queue).await.len(), 1);
        assert_eq!(say(&p, queue, Pull::Nacked, None, &both).await, [false, false], "too late");
    })
    .await;
}

#[tokio::test]
async fn what_is_nacked_or_kept_too_long_goes_up_the_ladder_and_dies_at_its_end() {
    on_both(async |database| {
        let p = new(database).await;
        let queue = p
            .plant_with("queue", |settings| {
                pulled(settings);
                settings.retry_schedule =
                    serde_json::from_value(json!(["0s", "5s", "1h"])).unwrap();
            })
            .await;
        let event = p.emit("order.paid").await;

        assert_eq!(take(&p, queue, 1).await, [(event, 1)]);
        assert_eq!(say(&p, queue, Pull::Nacked, None, &[(event, 1)]).await, [true]);
        assert_eq!(say(&p, queue, Pull::Nacked, None, &[(event, 1)]).await, [true], "said again");
        assert_eq!(take(&p, queue, 1).await, [], "not before its pause is over");
        age(database, Duration::from_secs(5)).await;
        assert_eq!(take(&p, queue, 1).await, [(event, 2)]);
        age(database, LEASE).await;
        assert_eq!(say(&p, queue, Pull::Acked, None, &[(event, 1)]).await, [false]);
        assert_eq!(take(&p, queue, 1).await, [], "its lease ended; now it is paused");
        assert_eq!(say(&p, queue, Pull::Acked, None, &[(event, 2)]).await, [false], "lost");
        age(database, Duration::from_hours(1)).await;
        assert_eq!(take(&p, queue, 1).await, [(event, 3)]);
        assert_eq!(say(&p, queue, Pull::Nacked, None, &[(event, 3)]).await, [true]);

        assert_eq!(p.standing(event, queue).await, "dead of exhausted");
        let reasons = ["nacked", "lease_ended", "nacked"];
        let marks = [Mark::Retry, Mark::Retry, Mark::Dead];
        let expected: Vec<_> = marks.into_iter().zip(reasons.map(str::to_owned)).collect();
        assert_eq!(p.history(event, queue).await, expected);
        let id = DeliveryId { event, endpoint: queue };
        p.manage.redeliver(&p.actor, &p.acme, id).await.unwrap();
        assert_eq!(take(&p, queue, 1).await, [(event, 4)], "a new run");
        assert_eq!(say(&p, queue, Pull::Acked, None, &[(event, 4)]).await, [true]);
        assert_eq!(p.standing(event, queue).await, "delivered");
    })
    .await;
}

#[tokio::test]
async fn a_word_counts_although_it_comes_late_while_nobody_else_has_it() {
    on_both(async |database| {
        let p = new(database).await;
        let queue = p.plant_with("queue", pulled).await;
        let event = p.emit("order.paid").await;
        take(&p, queue, 1).await;
        age(database, LEASE * 2).await;

        assert_eq!(say(&p, queue, Pull::Acked, None, &[(event, 1)]).await, [true]);

        assert_eq!(p.standing(event, queue).await, "delivered");
    })
    .await;
}

#[tokio::test]
async fn a_nack_may_ask_for_a_longer_pause_and_never_for_a_shorter_one() {
    on_both(async |database| {
        let p = new(database).await;
        let queue = p.plant_with("queue", pulled).await;
        for (delay, pause) in [(None, 5), (Some(1), 5), (Some(90), 90)] {
            let event = p.emit("order.paid").await;
            assert_eq!(take(&p, queue, 1).await, [(event, 1)]);
            let delay = delay.map(Duration::from_secs);
            say(&p, queue, Pull::Nacked, delay, &[(event, 1)]).await;
            age(database, Duration::from_secs(pause - 2)).await;
            assert_eq!(take(&p, queue, 1).await, [], "{delay:?}");
            age(database, Duration::from_secs(2)).await;
            assert_eq!(take(&p, queue, 1).await, [(event, 2)], "{delay:?}");
            say(&p, queue, Pull::Acked, None, &[(event, 2)]).await;
        }
    })
    .await;
}

#[tokio::test]
async fn leases_end_although_nobody_claims() {
    on_both(async |database| {
        let p = new(database).await;
        let queue = p.plant_with("queue", pulled).await;
        let event = p.emit("order.paid").await;
        take(&p, queue, 1).await;

        age(database, Duration::from_hours(24 * 365)).await; // this world has a clock of its own
        p.engine.end_leases().await.unwrap();

        let history = p.history(event, queue).await;
        assert_eq!(history, [(Mark::Retry, "lease_ended".to_owned())]);
        assert!(p.attempts(event, queue).await[0].sent, "it counts as an attempt");
    })
    .await;
}

#[tokio::test]
async fn what_the_filter_or_the_schema_keeps_out_is_given_to_nobody() {
    on_both(async |database| {
        let p = new(database).await;
        let queue = p
            .plant_with("queue", |settings| {
                pulled(settings);
                settings.filter = json!({"/amount": {"gte": 5}});
            })
            .await;
        super::first_checks::declare(&p, "order.paid", json!({"required": ["id"]})).await;
        let unwanted = p.emit_unchecked("order.paid", r#"{"amount": 4, "id": 1}"#).await;
        let invalid = p.emit_unchecked("order.paid", r#"{"amount": 5}"#).await;
        let good = p.emit_unchecked("order.paid", r#"{"amount": 6, "id": 1}"#).await;

        assert_eq!(take(&p, queue, 1).await, [(good, 1)], "past what is not given out");

        assert_eq!(p.standing(unwanted, queue).await, "filtered");
        assert_eq!(p.standing(invalid, queue).await, "dead of invalid");
        let id = DeliveryId { event: invalid, endpoint: queue };
        p.manage.redeliver(&p.actor, &p.acme, id).await.unwrap();
        assert_eq!(take(&p, queue, 1).await, [], "still not what the schema says");
        super::first_checks::declare(&p, "order.paid", json!({})).await;
        p.manage.redeliver(&p.actor, &p.acme, id).await.unwrap();
        assert_eq!(take(&p, queue, 1).await, [(invalid, 3)], "the schema was mended");
    })
    .await;
}

#[tokio::test]
async fn an_ordered_endpoint_gives_one_after_another_in_their_order() {
    on_both(async |database| {
        let p = new(database).await;
        let queue = p
            .plant_with("queue", |settings| {
                pulled(settings);
                settings.ordered = true;
            })
            .await;
        let (first, second) = (p.emit("order.paid").await, p.emit("order.paid").await);

        assert_eq!(take(&p, queue, 10).await, [(first, 1)]);
        assert_eq!(take(&p, queue, 10).await, [], "a consumer has the first");
        say(&p, queue, Pull::Nacked, None, &[(first, 1)]).await;
        assert_eq!(take(&p, queue, 10).await, [], "the first waits");
        age(database, Duration::from_secs(5)).await;
        assert_eq!(take(&p, queue, 10).await, [(first, 2)]);
        say(&p, queue, Pull::Acked, None, &[(first, 2)]).await;
        assert_eq!(take(&p, queue, 10).await, [(second, 1)]);
    })
    .await;
}

#[tokio::test]
async fn many_consumers_at_once_never_get_the_same_delivery() {
    on_both(async |database| {
        let p = new(database).await;
        let plain = p.plant_with("plain", pulled).await;
        let ordered = p.plant_with("ordered", |settings| {
            pulled(settings);
            settings.ordered = true;
        });
        let ordered = ordered.await;
        for _ in 0..40 {
            p.emit("order.paid").await;
        }
        for (queue, most) in [(plain, 40), (ordered, 1)] {
            let claims = futures_util::future::join_all((0..8).map(|_| take(&p, queue, 10))).await;
            let mut taken: Vec<_> = claims.into_iter().flatten().collect();
            taken.sort_unstable();
            let all = taken.len();
            taken.dedup();
            assert_eq!((taken.len(), all <= most), (all, true), "{queue}");
            assert!(all > 0, "{queue}");
        }
    })
    .await;
}

#[tokio::test]
async fn people_do_to_a_pulled_delivery_what_they_do_to_others() {
    on_both(async |database| {
        let mut p = new(database).await;
        let queue = p.plant_with("queue", pulled).await;
        let id = |event| DeliveryId { event, endpoint: queue };
        let (claimed, waiting) = (p.emit("order.paid").await, p.emit("order.paid").await);
        assert_eq!(take(&p, queue, 1).await, [(claimed, 1)]);

        let refused = p.manage.try_now(&p.actor, &p.acme, id(claimed)).await.unwrap_err();
        assert!(refused.to_string().contains("a consumer has"), "{refused}");
        p.manage.cancel(&p.actor, &p.acme, id(claimed)).await.unwrap();
        assert_eq!(say(&p, queue, Pull::Acked, None, &[(claimed, 1)]).await, [false], "canceled");
        p.manage.pause_endpoint(&p.actor, &p.acme, queue).await.unwrap();
        let paused = claim(&p, queue, 1).await;
        assert_eq!((paused.claimed.len(), paused.held_by), (0, Some(HeldBy::Paused)));
        assert_eq!(p.standing(waiting, queue).await, "held");
        p.manage.resume_endpoint(&p.actor, &p.acme, queue).await.unwrap();
        assert_eq!(take(&p, queue, 9).await, [(waiting, 1)]);
        say(&p, queue, Pull::Nacked, None, &[(waiting, 1)]).await;
        p.manage.try_now(&p.actor, &p.acme, id(waiting)).await.unwrap();
        age(database, Duration::from_secs(5)).await;
        assert_eq!(take(&p, queue, 9).await, [(waiting, 2)]);
        let test = p.manage.send_test_event(&p.actor, &p.acme, queue).await.unwrap();
        assert_eq!(take(&p, queue, 9).await, [(test.event, 1)]);

        p.manage.delete_endpoint(&p.actor, &p.acme, queue).await.unwrap();
        p.run_dry().await;
        assert_eq!(p.standing(waiting, queue).await, "canceled");
        assert_eq!(p.standing(test.event, queue).await, "canceled");
        assert_eq!(p.world.requests().len(), 0);
    })
    .await;
}
