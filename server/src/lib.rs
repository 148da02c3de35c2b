//! snaphook: webhooks both ways, one pipeline: event → deliveries → attempts.

pub mod config;
pub mod domain;
pub mod telemetry;
pub mod world;
