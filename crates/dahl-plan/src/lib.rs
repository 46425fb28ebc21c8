//! The planner: schedules made before a run, with a lower bound or a proof of how good they are.
//!
//! [`plan`] finds one for a [`Problem`]: tasks with execution modes on groups of equal units, data in memories,
//! transfers over links, an objective and a deadline. [`GraphProblem`] makes the problem of a graph on a machine, and
//! [`PlanFile`] keeps the plan in the graph's terms. It executes nothing and reads no clock or file: the caller says
//! when it has been long enough.
//!
//! | module | what |
//! |---|---|
//! | `problem`, `graph_problem` | what is planned, in numbers, and what a plan costs: the equations; from a graph and a machine |
//! | `network`, `timeline`, `list`, `sharing` | the activities once each task's memory is known; list scheduling in virtual time; what links share |
//! | `schedule` | a complete schedule, and a check of it that trusts nobody |
//! | `bound` | lower bounds by Lagrangian duality |
//! | `reduced_cost` | reduced-cost fixing: execution modes that no better plan can use |
//! | `first`, `warm_start`, `construct`, `dispatch`, `rules` | initial plans: greedy, dispatching rules, those of policies |
//! | `local_search`, `quick`, `slack`, `levelling` | local search, slower states before a deadline, load levelling |
//! | `states` | one frequency state per unit and step, where switching is not free |
//! | `exact` | branch and bound with learned clauses, for small problems: one function |
//! | `prove`, `series`, `pareto` | what is proven at once or part by part; objectives that are no sums over parts |
//! | `solve`, `why`, `progress` | all of these together; words for bounds and refusals; how far a search has come |
//! | `file`, `transfers` | plans as text; their transfers in the graph's terms |
//! | `orders` | plans from runs: what a simulation did |
//! | `steady`, `critical_cycle`, `delays`, `branching` | the bound of a step in the middle of a run; the cycle through the weights; least delays between memories; branching over memories |
//! | `policy` | plans that leave order and unit to a policy |
//! | `expected` | what a run that follows a plan is expected to take |
//! | `frontier`, [`explain`] | time against energy; plans in words |
//! | [`placement`] | published placement problems of others, solved exactly |
//! | [`pipeline`] | networks cut into stages |

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(unreachable_pub))]

mod bound;
mod branching;
mod construct;
mod critical_cycle;
mod delays;
mod dispatch;
mod exact;
mod expected;
pub mod explain;
mod file;
mod first;
mod frontier;
mod graph_problem;
mod levelling;
mod list;
mod local_search;
mod network;
mod orders;
mod pareto;
pub mod pipeline;
pub mod placement;
mod policy;
mod problem;
mod progress;
mod prove;
mod quick;
mod reduced_cost;
mod rules;
mod schedule;
mod series;
mod sharing;
mod slack;
mod solve;
mod states;
mod steady;
#[cfg(test)]
mod tests;
mod timeline;
mod transfers;
mod warm_start;
mod why;

pub use expected::{Expected, FollowError};
pub use file::{Alternative, FileError, PlanFile, PlanTarget, fingerprint};
pub use frontier::frontier;
pub use graph_problem::GraphProblem;
pub use orders::Orders;
pub use policy::PlanPolicy;
pub use problem::{
    Class, Datum, Goal, Group, Link, Memory, Objective, Origin, PlanError, Problem, Shared,
};
pub use progress::Progress;
pub use schedule::{Schedule, ScheduleEnergy, ScheduledTask, ScheduledTransfer};
pub use solve::{Limits, Plan, plan};
pub use steady::{SteadyBound, SteadyBounds, steady_bound};
pub use warm_start::WarmStart;
