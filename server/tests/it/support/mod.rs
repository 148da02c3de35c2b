//! What the tests share: databases, receivers, worlds. Nothing here knows a single test.
#![expect(dead_code, reason = "each test file uses its own part")]

pub mod certificates;
pub mod cluster;
pub mod databases;
pub mod gate;
pub mod live;
pub mod oracle;
pub mod pipeline;
pub mod program;
pub mod receiver;
pub mod simulated;
pub mod soak;
