//! A backlog: what has no room in memory waits in the database, parked or where it is, and is sent
//! once, whatever becomes of its endpoint and its owner meanwhile.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use snaphook::{
    domain::{
        circuit::CircuitState,
        id::{EndpointId, EventId},
    },
    engine::Owner,
    manage::endpoint_state::Held,
    store::{Row, Stretch},
};

use crate::support::{
    databases::{Database, Kind, on_both},
    pipeline::Pipeline,
    simulated::Reply::Status,
};

/// Old enough that no scan for late rows reads it again.
const OLD: Duration = Duration::from_secs(10);

const EVENTS: usize = 30;

/// A pipeline, and what its receiver answers.
async fn pipeline(database: &Database) -> (Pipeline, Arc<AtomicU16>) {
    let status = Arc::new(AtomicU16::new(200));
    let answer = status.clone();
    let answers = move |_: &str, _| Status(answer.load(Ordering::Relaxed));
    (Pipeline::new(database, answers).await, status)
}

/// Thirty events for an endpoint that takes two at once, so that four have room in memory.
async fn backlog(p: &Pipeline) -> (EndpointId, Vec<EventId>) {
    let endpoint = p.plant_with("a", |settings| settings.max_in_flight = Some(2)).await;
    let mut events = Vec::new();
    for _ in 0..EVENTS {
        events.push(p.emit("order.paid").await);
    }
    (endpoint, events)
}

/// A backlog that came while nobody looked, of which the first two were sent.
async fn old_backlog(p: &mut Pipeline) -> (EndpointId, Vec<EventId>) {
    let (endpoint, events) = backlog(p).await;
    p.world.pass(OLD);
    p.owner.claim().await.unwrap();
    p.turn().await;
    assert_eq!(waiting(p, endpoint).await.0, 0, "nothing is parked");
    (endpoint, events)
}

/// How many rows of an endpoint are parked, and how many are fresh.
async fn waiting(p: &Pipeline, endpoint: EndpointId) -> (usize, usize) {
    let mut tx = p.store.read_engine().await.unwrap();
    let shard = tx.find_endpoint(endpoint).await.unwrap().unwrap().shard;
    let parked = tx.list_lane(shard, endpoint, 100).await.unwrap().len();
    let (first, last) = (EventId(0), EventId(i64::MAX));
    let all = Stretch { shard, endpoint, first, last, limit: 100 };
    let fresh: Vec<Row> = tx.list_fresh_of_lanes(&[all]).await.unwrap();
    (parked, fresh.len())
}

/// The receiver answers 410.
async fn disable(p: &mut Pipeline, status: &AtomicU16) {
    status.store(410, Ordering::Relaxed);
    p.turn().await;
}

fn sent(p: &Pipeline) -> Vec<String> {
    let requests = p.world.requests();
    requests.iter().map(|request| request.headers["webhook-id"].to_str().unwrap().into()).collect()
}

fn texts(events: &[EventId]) -> Vec<String> {
    events.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn a_backlog_that_its_receiver_keeps_up_with_stays_where_it_is_and_goes_in_order() {
    for (age, stays, why) in [
        (Duration::ZERO, false, "the scan for late rows would read it again and again"),
        (Duration::from_secs(5), false, "so it would"),
        (OLD, true, "nobody reads it but its lane"),
    ] {
        on_both(async |database| {
            let (mut p, _) = pipeline(database).await;
            let (endpoint, events) = backlog(&p).await;
            p.world.pass(age);
            p.owner.claim().await.unwrap();
            p.turn().await;
            let (parked, fresh) = waiting(&p, endpoint).await;
            assert_eq!((parked == 0, parked + fresh), (stays, EVENTS - 2), "{age:?}: {why}");

            p.run_dry().await;
            assert_eq!(sent(&p), texts(&events));
        })
        .await;
    }
}

/// What happens to an endpoint, or to its owner, while a backlog stays.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Paused,
    Disabled,
    Ordered,
    Failing,
    Restarted,
    Drained,
    Doubted,
}

impl Turn {
    async fn happen(self, p: &mut Pipeline, endpoint: EndpointId, status: &AtomicU16) {
        match self {
            Self::Paused => {
                p.manage.pause_endpoint(&p.actor, &p.acme, endpoint).await.unwrap();
            }
            Self::Disabled => disable(p, status).await,
            Self::Ordered => p.change(endpoint, json!({"ordered": true})).await,
            Self::Failing => {
                status.store(500, Ordering::Relaxed);
                p.turn().await;
                p.turn().await;
                p.turn().await;
                assert_eq!(p.circuit(endpoint).await, CircuitState::Open);
            }
            Self::Restarted => p.restart_as("node-2").await,
            Self::Drained => {
                p.owner.step_down().await.unwrap();
                p.owner.release_all().await.unwrap();
                p.owner = Owner::new(p.engine.clone());
                p.owner.claim().await.unwrap();
            }
            Self::Doubted => p.owner.doubt(),
        }
    }

