//! One attempt: check, prepare, send, classify, settle. No transaction is open while the receiver
//! thinks: a slow endpoint must never hold a database connection.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;

use super::{
    Engine,
    detail::Detail,
    first::Check,
    live::LiveEndpoint,
    prepare::{Parcel, PassedOn, prepare},
};
use crate::{
    domain::{
        attempt::Mark,
        delivery::{Cause, Next, settle, settle_probe},
        event::Event,
        format::EventView,
        id::DeliveryId,
        outcome::{Outcome, Plain, Reason, classify},
        signal::Signal,
        time::Timestamp,
    },
    store::{Finished, Row},
    world::{Response, SendError, Sent, Timings},
};

/// A delivery whose turn it is, with all that its attempt needs.
#[derive(Clone)]
pub struct Job {
    /// Its row.
    pub row: Row,
    /// The event; `None` when its payload is gone.
    pub event: Option<Arc<Event>>,
    /// The endpoint.
    pub endpoint: Arc<LiveEndpoint>,
    /// What to hold the event against before this attempt, if it begins a run.
    pub check: Check,
    /// Of the lease that it was taken under.
    pub epoch: i64,
    /// Whether it probes an open circuit. Ahead of its time, its ladder does not count it.
    pub probe: bool,
}

/// An attempt that is over, and what the lanes should know of it.
#[derive(Clone, Debug)]
pub struct Done {
    /// What to write.
    pub finished: Finished,
    /// What is not written.
    pub rest: Rest,
}

/// What is told of an attempt and not written down.
#[derive(Clone, Copy, Debug)]
pub struct Rest {
    /// What it says of the endpoint.
    pub signal: Signal,
    /// The receiver asked that all requests wait until then, or is gone.
    pub slow_until: Option<Timestamp>,
    /// Of the lease that the job was taken under.
    pub epoch: i64,
    /// What it held in memory while it was under way.
    pub payload_bytes: usize,
}

/// How long 429 and 503 without `Retry-After` hold an endpoint: a second lets a burst pass.
const SLOW_PAUSE: Duration = Duration::from_secs(1);

/// How long 410 holds an endpoint: until it is seen that it was disabled.
const GONE_PAUSE: Duration = Duration::from_secs(3);

impl Job {
    fn done(&self, finished: Finished) -> Done {
        let (epoch, payload_bytes) = (self.epoch, self.payload_bytes());
        let (signal, slow_until) = (Signal::Silent, None);
        Done { finished, rest: Rest { signal, slow_until, epoch, payload_bytes } }
    }

    /// What it holds in memory while it is under way.
    pub fn payload_bytes(&self) -> usize {
        self.event.as_ref().map_or(0, |event| event.payload.len())
    }
}

impl Engine {
    /// Carries one delivery through one attempt. Never fails: a defect of our own is an outcome
    /// too, so that no payload and no answer can stop the pipeline.
    pub async fn attempt(&self, job: &Job) -> Done {
        let before = self.world.monotonic();
        let steps = async {
            let started_at = self.now();
            if let Some(finished) = self.without_request(job, started_at) {
                return job.done(finished);
            }
            let sent = self.send(job, started_at).await;
            self.conclude(job, started_at, &sent)
        };
        AssertUnwindSafe(steps).catch_unwind().await.unwrap_or_else(|panic| {
            let delivery = DeliveryId { event: job.row.event_id, endpoint: job.row.endpoint_id };
            tracing::error!(%delivery, "an attempt panicked: {}", words_of(&*panic));
            let detail = "a defect of snaphook; its log has more".to_owned();
            let took = self.world.monotonic().saturating_sub(before);
            self.conclude(job, self.now() - took, &failed(Plain::Internal, detail, took))
        })
    }

    /// When even the record of an attempt cannot be made: later again, and nothing more.
    pub fn broken(&self, job: &Job) -> Done {
        let now = self.now();
        let mut finished = Finished::canceled(job.row.clone(), now, "{}".to_owned());
        finished.mark = Mark::Retry;
        finished.due_at = now + Duration::from_mins(1);
        (finished.sent, finished.counted) = (true, true);
        finished.reason = Some(Plain::Internal.name());
        let mut done = job.done(finished);
        done.rest.signal = Signal::Unclear;
        done
    }

