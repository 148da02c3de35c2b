//! What `snaphook doctor` looks at where providers post to us: whether each source can verify, and
//! whether it can be reached.

use std::{sync::Arc, time::Duration};

use super::checks::Finding;
use crate::{
    config::Settings,
    domain::{duration, id::SourceId, time::Timestamp},
    engine::{SourceBook, sources::LiveSource},
    store::{Store, seal::Keyring},
};

/// What providers repeat comes within so long: three days at Stripe and PayPal, and a weekend in
/// which nobody mends what made them repeat.
const REPEATED_FOR: Duration = Duration::from_hours(7 * 24);

/// Names of one finding, so that its line stays one.
const NAMED_MAX: usize = 5;

/// The sources in the database; nothing where there are none.
pub async fn sources(
    settings: &Settings,
    store: &Store,
    keyring: Arc<Keyring>,
    now: Timestamp,
) -> Vec<Finding> {
    const CHECK: &str = "sources";
    let book = SourceBook::new(store.clone(), keyring, settings.base_url.clone());
    if let Err(error) = book.refresh().await {
        return vec![Finding::failed(CHECK, format!("they cannot be read: {error}"), "see above")];
    }
    let all = book.all();
    if all.is_empty() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let broken = named(&all, |source| source.ready.is_err());
    if let Some(names) = broken {
        let first = all.iter().find_map(|source| source.ready.as_ref().err()).map_or("", |why| why);
        let found = format!("{names} cannot verify: {first}");
        findings.push(Finding::failed(CHECK, found, "providers get 503 until this is mended"));
    }
    let bare = named(&all, |source| {
        source.ready.as_ref().is_ok_and(|ready| ready.verifier(now).is_none())
    });
    if let Some(names) = bare {
        let remedy = "add it with `snaphook secrets add SOURCE`, or as `secrets` of its table";
        findings.push(Finding::warning(CHECK, format!("{names} has no live secret"), remedy));
    }
    let local = ["http://127.", "http://localhost", "http://[::1]"];
    let unreached =
        named(&all, |source| local.iter().any(|start| source.public_url.starts_with(start)));
    if let Some(names) = unreached {
        let found = format!("{names} has a URL that only this machine reaches");
        let remedy = "set base_url to what providers are to call, or public_url of the source";
        findings.push(Finding::warning(CHECK, found, remedy));
    }
    let apart = match store.read().await {
        Ok(mut tx) => tx.count_requests_apart().await,
        Err(error) => Err(error),
    };
    match apart {
        Ok(apart) => findings.extend(kept_apart(&all, &apart)),
        Err(error) => findings.push(Finding::failed(
            CHECK,
            format!("what they kept apart cannot be read: {error}"),
            "see above",
        )),
    }
    let remembered = settings.retention.dedup;
    if remembered < REPEATED_FOR {
        let found = format!("what they saw is remembered for {}", duration::format(remembered));
        let remedy =
            "several providers repeat a request for days: set retention.dedup to 7d or more";
        findings.push(Finding::warning(CHECK, found, remedy));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(CHECK, format!("{} can verify", all.len())));
    }
    findings
}

/// Genuine requests that are no events, for their ids or their signatures were seen before.
fn kept_apart(all: &[Arc<LiveSource>], apart: &[(SourceId, i64)]) -> Option<Finding> {
    let many = |source: &LiveSource| apart.iter().find(|(id, _)| *id == source.id);
    let names = named(all, |source| many(source).is_some())?;
    let sum: i64 = all.iter().filter_map(|source| many(source)).map(|(_, many)| many).sum();
    let found = format!("{names}: {sum} genuine requests are kept apart and go nowhere");
    let remedy = "look at them: `snaphook requests list SOURCE --state conflict`, and \
                  `--state replay_suspected`; accept those that are right";
    Some(Finding::warning("sources", found, remedy))
}

/// The names of those of which this is true; `None` where it is true of none.
fn named(all: &[Arc<LiveSource>], is: impl Fn(&LiveSource) -> bool) -> Option<String> {
    let names: Vec<&str> =
        all.iter().filter(|source| is(source)).map(|source| &*source.name).collect();
    match names.len() {
        0 => None,
        count if count > NAMED_MAX => {
            Some(format!("{} and {} more", names[..NAMED_MAX].join(", "), count - NAMED_MAX))
        }
        _ => Some(names.join(", ")),
    }
}