    /// Whether the lane moves no more, so that all of it is to be parked.
    fn stops(self) -> bool {
        matches!(self, Self::Paused | Self::Disabled | Self::Ordered | Self::Failing)
    }

    async fn end(self, p: &mut Pipeline, endpoint: EndpointId, status: &AtomicU16) {
        match self {
            Self::Paused => {
                p.manage.resume_endpoint(&p.actor, &p.acme, endpoint).await.unwrap();
            }
            Self::Disabled => {
                status.store(200, Ordering::Relaxed);
                p.manage.enable_endpoint(&p.actor, &p.acme, endpoint, Held::Send).await.unwrap();
            }
            Self::Failing => status.store(200, Ordering::Relaxed),
            Self::Ordered | Self::Restarted | Self::Drained | Self::Doubted => {}
        }
    }
}

#[tokio::test]
async fn what_stays_is_parked_when_its_lane_stops_and_nothing_is_lost_or_sent_twice() {
    for turn in [
        Turn::Paused,
        Turn::Disabled,
        Turn::Ordered,
        Turn::Failing,
        Turn::Restarted,
        Turn::Drained,
        Turn::Doubted,
    ] {
        on_both(async |database| {
            let (mut p, status) = pipeline(database).await;
            let (endpoint, events) = old_backlog(&mut p).await;
            turn.happen(&mut p, endpoint, &status).await;
            p.turn().await;
            p.turn().await;
            let (_, fresh) = waiting(&p, endpoint).await;
            assert_eq!(fresh == 0, turn.stops(), "{turn:?}: {fresh} stay, long before a sweep");

            turn.end(&mut p, endpoint, &status).await;
            p.run_dry().await;
            let (requests, pleased) = (sent(&p), p.world.pleased().len());
            let failed = match turn {
                Turn::Disabled => 2, // and they are over with that
                Turn::Failing => requests.len() - EVENTS,
                _ => 0,
            };
            let over = if matches!(turn, Turn::Disabled) { failed } else { 0 };
            assert_eq!(pleased + over, EVENTS, "{turn:?}: nothing is lost");
            assert_eq!(requests.len(), pleased + failed, "{turn:?}: nothing is sent twice");
            assert!(failed <= 8, "{turn:?}: {failed} failed");
            if matches!(turn, Turn::Ordered) {
                assert_eq!(requests, texts(&events), "in their order");
            }
        })
        .await;
    }
}

#[tokio::test]
async fn what_stays_for_an_endpoint_that_is_deleted_or_that_nobody_wants_is_ended() {
    for deleted in [true, false] {
        on_both(async |database| {
            let (mut p, status) = pipeline(database).await;
            let (endpoint, events) = old_backlog(&mut p).await;
            let mut before = sent(&p).len();
            if deleted {
                p.manage.delete_endpoint(&p.actor, &p.acme, endpoint).await.unwrap();
            } else {
                disable(&mut p, &status).await;
                before = sent(&p).len();
                let enable = p.manage.enable_endpoint(&p.actor, &p.acme, endpoint, Held::Discard);
                enable.await.unwrap();
            }
            for _ in 0..5 {
                p.turn().await;
            }
            let expected = if deleted { "canceled" } else { "dead of disabled" };
            for event in &events[before..] {
                assert_eq!(p.standing(*event, endpoint).await, expected);
            }
            assert_eq!(sent(&p).len(), before);
        })
        .await;
    }
}

#[tokio::test]
async fn a_late_row_among_those_that_stay_is_found() {
    on_both(async |database| {
        let (mut p, _) = pipeline(database).await;
        let endpoint = p.plant_with("a", |settings| settings.max_in_flight = Some(2)).await;
        let mut emitted = Vec::new();
        for _ in 0..EVENTS {
            emitted.push(p.emit("order.paid").await);
        }
        // Of a transaction that is open still: its row is not there yet.
        let late = emitted[10];
        let queue = match database.kind {
            Kind::Postgres => "snaphook.queue",
            Kind::Sqlite => "snaphook_queue",
        };
        database
            .execute(&format!(
                "CREATE TABLE hidden AS SELECT * FROM {queue} WHERE event_id = {0};
             DELETE FROM {queue} WHERE event_id = {0}",
                late.0
            ))
            .await;
        p.world.pass(OLD);
        p.owner.claim().await.unwrap();
        for _ in 0..7 {
            p.turn().await;
        }
        database.execute(&format!("INSERT INTO {queue} SELECT * FROM hidden")).await;
        p.run_dry().await;
        p.pass(Duration::from_secs(31)).await;
        assert_eq!((sent(&p).len(), p.world.pleased().len()), (EVENTS, EVENTS));
        assert_eq!(waiting(&p, endpoint).await, (0, 0));
    })
    .await;
}
