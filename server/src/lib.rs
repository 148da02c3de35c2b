//! snaphook: webhooks both ways, one pipeline: event → deliveries → attempts.

pub mod api;
pub mod bench;
pub mod cli;
pub mod config;
#[macro_use]
pub mod domain;
pub mod embed;
pub mod engine;
pub mod faults;
pub mod ingress;
pub mod manage;
pub mod server;
pub mod store;
pub mod telemetry;
pub mod world;

pub use domain::{id::EventId, time::Timestamp};
pub use embed::{Emit, EmitConnection, EmitError, emit, emit_many};
