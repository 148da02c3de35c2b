//! The doors, from outside.

mod api;
mod callers;
mod cli;
mod cli_dev;
mod cli_listen;
mod cli_schemes;
mod cli_serve;
mod cli_sources;
mod connections;
mod ingress;
