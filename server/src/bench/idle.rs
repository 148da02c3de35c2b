//! What it costs to be there: many endpoints, and nothing to do.

use std::time::Duration;

use super::{
    Measure, Plan,
    machine::Usage,
    program::{Program, rest},
    report::Sample,
    setup::{Fixture, Kind},
};
use crate::world::real::monotonic;

/// Until it has fallen asleep.
const SETTLE: Duration = Duration::from_secs(3);

/// The clock of the processor ticks a hundred times a second: shorter would be too coarse.
const TIMES: u32 = 5;

/// The part of a core that the server takes, in percent, and its memory. What PostgreSQL takes
/// meanwhile is in the CPU of both, in microseconds a second.
pub async fn measure(plan: &Plan, fixture: &Fixture) -> anyhow::Result<Vec<(Measure, Sample)>> {
    let prepared = fixture.copy(Kind::Many).await?;
    let program = Program::start(&prepared, &plan.folder).await?;
    rest(SETTLE).await;
    let (begun, usage) = (monotonic(), Usage::now(Some(program.process()), &fixture.cluster));
    rest(plan.time * TIMES).await;
    let seconds = monotonic().saturating_sub(begun).as_secs_f64();
    let cpu = Usage::now(Some(program.process()), &fixture.cluster).each_since(usage, seconds);
    let memory = program.memory();
    drop(program);
    prepared.database.remove(&fixture.cluster).await?;
    let percent = cpu.snaphook / 1e6 * 100.0;
    Ok(vec![
        (Measure::IdleCpu, Sample { value: percent, cpu }),
        (Measure::MemoryIdle, Sample { value: memory, cpu }),
    ])
}
