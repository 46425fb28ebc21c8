//! Pipelines: a network cut into stages that work on different batches at the same time.
//!
//! The problem is that of Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training" (SOSP
//! 2019): which layers form a stage, how many replicas each stage has, so that a batch takes the least time in the
//! steady state. Here with what their program leaves out: memory limits that hold, unequal units, a lower bound.
//!
//! ```text
//! text ─ profile ─► Profile ─ cuts ─► downward-closed sets of layers ─┬─ search ─► PipelinePlan
//! machine ─ platform ─► Platform ─────────────────────────────────────┘  (flush: with micro-batches)
//! ```
//!
//! Nothing here executes, reads a file or looks at a clock.

mod answer;
mod bound;
mod cost;
mod cuts;
mod energy;
mod error;
mod flush;
mod partition;
mod platform;
mod profile;
mod report;
mod schedule;
mod search;
#[cfg(test)]
mod tests;

pub use answer::{PipelinePlan, PipelineStage};
pub use energy::{EnergyError, EnergyFrontier, EnergyPoint, OptionTable, energy_frontier};
pub use error::PipelineError;
pub use partition::{PipelineOptions, partition};
pub use platform::{PipelineUnit, Platform};
pub use profile::{Layer, Profile};
pub use schedule::{
    Operation, PipelineSchedule, PipelineWork, ScheduleError, ScheduleKind, Slot, schedule,
};
