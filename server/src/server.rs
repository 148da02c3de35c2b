//! The server: opens what it needs, mounts the doors, starts the worker, and stops all of it in
//! order.

pub mod connections;
pub mod signals;
