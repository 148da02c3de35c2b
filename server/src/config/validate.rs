//! What two settings together can get wrong.

use std::time::Duration;

use super::settings::Settings;
use crate::domain::{duration::format, endpoint::TIMEOUT_RANGE};

/// What the lease must have beyond the longest timeout: for the clocks' drift and for the write
/// of the last result.
const LEASE_SPARE: Duration = Duration::from_secs(10);

/// All of them, as sentences with both names and both values.
pub fn problems(settings: &Settings) -> Vec<String> {
    [deliveries(settings), endpoints(settings), keeping(settings), places(settings)].concat()
}

/// The sentence of every claim that does not hold.
fn broken<const N: usize>(claims: [(bool, String); N]) -> Vec<String> {
    claims.into_iter().filter(|(holds, _)| !holds).map(|(_, problem)| problem).collect()
}

fn deliveries(Settings { delivery, .. }: &Settings) -> Vec<String> {
    let (_, longest) = TIMEOUT_RANGE;
    broken([
        (
            delivery.lease >= longest + LEASE_SPARE,
            format!(
                "delivery.lease ({}) must exceed the longest timeout of an endpoint ({}) by {}: write {} \
             or more; delivery.timeout is {}",
                format(delivery.lease),
                format(longest),
                format(LEASE_SPARE),
                format(longest + LEASE_SPARE),
                format(delivery.timeout),
            ),
        ),
        (
            delivery.connect_timeout <= delivery.timeout,
            format!(
                "delivery.connect_timeout ({}) is a part of delivery.timeout ({}) and cannot be longer",
                format(delivery.connect_timeout),
                format(delivery.timeout),
            ),
        ),
    ])
}

fn endpoints(Settings { health, circuit, .. }: &Settings) -> Vec<String> {
    let mut steps = health.warn_after.clone();
    steps.push(health.disable_after);
    let written: Vec<_> = health.warn_after.iter().copied().map(format).collect();
    broken([
        (
            steps.windows(2).all(|pair| pair[0] < pair[1]),
            format!(
                "health.warn_after ({}) must be in order, each shorter than health.disable_after ({})",
                written.join(", "),
                format(health.disable_after),
            ),
        ),
        (
            circuit.probe_first <= circuit.probe_max,
            format!(
                "circuit.probe_first ({}) cannot be longer than circuit.probe_max ({})",
                format(circuit.probe_first),
                format(circuit.probe_max),
            ),
        ),
    ])
}

fn keeping(Settings { retention, .. }: &Settings) -> Vec<String> {
    broken([(
        retention.attempts <= retention.events,
        format!(
            "retention.attempts ({}) cannot be longer than retention.events ({}): attempts go with \
             their event",
            format(retention.attempts),
            format(retention.events),
        ),
    )])
}

fn places(settings: &Settings) -> Vec<String> {
    broken([(
        settings.metrics_listen != Some(settings.listen) || settings.listen.port() == 0,
        format!("metrics.listen and listen are both {}; they need two ports", settings.listen),
    )])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems_of(change: impl FnOnce(&mut Settings)) -> Vec<String> {
        let mut settings = Settings::defaults();
        change(&mut settings);
        problems(&settings)
    }

    #[test]
    fn defaults_go_together() {
        assert_eq!(problems_of(|_| ()), Vec::<String>::new());
    }

    #[test]
    fn a_lease_too_short_is_refused_with_both_names_and_numbers() {
        let problems = problems_of(|settings| settings.delivery.lease = Duration::from_secs(39));
        assert_eq!(
            problems,
            ["delivery.lease (39s) must exceed the longest timeout of an endpoint (30s) by 10s: \
              write 40s or more; delivery.timeout is 15s"]
        );
        assert!(
            problems_of(|settings| settings.delivery.lease = Duration::from_secs(40)).is_empty()
        );
    }

    type Change = fn(&mut Settings);

    #[test]
    fn each_pair_that_does_not_go_together_is_one_sentence() {
        let table: [(Change, &str); 6] = [
            (|s| s.delivery.connect_timeout = Duration::from_secs(16), "delivery.connect_timeout"),
            (|s| s.health.disable_after = Duration::from_hours(72), "health.warn_after (24h, 3d)"),
            (|s| s.health.warn_after.reverse(), "health.warn_after (3d, 24h)"),
            (|s| s.circuit.probe_first = Duration::from_hours(1), "circuit.probe_first (1h)"),
            (|s| s.retention.events = Duration::from_hours(48), "retention.attempts (30d)"),
            (|s| s.metrics_listen = Some(s.listen), "metrics.listen and listen"),
        ];
        for (change, expected) in table {
            let problems = problems_of(change);
            assert!(problems.len() == 1 && problems[0].contains(expected), "{problems:?}");
        }
    }
}
