//! Lanes that keep an order, and lanes that keep a rate.

use super::*;

fn ordered(lanes: &mut Lanes, endpoint: i64) {
    let settings = LaneSettings { ordered: true, ..settings("acme", 1) };
    lanes.set(EndpointId(endpoint), settings);
}

fn events_of(rows: &[Row]) -> Vec<i64> {
    rows.iter().map(|row| row.event_id.0).collect()
}

#[test]
fn one_goes_at_a_time_in_the_order_of_events_however_they_came() {
    let mut lanes = empty(100);
    ordered(&mut lanes, 1);
    for event in [20, 10, 30] {
        assert_eq!(lanes.offer(&row(event, 1), START), Offer::Taken);
    }
    let mut order = Vec::new();
    for late in [None, Some(15), Some(5)] {
        let mut taken = lanes.next(START, 9);
        assert_eq!(taken.len(), 1);
        if let Some(late) = late {
            lanes.offer(&row(late, 1), START);
        }
        assert_eq!(lanes.next(START, 9), [], "one at a time");
        order.extend(events_of(&taken));
        lanes.finish(&taken.remove(0), &done(QUICK, true));
    }
    order.extend(events_of(&lanes.next(START, 9)));
    assert_eq!(order, [10, 20, 15, 5], "what came late goes before all that waits, and 30 is last");
}

#[test]
fn nothing_overtakes_what_failed_until_it_has_ended() {
    let mut lanes = empty(100);
    ordered(&mut lanes, 1);
    for event in 1..=3 {
        lanes.offer(&row(event, 1), START);
    }
    let first = lanes.next(START, 9).remove(0);
    let due = START + Duration::from_mins(5);
    lanes.finish(&first, &report(Signal::Fails, Some(due), QUICK));

    assert_eq!(lanes.next(START, 9), []);
    let left = lanes.take_left();
    assert_eq!(events_of(&left), [2, 3], "they wait in the database");
    assert_eq!(lanes.offer(&row(4, 1), START), Offer::Park, "and so does what comes");
    for row in &left {
        lanes.park(EndpointId(1), row.due_at);
    }
    let parked = |first: Row| vec![first, row(2, 1), row(3, 1), row(4, 1)];
    let first = Row { due_at: due, attempt: 1, ..first };
    let read = lanes.to_read(START, 9)[0];
    assert_eq!(read.order, Order::Event);
    lanes.fill(&read, parked(first.clone()), Vec::new(), START);
    assert_eq!(lanes.next(START, 9), [], "the first of them is not due, so none goes");
    assert_eq!(lanes.next_at(START), Some(due));

    let read = lanes.to_read(due, 9)[0];
    lanes.fill(&read, parked(first), Vec::new(), due);
    let again = lanes.next(due, 9).remove(0);
    assert_eq!((again.event_id, again.attempt), (EventId(1), 1));
    lanes.finish(&again, &done(QUICK, true));
    assert_eq!(events_of(&lanes.next(due, 9)), [2]);
}

#[test]
fn a_full_ring_keeps_the_first_and_parks_the_last() {
    let mut lanes = empty(100);
    ordered(&mut lanes, 1);
    for event in 1..=16 {
        assert_eq!(lanes.offer(&row(10 * event, 1), START), Offer::Taken);
    }
    assert_eq!(lanes.offer(&row(170, 1), START), Offer::Park);
    lanes.park(EndpointId(1), START);
    let Offer::Displaced(last) = lanes.offer(&row(35, 1), START) else { panic!("35 goes before") };
    assert_eq!(last.event_id, EventId(160));
    lanes.park(EndpointId(1), START);
    for expected in [10, 20, 30, 35, 40] {
        let row = lanes.next(START, 1).remove(0);
        assert_eq!(row.event_id, EventId(expected));
        lanes.finish(&row, &done(QUICK, true));
    }
    assert_eq!(lanes.offer(&row(180, 1), START), Offer::Park, "160 and 170 go before it");
}

