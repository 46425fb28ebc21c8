//! Plans: decisions made before a run, with a proof of how good they are.
//!
//! | file | what |
//! |---|---|
//! | `problem` | what is planned, in numbers, and what a plan costs: the equations |
//! | `network` | what has to be done once each task's memory is known |
//! | `timeline`, `list` | performing it in virtual time; plans from choices and priorities |
//! | `schedule` | a complete plan, and a check of it that trusts nobody |
//! | `bound` | what no plan can beat |
//! | `fix` | ways that no better plan can use |
//! | `exact`, `prove` | proven best plans of small problems, by search; when and of what |
//! | `series`, `front` | problems that fall into parts; goals that are no sums over parts |
//! | `first`, `warm_start`, `construct`, `dispatch`, `rules` | first plans of large ones |
//! | `slack`, `quick`, `search`, `even` | better plans from these |
//! | `graph_problem` | from a graph and a machine to a problem |
//! | `transfers` | a plan's transfers, in the graph's terms |
//! | `expected` | what a run that follows a plan is expected to take |
//! | `frontier`, `file`, `explain` | time against energy; plans as text; in words |
//! | `solve`, `why` | all of these together; words for bounds and refusals |
//! | `placement` | another planning problem, of others |

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(unreachable_pub))]

mod bound;
mod construct;
mod dispatch;
mod even;
mod exact;
mod expected;
pub mod explain;
mod file;
mod first;
mod fix;
mod front;
mod frontier;
mod graph_problem;
mod list;
mod network;
pub mod placement;
mod problem;
mod prove;
mod quick;
mod rules;
mod schedule;
mod search;
mod series;
mod slack;
mod solve;
#[cfg(test)]
mod tests;
mod timeline;
mod transfers;
mod warm_start;
mod why;

pub use expected::{Expected, FollowError};
pub use file::{Alternative, FileError, PlanFile, PlanTarget, fingerprint};
pub use frontier::{frontier, svg};
pub use graph_problem::GraphProblem;
pub use problem::{Class, Datum, Goal, Group, Link, Memory, Objective, Origin, PlanError, Problem};
pub use schedule::{Schedule, ScheduleEnergy, ScheduledTask, ScheduledTransfer};
pub use solve::{Limits, Plan, alone, plan};
pub use warm_start::WarmStart;
