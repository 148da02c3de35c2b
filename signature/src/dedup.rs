//! Remembering which events were seen, in the database of the program that receives them.
//!
//! Senders deliver at least once, so the same event comes again. Where the memory of it is written
//! in the transaction of the work itself, work and memory are there both or neither.

#[cfg(feature = "redis")]
mod redis;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod sql;

#[cfg(feature = "redis")]
pub use self::redis::{RedisDedup, Sight};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use self::sql::{Dedup, Memory};
