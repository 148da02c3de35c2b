//! What verifying one inbound request costs, the whole path: headers found, HMAC-SHA256 of 1 KiB,
//! comparison, age, and the event's id and type read from the JSON. No socket, one thread.

use std::{hint::black_box, time::Duration};

use anyhow::Context as _;
use snaphook_signature::{Received, Scheme, Verifier};

use super::{
    Plan,
    machine::Usage,
    report::{self, Sample, as_number},
    setup::Fixture,
};
use crate::world::real::{monotonic, wall_clock};

/// So many are timed together, as a clock is no stopwatch for microseconds.
const BATCH: u32 = 1_000;

/// Microseconds for one request: the median over batches, so that what else runs does not count.
pub fn measure(plan: &Plan, fixture: &Fixture) -> anyhow::Result<Sample> {
    let filling = "x".repeat(920);
    let body = format!(
        r#"{{"id":"evt_1","object":"event","type":"charge.succeeded","data":{{"object":{{"text":"{filling}"}}}}}}"#
    );
    let stripe = Scheme::named("stripe").context("no such scheme")?;
    let verifier = Verifier::new(stripe, &["whsec_bench"], None).context("no secret")?;
    let now = wall_clock().seconds();
    let signed = verifier.sign(&Received::new(&[], body.as_bytes()), "", now)?;
    // Those that a client sends besides.
    let mut headers: Vec<(&str, &[u8])> = vec![
        ("host", b"hooks.example.com"),
        ("user-agent", b"Stripe/1.0"),
        ("accept", b"*/*"),
        ("content-type", b"application/json"),
        ("content-length", b"1024"),
    ];
    headers.extend(signed.headers.iter().map(|(name, value)| (&**name, value.as_bytes())));
    let request = Received::new(&headers, body.as_bytes());

    let usage = Usage::now(None, &fixture.cluster);
    let end = monotonic() + plan.time.min(Duration::from_secs(2));
    let mut micros = Vec::new();
    while monotonic() < end {
        let begun = monotonic();
        for _ in 0..BATCH {
            black_box(verifier.verify(black_box(&request), now)).context("not genuine")?;
        }
        let took = monotonic().saturating_sub(begun);
        micros.push(took.as_secs_f64() * 1e6 / f64::from(BATCH));
    }
    let many = micros.len() as u64 * u64::from(BATCH);
    let cpu = Usage::now(None, &fixture.cluster).each_since(usage, as_number(many));
    Ok(Sample { value: report::quantile(&micros, 0.5), cpu })
}
