//! Meters over made-up trees, counters and libraries.

mod discovery;
mod made_up;
mod nvml;
mod totals;
