//! `snaphook listen`: a receiver for development on this machine. What it takes can be handed on to
//! the program that is being developed; so can the events of a running server, which is `forward`.

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
    connect::ClientArgs,
    exit::{Exit, Failure, checked},
    forward::{self, ForwardArgs},
    local::Local,
    note,
    output::{Column, Output, columns},
    receiver::{Judge, Rules, Seen, serve},
    scheme_args::SchemeArgs,
};
use crate::{domain::duration, world::real::wall_clock};

/// What a line shows of a request.
pub const SEEN: &[Column] =
    columns!["at", "verdict", "status", "event_id", "event_type", "bytes", "reason"];

/// Receive webhooks on this machine, verify them and print a line for each
///
/// With --source or --tenant nothing is received: live events of a running server are handed on to
/// the URL of --forward-to, in the requests that an endpoint would get, signed with --secret, or with one
/// that is made of the API key and told. Nothing changes on the server. What a source took goes on as it came, or
/// with --scheme signed anew as that provider does, with --secret.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  snaphook listen --secret-file secret.txt\n  \
                        snaphook listen --fail-first 2        # to see two retries\n  \
                        snaphook listen --status 410          # to see an endpoint disabled\n  \
                        snaphook listen --scheme stripe --secret whsec_… --forward-to 3000\n  \
                        snaphook listen --source stripe --forward-to http://localhost:3000/hook\n  \
                        snaphook listen --tenant acme --since 2h --forward-to 3000\n\n\
                        Deliveries reach this machine's loopback from `snaphook dev`, or where \
                        guard.allow has 127.0.0.0/8. Events of a server need none of that: they \
                        are fetched.")]
#[command(mut_arg("json", |arg| arg.help("Print JSON, one request or event a line")))]
pub struct Args {
    /// The port on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = 9000, value_name = "N")]
    port: u16,
    #[command(flatten)]
    forward: ForwardArgs,
    #[command(flatten)]
    scheme: SchemeArgs,
    /// The URL as the provider knows it, for schemes that sign it
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The answer to what is genuine; with --forward-to that is the program's
    #[arg(long, default_value = "204", value_name = "STATUS", conflicts_with = "forward_to")]
    status: StatusCode,
    /// Answer so many requests with 503 first
    #[arg(long, default_value_t = 0, value_name = "N")]
    fail_first: u64,
    /// Wait before each answer: 500ms, 20s
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = duration::parse)]
    delay: Duration,
    /// End after one request: 0 when it was genuine, 8 when not; or after one event of a server: 0
    /// when it was accepted, 1 when not
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    to: ClientArgs,
}

impl Args {
    /// How requests are judged: by Standard Webhooks, as snaphook signs, unless a scheme is named.
    fn judge(&self) -> anyhow::Result<Judge> {
        let texts = self.scheme.secrets.read()?;
        if texts.is_empty() {
            note("nothing is verified: give the secret with --secret-file or --secret");
            return Ok(Judge::Nothing);
        }
        if self.scheme.scheme.is_some() || self.scheme.scheme_file.is_some() {
            let verifier = self.scheme.verifier()?.map_err(Failure::usage)?;
            return Ok(Judge::Scheme { verifier: Arc::new(verifier), url: self.url.clone() });
        }
        let parse = |text: &String| {
            Secret::parse_pasted(text)
                .map_err(|error| Failure::usage(format!("the secret: {error}")).into())
        };
        let secrets: Vec<_> = texts.iter().map(parse).collect::<anyhow::Result<_>>()?;
        Ok(Judge::Standard(Arc::new(move || Box::pin(std::future::ready(secrets.clone())))))
    }
}

/// Runs the command.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    if args.forward.is_live() {
        return forward::run(args.forward, &args.to, &args.scheme, args.once).await;
    }
    let judge = args.judge()?;
    let forward_to = args.forward.forward_to.map(Local::at).transpose()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port))
        .await
        .with_context(|| format!("cannot listen on port {}", args.port))?;
    let address = listener.local_addr()?;
    if let Some(local) = &forward_to
        && local.is_at(address)
    {
        let problem = format!("--forward-to {} is where it listens itself", local.url());
        return Err(Failure::usage(problem)
            .hint("give the program's port; --port takes another")
            .into());
    }
    let onward = forward_to.as_ref().map(|local| format!(", forwarding to {}", local.url()));
    note(&format!("listening on http://{address}{}", onward.unwrap_or_default()));
    let rules = Rules {
        judge,
        forward_to,
        status: args.status,
        fail_first: args.fail_first,
        delay: args.delay,
        clock: wall_clock,
    };
    let (tell, mut seen) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    let serving = serve(listener, rules, tell, stop.clone());
    let showing = async {
        let exit = show(&mut seen, args.once, &mut Output::new(args.to.json)).await;
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
        let shown = output.follow(SEEN, &line(&next)?);
        if once {
            return checked(next.is_genuine(), shown);
        }
        shown?;
    }
}

/// A request as JSON, which `Output` prints either way.
pub fn line(seen: &Seen) -> anyhow::Result<Box<RawValue>> {
    Ok(serde_json::value::to_raw_value(seen)?)
}
