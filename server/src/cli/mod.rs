//! The command line. One file per command: its arguments, and what it does with them.
//!
//! `serve`, `dev`, `migrate`, `doctor`, `keys` and `secrets reseal` work on the database; all
//! others are clients of the HTTP API and can do what it can do. What commands print is in
//! `output`, how they end in `exit`.

mod ask;
mod bench;
mod checks;
mod client;
mod connect;
mod deliveries;
mod dev;
mod doctor;
mod emit;
mod endpoint_fields;
mod endpoints;
mod event_types;
mod events;
pub mod exit;
mod feed;
mod filters;
mod find;
mod forward;
mod input;
mod keys;
mod listen;
mod local;
mod migrate;
mod outgoing;
mod output;
mod problem;
mod receiver;
mod redeliver;
mod requests;
mod sample;
mod samples;
mod scheme_args;
mod secrets;
mod serve;
mod settings_args;
mod sign;
mod source_checks;
mod source_fields;
mod sources;
mod tail;
mod tenants;
mod trigger;
pub mod verify;
mod wait;

use exit::Exit;

/// Webhooks both ways: committed with your data, delivered until they arrive
#[derive(clap::Parser)]
#[command(
    name = "snaphook",
    version,
    after_help = "Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 not allowed, \
                  5 refused in this state, 6 server unreachable, 8 a check failed"
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Dev(dev::Args),
    Serve(serve::Args),
    Migrate(migrate::Args),
    Doctor(doctor::Args),
    Emit(emit::Args),
    #[command(alias = "tenant")]
    Tenants(tenants::Args),
    #[command(alias = "endpoint")]
    Endpoints(endpoints::Args),
    #[command(alias = "source")]
    Sources(sources::Args),
    #[command(alias = "request")]
    Requests(requests::Args),
    #[command(alias = "event-type")]
    EventTypes(event_types::Args),
    #[command(alias = "key")]
    Keys(keys::Args),
    #[command(alias = "event")]
    Events(events::Args),
    #[command(alias = "delivery")]
    Deliveries(deliveries::Args),
    Listen(Box<listen::Args>),
    Redeliver(redeliver::Args),
    #[command(alias = "secret")]
    Secrets(secrets::Args),
    Verify(verify::Args),
    Sign(sign::Args),
    Trigger(trigger::Args),
    Bench(bench::Args),
}

impl Cli {
    /// Runs the command to its end.
    pub async fn run(self) -> anyhow::Result<Exit> {
        match self.command {
            // A whole server is too large for a stack that is copied.
            Command::Dev(args) => Box::pin(dev::run(args)).await,
            Command::Serve(args) => Box::pin(serve::run(args)).await,
            Command::Keys(args) => keys::run(args).await,
            Command::Migrate(args) => migrate::run(args).await,
            Command::Doctor(args) => doctor::run(args).await,
            Command::Emit(args) => emit::run(args).await,
            Command::Tenants(args) => tenants::run(args).await,
            Command::Endpoints(args) => endpoints::run(args).await,
            Command::Sources(args) => sources::run(args).await,
            Command::Requests(args) => requests::run(args).await,
            Command::EventTypes(args) => event_types::run(args).await,
            Command::Events(args) => events::run(args).await,
            Command::Deliveries(args) => deliveries::run(args).await,
            Command::Listen(args) => Box::pin(listen::run(*args)).await,
            Command::Redeliver(args) => redeliver::run(args).await,
            Command::Secrets(args) => secrets::run(args).await,
            Command::Verify(args) => verify::run(&args),
            Command::Sign(args) => sign::run(&args),
            Command::Trigger(args) => trigger::run(args).await,
            Command::Bench(args) => bench::run(args).await,
        }
    }
}

/// Prints an error for people: the chain of what went wrong, on standard error.
pub fn print_error(error: &anyhow::Error) {
    note(&format!("error: {error:#}"));
}

/// Prints words for people beside the data: on standard error.
fn note(text: &str) {
    use std::io::Write as _;
    // Whoever has closed it wants to hear nothing; the exit code still tells.
    let _ = writeln!(std::io::stderr(), "{}", output::visible_lines(text));
}
