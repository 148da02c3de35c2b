//! The binary `snaphook`: parses the command line, runs it, and exits as it ended.

use std::process::ExitCode;

use clap::Parser as _;
use snaphook::cli::{Cli, exit::exit_of, print_error};

/// Faster than the system's where many small things live for one request.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let exit = match Cli::parse().run().await {
        Ok(exit) => exit,
        Err(error) => {
            let exit = exit_of(&error);
            if exit != snaphook::cli::exit::Exit::Done {
                print_error(&error);
            }
            exit
        }
    };
    ExitCode::from(exit as u8)
}
