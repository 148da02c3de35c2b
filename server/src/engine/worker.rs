//! When: wake-ups, slots, time-tables, and the drain at the end. It decides nothing else; each
//! step that it calls can be called by a test.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Engine, Owner,
    attempt::Done,
    budget::PAYLOADS_BYTES_MAX,
    completer::{self, BATCH, Written},
    owner::SETTLING,
    timetable::{Heard, Sleeper, Timetable},
};
use crate::{
    domain::{delivery::Cause, time::Timestamp},
    store::StoreError,
};

/// How long requests under way may take to finish at shutdown; then their shards are given back.
/// Longer than the default timeout, and a second short of the 25 s after which all is in order,
/// which in turn are shorter than the 30 s that orchestrators wait.
const DRAIN: Duration = Duration::from_secs(24);

/// Deliveries that are started in one turn, so that results are looked at in between. Each turn has
/// its price in statements, so not too few.
const STARTS_A_TURN: usize = 128;

/// Bytes of payloads under way beyond which nothing is started: memory must not grow with the
/// size of what others emit. Half of the budget, the other half is for what comes in.
const PAYLOAD_BYTES_MAX: usize = PAYLOADS_BYTES_MAX / 2;

/// Pauses after the database failed.
const RETREAT: Duration = Duration::from_millis(100);
const RETREAT_MAX: Duration = Duration::from_secs(2);

/// A running pipeline.
pub struct Worker {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Worker {
    /// Starts to deliver.
    pub fn start(engine: Arc<Engine>) -> Self {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        tasks.spawn(Run::new(engine, stop.clone()).run());
        tasks.close();
        Self { tasks, stop }
    }

    /// Starts nothing more, lets what is under way finish, for 24 s at most, and gives the shards
    /// back to other nodes.
    pub async fn drain(self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }
}

struct Run {
    engine: Arc<Engine>,
    owner: Owner,
    stop: CancellationToken,
    attempts: TaskTracker,
    /// Ends the attempts that a drain does not wait for. What they came to is not known.
    abandon: CancellationToken,
    /// One handle for each attempt that is being sent, and one here.
    being_sent: Arc<()>,
    done: mpsc::Sender<Done>,
    results: Option<mpsc::Receiver<Done>>,
    written: mpsc::Receiver<Written>,
    writes: mpsc::Sender<Written>,
    timetable: Timetable,
    sleeper: Sleeper,
    payload_bytes: usize,
    sampled: Option<Timestamp>,
    retreat: Duration,
}

impl Run {
    fn new(engine: Arc<Engine>, stop: CancellationToken) -> Self {
        let (done, results) = mpsc::channel(4 * BATCH);
        let (writes, written) = mpsc::channel(64);
        Self {
            owner: Owner::new(engine.clone()),
            timetable: Timetable::new(engine.settings.lease),
            sleeper: Sleeper::default(),
            attempts: TaskTracker::new(),
            abandon: CancellationToken::new(),
            results: Some(results),
            payload_bytes: 0,
            being_sent: Arc::default(),
            sampled: None,
            retreat: RETREAT,
            engine,
            stop,
            done,
            written,
            writes,
        }
    }

    async fn run(mut self) {
        let completers = TaskTracker::new();
        if let Some(results) = self.results.take() {
            completers.spawn(completer::serve(self.engine.clone(), results, self.writes.clone()));
        }
        completers.close();
        while !self.stop.is_cancelled() {
            match AssertUnwindSafe(self.turn()).catch_unwind().await {
                Ok(Ok(())) => self.retreat = RETREAT,
                Ok(Err(error)) => self.retreat_from(&error).await,
                Err(_) => self.start_anew().await,
            }
        }
        self.drain(&completers).await;
    }

    /// One look at everything, and as many starts as there are slots.
    async fn turn(&mut self) -> Result<(), StoreError> {
        let now = self.engine.world.monotonic();
        // Commands and shards that became free are for the busy too.
        while let Some(heard) = self.sleeper.heard().now_or_never() {
            self.hear(heard?);
        }
        self.keep_time(now).await?;
        let mut busy = self.take_written();
        if self.owner.save_health().await? {
            self.timetable.refresh.now();
        }
        let (look, told) = self.sleeper.should_look(&self.engine, now);
        if told {
            self.owner.news.told();
        }
        if look || self.owner.has_more() {
            busy |= self.owner.fetch().await? > 0;
        }
        busy |= self.start().await?;
        if busy {
            self.sleeper.stay_awake(now);
        }
        if busy || self.owner.has_more() {
            return Ok(());
        }
        self.rest(now).await
    }

    /// What is done by the clock, and what others asked for.
    async fn keep_time(&mut self, now: Duration) -> Result<(), StoreError> {
        if self.timetable.claim.is_due(now) {
            self.engine.adjust_clock().await?;
            self.owner.claim().await?;
            self.timetable.claim.done(now);
        }
        if self.timetable.refresh.is_due(now) {
            self.owner.refresh().await?;
            if self.owner.owns(0) {
                self.engine.release_held().await?;
            }
            self.owner.obey().await?;
            self.owner.end_unwanted().await?;
            self.timetable.refresh.done(now);
        }
        // One node samples for all: whichever owns the first shard.
        if self.timetable.sample.is_due(now) {
            self.timetable.sample.done(now);
            if self.owner.owns(0) {
                self.sampled = Some(self.engine.sample(self.sampled).await?);
                self.engine.end_leases().await?;
            }
        }
        if self.timetable.upkeep.is_due(now) {
            self.timetable.upkeep.done(now);
            if let Err(error) = self.engine.keep_up().await {
                tracing::warn!("upkeep failed and will be tried again: {error}");
            }
        }
        Ok(())
    }

    fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Event => self.sleeper.look(),
            Heard::Command | Heard::Config => self.timetable.refresh.now(),
            Heard::Shards => self.timetable.claim.now(),
        }
    }

    fn take_written(&mut self) -> bool {
        let mut any = false;
        while let Ok(written) = self.written.try_recv() {
            self.note(&written);
            any = true;
        }
        any
    }

    fn note(&mut self, written: &Written) {
        for done in &written.done {
            self.payload_bytes = self.payload_bytes.saturating_sub(done.rest.payload_bytes);
        }
        self.owner.finish(&written.done, &written.completion);
        if written.done.iter().any(|done| done.finished.cause == Some(Cause::Gone)) {
            self.timetable.refresh.now();
        }
    }

    async fn start(&mut self) -> Result<bool, StoreError> {
        let concurrency = self.engine.settings.concurrency;
        let being_sent = Arc::strong_count(&self.being_sent) - 1;
        let unsettled = self.owner.under_way();
        let slots = concurrency
            .saturating_sub(being_sent)
            .min((concurrency + SETTLING).saturating_sub(unsettled));
        if slots == 0 || self.payload_bytes > PAYLOAD_BYTES_MAX {
            return Ok(false);
        }
        let jobs = self.owner.take(slots.min(STARTS_A_TURN)).await?;
        let any = !jobs.is_empty();
        for job in jobs {
            self.payload_bytes += job.payload_bytes();
            let (engine, done) = (self.engine.clone(), self.done.clone());
            let share = engine.budget.hold(job.payload_bytes());
            let being_sent = self.being_sent.clone();
            let attempt = async move {
                let attempt = AssertUnwindSafe(engine.attempt(&job)).catch_unwind().await;
                let result = attempt.unwrap_or_else(|_| engine.broken(&job));
                drop(being_sent); // another may go while this one is written down
                // Only a process that is about to end has nobody to hear of it.
                let _ = done.send(result).await;
                drop(share);
            };
            let abandon = self.abandon.clone();
            self.attempts.spawn(async move { abandon.run_until_cancelled(attempt).await });
        }
        Ok(any)
    }

    /// Waits for whatever comes first: a result, a ring, or the time of something.
    async fn rest(&mut self, now: Duration) -> Result<(), StoreError> {
        let due = self.owner.next_at();
        let until_due = due.map(|due| due.since(self.engine.now()));
        let until_timetable = self.timetable.next_in(now);
        let nap = self.sleeper.nap(&self.engine, now).await?;
        let pause = [until_due, Some(until_timetable), Some(nap)].into_iter().flatten().min();
        let pause = pause.unwrap_or(nap).max(Duration::from_millis(1));
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {}
            written = self.written.recv() => {
                if let Some(written) = written {
                    self.note(&written);
                }
            }
            () = self.engine.bell.notified() => self.sleeper.look(),
            heard = self.sleeper.heard() => self.hear(heard?),
            () = nap_for(pause) => {
                if until_due.is_some_and(|until| until <= pause) {
                    self.sleeper.look();
                }
            }
        }
        if self.sleeper.file_changed().await? {
            self.sleeper.look();
            self.timetable.refresh.now();
        }
        Ok(())
    }

    async fn retreat_from(&mut self, error: &StoreError) {
        if self.retreat == RETREAT {
            tracing::error!("the pipeline waits for the database: {error}");
        }
        self.owner.doubt();
        self.pause().await;
    }

    /// A defect of ours: what is in memory may be half done, so it is forgotten. The tables are
    /// the truth.
    async fn start_anew(&mut self) {
        tracing::error!("the pipeline panicked, and starts anew");
        self.owner.anew();
        self.timetable = Timetable::new(self.engine.settings.lease);
        self.pause().await;
    }

    async fn pause(&mut self) {
        self.sleeper.forget_bell();
        let pause = self.retreat;
        let noting = async {
            while let Some(written) = self.written.recv().await {
                self.note(&written);
            }
        };
        let _ = tokio::time::timeout(pause, noting).await;
        self.retreat = (self.retreat * 2).min(RETREAT_MAX);
    }

    async fn drain(mut self, completers: &TaskTracker) {
        self.attempts.close();
        let finishing = async {
            // Should it fail, everything is given back once more at the end.
            let mut early = self.owner.step_down().await;
            while !self.attempts.is_empty() || self.owner.under_way() > 0 {
                tokio::select! {
                    written = self.written.recv() => match written {
                        Some(written) => self.note(&written),
                        None => break,
                    },
                    () = nap_for(Duration::from_millis(20)) => {}
                }
                if early.is_ok() {
                    early = self.owner.release_left().await;
                }
            }
        };
        if tokio::time::timeout(DRAIN, finishing).await.is_err() {
            let left = self.owner.under_way();
            tracing::warn!(left, "gave up waiting for requests; they will be sent again");
            self.abandon.cancel();
            self.attempts.wait().await;
        }
        if let Err(error) = self.owner.release_all().await {
            tracing::error!("could not give the shards back; their leases will run out: {error}");
        }
        let Self { done, written, .. } = self;
        drop((done, written));
        let _ = tokio::time::timeout(Duration::from_secs(1), completers.wait()).await;
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that waits for time to pass")]
async fn nap_for(pause: Duration) {
    tokio::time::sleep(pause).await;
}
