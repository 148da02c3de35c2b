//! One node of a world. It takes the steps that the worker takes, one turn after the other, with
//! requests that stay open for as long as their receivers take.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64},
    },
    time::Duration,
};

use futures_util::FutureExt;
use snaphook::{
    domain::{attempt::Mark, circuit::CircuitRules, id::EndpointId, time::Timestamp},
    engine::{Done, Engine, EngineSettings, Owner},
    faults::Faults,
    store::{Completion, Dialect, Finished, Store, StoreError},
    telemetry::metrics::Metrics,
};

use super::{
    dice::Dice,
    outside::{Became, Outside, View},
};
use crate::support::simulated::keyring;

/// As `engine/timetable.rs` has it.
const REFRESH_EVERY: Duration = Duration::from_millis(900);

type Open = Pin<Box<dyn Future<Output = Done> + Send>>;

/// What a node is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    Up,
    /// Its process is gone; it starts again then.
    Dead(Timestamp),
    /// Its process is not run until then.
    Frozen(Timestamp),
}

/// What all nodes of a world share.
#[derive(Clone)]
pub struct Site {
    pub store: Store,
    pub outside: Arc<Outside>,
    /// The endpoints, in the order of their receivers.
    pub endpoints: Arc<[EndpointId]>,
}

/// A node, over all of its lives.
pub struct Node {
    pub number: usize,
    pub condition: Condition,
    /// No statement of its reaches the database until then.
    pub cut_until: Option<Timestamp>,
    /// What is wrong with its wall clock, in microseconds.
    pub skew: Arc<AtomicI64>,
    /// It is to die at one of its next steps.
    dying: bool,
    site: Site,
    life: Life,
}

/// One life of it.
struct Life {
    engine: Arc<Engine>,
    owner: Owner,
    faults: Arc<Faults>,
    open: Vec<Open>,
    done: Vec<Done>,
    claim_at: Timestamp,
    refresh_at: Timestamp,
}

impl Life {
    fn begin(site: &Site, number: usize, skew: &Arc<AtomicI64>) -> Self {
        let faults = Arc::new(Faults::default());
        let life = site.outside.begin_life(number);
        let chance = u64::try_from(number).unwrap() << 48 | u64::from(life) << 32;
        let world = View {
            outside: site.outside.clone(),
            node: number,
            life,
            skew: skew.clone(),
            chance: AtomicU64::new(chance),
            latest: Arc::default(),
            counts_by_wall: site.store.dialect() == Dialect::Sqlite,
        };
        // So that what rests is over in a few turns of the clock.
        let probe_max = Duration::from_mins(2);
        let circuit = CircuitRules { probe_max, ..CircuitRules::default() };
        let settings =
            EngineSettings { node: format!("node-{number}"), circuit, ..EngineSettings::default() };
        let store = site.store.with_faults(faults.clone());
        let engine = Engine::new(store, Arc::new(world), settings, keyring(), Metrics::new());
        Self {
            owner: Owner::new(engine.clone()),
            engine,
            faults,
            open: Vec::new(),
            done: Vec::new(),
            claim_at: Timestamp(0),
            refresh_at: Timestamp(0),
        }
    }
}

impl Node {
    pub fn start(number: usize, site: &Site) -> Self {
        let skew = Arc::new(AtomicI64::new(0));
        Self {
            number,
            condition: Condition::Up,
            cut_until: None,
            dying: false,
            life: Life::begin(site, number, &skew),
            skew,
            site: site.clone(),
        }
    }

    /// It will die within its next steps, after so many.
    pub fn die_in(&mut self, steps: u64) {
        self.dying = true;
        self.life.faults.fail_in(steps + 1);
    }

    /// It cannot reach the database until then.
    pub fn cut(&mut self, until: Timestamp, after: u64) {
        self.cut_until = Some(until);
        self.life.faults.fail_in(after + 1);
    }

    /// When it has something to do again, by the true time.
    pub fn next_at(&self) -> Option<Timestamp> {
        let lag = self.site.outside.now().0 - self.life.engine.now().0;
        self.life.owner.next_due().map(|due| Timestamp(due.0 + lag))
    }

