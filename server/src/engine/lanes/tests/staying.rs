//! Fresh rows that stay: which, and what becomes of them.

use super::{super::staying::by_due, *};
use crate::domain::{id::first_id_at, rate::RateLimit};

type Change = fn(&mut LaneSettings);

/// A lane with a full ring of rows 1 to 4.
fn full() -> Lanes {
    let mut lanes = lanes(10, 2, &[(1, "acme")]);
    for event in 1..=4 {
        assert_eq!(lanes.offer(&row(event, 1), START), Offer::Taken);
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
        lanes.offer(&row(event, 1), START);
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

#[test]
fn a_stretch_is_read_on_from_where_its_rows_were_taken() {
    let mut lanes = full();
    for event in 5..=9 {
        assert!(lanes.stay(&row(event, 1), 1));
    }
    let mut gone = lanes.next(START, 2);
    for (expected, after) in [(vec![5, 6, 7], Some((7, 9))), (vec![7, 8, 9], Some((9, 9)))] {
        let read = lanes.to_read(START, 64)[0];
        let stretch = read.staying.unwrap();
        assert_eq!(stretch.limit, 3, "the room for two, and one more");
        let (first, last) = (stretch.first.0, stretch.last.0);
        let rows: Vec<Row> = (first..=last).take(3).map(|event| row(event, 1)).collect();
        assert_eq!(rows.iter().map(|row| row.event_id.0).collect::<Vec<_>>(), expected);
        lanes.fill(&read, Vec::new(), rows, START);
        assert_eq!((lanes.waiting(), staying(&lanes)), (4, after), "what has no room stays");
        for row in gone {
            lanes.finish(&row, &report(Signal::Works, None, QUICK));
        }
        gone = lanes.next(START, 2);
    }
    let read = lanes.to_read(START, 64)[0];
    lanes.fill(&read, Vec::new(), vec![row(9, 1)], START);
    assert_eq!((staying(&lanes), lanes.waiting()), (None, 3), "nothing is left of it");
    assert!(lanes.to_read(START, 64).is_empty());
}

#[test]
fn a_full_read_of_which_all_is_taken_goes_on_behind_its_last_row() {
    let mut lanes = full();
    assert!(lanes.stay(&row(5, 1), 1) && lanes.stay(&row(90, 1), 1));
    assert_eq!(lanes.next(START, 2).len(), 2);
    let read = lanes.to_read(START, 64)[0];
    // Two of them are here already, as a scan that went back has found them.
    lanes.known.extend([(EventId(5), EndpointId(1)), (EventId(6), EndpointId(1))]);
    lanes.fill(&read, Vec::new(), (5..8).map(|event| row(event, 1)).collect(), START);
    assert_eq!((staying(&lanes), lanes.waiting()), (Some((8, 90)), 3));
    assert!(lanes.by_endpoint[&EndpointId(1)].parked_due.is_some(), "and is to be read again");
}

#[test]
fn what_stays_and_what_is_parked_go_by_their_times() {
    let at = |n: i64| START + Duration::from_secs(u64::try_from(n).unwrap());
    let staying: Vec<Row> = [2, 4].map(|n| row(first_id_at(at(n)), 1)).into();
    let parked = [1, 3, 5].map(|n| Row { due_at: at(n), ..row(n, 1) }).into();
    let all = by_due(parked, staying.clone());
    let events: Vec<_> = all.iter().map(|(row, stays)| (row.event_id.0, *stays)).collect();
    let (two, four) = (staying[0].event_id.0, staying[1].event_id.0);
    assert_eq!(events, [(1, false), (two, true), (3, false), (four, true), (5, false)]);
}
