//! `snaphook trigger`: sends a signed sample request of a provider to a receiver under test.

use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full, Limited};
use serde_json::json;
use snaphook_signature::{Outgoing, Received, Scheme, Verifier};

use super::{
    client::{http_client, innermost},
    exit::{Exit, Failure},
    note,
    output::{Column, Output, columns},
    samples::{SAMPLES, Sample},
    scheme_args::SecretArgs,
};
use crate::world::real::{chance, wall_clock};

/// Signs when no secret is given. Known to everybody, so good for tests alone; it is the base64 of
/// a sentence that says so.
const TEST_SECRET: &str = "whsec_Zm9yIHRlc3RzIGFsb25lLCBrbm93biB0byBhbGw=";

/// A receiver that has not answered by then would have lost the event with most providers.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What is read of the answer.
const ANSWER_BYTES_MAX: usize = 64 << 10;

const SHOWN: &[Column] = columns!["status", "provider", "event", "event_id", "url"];

/// Send a signed sample request of a provider, to try a receiver
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  snaphook trigger stripe charge.succeeded --secret whsec_…\n  \
                        snaphook trigger github push --to http://127.0.0.1:3000/hooks\n\n\
                        `snaphook trigger list` shows what there is. Without a secret a test secret \
                        signs, and is told."
)]
pub struct Args {
    /// stripe, github, shopify, slack or standardwebhooks; `list` shows their events
    #[arg(value_name = "PROVIDER")]
    provider: String,
    /// The event, as the provider calls it
    #[arg(value_name = "EVENT", default_value = "", hide_default_value = true)]
    event: String,
    /// The receiver's URL; the default is where `snaphook listen` waits
    #[arg(long, default_value = "http://127.0.0.1:9000/", value_name = "URL")]
    to: url::Url,
    #[command(flatten)]
    secrets: SecretArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    let mut output = Output::new(args.json);
    if args.provider == "list" {
        let items = SAMPLES.iter().map(|sample| {
            serde_json::value::to_raw_value(
                &json!({"provider": sample.provider, "event": sample.event}),
            )
        });
        output.list(columns!["provider", "event"], &items.collect::<Result<Vec<_>, _>>()?)?;
        return Ok(Exit::Done);
    }
    let sample = Sample::find(&args.provider, &args.event).ok_or_else(|| unknown(&args))?;
    let mut secrets = args.secrets.read()?;
    if secrets.is_empty() {
        note(&format!("signed with the test secret {TEST_SECRET}"));
        secrets.push(TEST_SECRET.to_owned());
    }
    let verifier = Verifier::new(Scheme::named(sample.provider)?, &secrets, None)
        .map_err(|error| Failure::usage(format!("the secret cannot be used: {error}")))?;
    let id = format!("{}{:016x}", sample.id_prefix, chance());
    let status = send(&args, sample, &verifier, &id).await?;
    let line = serde_json::value::to_raw_value(&json!({
        "status": status, "provider": sample.provider, "event": sample.event,
        "event_id": id, "url": args.to.as_str(),
    }))?;
    output.follow(SHOWN, &line)?;
    Ok(if (200..300).contains(&status) { Exit::Done } else { Exit::Failed })
}

fn unknown(args: &Args) -> Failure {
    let events: Vec<_> = SAMPLES
        .iter()
        .filter(|sample| sample.provider == args.provider)
        .map(|sample| sample.event)
        .collect();
    let message = match (&*events, &*args.event) {
        ([], _) => format!("there is no sample of {:?}", args.provider),
        (_, "") => format!("name an event of {}: {}", args.provider, events.join(", ")),
        _ => format!(
            "{} has no sample {:?}; it has {}",
            args.provider,
            args.event,
            events.join(", ")
        ),
    };
    Failure::usage(message).hint("`snaphook trigger list` shows all samples")
}

async fn send(args: &Args, sample: &Sample, verifier: &Verifier, id: &str) -> anyhow::Result<u16> {
    let now = wall_clock().seconds();
    let body = sample.body(id, now);
    let given: Vec<_> =
        sample.headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    let unsigned = Received::new(&given, body.as_bytes()).with_url(args.to.as_str());
    let Outgoing { headers, .. } = verifier.sign(&unsigned, id, now).context("cannot sign")?;
    let mut request = Request::post(args.to.as_str())
        .header("User-Agent", concat!("snaphook-trigger/", env!("CARGO_PKG_VERSION")));
    for (name, value) in sample.headers {
        request = request.header(*name, *value);
    }
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.body(Full::new(Bytes::from(body)))?;
    let exchange = async {
        let answer = http_client()?.request(request).await.map_err(|error| {
            let message = format!("cannot reach {}: {}", args.to, innermost(&error));
            Failure::new(Exit::Unreachable, message)
                .hint("is the receiver running? `snaphook listen` is one")
        })?;
        let status = answer.status().as_u16();
        // Read, so that the receiver can finish; what it says is its own.
        drop(Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await);
        Ok(status)
    };
    tokio::time::timeout(TIMEOUT, exchange).await.unwrap_or_else(|_| {
        let message = format!("no answer from {} within {} s", args.to, TIMEOUT.as_secs());
        Err(Failure::new(Exit::Unreachable, message).into())
    })
}
