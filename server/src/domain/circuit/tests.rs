use proptest::{collection::vec, prelude::*};

use super::*;

const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

const CAP: usize = 16;

fn rules() -> CircuitRules {
    CircuitRules { jitter: Jitter::NONE, ..CircuitRules::default() }
}

fn passage(signal: Signal, event: i64) -> Passage {
    let event = EventId(event);
    Passage { signal, event, probe: false, cap: CAP, idle: false, now: NOW, chance: 0 }
}

fn probe(signal: Signal, now: Timestamp) -> Passage {
    Passage { probe: true, now, ..passage(signal, 1) }
}

/// A circuit that has just opened.
fn open() -> Circuit {
    let mut circuit = Circuit::default();
    for event in 1..=5 {
        circuit.learn(&passage(Signal::Fails, event), &rules());
    }
    assert_eq!(circuit.state(), CircuitState::Open);
    circuit
}

/// One whose probe has just passed.
fn half_open() -> Circuit {
    let mut circuit = open();
    circuit.learn(&probe(Signal::Works, NOW), &rules());
    assert_eq!(circuit.state(), CircuitState::HalfOpen);
    circuit
}

#[test]
fn it_opens_after_five_deliveries_that_fail_in_a_row() {
    use Signal::{Answers, Busy, Fails, Silent, Unclear, Works};
    for (signals, expected, why) in [
        (&[(Fails, 1), (Fails, 2), (Fails, 3), (Fails, 4)][..], CircuitState::Closed, "four"),
        (&[(Fails, 1), (Fails, 2), (Fails, 3), (Fails, 4), (Fails, 5)], CircuitState::Open, "five"),
        (&[(Fails, 7); 40], CircuitState::Closed, "one delivery again and again is one"),
        (
            &[(Fails, 1), (Fails, 2), (Fails, 1), (Fails, 2), (Fails, 3), (Fails, 1), (Fails, 4)],
            CircuitState::Closed,
            "four, some of them twice",
        ),
        (
            &[(Fails, 1), (Fails, 2), (Fails, 3), (Fails, 4), (Works, 9), (Fails, 5)],
            CircuitState::Closed,
            "a success ends the row",
        ),
        (
            &[(Fails, 1), (Fails, 2), (Fails, 3), (Fails, 4), (Answers, 9), (Fails, 5)],
            CircuitState::Closed,
            "so does an answer that its owner wants",
        ),
        (
            &[(Fails, 1), (Busy, 2), (Unclear, 3), (Silent, 4), (Busy, 5), (Busy, 6)],
            CircuitState::Closed,
            "a 429, a defect of ours and an ending without a request do not count",
        ),
        (
            &[(Fails, 1), (Fails, 2), (Busy, 8), (Silent, 9), (Fails, 3), (Fails, 4), (Fails, 5)],
            CircuitState::Open,
            "nor do they end the row",
        ),
    ] {
        let mut circuit = Circuit::default();
        for (signal, event) in signals {
            circuit.learn(&passage(*signal, *event), &rules());
        }
        assert_eq!(circuit.state(), expected, "{why}");
    }
}

#[test]
fn each_probe_that_fails_doubles_the_wait_up_to_half_an_hour() {
    let (mut circuit, mut now) = (open(), NOW);
    for seconds in [30, 60, 120, 240, 480, 960, 1_800, 1_800, 1_800] {
        let probe_at = circuit.probe_at().unwrap();
        assert_eq!(probe_at.since(now).as_secs(), seconds);
        now = probe_at;
        assert!(circuit.learn(&probe(Signal::Fails, now), &rules()), "to be kept");
    }
    assert_eq!(circuit.since(), Some(NOW), "open all the time");
}

#[test]
fn a_probe_decides_and_nothing_that_began_before() {
    for (attempt, expected, wait, why) in [
        (passage(Signal::Works, 2), CircuitState::Open, 30, "it began before"),
        (passage(Signal::Fails, 9), CircuitState::Open, 30, "so did this"),
        (probe(Signal::Busy, NOW), CircuitState::Open, 30, "it is there: no longer wait"),
        (probe(Signal::Unclear, NOW), CircuitState::Open, 30, "our own fault"),
        (probe(Signal::Silent, NOW), CircuitState::Open, 30, "another takes its place"),
        (probe(Signal::Fails, NOW), CircuitState::Open, 60, "still down"),
        (probe(Signal::Works, NOW), CircuitState::HalfOpen, 0, "up"),
        (probe(Signal::Answers, NOW), CircuitState::HalfOpen, 0, "up, and says no"),
    ] {
        let mut circuit = open();
        circuit.learn(&attempt, &rules());
        let waits = circuit.probe_at().map_or(0, |at| at.since(NOW).as_secs());
        assert_eq!((circuit.state(), waits), (expected, wait), "{why}");
    }
}

