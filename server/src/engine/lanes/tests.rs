//! The rules of the lanes: one by one, and then under any order of events, beside a model of the
//! database that is too simple to be wrong.

mod circuits;
mod model;
mod order;
mod staying;

use std::time::Duration;

use proptest::{collection::vec, prelude::*};

use self::model::{Model, START};
use super::{LaneSettings, Lanes, Offer, Order, Report, SLOW};
use crate::{
    domain::{
        circuit::{CircuitRules, CircuitState},
        health::HealthRules,
        id::{EndpointId, EventId},
        signal::Signal,
        time::Timestamp,
    },
    store::{Row, Slot},
};

const QUICK: Duration = Duration::from_millis(5);

fn settings(tenant: &str, cap: usize) -> LaneSettings {
    LaneSettings { tenant: tenant.into(), shard: 1, cap, held: false, ordered: false, rate: None }
}

fn row(event: i64, endpoint: i64) -> Row {
    Row {
        slot: Slot::default(),
        event_id: EventId(event),
        endpoint_id: EndpointId(endpoint),
        tenant: String::new(),
        shard: 1,
        run: 0,
        attempt: 0,
        rung: 0,
        due_at: START,
    }
}

fn empty(slots: usize) -> Lanes {
    Lanes::new(slots, HealthRules::default(), CircuitRules::default())
}

/// An attempt that said `signal`, now.
fn report(signal: Signal, due: Option<Timestamp>, took: Duration) -> Report {
    Report { due, took, signal, reason: None, status: None, now: START, chance: 0 }
}

/// One that succeeded, or of which nothing was learned.
fn done(took: Duration, success: bool) -> Report {
    report(if success { Signal::Works } else { Signal::Unclear }, None, took)
}

/// Lanes of these endpoints, each of the tenant beside it, with `cap`.
fn lanes(slots: usize, cap: usize, endpoints: &[(i64, &str)]) -> Lanes {
    let mut lanes = empty(slots);
    for (endpoint, tenant) in endpoints {
        lanes.set(EndpointId(*endpoint), settings(tenant, cap));
    }
    lanes
}

fn endpoints_of(rows: &[Row]) -> Vec<i64> {
    rows.iter().map(|row| row.endpoint_id.0).collect()
}

#[test]
fn a_backlog_delays_nobody_by_more_than_one_round() {
    let mut lanes = lanes(1_000, 500, &[(1, "big"), (2, "big"), (3, "small"), (4, "tiny")]);
    for event in 0..1_000 {
        assert_eq!(lanes.offer(&row(event, 1), START), Offer::Taken);
        assert_eq!(lanes.offer(&row(event, 2), START), Offer::Taken);
    }
    let first = lanes.next(START, 2);
    lanes.offer(&row(1, 3), START);
    lanes.offer(&row(1, 4), START);

    let taken = lanes.next(START, 8);

    assert_eq!(endpoints_of(&first), [1, 2]);
    assert_eq!(endpoints_of(&taken), [1, 3, 4, 2, 1, 2, 1, 2], "tenants, then their endpoints");
}

#[test]
fn a_lane_that_was_forgotten_and_comes_back_has_one_turn_a_round() {
    let mut lanes = lanes(100, 50, &[(1, "acme"), (2, "other")]);
    for event in 0..20 {
        lanes.offer(&row(event, 1), START);
        lanes.offer(&row(event, 2), START);
    }
    lanes.remove_shard(1);
    for (endpoint, tenant) in [(1, "acme"), (2, "other"), (3, "acme")] {
        lanes.set(EndpointId(endpoint), settings(tenant, 50));
        for event in 0..20 {
            lanes.offer(&row(event, endpoint), START);
        }
    }

    let taken = endpoints_of(&lanes.next(START, 8));

    assert_eq!(taken, [1, 2, 3, 2, 1, 2, 3, 2]);
}