/// After a restart the lane is read before the fresh rows are, and both hold earlier ones.
#[test]
fn nothing_goes_while_earlier_rows_may_be_unread() {
    let mut lanes = empty(100);
    ordered(&mut lanes, 1);
    lanes.set_unread([1].into_iter());
    lanes.park(EndpointId(1), START);
    assert_eq!(lanes.to_read(START, 9), []);
    assert_eq!(lanes.next_at(START), None, "nothing to wake up for: the scans go on by themselves");
    assert_eq!(lanes.offer(&row(1, 1), START), Offer::Park, "what is parked is not known yet");

    lanes.set_unread(std::iter::empty());
    let read = lanes.to_read(START, 9)[0];
    lanes.fill(&read, vec![row(1, 1), row(2, 1)], Vec::new(), START);
    assert_eq!(events_of(&lanes.next(START, 9)), [1]);
}

#[test]
fn what_somebody_puts_in_goes_where_its_event_belongs() {
    let mut lanes = empty(100);
    ordered(&mut lanes, 1);
    for event in [20, 30] {
        lanes.offer(&row(event, 1), START);
    }
    lanes.look(EndpointId(1), Some(EventId(10)), START); // a redelivery, say
    assert_eq!(lanes.next(START, 9), [], "to be read anew");
    let read = lanes.to_read(START, 9)[0];
    let again = Row { run: 1, ..row(10, 1) };
    lanes.fill(&read, vec![again, row(20, 1), row(30, 1)], Vec::new(), START);
    assert_eq!(events_of(&lanes.next(START, 9)), [10]);
}

#[test]
fn an_ordered_lane_probes_with_its_first_however_often_that_fails() {
    let mut lanes = empty(100);
    ordered(&mut lanes, 1);
    let mut now = START;
    // Its order makes it fail with one delivery only; so five of them end one after another.
    for event in 1..=5 {
        lanes.offer(&row(event, 1), now);
        let row = lanes.next(now, 1).remove(0);
        lanes.finish(&row, &report(Signal::Fails, None, QUICK));
    }
    for _ in 0..3 {
        lanes.park(EndpointId(1), now);
        now = now + Duration::from_hours(1);
        lanes.probe_now(EndpointId(1), Some(EventId(8)), now);
        let read = lanes.to_read(now, 1)[0];
        assert_eq!(read.order, Order::Probe(EventId(0)));
        lanes.fill(&read, vec![row(6, 1)], Vec::new(), now);
        let probe = lanes.next(now, 9).remove(0);
        let failed = report(Signal::Fails, Some(now), QUICK);
        lanes.finish(&probe, &Report { now, ..failed });
    }
}

#[test]
fn a_rate_is_kept_while_others_go_on() {
    let mut lanes = lanes(1_000, 50, &[(2, "acme")]);
    let paced = LaneSettings { rate: Some("10/s".parse().unwrap()), ..settings("acme", 50) };
    lanes.set(EndpointId(1), paced.clone());
    for event in 0..40 {
        lanes.offer(&row(event, 1), START);
        lanes.offer(&row(event, 2), START);
    }
    let (mut now, mut paced_times) = (START, Vec::new());
    let first = endpoints_of(&lanes.next(now, 100));
    assert_eq!(first.iter().filter(|endpoint| **endpoint == 1).count(), 1);
    assert_eq!(first.len(), 41, "the other lane has no rate");
    while now.since(START) < Duration::from_secs(1) {
        now = lanes.next_at(now).expect("more are to go");
        let gone = lanes.next(now, 100).len();
        paced_times.extend(vec![now.since(START).as_millis(); gone]);
    }
    assert_eq!(paced_times, [100, 200, 300, 400, 500, 600, 700, 800, 900, 1_000]);

    lanes.set(EndpointId(1), LaneSettings { rate: None, ..paced });
    assert_eq!(lanes.next(now, 100).len(), 29, "without a limit all of them go at once");
}
