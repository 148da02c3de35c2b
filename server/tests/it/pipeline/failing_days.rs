//! Endpoints that fail for days: warned, given up, and wanted again with or without what was held.

use std::time::Duration;

use snaphook::{
    domain::{
        address::Verdict,
        endpoint_state::EndpointState,
        id::{EndpointId, EventId},
        outcome::Reason,
    },
    faults::Faults,
    manage::endpoint_state::Held,
};

use crate::support::{
    databases::on_both,
    pipeline::Pipeline,
    simulated::Reply::{Fails, Status},
};

const HOUR: Duration = Duration::from_hours(1);

async fn hours(p: &mut Pipeline, hours: u64) {
    for _ in 0..2 * hours {
        p.pass(HOUR / 2).await;
    }
}

#[tokio::test]
async fn what_fails_for_five_days_is_warned_twice_and_then_given_up() {
    on_both(async |database| {
        let mut p = Pipeline::new(database, |url, count| match count {
            1 if url.contains("blocked") => Status(200),
            _ if url.contains("blocked") => Fails(Reason::Blocked(Verdict::Private)),
            _ => Status(500),
        })
        .await;
        let down = p.plant("down").await;
        let blocked = p.plant("blocked").await;
        let mut events = Vec::new();
        for day in 0..5 {
            events.push(p.emit("order.paid").await);
            hours(&mut p, 23).await;
            let health = p.endpoint(down).await.health;
            assert_eq!(health.warned_at.len(), [0, 1, 1, 2, 2][day], "day {day}");
            p.restart_as("node-1").await; // its clock goes on
            hours(&mut p, 1).await;
        }
        assert_eq!(p.state(down).await, EndpointState::Active, "not before its time");
        assert_eq!(p.state(blocked).await, EndpointState::Active, "its first was a success");
        events.push(p.emit("order.paid").await);
        hours(&mut p, 12).await;

        let row = p.endpoint(down).await;
        assert_eq!(row.state, EndpointState::Disabled);
        let reason = row.state_reason.unwrap();
        assert_eq!(reason, "no attempt succeeded for 5d; the last one failed of status");
        let failing = row.state_since.since(row.health.failing_since.unwrap());
        assert!(failing >= 120 * HOUR && failing < 121 * HOUR, "{failing:?}");
        assert_eq!(p.standing(events[5], down).await, "held");
        let missed = p.emit("order.paid").await;
        hours(&mut p, 24).await;
        assert_eq!(p.standing(missed, down).await, "none", "new events make no delivery");
        let row = p.endpoint(blocked).await;
        assert_eq!(row.state, EndpointState::Disabled, "the guard's refusals count");
        assert!(row.state_reason.unwrap().ends_with("blocked_private"));
    })
    .await;
}

/// An endpoint that answered 410 and holds so many deliveries.
async fn gone(p: &mut Pipeline, many: usize) -> (EndpointId, Vec<EventId>) {
    let endpoint = p.plant_with("a", |settings| settings.max_in_flight = Some(1)).await;
    let mut events = vec![p.emit("order.paid").await];
    for _ in 0..many {
        events.push(p.emit("order.paid").await);
    }
    p.pass(Duration::from_secs(9)).await;
    assert_eq!(p.state(endpoint).await, EndpointState::Disabled);
    assert_eq!(p.requests("a"), 1);
    (endpoint, events.split_off(1))
}

#[tokio::test]
async fn an_endpoint_that_is_enabled_begins_anew_and_sends_what_it_held() {
    on_both(async |database| {
        let mut p = Pipeline::new(database, |_, n| Status(if n == 1 { 410 } else { 200 })).await;
        let (endpoint, events) = gone(&mut p, 5).await;
        assert_eq!(p.endpoint(endpoint).await.health.last_status, Some(410));
        let resumed = p.manage.resume_endpoint(&p.actor, &p.acme, endpoint).await;
        assert!(resumed.unwrap_err().to_string().contains("enable it first"));

        p.manage.enable_endpoint(&p.actor, &p.acme, endpoint, Held::Send).await.unwrap();
        p.pass(Duration::ZERO).await;

        for event in events {
            assert_eq!(p.standing(event, endpoint).await, "delivered");
        }
        let row = p.endpoint(endpoint).await;
        assert_eq!((row.state, row.state_reason), (EndpointState::Active, None));
        assert_eq!((row.health.failing_since, row.health.last_failure_at), (None, None));
    })
    .await;
}

#[tokio::test]
async fn what_was_held_can_be_discarded_whenever_the_process_dies_on_the_way() {
    on_both(async |database| {
        let mut p = Pipeline::new(database, |_, n| Status(if n == 1 { 410 } else { 200 })).await;
        let (endpoint, events) = gone(&mut p, 2_300).await;
        let discard = Held::Discard;
        let (row, heard) =
            p.manage.enable_endpoint(&p.actor, &p.acme, endpoint, discard).await.unwrap();
        assert!(row.discarding && !heard, "it takes its time");
        let faults = std::sync::Arc::new(Faults::crash_at(40)); // after the first thousand, before the last
        let whole = p.store.clone();
        p.store = p.store.with_faults(faults);
        p.restart_as("node-1").await;
        let _ = p.try_turn().await.unwrap_err();
        p.store = whole;
        let left = p.store.read().await.unwrap().count_held().await.unwrap();
        eprintln!("{}: {left} are left after the crash", database.kind);
        assert_eq!(p.state(endpoint).await, EndpointState::Disabled);
        assert_eq!(p.standing(p.emit("order.paid").await, endpoint).await, "none");

        p.restart_as("another").await;
        p.pass(Duration::from_secs(1)).await;

        assert_eq!(p.state(endpoint).await, EndpointState::Active);
        for event in [events[0], events[999], events[1_000], events[2_299]] {
            assert_eq!(p.standing(event, endpoint).await, "dead of disabled");
            assert_eq!(p.find(event, endpoint).await.unwrap().attempts, 0, "no attempt");
            assert_eq!(p.attempts(event, endpoint).await.len(), 1, "ended once");
        }
        assert_eq!(p.requests("a"), 1, "none was sent");
        let next = p.emit("order.paid").await;
        p.pass(Duration::ZERO).await;
        assert_eq!(p.standing(next, endpoint).await, "delivered");
    })
    .await;
}
