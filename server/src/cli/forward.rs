//! `snaphook listen --forward-to` of a running server: its live events, to the program that is
//! being developed here, in the very requests that an endpoint would get, signed with a secret of
//! this session.
//!
//! It reads and never writes: no endpoint is made, no delivery changes, and what one session does
//! is nothing to another. A server that is lost is waited for; nothing is skipped meanwhile.

use std::{collections::BTreeMap, time::Duration};

use clap::ArgGroup;
use serde::Serialize;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use url::Url;

use super::{
    client::Client,
    connect::ClientArgs,
    exit::{Exit, Failure, exit_of},
    feed::{Feed, Place, Start},
    find,
    local::{self, Local},
    note,
    outgoing::{Fetched, Maker, Summary},
    output::{Column, Output, columns},
    scheme_args::SchemeArgs,
    wait::wait,
};
use crate::{
    domain::{
        duration,
        event_type::{EventType, Pattern},
        format::Format,
        time::{self, Timestamp},
    },
    world::real::wall_clock,
};

/// What a line shows of an event.
const FORWARDED: &[Column] = columns!["at", "status", "event_id", "event_type", "bytes", "reason"];

/// Often enough to feel live; seldom enough to be no load.
const PAUSE: Duration = Duration::from_secs(1);

/// The longest pause before a lost server is asked again.
const PAUSE_MAX: Duration = Duration::from_secs(8);

/// An answer begins in milliseconds. After so long the connection is dead, as it often is after a
/// sleep.
const PATIENCE: Duration = Duration::from_secs(10);

const LIVE: &str = "Events of a running server";

/// Flags of receiving, which have no meaning for events of a server.
const RECEIVERS: [&str; 5] = ["port", "url", "status", "fail_first", "delay"];

/// What of a running server is forwarded, and where to.
#[derive(clap::Args)]
#[command(group = ArgGroup::new("live").multiple(true).conflicts_with_all(RECEIVERS))]
pub struct ForwardArgs {
    /// Hand requests on to this URL: of what comes here, or of a server's events
    #[arg(long, value_name = "URL", value_parser = local::parse)]
    pub forward_to: Option<Url>,
    /// Live events that this source of the server took, by its id or name
    #[arg(long, help_heading = LIVE, value_name = "SOURCE", requires = "forward_to", group = "live")]
    source: Option<String>,
    /// Live events of this tenant of the server
    #[arg(long, help_heading = LIVE, value_name = "TENANT", requires = "forward_to", group = "live")]
    tenant: Option<String>,
    /// Only these: stripe.invoice.paid, 'order.*'; several with commas
    #[arg(long, help_heading = LIVE, value_name = "TYPES", value_delimiter = ',', value_parser = pattern, requires = "live")]
    event_types: Vec<Pattern>,
    /// Also what came since then: RFC 3339, or an age such as 2h
    #[arg(long, help_heading = LIVE, value_name = "TIME", conflicts_with = "after", value_parser = since, requires = "live")]
    since: Option<Timestamp>,
    /// Go on where another session stopped, as it said
    #[arg(long, help_heading = LIVE, value_name = "PLACE", requires = "live")]
    after: Option<Place>,
    /// What the body of an emitted event looks like: event, raw … as of an endpoint
    #[arg(long, help_heading = LIVE, value_name = "FORMAT", value_parser = format, default_value = "event", requires = "live")]
    format: Format,
}

fn pattern(text: &str) -> Result<Pattern, String> {
    Pattern::parse(text).map_err(|error| error.to_string())
}

fn since(text: &str) -> Result<Timestamp, String> {
    let age = || duration::parse(text).ok().map(|age| wall_clock() - age);
    let refusal = || format!("{}, or an age, as 2h", time::refusal(text));
    Timestamp::parse(text).or_else(age).ok_or_else(refusal)
}

fn format(text: &str) -> Result<Format, String> {
    serde_json::from_value(text.into()).map_err(|error| error.to_string())
}

