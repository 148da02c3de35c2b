//! Lanes whose endpoint fails: what rests, what goes as a probe, and how it comes back.

use super::*;

const HOUR: Duration = Duration::from_hours(1);

/// A lane in front of a table of parked rows, whose circuit has just opened over five failures.
struct Rest {
    lanes: Lanes,
    parked: Vec<Row>,
    now: Timestamp,
}

impl Rest {
    fn new(cap: usize, waiting: i64) -> Self {
        let mut rest =
            Self { lanes: lanes(1_000, cap, &[(1, "acme")]), parked: Vec::new(), now: START };
        for event in 1..=5 {
            rest.lanes.offer(&row(event, 1), START);
        }
        for row in rest.lanes.next(START, 5) {
            rest.fails(&row);
        }
        assert_eq!(rest.state(), CircuitState::Open);
        for event in 6..6 + waiting {
            assert_eq!(
                rest.lanes.offer(&row(event, 1), START),
                Offer::Park,
                "nothing comes into memory"
            );
            rest.park(Row { due_at: START, ..row(event, 1) });
        }
        rest
    }

    fn state(&self) -> CircuitState {
        self.lanes.by_endpoint[&EndpointId(1)].health.circuit.state()
    }

    fn park(&mut self, row: Row) {
        self.parked.retain(|other| other.event_id != row.event_id);
        self.lanes.park(EndpointId(1), row.due_at);
        self.parked.push(row);
    }

    /// As the engine does: due again in an hour, but for a probe ahead of its time.
    fn fails(&mut self, row: &Row) {
        let ahead = row.due_at > self.now;
        let due_at = if ahead { row.due_at } else { self.now + HOUR };
        let report = report(Signal::Fails, Some(due_at), QUICK);
        self.lanes.finish(row, &Report { now: self.now, ..report });
        self.park(Row { due_at, attempt: row.attempt + 1, ..row.clone() });
    }

    fn passes(&mut self, row: &Row) {
        self.parked.retain(|other| other.event_id != row.event_id);
        let report = report(Signal::Works, None, QUICK);
        self.lanes.finish(row, &Report { now: self.now, ..report });
    }

    /// What goes now.
    fn go(&mut self) -> Vec<Row> {
        for left in self.lanes.take_left() {
            self.park(left);
        }
        for read in self.lanes.to_read(self.now, 64) {
            let mut rows = self.parked.clone();
            match read.order {
                Order::Due => rows.sort_by_key(|row| row.due_at),
                Order::Event => rows.sort_by_key(|row| row.event_id),
                Order::Probe(after) => {
                    rows.sort_by_key(|row| (row.event_id <= after, row.event_id));
                }
            }
            rows.truncate(read.limit);
            self.lanes.fill(&read, rows, Vec::new(), self.now);
        }
        self.lanes.next(self.now, 1_000)
    }

    /// The next probe, at its time and not before.
    fn probe(&mut self) -> Row {
        assert_eq!(self.go(), [], "it rests");
        let at = self.lanes.next_at(self.now).expect("a probe is to come");
        self.now = Timestamp(at.0 - 1);
        assert_eq!(self.go(), [], "not a moment too soon");
        self.now = at;
        let mut probes = self.go();
        assert_eq!(probes.len(), 1, "one and no more");
        assert_eq!(self.go(), [], "nothing beside it");
        assert!(self.lanes.is_probe(&probes[0]));
        probes.remove(0)
    }
}

#[test]
fn an_open_circuit_probes_with_the_oldest_then_with_the_next_and_comes_round() {
    let mut rest = Rest::new(16, 2);
    let mut probed = Vec::new();
    for _ in 0..9 {
        let probe = rest.probe();
        probed.push(probe.event_id.0);
        rest.fails(&probe);
    }
    // The first five are due in an hour only: to ask costs them nothing.
    assert_eq!(probed, [1, 2, 3, 4, 5, 6, 7, 1, 2], "what is never taken does not bar the way");
}

#[test]
fn a_recovered_endpoint_is_let_in_step_by_step() {
    let mut rest = Rest::new(16, 200);
    let probe = rest.probe();
    rest.passes(&probe);
    let mut widths = Vec::new();
    while rest.state() == CircuitState::HalfOpen {
        let together = rest.go();
        widths.push(together.len());
        assert_eq!(rest.go(), [], "no more than that at once");
        for row in &together {
            rest.passes(row);
        }
    }
    assert_eq!(widths, [1, 2, 4, 8]);
    assert_eq!(rest.go().len(), 16, "and then its cap");
}

