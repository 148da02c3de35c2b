//! Whole runs of the pipeline in a simulated world.

mod backlogs;
mod circuits;
mod commands;
pub mod crash_sweep;
mod cut_shards;
mod cut_sweep;
mod failing_days;
mod first_checks;
mod late_commits;
mod live_nodes;
mod live_worker;
mod lost_lease;
mod ordered;
mod outcomes;
mod poison;
mod pulled;
mod rates;
mod retry_days;
mod settings;
mod source_book;
