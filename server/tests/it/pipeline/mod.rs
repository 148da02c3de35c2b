//! Whole runs of the pipeline in a simulated world.

mod crash_sweep;
mod lost_lease;
mod retry_days;
