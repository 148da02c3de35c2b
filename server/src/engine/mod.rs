//! The pipeline: events come in, deliveries go out.

pub mod prepare;
