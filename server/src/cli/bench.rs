//! `snaphook bench`: how fast is it here, beside what this machine can do at all.

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;

use super::{exit::Exit, note, output::Output};
use crate::{
    bench::{self, Measure, Plan},
    domain::duration,
};

/// Measure emit and delivery beside their ceilings
#[derive(clap::Args)]
#[command(after_help = "`make bench` runs it beside a throw-away PostgreSQL. It needs pgbench. \
                        A goal that is not met is no failure: the table and the file say so.")]
pub struct Args {
    /// A PostgreSQL server in which it may make databases, and drop them
    #[arg(long, value_name = "URL", env = "SNAPHOOK_TEST_POSTGRES", hide_env_values = true)]
    postgres: String,
    /// Everything so often; the medians count
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// How long each measurement puts load on
    #[arg(long, default_value = "4s", value_name = "DURATION", value_parser = duration::parse)]
    time: Duration,
    /// Deliveries that wait when the draining begins
    #[arg(long, default_value_t = 200_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    backlog: u32,
    /// Deliveries that wait for a dead endpoint, or for a hundredth as many endpoints; and after
    /// which to look whether it got slower
    #[arg(long, default_value_t = 1_000_000, value_name = "N", value_parser = clap::value_parser!(u32).range(100..))]
    waiting: u32,
    /// One short round with a hundredth of everything that waits, whatever the other flags say.
    /// Its figures are no more than a hint
    #[arg(long)]
    short: bool,
    /// Only this, and its ceiling; may be repeated
    #[arg(long, value_name = "MEASURE")]
    only: Vec<Measure>,
    /// Where the result is written as JSON
    #[arg(long, default_value = "target/bench.json", value_name = "FILE")]
    out: PathBuf,
}

/// How long the first rate and the later ones are measured when it is looked whether it gets
/// slower.
const MINUTE: Duration = Duration::from_mins(1);

fn shortened(plan: Plan) -> Plan {
    let (time, minute) = (Duration::from_secs(2), Duration::from_secs(4));
    let (backlog, waiting) = ((plan.backlog / 100).max(1), (plan.waiting / 100).max(100));
    Plan { rounds: 1, time, minute, backlog, waiting, ..plan }
}

/// Runs the command.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    if cfg!(debug_assertions) {
        note("this is a debug build: its figures say nothing; use --release");
    }
    let folder = std::env::temp_dir().join(format!("snaphook-bench-{}", std::process::id()));
    let plan = Plan {
        postgres: args.postgres,
        rounds: args.rounds.into(),
        time: args.time,
        backlog: args.backlog,
        waiting: args.waiting,
        minute: MINUTE,
        only: args.only,
        folder,
    };
    let plan = if args.short { shortened(plan) } else { plan };
    let measured = bench::run(&plan, &note).await;
    // Files of a run that failed are of no use either.
    let _ = std::fs::remove_dir_all(&plan.folder);
    let report = measured?;
    if let Some(folder) = args.out.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&args.out, report.to_json())
        .with_context(|| format!("cannot write {}", args.out.display()))?;
    Output::new(false).bytes(report.to_table().as_bytes())?;
    note(&format!("written to {}", args.out.display()));
    Ok(Exit::Done)
}
