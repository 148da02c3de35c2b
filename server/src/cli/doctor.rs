//! `snaphook doctor`: what is wrong, and how to mend it. Looks; changes nothing.

use super::{
    checks::{self, Finding, Level},
    exit::{Exit, checked},
    output::Output,
    settings_args::{SettingsArgs, load},
};

/// Look at settings, database, clock, DNS, egress and guard: what is wrong and how to mend it
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Print JSON, one finding a line
    #[arg(long)]
    json: bool,
}

/// Runs the command. A failed check is exit code 8; a warning is not.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    let sources = args.settings.sources();
    let settings = load(&sources)?;
    let mut findings = vec![checks::settings(&sources)];
    findings.push(checks::master_key(&settings));
    findings.extend(checks::database(&settings).await);
    findings.push(checks::dns(&settings).await);
    findings.push(checks::egress(&settings).await);
    findings.extend(checks::guard(&settings));
    findings.push(checks::files());

    let mut output = Output::new(args.json);
    let shown = findings.iter().try_for_each(|finding| show(finding, &mut output));
    checked(findings.iter().all(|finding| finding.level != Level::Failed), shown)
}

fn show(finding: &Finding, output: &mut Output) -> anyhow::Result<()> {
    if output.is_json() {
        return output.line(&serde_json::to_string(finding)?);
    }
    let sign = match finding.level {
        Level::Ok => "✓",
        Level::Warning => "!",
        Level::Failed => "✗",
    };
    output.line(&format!("{sign} {:<12} {}", finding.check, finding.found))?;
    finding.remedy.iter().try_for_each(|remedy| output.line(&format!("  {:<12} {remedy}", "")))
}