    /// Prepares and sends. What cannot be prepared fails as if it had been sent.
    async fn send(&self, job: &Job, now: Timestamp) -> Sent {
        let Some(event) = &job.event else {
            let gone = "the event's payload is not there any more".to_owned();
            return failed(Plain::InvalidRequest, gone, Duration::ZERO);
        };
        // Held while it signs: the source may change meanwhile.
        let source = event.inbound.as_ref().and_then(|inbound| self.sources.get(inbound.source));
        let request = match &job.endpoint.ready {
            Ok(endpoint) => {
                let signer = source.as_ref().and_then(|source| source.ready.as_ref().ok());
                let inbound = event.inbound.as_ref().map(|inbound| PassedOn {
                    headers: &inbound.headers,
                    key: event.key.as_deref().unwrap_or_default(),
                    signer: signer.and_then(|ready| ready.verifier(now)),
                });
                let parcel = Parcel {
                    event: EventView {
                        id: event.id,
                        tenant: &event.tenant,
                        event_type: &event.event_type,
                        version: event.version.as_deref(),
                        occurred_at: event.occurred_at,
                        payload: &event.payload,
                        content_type: event.content_type.as_deref(),
                    },
                    traceparent: event.traceparent.as_deref(),
                    endpoint,
                    base_url: &self.settings.base_url,
                    inbound,
                };
                prepare(&parcel, now).map_err(|error| (Plain::InvalidRequest, error.to_string()))
            }
            Err(unready) => Err((unready.reason, unready.detail.clone())),
        };
        match request {
            Ok(request) => self.world.send(request).await,
            Err((reason, problem)) => failed(reason, problem, Duration::ZERO),
        }
    }

    fn conclude(&self, job: &Job, started_at: Timestamp, sent: &Sent) -> Done {
        let now = self.now();
        let endpoint = &job.endpoint;
        let outcome = match &sent.result {
            Ok(response) => {
                let retry_after = single(response, "retry-after");
                classify(response.status, retry_after, &endpoint.final_statuses, now)
            }
            Err(error) => Outcome::from(error.reason),
        };
        let reason = match (&sent.result, outcome) {
            (_, Outcome::Delivered) => None,
            (Ok(_), _) => Some(Reason::Plain(Plain::Status).name()),
            (Err(error), _) => Some(error.reason.name()),
        };
        let rung = u32::try_from(job.row.rung).unwrap_or(u32::MAX);
        let (jitter, chance) = (self.settings.jitter, self.world.random());
        let ahead = job.probe && job.row.due_at > started_at;
        let next = if ahead {
            settle_probe(outcome, job.row.due_at, now)
        } else {
            settle(rung, outcome, &endpoint.schedule, jitter, now, chance)
        };
        let (mark, cause, due_at) = match next {
            Next::Retry { due } => (Mark::Retry, None, due),
            Next::Delivered => (Mark::Delivered, None, now),
            Next::Dead(cause) => (Mark::Dead, Some(cause), now),
        };
        let url = endpoint.ready.as_ref().map_or("", |ready| ready.url());
        let detail = Detail::of(url, &self.settings.node, sent).to_json();
        let response = sent.result.as_ref().ok();
        let status = response.map(|response| response.status);
        let failure = sent.result.as_ref().err().map(|error| error.reason);
        self.metrics.attempt(reason.unwrap_or("delivered"), sent.timings.total);
        if let Err(SendError { reason: Reason::Blocked(verdict), .. }) = &sent.result {
            self.metrics.guard_refusal(verdict.name());
        }
        if job.row.attempt == 0 {
            self.metrics.delivery_latency(started_at.since(job.row.event_id.created_at()));
        }
        let mut done = job.done(Finished {
            row: job.row.clone(),
            mark,
            cause,
            due_at,
            sent: true,
            counted: !ahead,
            started_at,
            took: sent.timings.total,
            status,
            reason,
            detail,
            response: response.map(|response| response.body.clone()).filter(|b| !b.is_empty()),
        });
        done.rest.signal = Signal::of(outcome, status, failure);
        done.rest.slow_until = slow_until(outcome, now);
        done
    }

    /// What ends without a request: an event that the filter does not want, or that is invalid.
    fn without_request(&self, job: &Job, now: Timestamp) -> Option<Finished> {
        let (mark, cause, problem) = super::first::judge(job, self.settings.strict_event_types)?;
        let detail = Detail {
            node: self.settings.node.clone(),
            error: (!problem.is_empty()).then_some(problem),
            ..Detail::default()
        };
        Some(Finished {
            row: job.row.clone(),
            mark,
            cause,
            due_at: now,
            sent: false,
            counted: false,
            started_at: now,
            took: Duration::ZERO,
            status: None,
            reason: cause.map(Cause::name),
            detail: detail.to_json(),
            response: None,
        })
    }
}

fn slow_until(outcome: Outcome, now: Timestamp) -> Option<Timestamp> {
    match outcome {
        Outcome::Failed { slow: true, retry_after } => {
            Some(now + retry_after.unwrap_or(SLOW_PAUSE).max(SLOW_PAUSE))
        }
        Outcome::Gone => Some(now + GONE_PAUSE),
        _ => None,
    }
}

/// A header's value if it is there once; twice says nothing that could be followed.
fn single<'a>(response: &'a Response, name: &str) -> Option<&'a [u8]> {
    let mut values = response.headers.get_all(name).iter();
    let first = values.next()?;
    values.next().is_none().then(|| first.as_bytes())
}

fn failed(reason: Plain, detail: String, total: Duration) -> Sent {
    Sent {
        result: Err(SendError { reason: reason.into(), detail }),
        timings: Timings { total, ..Timings::default() },
        address: None,
    }
}

fn words_of(panic: &(dyn std::any::Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no words")
}
