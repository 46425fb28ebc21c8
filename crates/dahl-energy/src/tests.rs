//! Meters over made-up trees, counters and libraries.

mod discovery;
pub(crate) mod made_up;
mod nvml;
mod totals;
