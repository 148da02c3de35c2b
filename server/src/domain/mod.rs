//! What things are. Pure: no async, no I/O, no clock, no chance, so that every rule can be
//! tested by calling it.

pub mod address;
pub mod id;
pub mod outcome;
pub mod time;
