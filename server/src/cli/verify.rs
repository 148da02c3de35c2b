//! `snaphook verify`: whether a request is genuine, and if not, at which step it failed.

use serde::Serialize;
use snaphook_signature::{Verdict, Verified};

use super::{
    exit::{Exit, checked},
    output::{Column, Output, columns},
    scheme_args::{RequestArgs, SchemeArgs},
};
use crate::world::real::wall_clock;

const SHOWN: &[Column] = columns!["verdict", "reason", "step", "event_id", "event_type"];

/// Say whether a request is genuine: 0 when it is, 8 when it is not
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  snaphook verify --scheme github --secret-file secret.txt \
                        --header 'X-Hub-Signature-256: sha256=…' --body payload.json\n  \
                        snaphook verify --scheme square --secret … --url https://example.com/hooks \
                        --header 'x-square-hmacsha256-signature: …' --body - < payload.json\n\n\
                        For schemes with public keys, --secret is the key as the provider shows it. \
                        Nothing is fetched: give a certificate with --secret-file (aws_sns) or \
                        --public-key (paypal).")]
pub struct Args {
    #[command(flatten)]
    scheme: SchemeArgs,
    #[command(flatten)]
    request: RequestArgs,
    /// What time it is, in seconds since 1970, to judge an old request as of its arrival
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    now: Option<i64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What is said of a request.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Judgment {
    /// `ok`, `stale`, `bad_signature`, `malformed`.
    pub verdict: &'static str,
    /// Why it is not `ok`.
    pub reason: Option<String>,
    /// Where it failed.
    pub step: Option<&'static str>,
    /// The event's id, of a genuine request that has one.
    pub event_id: Option<String>,
    /// The event's type, likewise.
    pub event_type: Option<String>,
}

impl Judgment {
    fn refused(verdict: Verdict, step: &'static str, reason: String) -> Self {
        let (event_id, event_type) = (None, None);
        Self {
            verdict: verdict.name(),
            reason: Some(reason),
            step: Some(step),
            event_id,
            event_type,
        }
    }
}

impl Args {
    /// Judges the request. A secret that is not of the scheme's form makes it malformed: with that
    /// secret nothing could ever be genuine.
    pub fn judgment(&self) -> anyhow::Result<Judgment> {
        let verifier = match self.scheme.verifier()? {
            Ok(verifier) => verifier,
            Err(reason) => return Ok(Judgment::refused(Verdict::Malformed, "secret", reason)),
        };
        let now = self.now.unwrap_or_else(|| wall_clock().seconds());
        let result = self.request.with(|request| verifier.verify(request, now))?;
        Ok(match result {
            Ok(Verified { event_id, event_type, .. }) => {
                let (reason, step) = (None, None);
                Judgment { verdict: Verdict::Ok.name(), reason, step, event_id, event_type }
            }
            Err(refusal) => {
                Judgment::refused(refusal.verdict(), refusal.step().name(), refusal.to_string())
            }
        })
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let judgment = args.judgment()?;
    let line = serde_json::value::to_raw_value(&judgment)?;
    let shown = Output::new(args.json).one(SHOWN, &line);
    checked(judgment.verdict == Verdict::Ok.name(), shown)
}
