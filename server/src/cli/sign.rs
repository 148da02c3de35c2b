//! `snaphook sign`: the headers with which a provider would send a request.

use super::{
    exit::{Exit, Failure},
    note,
    output::Output,
    scheme_args::{RequestArgs, SchemeArgs},
};
use crate::world::real::wall_clock;

/// Sign a request as a provider does, and print the headers, one a line
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  snaphook sign --scheme stripe --secret whsec_… --body payload.json\n  \
                        snaphook sign --scheme standardwebhooks --secret-file secret.txt --id evt_1 \
                        --timestamp 1700000000 --body - < payload.json\n\n\
                        Where the signature is in the body (mailgun, adyen:payments, braintree, \
                        microsoft_graph, linear's time), an empty line and the new body follow. Where \
                        it is in the URL, the new URL is told on standard error."
)]
pub struct Args {
    #[command(flatten)]
    scheme: SchemeArgs,
    /// The event's id, for schemes that have one in a header
    #[arg(long, default_value = "", value_name = "ID")]
    id: String,
    /// When it was sent, in seconds since 1970; now when left out
    #[arg(long, value_name = "N")]
    timestamp: Option<i64>,
    #[command(flatten)]
    request: RequestArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let verifier = args.scheme.verifier()?.map_err(Failure::usage)?;
    let now = args.timestamp.unwrap_or_else(|| wall_clock().seconds());
    let signed = args.request.with(|request| verifier.sign(request, &args.id, now))?;
    let signed = signed.map_err(|error| Failure::usage(error.to_string()))?;
    let mut output = Output::new(false);
    for (name, value) in &signed.headers {
        output.line(&format!("{name}: {value}"))?;
    }
    if let Some(url) = &signed.url {
        note(&format!("send it to {url}"));
    }
    if let Some(body) = &signed.body {
        output.line("")?;
        output.bytes(body)?;
    }
    Ok(Exit::Done)
}
