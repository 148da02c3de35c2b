//! Endpoints that fail: they rest, cost their deliveries nothing, are probed, and come back step by
//! step; over restarts and changes of owner.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
    time::Duration,
};

use snaphook::{
    domain::{
        circuit::{Circuit, CircuitState},
        endpoint::ScheduleText,
        id::{DeliveryId, EndpointId, EventId},
    },
    store::deliveries::HeldBy,
};

use crate::support::{
    databases::{Database, on_both},
    pipeline::Pipeline,
    simulated::Reply::Status,
};

/// A receiver that answers what it is told.
#[derive(Clone)]
struct Switch(Arc<AtomicU16>);

impl Switch {
    fn at(status: u16) -> Self {
        Self(Arc::new(AtomicU16::new(status)))
    }

    fn set(&self, status: u16) {
        self.0.store(status, Ordering::Relaxed);
    }

    async fn pipeline(&self, database: &Database) -> Pipeline {
        let switch = self.clone();
        Pipeline::new(database, move |_, _| Status(switch.0.load(Ordering::Relaxed))).await
    }
}

/// One ladder for all: a second attempt after ten hours.
async fn patient(p: &Pipeline) -> EndpointId {
    let pauses = ["0s", "10h", "10h"].map(|text| text.parse().unwrap()).into();
    p.plant_with("a", |endpoint| endpoint.retry_schedule = Some(ScheduleText::Pauses(pauses))).await
}

async fn emit(p: &Pipeline, many: usize) -> Vec<EventId> {
    let mut events = Vec::new();
    for _ in 0..many {
        events.push(p.emit("order.paid").await);
    }
    events
}

#[tokio::test]
async fn an_endpoint_that_fails_rests_and_its_deliveries_lose_no_attempt() {
    on_both(async |database| {
        let switch = Switch::at(500);
        let mut p = switch.pipeline(database).await;
        let endpoint = patient(&p).await;
        let healthy = p.plant_with("b", |settings| settings.event_types = vec!["other".to_owned()]);
        let healthy = healthy.await;
        let events = emit(&p, 40).await;
        p.pass(Duration::ZERO).await;
        let before = p.requests("a");
        assert!((5..=16).contains(&before), "no more than were under way: {before}");
        assert_eq!(p.circuit(endpoint).await, CircuitState::Open);

        let more = emit(&p, 10).await; // they come while it rests
        for _ in 0..60 {
            p.pass(Duration::from_mins(1)).await;
        }
        let probes: usize = p.requests("a") - before;
        assert!((5..=6).contains(&probes), "after 30 s, 1, 2, 4, 8, 16 min: {probes}");
        let counted = |history: &[snaphook::store::attempts::AttemptRow]| {
            history.iter().filter(|one| !one.probe).count()
        };
        let mut ahead = 0;
        for event in events.iter().chain(&more) {
            let row = p.find(*event, endpoint).await.unwrap();
            assert_eq!((row.standing.name(), row.held_by), ("held", Some(HeldBy::Circuit)));
            let attempts = p.attempts(*event, endpoint).await;
            assert!(counted(&attempts) <= 1, "nobody's ladder has moved");
            assert_eq!(i64::try_from(counted(&attempts)).unwrap(), row.attempts);
            assert_eq!(usize::try_from(row.rung).unwrap(), counted(&attempts));
            ahead += attempts.len() - counted(&attempts);
        }
        assert_eq!(ahead, probes, "all of them were ahead of their time");
        assert!(p.attempts(events[0], endpoint).await[1].probe, "the oldest came first");

        let other = p.emit("other").await;
        p.turn().await;
        assert_eq!(p.standing(other, healthy).await, "pending");
        assert_eq!(p.requests("b"), 1, "others go on");
    })
    .await;
}

#[tokio::test]
async fn a_recovered_endpoint_gets_its_backlog_step_by_step() {
    on_both(async |database| {
        let switch = Switch::at(500);
        let mut p = switch.pipeline(database).await;
        let endpoint = patient(&p).await;
        let events = emit(&p, 80).await;
        p.pass(Duration::ZERO).await;
        switch.set(200);

        let mut together = Vec::new();
        p.world.pass(Duration::from_secs(36));
        while together.len() < 9 {
            p.owner.claim().await.unwrap();
            let jobs = p.turn().await;
            if jobs > 0 {
                together.push(jobs);
            }
        }
        assert_eq!(together[..5], [1, 1, 2, 4, 8], "the probe, then twice as many each time");
        assert!(together[5..].iter().all(|jobs| *jobs <= 16), "{together:?}");
        p.pass(Duration::from_hours(13)).await;
        for event in events {
            assert_eq!(p.standing(event, endpoint).await, "delivered");
        }
        let health = p.endpoint(endpoint).await.health;
        assert_eq!((health.circuit, health.failing_since), (Circuit::default(), None));
        assert!(health.last_success_at.is_some() && health.last_failure_at.is_some());
    })
    .await;
}

