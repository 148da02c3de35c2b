//! `snaphook listen`: a receiver for development on this machine.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use anyhow::Context as _;
use http::StatusCode;
use serde_json::value::RawValue;
use snaphook_signature::Secret;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;

use super::{
    exit::{Exit, Failure},
    note,
    output::{Column, Output, columns},
    receiver::{Rules, Seen, serve},
};
use crate::{domain::duration, world::real::wall_clock};

/// What a line shows of a request.
pub const SEEN: &[Column] =
    columns!["at", "verdict", "status", "event_id", "event_type", "bytes", "reason"];

/// Receive webhooks on this machine, verify them and print a line for each
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  snaphook listen --secret-file secret.txt\n  \
                        snaphook listen --fail-first 2        # to see two retries\n  \
                        snaphook listen --status 410          # to see an endpoint disabled\n\n\
                        Deliveries reach this machine's loopback from `snaphook dev`, or where \
                        guard.allow has 127.0.0.0/8.")]
pub struct Args {
    /// The port on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = 9000, value_name = "N")]
    port: u16,
    /// An endpoint's secret, whsec_… or whpk_…; may be repeated
    #[arg(long = "secret", env = "SNAPHOOK_SECRET", hide_env_values = true, value_name = "SECRET")]
    secrets: Vec<String>,
    /// A file with a secret: others can see a process's flags
    #[arg(long, value_name = "FILE")]
    secret_file: Option<String>,
    /// The answer to what is genuine
    #[arg(long, default_value = "204", value_name = "STATUS")]
    status: StatusCode,
    /// Answer so many requests with 503 first
    #[arg(long, default_value_t = 0, value_name = "N")]
    fail_first: u64,
    /// Wait before each answer: 500ms, 20s
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = duration::parse)]
    delay: Duration,
    /// End after one request: 0 when it was genuine, 8 when not
    #[arg(long)]
    once: bool,
    /// Print JSON, one request a line
    #[arg(long)]
    json: bool,
}

impl Args {
    fn secrets(&self) -> anyhow::Result<Vec<Secret>> {
        let mut texts = self.secrets.clone();
        if let Some(path) = &self.secret_file {
            let text = std::fs::read_to_string(path)
                .map_err(|error| Failure::usage(format!("cannot read {path}: {error}")))?;
            texts.extend(text.lines().filter(|line| !line.is_empty()).map(str::to_owned));
        }
        let parse = |text: &String| {
            Secret::parse_pasted(text)
                .map_err(|error| Failure::usage(format!("the secret: {error}")).into())
        };
        texts.iter().map(parse).collect()
    }
}

/// Runs the command.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    let secrets = args.secrets()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port))
        .await
        .with_context(|| format!("cannot listen on port {}", args.port))?;
    note(&format!("listening on http://{}", listener.local_addr()?));
    if secrets.is_empty() {
        note("nothing is verified: give the endpoint's secret with --secret-file or --secret");
    }
    let rules = Rules {
        secrets: Arc::new(move || Box::pin(std::future::ready(secrets.clone()))),
        status: args.status,
        fail_first: args.fail_first,
        delay: args.delay,
        clock: wall_clock,
    };
    let (tell, mut seen) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    let serving = serve(listener, rules, tell, stop.clone());
    let showing = async {
        let exit = show(&mut seen, args.once, &mut Output::new(args.json)).await;
        stop.cancel();
        exit
    };
    let (served, exit) = tokio::join!(serving, showing);
    served.context("cannot go on listening")?;
    exit
}

/// Prints requests until interrupted, or the first of them.
async fn show(
    seen: &mut mpsc::UnboundedReceiver<Seen>,
    once: bool,
    output: &mut Output,
) -> anyhow::Result<Exit> {
    // Made once: one made for each request would not hear what came while a line was printed.
    let mut interrupts = signal(SignalKind::interrupt())?;
    loop {
        let next = tokio::select! {
            _ = interrupts.recv() => None,
            next = seen.recv() => next,
        };
        let Some(next) = next else { return Ok(Exit::Done) };
        output.follow(SEEN, &line(&next)?)?;
        if once {
            return Ok(if next.is_genuine() { Exit::Done } else { Exit::CheckFailed });
        }
    }
}

/// A request as JSON, which `Output` prints either way.
pub fn line(seen: &Seen) -> anyhow::Result<Box<RawValue>> {
    Ok(serde_json::value::to_raw_value(seen)?)
}