    /// Whether something is on its way from here to a receiver or to the database.
    pub fn is_busy(&self) -> bool {
        !self.life.open.is_empty() || !self.life.done.is_empty() || self.life.owner.has_more()
    }

    /// One look at everything, if it is able to.
    pub async fn turn(&mut self, dice: &mut Dice) {
        let now = self.site.outside.now();
        match self.condition {
            Condition::Dead(until) | Condition::Frozen(until) if now < until => return,
            Condition::Dead(_) => self.life = Life::begin(&self.site, self.number, &self.skew),
            Condition::Frozen(_) => self.site.outside.mishap(self.number),
            Condition::Up => {}
        }
        self.condition = Condition::Up;
        if self.cut_until.is_some() {
            self.site.outside.mishap(self.number);
        }
        if self.cut_until.is_some_and(|until| now >= until) {
            self.cut_until = None;
            self.life.faults.mend();
        }
        if self.steps(now, dice).await.is_ok() {
            return;
        }
        if self.dying {
            self.dying = false;
            self.cut_until = None;
            self.site.outside.mishap(self.number);
            self.site.outside.begin_life(self.number);
            let rest = dice.time(Duration::from_millis(100), Duration::from_mins(3));
            self.life = Life::begin(&self.site, self.number, &self.skew);
            self.condition = Condition::Dead(now + rest);
        } else if self.cut_until.is_some() {
            self.life.owner.doubt();
        } else {
            self.site.outside.complain(format!("node {} failed for no reason", self.number));
        }
    }

    async fn steps(&mut self, now: Timestamp, dice: &mut Dice) -> Result<(), StoreError> {
        self.poll();
        let life = &mut self.life;
        if now >= life.claim_at {
            life.engine.adjust_clock().await?;
            life.owner.claim().await?;
            life.claim_at = now + life.engine.settings.lease / 9;
        }
        if now >= life.refresh_at {
            life.owner.refresh().await?;
            life.owner.obey().await?;
            life.owner.end_unwanted().await?;
            life.refresh_at = now + REFRESH_EVERY;
        }
        self.record(dice).await?;
        self.life.owner.save_health().await?;
        self.life.owner.fetch().await?;
        for job in self.life.owner.take(64).await? {
            if job.probe {
                let place = self.site.endpoints.iter().position(|id| *id == job.row.endpoint_id);
                self.site.outside.expect_probe(&(place.unwrap(), job.row.event_id.to_string()));
            }
            let engine = self.life.engine.clone();
            self.life.open.push(Box::pin(async move { engine.attempt(&job).await }));
        }
        self.poll();
        self.record(dice).await
    }

    /// Looks which requests are over; those that are new leave.
    fn poll(&mut self) {
        let mut open = Vec::new();
        for mut one in self.life.open.drain(..) {
            match (&mut one).now_or_never() {
                Some(done) => self.life.done.push(done),
                None => open.push(one),
            }
        }
        self.life.open = open;
    }

    /// Writes what requests came to, in batches of any size. A batch that fails is written again.
    async fn record(&mut self, dice: &mut Dice) -> Result<(), StoreError> {
        while !self.life.done.is_empty() {
            let many = 1 + dice.index(self.life.done.len());
            let batch = &self.life.done[..many];
            let finished: Vec<Finished> = batch.iter().map(|one| one.finished.clone()).collect();
            let completion = self.life.engine.complete(&finished).await?;
            self.note(&finished, &completion);
            let batch: Vec<Done> = self.life.done.drain(..many).collect();
            self.life.owner.finish(&batch, &completion);
            // The completer logs that it failed, and goes on.
            if self.life.engine.disable_gone(&finished).await.is_err() && self.dying {
                return self.life.owner.obey().await.map(drop);
            }
        }
        Ok(())
    }

    /// The outside learns what is on record now.
    fn note(&self, finished: &[Finished], completion: &Completion) {
        for one in finished {
            let place = self.site.endpoints.iter().position(|id| *id == one.row.endpoint_id);
            let pair = (place.unwrap(), one.row.event_id.to_string());
            let became = match one.mark {
                _ if completion.late.contains(&one.pair()) => Became::Late,
                Mark::Retry => Became::Due(one.due_at),
                _ => Became::Over,
            };
            self.site.outside.record(self.number, pair, became);
        }
    }
}
