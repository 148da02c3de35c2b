//! Which rows each scan reads, over a table that is a list.

use super::*;
use crate::store::{Row, Slot};

const START: Timestamp = Timestamp::from_seconds(1_800_000_000);

fn row(at: Timestamp, endpoint: i64) -> Row {
    Row {
        slot: Slot::default(),
        event_id: EventId(first_id_at(at) + 1),
        endpoint_id: EndpointId(endpoint),
        tenant: "acme".to_owned(),
        shard: 3,
        run: 0,
        attempt: 0,
        rung: 0,
        due_at: at,
    }
}

/// Reads once, as the owner does, and gives what was seen of `table`.
fn read_once(scans: &mut AllScans, table: &[Row], now: Timestamp) -> Vec<EventId> {
    let mut seen = Vec::new();
    for page in scans.pages(now, true, None) {
        let place = |row: &Row| (row.event_id, row.endpoint_id);
        let mut rows: Vec<Row> =
            table.iter().filter(|row| place(row) > page.cursor.after).cloned().collect();
        rows.sort_by_key(place);
        rows.truncate(usize::try_from(PAGE).unwrap());
        scans.read(&page, rows.last().map(|row| (rows.len(), place(row))));
        seen.extend(rows.iter().map(|row| row.event_id));
    }
    seen
}

#[test]
fn a_row_behind_the_hot_scan_is_found_by_the_scan_that_reaches_so_far() {
    for (age, wait, why) in [
        (Duration::from_millis(5), Duration::ZERO, "the hot scan's slack"),
        (Duration::from_secs(1), LATE_EVERY, "the late scan"),
        (Duration::from_hours(3), SWEEP_EVERY, "the sweep, however long it was open"),
    ] {
        let mut scans = AllScans::default();
        scans.add(3, START);
        let mut table = vec![row(START, 1)];
        read_once(&mut scans, &table, START);
        read_once(&mut scans, &table, START);

        let late = row(START - age, 1);
        table.push(late.clone());
        let seen = read_once(&mut scans, &table, START + wait);

        assert!(seen.contains(&late.event_id), "{why}");
    }
}

#[test]
fn an_event_of_more_endpoints_than_a_page_is_read_whole() {
    let table: Vec<Row> = (0..PAGE * 3).map(|endpoint| row(START, endpoint + 1)).collect();
    let mut scans = AllScans::default();
    scans.add(3, START);

    let mut rows = 0;
    while scans.have_more() {
        rows += read_once(&mut scans, &table, START).len();
    }

    assert!(rows >= table.len(), "{rows} of {}", table.len());
}

#[test]
fn a_shard_is_whole_once_it_was_read_to_the_end_and_again_after_a_doubt() {
    let table: Vec<Row> = (0..PAGE * 2).map(|endpoint| row(START, endpoint + 1)).collect();
    let mut scans = AllScans::default();
    scans.add(3, START);
    let whole = |scans: &AllScans| scans.unread().count() == 0;
    let mut pages = Vec::new();
    for _ in 0..3 {
        pages.push(whole(&scans));
        read_once(&mut scans, &table, START);
    }
    assert_eq!((pages, whole(&scans)), (vec![false; 3], true), "two full pages, and an empty one");

    scans.sweep();
    let mut reads = 0;
    while !whole(&scans) {
        reads += 1;
        read_once(&mut scans, &table, START);
    }
    assert_eq!(reads, 2, "from the beginning up to where the hot scan has been");
    read_once(&mut scans, &table, START + LATE_EVERY);
    assert!(whole(&scans), "a look back takes nothing away");
}

#[test]
fn what_is_older_than_the_reach_of_the_late_scan_is_read_again_by_the_sweep_alone() {
    for behind in 0..8 {
        let (mut scans, now) = (AllScans::default(), START + Duration::from_mins(1));
        let tick = Duration::from_millis(1);
        let newest = row(now - Duration::from_secs(behind), 1);
        let old = row(now - LATE_REACH - tick, 1);
        let before_newest = row(newest.due_at - tick, 1);
        let table = [before_newest.clone(), newest, old.clone()];
        scans.add(3, now);
        read_once(&mut scans, &table, now); // to the end
        let mut again = Vec::new();
        for step in 0..290 {
            let now = now + step * Duration::from_millis(100);
            again.extend(read_once(&mut scans, &table, now));
        }
        assert!(!again.contains(&old.event_id), "{behind} s behind");
        assert_eq!(again.contains(&before_newest.event_id), behind <= 4, "{behind} s behind");
    }
}

#[test]
fn a_look_back_leaves_out_what_the_one_before_it_has_read_and_a_sweep_nothing() {
    let mut scans = AllScans::default();
    scans.add(3, START);
    let mut back = |after: Duration, over: i64, doubt: bool| {
        if doubt {
            scans.sweep();
        }
        // Events go on, or there would be nothing to look back for.
        let now = START + after;
        let last = (EventId(first_id_at(now)), EndpointId(1));
        // None that is open for long.
        let transactions = Transactions { over: Horizon(over), begun: Horizon(over) };
        let mut found = None;
        for page in scans.pages(now, true, Some(transactions)) {
            scans.read(&page, (!page.goes_back()).then_some((1, last)));
            found = page.goes_back().then_some(page.since).or(found);
        }
        found.map(|since| since.map(|horizon| horizon.0))
    };
    for (millis, over, doubt, expected, why) in [
        (0, 10, false, None, "nothing is late yet"),
        (200, 20, false, Some(None), "the first has none before it"),
        (300, 30, false, None, "not yet"),
        (400, 40, false, Some(Some(20)), "as of when the last began"),
        (600, 50, false, Some(Some(40)), "and so on"),
        (30_000, 60, false, Some(None), "a sweep takes all"),
        (30_200, 70, false, Some(Some(60)), "what the sweep has read"),
        (30_201, 80, true, Some(None), "a doubt: all of it"),
        (30_401, 90, false, Some(Some(80)), "since the sweep that followed it"),
    ] {
        assert_eq!(back(Duration::from_millis(millis), over, doubt), expected, "{why}");
    }
}

#[test]
fn a_clock_set_back_does_not_silence_the_sweep() {
    let mut scans = AllScans::default();
    scans.add(3, START);
    read_once(&mut scans, &[], START);
    let earlier = START - Duration::from_hours(2);
    let late = row(earlier - Duration::from_mins(1), 1);

    read_once(&mut scans, &[], earlier);
    let seen = read_once(&mut scans, std::slice::from_ref(&late), earlier + SWEEP_EVERY);

    assert_eq!(seen.first(), Some(&late.event_id));
}
