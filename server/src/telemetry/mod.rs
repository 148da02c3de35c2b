//! What the server tells of itself: metrics for machines, logs for people. Their names stand here,
//! in one place, because dashboards and alerts are written against them.
//!
//! Uses no other module, so that every other may use it. Nothing in here decides anything.

pub mod logs;
pub mod metrics;
