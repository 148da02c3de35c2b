//! Fresh rows that stay: which, and what becomes of them.

use super::*;
use crate::domain::rate::RateLimit;

type Change = fn(&mut LaneSettings);

/// A lane with a full ring of rows 1 to 4.
fn full() -> Lanes {
    let mut lanes = lanes(10, 2, &[(1, "acme")]);
    for event in 1..=4 {
        assert_eq!(lanes.offer(row(event, 1), START), Offer::Taken);
    }
    lanes
}

fn staying(lanes: &Lanes) -> Option<(i64, i64)> {
    let read = lanes.by_endpoint[&EndpointId(1)].staying?;
    Some((read.events.0.0, read.events.1.0))
}

#[test]
fn rows_stay_while_their_lane_moves_and_are_to_be_parked_when_it_does_not() {
    let cases: [(&str, Change, bool); 4] = [
        ("held", |settings| settings.held = true, false),
        ("ordered", |settings| settings.ordered = true, false),
        ("with a rate", |settings| settings.rate = Some("1/s".parse::<RateLimit>().unwrap()), true),
        ("narrower", |settings| settings.cap = 1, true),
    ];
    for (what, change, moves) in cases {
        let mut lanes = full();
        assert!(lanes.stay(&row(5, 1), 1) && lanes.stay(&row(9, 1), 1));
        assert_eq!((staying(&lanes), lanes.have_to_move()), (Some((5, 9)), false));
        let mut changed = settings("acme", 2);
        change(&mut changed);
        lanes.set(EndpointId(1), changed);
        assert_eq!(lanes.have_to_move(), !moves, "{what}");
        assert_eq!(lanes.stay(&row(10, 1), 1), moves, "{what}");
        assert_eq!(lanes.stays(&row(7, 1)), moves, "{what}");
        assert!(!lanes.remove(EndpointId(1)), "{what}: there is something to park");
        lanes.stays_from(EndpointId(1), None);
        assert_eq!((staying(&lanes), lanes.have_to_move()), (None, false), "{what}");
    }
}

#[test]
fn a_circuit_that_opens_stops_its_lane() {
    let mut lanes = lanes(10, 5, &[(1, "acme")]);
    for event in 1..=10 {
        lanes.offer(row(event, 1), START);
    }
    assert!(lanes.stay(&row(15, 1), 1));
    for (failed, row) in lanes.next(START, 5).iter().enumerate() {
        assert!(!lanes.have_to_move(), "after {failed} that failed");
        lanes.finish(row, &report(Signal::Fails, Some(START + QUICK), QUICK));
    }
    assert!(lanes.have_to_move() && !lanes.stay(&row(16, 1), 1));
    let stretch = lanes.to_move(64, 1_000)[0];
    assert_eq!((stretch.first, stretch.last, stretch.limit), (EventId(15), EventId(15), 1_000));
}

#[test]
fn a_stretch_is_read_with_its_lane_and_ends_where_it_was_left() {
    let mut lanes = full();
    assert!(lanes.stay(&row(5, 1), 1) && lanes.stay(&row(6, 1), 9));
    assert!(!lanes.stay(&row(7, 1), 18), "too many pages of others in between");
    assert_eq!(staying(&lanes), Some((5, 6)));
    assert!(!lanes.stays(&row(4, 1)) && lanes.stays(&row(5, 1)) && !lanes.stays(&row(7, 1)));
    assert_eq!(lanes.next(START, 2).len(), 2);
    let reads = lanes.to_read(START, 64);
    let stretch = reads[0].staying.unwrap();
    assert_eq!((stretch.first, stretch.last), (EventId(5), EventId(6)));
    lanes.stays_from(EndpointId(1), Some(EventId(6)));
    assert_eq!(staying(&lanes), Some((6, 6)));
    lanes.stays_from(EndpointId(1), Some(EventId(7)));
    assert_eq!(staying(&lanes), None);
}
