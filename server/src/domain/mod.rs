//! What things are. Pure: no async, no I/O, no clock, no chance, so that every rule can be
//! tested by calling it.

#[macro_use]
mod coded;

pub mod address;
pub mod attempt;
pub mod circuit;
pub mod declared;
pub mod delivery;
pub mod duration;
pub mod emit;
pub mod endpoint;
pub mod endpoint_kind;
pub mod endpoint_state;
pub mod event;
pub mod event_type;
pub mod filter;
pub mod final_statuses;
pub mod first_check;
pub mod format;
pub mod forwarded;
pub mod health;
pub mod id;
pub mod json;
pub mod limits;
pub mod outcome;
pub mod own_headers;
pub mod pace;
pub mod problem;
pub mod profile;
pub mod rate;
pub mod received;
pub mod request_headers;
pub mod request_state;
pub mod retry;
pub mod retry_after;
pub mod schema;
pub mod scope;
pub mod secret_kind;
pub mod shard;
pub mod signal;
pub mod size;
pub mod source;
pub mod tenant;
pub mod time;
pub mod tls_settings;
pub mod url;
