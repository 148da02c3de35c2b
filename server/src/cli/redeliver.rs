//! `snaphook redeliver`: a new run of one delivery.

use super::{client::Client, connect::ClientArgs, deliveries, exit::Exit, output::Output};

/// Send a delivery again: a new run with a fresh retry schedule; history stays
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    to: ClientArgs,
    /// The delivery, dlv_…
    delivery: String,
}

/// Runs the command.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    let client = Client::new(&args.to)?;
    let mut output = Output::new(args.to.json);
    deliveries::command(&client, &args.delivery, "redeliver", &mut output).await?;
    Ok(Exit::Done)
}
