//! The doors, from outside.

mod cli;
mod cli_listen;
mod connections;