#[test]
fn slow_receivers_take_half_the_slots_and_no_more() {
    let mut lanes = lanes(8, 16, &[(1, "acme"), (2, "other")]);
    lanes.offer(&row(99, 2), START);
    let proof = lanes.next(START, 1).remove(0);
    lanes.finish(&proof, &done(QUICK, true));
    for event in 0..32 {
        lanes.offer(&row(event, 1), START);
    }
    let first = lanes.next(START, 1).remove(0);
    lanes.finish(&first, &done(SLOW + QUICK, true));

    let slow = lanes.next(START, 100);
    for event in 0..4 {
        lanes.offer(&row(event, 2), START);
    }
    let healthy = lanes.next(START, 100);

    assert_eq!(slow.len(), 4, "half of eight");
    assert_eq!(endpoints_of(&healthy), [2; 4], "the other half is for others");
    lanes.finish(&slow[0], &done(QUICK, true));
    assert_eq!(endpoints_of(&lanes.next(START, 100)), [1], "quick again, so no longer bounded");
}

/// Ten thousand endpoints that take every request and answer none must not have all slots.
#[test]
fn lanes_of_which_nothing_is_known_take_half_the_slots_and_no_more() {
    let mut lanes = empty(8);
    for endpoint in 1..=20 {
        lanes.set(EndpointId(endpoint), settings("acme", 16));
        lanes.offer(&row(endpoint, endpoint), START);
    }
    let unknown = lanes.next(START, 100);
    assert_eq!(unknown.len(), 4);
    lanes.finish(&unknown[0], &done(QUICK, true));
    for event in 100..110 {
        lanes.offer(&row(event, 1), START);
    }
    let taken = endpoints_of(&lanes.next(START, 100));
    assert_eq!(taken.iter().filter(|endpoint| **endpoint == 1).count(), 4, "the first is quick");
    assert_eq!(taken.len(), 5, "and the slot that it had is for the next of the others");

    let mut single = empty(1);
    single.set(EndpointId(1), settings("acme", 1));
    single.offer(&row(1, 1), START);
    assert_eq!(single.next(START, 9).len(), 1, "half of one is one");
}

#[test]
fn asking_for_less_rests_the_lane_then_halves_it_and_successes_bring_it_back() {
    let mut lanes = lanes(100, 8, &[(1, "acme")]);
    for event in 0..16 {
        lanes.offer(&row(event, 1), START);
    }
    let mut under_way = lanes.next(START, 1);
    let until = START + Duration::from_mins(1);
    lanes.slow_down(EndpointId(1), until);
    lanes.finish(&under_way.remove(0), &done(QUICK, false));

    assert_eq!(lanes.next(START, 100), [], "it rests");
    assert_eq!(lanes.next_at(START), Some(until));
    under_way.extend(lanes.next(until, 100));
    assert_eq!(under_way.len(), 4, "half of eight");
    for (success, expected) in [(true, 2), (false, 1), (true, 2)] {
        lanes.finish(&under_way.remove(0), &done(QUICK, success));
        let more = lanes.next(until, 100);
        assert_eq!(more.len(), expected, "one more for each success");
        under_way.extend(more);
    }

    lanes.slow_down(EndpointId(1), until + Duration::from_hours(9));
    lanes.look(EndpointId(1), None, START);
    for row in under_way.drain(..4) {
        lanes.finish(&row, &done(QUICK, false));
    }
    assert!(!lanes.next(until, 100).is_empty(), "somebody wants it now, whatever was asked for");
}

#[test]
fn the_next_time_is_the_soonest_of_all_lanes_whoever_rests() {
    let minutes = |minutes| START + Duration::from_mins(minutes);
    let mut lanes = lanes(100, 8, &[(1, "acme"), (2, "acme"), (3, "acme"), (4, "acme")]);
    lanes.park(EndpointId(1), START);
    lanes.slow_down(EndpointId(1), minutes(600));
    lanes.park(EndpointId(2), minutes(1));
    lanes.slow_down(EndpointId(2), minutes(500));
    lanes.park(EndpointId(3), minutes(7));
    lanes.park(EndpointId(4), minutes(9));

    assert_eq!(lanes.next_at(START), Some(minutes(7)));
    let read = lanes.to_read(minutes(8), 9);
    assert_eq!((read.len(), read[0].endpoint, read[0].limit), (1, EndpointId(3), 17));
}