#[test]
fn a_failure_on_the_way_back_sends_everything_to_rest_again() {
    let mut rest = Rest::new(16, 200);
    let probe = rest.probe();
    rest.passes(&probe);
    let one = rest.go();
    rest.passes(&one[0]);
    let two = rest.go();
    rest.fails(&two[0]);
    rest.passes(&two[1]);

    assert_eq!(rest.state(), CircuitState::Open, "what began before decides nothing");
    let since = rest.now;
    let probe = rest.probe();
    assert!(rest.now.since(since) >= Duration::from_mins(1), "twice the first wait");
    rest.passes(&probe);
    assert_eq!(rest.state(), CircuitState::HalfOpen);
}

#[test]
fn somebody_may_ask_for_a_probe_and_say_of_what() {
    let mut rest = Rest::new(16, 3);
    rest.lanes.probe_now(EndpointId(1), Some(EventId(7)), rest.now);
    let probes = rest.go();
    assert_eq!(probes.iter().map(|row| row.event_id.0).collect::<Vec<_>>(), [7]);
    rest.lanes.probe_now(EndpointId(1), None, rest.now);
    assert_eq!(rest.go(), [], "one is under way");
    rest.fails(&probes[0]);
    rest.lanes.probe_now(EndpointId(1), None, rest.now);
    assert_eq!(rest.go().len(), 1);
}

#[test]
fn a_probe_that_is_canceled_makes_room_for_another() {
    for under_way in [false, true] {
        let mut rest = Rest::new(16, 2);
        rest.now = rest.now + HOUR;
        let first = if under_way {
            let probe = rest.go().remove(0);
            rest.parked.retain(|row| row.event_id != probe.event_id);
            let silent = report(Signal::Silent, Some(Timestamp(0)), QUICK);
            rest.lanes.finish(&probe, &Report { now: rest.now, ..silent });
            probe
        } else {
            for read in rest.lanes.to_read(rest.now, 1) {
                rest.lanes.fill(&read, vec![rest.parked[0].clone()], Vec::new(), rest.now);
            }
            let probe = rest.parked.remove(0);
            assert!(rest.lanes.let_go(probe.event_id, probe.endpoint_id));
            probe
        };
        let next = rest.go();
        assert_eq!((next.len(), rest.state()), (1, CircuitState::Open));
        assert_ne!(next[0].event_id, first.event_id, "under way: {under_way}");
    }
}

#[test]
fn with_nothing_left_to_probe_with_the_next_event_is_the_probe() {
    let mut rest = Rest::new(16, 0);
    rest.parked.clear();
    rest.now = rest.now + HOUR;
    assert_eq!(rest.go(), []);
    assert_eq!(rest.lanes.next_at(rest.now), None, "nothing to wake up for");

    assert_eq!(rest.lanes.offer(&row(90, 1), rest.now), Offer::Taken);
    assert_eq!(rest.lanes.offer(&row(91, 1), rest.now), Offer::Park);
    rest.park(row(91, 1));
    let probe = rest.go();
    assert_eq!(endpoints_of(&probe), [1]);
    assert!(rest.lanes.is_probe(&probe[0]));
    rest.passes(&probe[0]);
    assert_eq!(rest.go().len(), 1, "and the others follow");
}

#[test]
fn with_nothing_left_to_let_in_it_closes() {
    let mut rest = Rest::new(16, 1);
    rest.parked.retain(|row| row.event_id != EventId(6)); // canceled, and nobody heard of it
    let probe = rest.probe();
    rest.passes(&probe);
    assert_eq!(rest.state(), CircuitState::HalfOpen, "there may be more");
    assert_eq!(rest.go(), []);
    assert_eq!(rest.state(), CircuitState::Closed, "there is not");
    assert_eq!(rest.lanes.take_changed().len(), 1, "to be written");
}

#[test]
fn a_clock_set_back_makes_nobody_wait_for_longer() {
    let mut rest = Rest::new(16, 2);
    rest.now = rest.now - 2 * HOUR;
    assert_eq!(rest.go(), []);
    let wait = rest.lanes.next_at(rest.now).unwrap().since(rest.now);
    assert!(wait <= Duration::from_secs(36), "{wait:?}");
}
