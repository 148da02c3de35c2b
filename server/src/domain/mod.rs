//! What things are. Pure: no async, no I/O, no clock, no chance, so that every rule can be
//! tested by calling it.

pub mod address;
pub mod duration;
pub mod event_type;
pub mod retry;
pub mod tenant;
pub mod endpoint;
pub mod format;
pub mod id;
pub mod outcome;
pub mod own_headers;
pub mod problem;
pub mod profile;
pub mod rate;
pub mod time;
pub mod tls_settings;
pub mod url;