#[test]
fn what_is_shelved_never_goes_again_and_stands_in_nobodys_way() {
    let mut lanes = lanes(100, 1, &[(1, "acme")]);
    for event in 1..=2 {
        lanes.offer(&row(event, 1), START);
    }
    let poison = lanes.next(START, 1).remove(0);
    lanes.shelve(&poison, START, 0);
    assert_eq!(lanes.in_flight(), 0);

    let other = lanes.next(START, 1).remove(0);
    lanes.finish(&other, &done(QUICK, true));
    assert_eq!(other.event_id, EventId(2));
    assert_eq!(lanes.offer(&poison, START), Offer::Known);
    lanes.park(EndpointId(1), START);
    let read = lanes.to_read(START, 1)[0];
    let rows = vec![poison, row(3, 1), row(4, 1), row(5, 1)];
    lanes.fill(&read, rows.into_iter().take(read.limit).collect(), Vec::new(), START);
    assert_eq!(lanes.next(START, 9)[0].event_id, EventId(3));
}

#[test]
fn memory_is_bounded_by_rows_not_by_backlogs() {
    let mut lanes = empty(10);
    let mut parked = 0;
    for endpoint in 1..=1_000 {
        lanes.set(EndpointId(endpoint), settings("acme", 100));
        for event in 0..200 {
            parked += usize::from(lanes.offer(&row(event, endpoint), START) == Offer::Park);
        }
    }
    assert!(parked > 0 && lanes.waiting() <= super::ROWS_MAX + 1_000, "{}", lanes.waiting());
    assert_eq!(lanes.waiting() + parked, 1_000 * 200, "taken or parked, none is lost");
}

#[test]
fn a_burst_stays_in_memory_as_long_as_there_is_ample_room() {
    let mut lanes = empty(10);
    let mut taken = |endpoint: i64, ordered: bool| {
        lanes.set(EndpointId(endpoint), LaneSettings { ordered, ..settings("acme", 100) });
        (0..1_000)
            .filter(|event| lanes.offer(&row(*event, endpoint), START) == Offer::Taken)
            .count()
    };
    assert_eq!(taken(1, false), 800, "eight times its cap");
    assert_eq!(taken(2, true), 16, "one after the other is slow, however much room there is");
    let lanes_of_800 = i64::try_from(super::ROWS_AMPLE / 800).unwrap();
    for endpoint in 3..=lanes_of_800 + 2 {
        taken(endpoint, false);
    }
    assert_eq!(taken(9_999, false), 200, "twice its cap, which is all that it needs");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Caps, slots and counters are exact, no row is in flight twice, nothing held or resting
    /// goes, and what was accepted goes in the end, whatever happens in whatever order.
    #[test]
    fn the_rules_hold_in_any_order(steps in vec((0..16_u8, any::<u8>(), any::<u8>()), 1..250)) {
        let mut model = Model::new();
        for (what, which, how) in steps {
            model.step(what, usize::from(which), usize::from(how));
            model.check();
        }
        model.finish_all();
    }

    /// With any backlogs, a tenant waits for one row of each other tenant and no longer.
    #[test]
    fn tenants_go_round(backlogs in vec(1..40_usize, 2..8)) {
        let mut lanes = empty(1_000);
        for (tenant, backlog) in backlogs.iter().enumerate() {
            let endpoint = i64::try_from(tenant).unwrap() + 1;
            lanes.set(EndpointId(endpoint), settings(&format!("tenant-{tenant}"), 100));
            for event in 0..i64::try_from(*backlog).unwrap() {
                lanes.offer(&row(event, endpoint), START);
            }
        }
        let order = endpoints_of(&lanes.next(START, 1_000));
        prop_assert_eq!(order.len(), backlogs.iter().sum::<usize>());
        for (tenant, backlog) in backlogs.iter().enumerate() {
            let endpoint = i64::try_from(tenant).unwrap() + 1;
            let places = order.iter().enumerate().filter(|(_, other)| **other == endpoint);
            for (nth, (place, _)) in places.take(*backlog).enumerate() {
                prop_assert!(place < (nth + 1) * backlogs.len(), "the {}th at {}", nth, place);
            }
        }
    }
}