#[tokio::test]
async fn it_rests_on_over_a_restart_and_with_another_owner() {
    on_both(async |database| {
        let switch = Switch::at(500);
        let mut p = switch.pipeline(database).await;
        let endpoint = patient(&p).await;
        emit(&p, 20).await;
        p.pass(Duration::ZERO).await;
        for _ in 0..40 {
            p.pass(Duration::from_mins(1)).await; // so that the wait is 32 minutes, cut to 30
        }
        let (since, kept) = (p.now(), p.endpoint(endpoint).await.health);
        let sent = p.requests("a");
        let probe_at = kept.circuit.probe_at().unwrap();
        assert!(probe_at.since(since) > Duration::from_mins(10), "{kept:?}");

        for node in ["node-1", "another"] {
            p.restart_as(node).await;
            p.pass(Duration::from_secs(30)).await;
            assert_eq!(p.requests("a"), sent, "{node} knows that it rests");
            assert_eq!(p.endpoint(endpoint).await.health.circuit, kept.circuit);
        }
        p.world.turn_to(probe_at);
        p.owner.claim().await.unwrap();
        p.pass(Duration::ZERO).await;
        assert_eq!(p.requests("a"), sent + 1, "and probes at its time");
        assert_eq!(p.endpoint(endpoint).await.health.failing_since, kept.failing_since);
    })
    .await;
}

#[tokio::test]
async fn somebody_may_probe_and_attempt_one_delivery_now() {
    on_both(async |database| {
        let switch = Switch::at(500);
        let mut p = switch.pipeline(database).await;
        let endpoint = patient(&p).await;
        let refused = p.manage.probe_endpoint(&p.actor, &p.acme, endpoint).await;
        assert!(refused.unwrap_err().to_string().contains("requests flow"));
        let events = emit(&p, 20).await;
        p.pass(Duration::ZERO).await;
        let sent = p.requests("a");

        p.manage.probe_endpoint(&p.actor, &p.acme, endpoint).await.unwrap();
        p.pass(Duration::ZERO).await;
        assert_eq!(p.requests("a"), sent + 1);
        assert_eq!(p.attempts(events[0], endpoint).await.len(), 2, "the oldest");

        let wanted = DeliveryId { event: events[9], endpoint };
        p.manage.try_now(&p.actor, &p.acme, wanted).await.unwrap();
        p.pass(Duration::ZERO).await;
        let attempts = p.attempts(events[9], endpoint).await;
        assert_eq!(p.requests("a"), sent + 2, "one request, of what was asked for");
        assert!(!attempts.last().unwrap().probe, "due at once: it counts");

        switch.set(200);
        p.change(endpoint, serde_json::json!({ "url": "https://a.example/new" })).await;
        p.pass(Duration::ZERO).await;
        assert_eq!(p.circuit(endpoint).await, CircuitState::Closed, "a new place is asked at once");
    })
    .await;
}

#[tokio::test]
async fn what_asks_for_less_is_not_put_to_rest() {
    on_both(async |database| {
        let switch = Switch::at(429);
        let mut p = switch.pipeline(database).await;
        let endpoint = patient(&p).await;
        emit(&p, 30).await;
        for _ in 0..90 {
            p.pass(Duration::from_secs(1)).await;
        }
        let health = p.endpoint(endpoint).await.health;
        assert_eq!(health.circuit, Circuit::default());
        assert!(health.failing_since.is_some(), "but its clock runs");
        assert_eq!(health.last_status, Some(429));
        assert_eq!(p.requests("a"), 30, "each used one attempt");
    })
    .await;
}

#[tokio::test]
async fn what_is_paused_while_it_rests_stays_put_and_goes_on_where_it_was() {
    on_both(async |database| {
        let switch = Switch::at(500);
        let mut p = switch.pipeline(database).await;
        let endpoint = patient(&p).await;
        let events = emit(&p, 10).await;
        p.pass(Duration::ZERO).await;
        let sent = p.requests("a");
        p.manage.pause_endpoint(&p.actor, &p.acme, endpoint).await.unwrap();
        p.pass(Duration::from_hours(1)).await;
        assert_eq!(p.requests("a"), sent, "not even a probe");
        assert_eq!(p.find(events[0], endpoint).await.unwrap().held_by, Some(HeldBy::Paused));

        switch.set(200);
        p.manage.resume_endpoint(&p.actor, &p.acme, endpoint).await.unwrap();
        p.pass(Duration::from_hours(13)).await;
        for event in events {
            assert_eq!(p.standing(event, endpoint).await, "delivered");
        }
    })
    .await;
}