impl ForwardArgs {
    /// Whether it is about the events of a server.
    pub fn is_live(&self) -> bool {
        self.source.is_some() || self.tenant.is_some()
    }
}

/// Runs until interrupted, or the first event with `once`.
pub async fn run(
    args: ForwardArgs,
    to: &ClientArgs,
    scheme: &SchemeArgs,
    once: bool,
) -> anyhow::Result<Exit> {
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut session = tokio::select! {
        biased;
        _ = interrupts.recv() => return Ok(Exit::Done),
        session = Session::begin(args, to, scheme, once) => session?,
    };
    let ended = tokio::select! {
        biased;
        _ = interrupts.recv() => Ok(Exit::Done),
        ended = session.run() => ended,
    };
    // A place that the server refused is none to go on from.
    if session.has_begun || ended.is_ok() {
        session.sum_up();
    }
    ended
}

struct Session {
    feed: Feed,
    local: Local,
    maker: Maker,
    event_types: Vec<Pattern>,
    once: bool,
    output: Output,
    has_begun: bool,
    /// How often the server was asked in vain since it answered.
    lost: u32,
    /// What was last said of headers that are lacking.
    lacking: Option<String>,
    forwarded: u64,
    accepted: u64,
    /// By type.
    left_out: BTreeMap<String, u64>,
}

/// An event that was handed on.
#[derive(Serialize)]
struct Forwarded<'a> {
    at: Timestamp,
    /// The answer's; null when there was none.
    status: Option<u16>,
    event_id: String,
    event_type: &'a str,
    tenant: &'a str,
    source: Option<&'a str>,
    bytes: usize,
    /// Why there was no answer.
    reason: Option<String>,
}

impl Session {
    async fn begin(
        args: ForwardArgs,
        to: &ClientArgs,
        scheme: &SchemeArgs,
        once: bool,
    ) -> anyhow::Result<Self> {
        let url = args.forward_to.ok_or_else(|| Failure::usage("--forward-to is missing"))?;
        let client = Client::new(to)?.within(PATIENCE);
        let maker = Maker::new(scheme, &url, args.format, &client)?;
        let filtered = filtered(&client, args.source.as_deref(), args.tenant.as_deref()).await?;
        let (start, from) = match (args.since, args.after) {
            (Some(time), _) => (Start::Since(time), format!("since {time}")),
            (_, Some(place)) => (Start::After(place), "from where it stopped".to_owned()),
            _ => (Start::Now, "from now on".to_owned()),
        };
        let feed = Feed::begin(client, filtered, start).await?;
        maker.note_secret();
        note(&format!("forwarding to {url} what comes {from}"));
        Ok(Self {
            feed,
            local: Local::at(url)?,
            maker,
            event_types: args.event_types,
            once,
            output: Output::new(to.json),
            has_begun: false,
            lost: 0,
            lacking: None,
            forwarded: 0,
            accepted: 0,
            left_out: BTreeMap::new(),
        })
    }

