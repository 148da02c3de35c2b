//! The one integration test binary: everything that needs a database, a socket or the whole
//! program. One binary, because each link of it costs seconds. Pure rules are tested beside their
//! code in `src`.
#![expect(clippy::unwrap_used, reason = "a test may panic, and says where")]
#![expect(clippy::similar_names, reason = "a receiver and what it received are our words")]

mod doors;
mod fuzzed;
mod manage;
mod manual;
mod official_libraries;
mod pipeline;
mod programs;
mod sql;
mod store;
mod support;
mod tidy;
mod world;
mod worlds;
