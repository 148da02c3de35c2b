//! Emits by SQL, and the ceiling beside them: pgbench with 32 clients, as 32 business processes
//! would. No server runs, so what is measured is the price that an emit adds to a transaction.

use std::process::{Command, Stdio};

use anyhow::Context as _;

use super::{
    Plan,
    machine::Usage,
    report::Sample,
    setup::{EVENT_TYPE, FanOut, Fixture, Kind, TENANTS, payload},
};

/// Callers at once.
const CLIENTS: &str = "32";

/// Threads of pgbench.
const THREADS: &str = "2";

/// The ceiling R32: transactions a second that insert one row of the payload's size.
pub async fn reference(plan: &Plan, fixture: &Fixture) -> anyhow::Result<Sample> {
    let payload = payload();
    let script = format!("INSERT INTO public.reference (payload) VALUES ('{payload}');\n");
    transactions(plan, fixture, &script).await
}

/// Events a second, each in a transaction of its own.
pub async fn emit(plan: &Plan, fixture: &Fixture, to: FanOut) -> anyhow::Result<Sample> {
    let (prefix, last, payload) = (to.prefix, TENANTS - 1, payload());
    let script = format!(
        "\\set tenant random(0, {last})\n\
         SELECT snaphook.emit('{prefix}' || :tenant, '{EVENT_TYPE}', '{payload}'::text);\n"
    );
    transactions(plan, fixture, &script).await
}

async fn transactions(plan: &Plan, fixture: &Fixture, script: &str) -> anyhow::Result<Sample> {
    let prepared = fixture.copy(Kind::Postgres).await?;
    let file = plan.folder.join("pgbench.sql");
    std::fs::write(&file, script)?;
    let mut command = Command::new("pgbench");
    command
        .args(["--no-vacuum", "--protocol=prepared", "--client", CLIENTS, "--jobs", THREADS])
        .arg(format!("--time={}", plan.time.as_secs().max(1)))
        .arg("--file")
        .arg(&file)
        .arg(prepared.database.url())
        .stdin(Stdio::null());
    let before = Usage::now(None, &fixture.cluster);
    let done = tokio::task::spawn_blocking(move || command.output()).await?;
    let done = done.context("pgbench does not start; it comes with PostgreSQL's programs")?;
    let now = Usage::now(None, &fixture.cluster);
    prepared.database.remove(&fixture.cluster).await?;
    std::fs::remove_file(&file)?;
    let (out, error) =
        (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    anyhow::ensure!(done.status.success(), "pgbench failed: {error}");
    let found =
        |head| number(&out, head).with_context(|| format!("pgbench does not tell {head}: {out}"));
    let cpu = now.each_since(before, found(DONE)?);
    Ok(Sample { value: found(RATE)?, cpu })
}

/// What pgbench writes before its figures. The rate is without the time of connecting.
const RATE: &str = "tps = ";
const DONE: &str = "number of transactions actually processed: ";

/// The number behind `head`, at the beginning of a line.
fn number(output: &str, head: &str) -> Option<f64> {
    let line = output.lines().find_map(|line| line.strip_prefix(head))?;
    line.split([' ', '/']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_found_in_what_pgbench_prints() {
        let printed = "number of clients: 32\n\
                       number of transactions actually processed: 4938\n\
                       tps = 1234.5 (without initial connection time)\n";
        assert_eq!(number(printed, RATE), Some(1234.5));
        assert_eq!(number(printed, DONE), Some(4938.0));
        assert_eq!(number("pgbench: error: …", RATE), None);
    }
}