    async fn run(&mut self) -> anyhow::Result<Exit> {
        loop {
            match self.fetch().await {
                Ok(found) => {
                    self.has_begun = true;
                    if std::mem::take(&mut self.lost) > 0 {
                        note("the server is back");
                    }
                    let Some(event) = found else {
                        wait(PAUSE).await;
                        continue;
                    };
                    let accepted = self.hand_on(&event).await?;
                    self.feed.pass();
                    if self.once {
                        return Ok(if accepted { Exit::Done } else { Exit::Failed });
                    }
                }
                Err(error) if is_lost(&error) => {
                    if self.lost == 0 {
                        note(&format!("the server is lost, and waited for: {error:#}"));
                    }
                    self.lost += 1;
                    wait(PAUSE_MAX.min(PAUSE * (1 << self.lost.min(4)) / 2)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The next event that is wanted, whole; `None` while there is none.
    async fn fetch(&mut self) -> anyhow::Result<Option<Fetched>> {
        while let Some(item) = self.feed.next().await? {
            let summary: Summary = serde_json::from_str(item.get())?;
            if self.is_wanted(&summary.event_type) {
                match summary.fetch(self.feed.client()).await {
                    Err(error) if exit_of(&error) == Exit::NotFound => {
                        note(&format!("an event is gone: {error:#}"));
                    }
                    found => return found.map(Some),
                }
            }
            self.feed.pass();
        }
        Ok(None)
    }

    /// A filter that drops something says so.
    fn is_wanted(&mut self, event_type: &str) -> bool {
        let matches = |text: &EventType| self.event_types.iter().any(|one| one.matches(text));
        if self.event_types.is_empty() || EventType::parse(event_type).is_ok_and(|t| matches(&t)) {
            return true;
        }
        let count = self.left_out.entry(event_type.to_owned()).or_insert(0);
        *count += 1;
        if *count == 1 {
            note(&format!("left out: {event_type} is not among --event-types"));
        }
        false
    }

    /// Sends an event and prints what came of it; whether it was accepted.
    async fn hand_on(&mut self, event: &Fetched) -> anyhow::Result<bool> {
        let at = wall_clock();
        let lacking = self.maker.lacking(event);
        if let Some(text) = lacking.as_ref().filter(|text| self.lacking.as_ref() != Some(*text)) {
            note(text);
            self.lacking = lacking;
        }
        let answer = match self.maker.request(event, at) {
            Ok(request) => {
                let (url, headers) = (request.url, request.headers);
                self.local.send(request.method, &url, headers, request.body).await
            }
            Err(error) => Err(error.to_string()),
        };
        let accepted = answer.as_ref().is_ok_and(|answer| answer.status.is_success());
        let status = answer.as_ref().ok().map(|answer| answer.status.as_u16());
        let Summary { id, event_type, tenant, source, .. } = &event.summary;
        let (event_id, bytes) = (id.to_string(), event.payload.len());
        let source = source.as_deref();
        let reason = answer.err();
        let line = Forwarded { at, status, event_id, event_type, tenant, source, bytes, reason };
        self.output.follow(FORWARDED, &serde_json::value::to_raw_value(&line)?)?;
        self.forwarded += 1;
        self.accepted += u64::from(accepted);
        Ok(accepted)
    }

    /// What was done, and how to go on.
    fn sum_up(&self) {
        let Self { forwarded, accepted, left_out, feed, .. } = self;
        let mut text = format!("forwarded {forwarded}, accepted {accepted}");
        if !left_out.is_empty() {
            let types = left_out.iter().map(|(name, count)| format!("{name} {count}"));
            let (all, types) = (left_out.values().sum::<u64>(), types.collect::<Vec<_>>());
            text = format!("{text}; left out {all}: {}", types.join(", "));
        }
        note(&text);
        note(&format!("to go on from here: --after {}", feed.place()));
    }
}

/// A server that is away, starts, or has trouble of its own comes back; what it refuses it refuses.
fn is_lost(error: &anyhow::Error) -> bool {
    matches!(exit_of(error), Exit::Unreachable | Exit::Failed)
}

/// The events of a source or of a tenant, or of both.
async fn filtered(
    client: &Client,
    source: Option<&str>,
    tenant: Option<&str>,
) -> anyhow::Result<Url> {
    let mut url = client.url(&["v1", "events"]);
    if let Some(source) = source {
        let found = client.get(&find::source(client, source).await?.url(&[])).await?;
        let found: Value = serde_json::from_str(found.get())?;
        let id = found["id"].as_str().unwrap_or(source);
        url.query_pairs_mut().append_pair("source", id);
        if found["state"] == "paused" {
            note(&format!("{source} is paused: what comes is held until it is resumed"));
        }
    }
    if let Some(tenant) = tenant {
        url.query_pairs_mut().append_pair("tenant", tenant);
    }
    Ok(url)
}
