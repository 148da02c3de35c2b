//! Whole runs of the pipeline in a simulated world.

mod commands;
pub mod crash_sweep;
mod cut_shards;
mod cut_sweep;
mod first_checks;
mod late_commits;
mod live_nodes;
mod live_worker;
mod lost_lease;
mod outcomes;
mod poison;
mod retry_days;
mod settings;