#[test]
fn it_widens_by_two_once_all_of_a_width_have_passed_and_closes_at_the_cap() {
    let mut circuit = half_open();
    let mut widths = Vec::new();
    while circuit.state() == CircuitState::HalfOpen {
        widths.push(circuit.width(CAP));
        circuit.learn(&passage(Signal::Works, 9), &rules());
    }
    let expected: Vec<usize> =
        [1, 2, 4, 8].into_iter().flat_map(|width| vec![width; width]).collect();
    assert_eq!(widths, expected);
    assert_eq!(circuit.width(CAP), CAP);

    let mut narrow = open();
    narrow.learn(&Passage { cap: 1, ..probe(Signal::Works, NOW) }, &rules());
    assert_eq!(narrow.state(), CircuitState::Closed, "one is all it may have");

    let mut alone = half_open();
    alone.learn(&Passage { idle: true, ..passage(Signal::Works, 9) }, &rules());
    assert_eq!(alone.state(), CircuitState::Closed, "nobody waits to be let through");
}

#[test]
fn one_failure_on_the_way_opens_it_again_for_longer() {
    let mut circuit = half_open();
    circuit.learn(&passage(Signal::Busy, 9), &rules());
    assert_eq!(circuit.state(), CircuitState::HalfOpen, "a 429 is no failure of the circuit");
    assert!(circuit.learn(&passage(Signal::Fails, 10), &rules()));
    assert_eq!(circuit.probe_at(), Some(NOW + Duration::from_mins(1)));
}

#[test]
fn it_is_kept_over_a_restart_but_for_what_is_under_way() {
    let closed = Circuit::Closed { failed: vec![EventId(1)] };
    let mut wide = half_open();
    for _ in 0..4 {
        wide.learn(&passage(Signal::Works, 9), &rules());
    }
    for (circuit, expected) in [
        (closed, Circuit::default()),
        (open(), open()),
        (wide, half_open()), // begins anew, with one
    ] {
        let text = serde_json::to_string(&circuit).unwrap();
        assert_eq!(serde_json::from_str::<Circuit>(&text).unwrap(), expected, "{text}");
    }
}

proptest! {
    /// Whatever comes in whatever order: an open circuit lets one go and none before its time, a
    /// half-open one never more than twice what has passed, and no wait is out of its bounds.
    #[test]
    fn the_rules_hold_in_any_order(
        steps in vec((0..6_usize, 0..9_i64, any::<bool>(), 1..20_usize, any::<u64>()), 1..200),
    ) {
        let signals = [
            Signal::Works, Signal::Fails, Signal::Fails, Signal::Busy, Signal::Silent, Signal::Answers,
        ];
        let rules = CircuitRules::default();
        let (mut circuit, mut now, mut passed) = (Circuit::default(), NOW, 0_usize);
        for (signal, event, idle, cap, chance) in steps {
            let (signal, before) = (signals[signal], circuit.clone());
            let probe = before.state() == CircuitState::Open;
            now = before.probe_at().unwrap_or(now).max(now) + Duration::from_secs(1);
            let event = EventId(event);
            circuit.learn(&Passage { signal, event, probe, cap, idle, now, chance }, &rules);
            let good = matches!(signal, Signal::Works | Signal::Answers);
            passed = if good { passed + 1 } else { passed };
            match (&before, &circuit) {
                (_, Circuit::Open { probe_at, wait, .. }) => {
                    passed = 0;
                    prop_assert!(circuit.width(cap) <= 1);
                    prop_assert!(wait.0 >= rules.probe_first && wait.0 <= rules.probe_max);
                    if circuit != before {
                        let pause = probe_at.since(now);
                        prop_assert!(pause >= wait.0 && pause <= rules.probe_max);
                    }
                }
                (_, Circuit::HalfOpen { width, .. }) => prop_assert!(*width <= 2 * passed.max(1)),
                (Circuit::Open { .. }, Circuit::Closed { .. }) => prop_assert!(good),
                (_, Circuit::Closed { failed }) => {
                    prop_assert!(failed.len() < rules.open_after, "bounded");
                }
            }
        }
    }
}
