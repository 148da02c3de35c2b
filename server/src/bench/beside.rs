//! Healthy endpoints beside trouble: one that is down and has a great backlog, many with a backlog
//! each, one that takes ten seconds. Nobody else is to notice.

use std::{sync::Arc, time::Duration};

use super::{
    Measure, Plan, latency,
    pipeline::{self, Flow},
    program::{Program, rest},
    report::{self, Sample},
    setup::{Fixture, Kind, ONE},
    sink::Sink,
};

/// How long the server has to take the trouble in: its lanes are read, its requests under way.
const SETTLE: Duration = Duration::from_secs(2);

/// What was found beside one trouble.
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    /// Deliveries to healthy endpoints.
    pub rate: Sample,
    /// From the commit to the request of a healthy endpoint, 99th percentile.
    pub late: Sample,
    /// The server's memory at its most.
    pub memory: Sample,
}

/// The rate, and before it the latency, of healthy endpoints in a database of that kind.
pub async fn measure(
    plan: &Plan,
    fixture: &Fixture,
    sink: &Sink,
    kind: Kind,
) -> anyhow::Result<Beside> {
    let prepared = fixture.copy(kind).await?;
    let program = Arc::new(Program::start(&prepared, &plan.folder).await?);
    rest(SETTLE).await;
    let requests = sink.requests();
    let (millis, cpu) = latency::sample(plan, fixture, sink, &program, &prepared).await?;
    let late = Sample { value: report::quantile(&millis, 0.99), cpu };
    let before = sink.requests() - requests;
    let flow = Flow { program: &program, fixture };
    let (rate, many) = flow.run(ONE, plan.time).await?;
    let memory = Sample { value: program.memory_most(), cpu: rate.cpu };
    pipeline::until_recorded(&prepared, before + many).await?;
    drop(program);
    pipeline::check(&prepared, before + many, sink.requests() - requests).await?;
    prepared.database.remove(&fixture.cluster).await?;
    Ok(Beside { rate, late, memory })
}

/// The names under which it is told.
pub fn named(kind: Kind, found: Beside) -> Vec<(Measure, Sample)> {
    let Beside { rate, late, memory } = found;
    match kind {
        Kind::Dead => vec![
            (Measure::DeadRate, rate),
            (Measure::DeadMost, late),
            (Measure::MemoryBacklog, memory),
        ],
        Kind::Crowd => vec![(Measure::CrowdRate, rate), (Measure::CrowdMost, late)],
        _ => vec![(Measure::SlowRate, rate), (Measure::SlowMost, late)],
    }
}
