//! snaphook: webhooks both ways, one pipeline: event → deliveries → attempts.

pub mod config;
pub mod domain;
pub mod faults;
pub mod store;
pub mod telemetry;
pub mod world;
