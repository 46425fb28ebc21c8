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
//! | `first`, `seed`, `construct`, `dispatch`, `rules` | first plans of large ones |
//! | `slack`, `quick`, `search`, `even` | better plans from these |
//! | `lowered` | from a graph and a machine to a problem |
//! | `carried` | a plan's transfers, in the graph's terms |
//! | `expect` | what a run that follows a plan is expected to take |
//! | `frontier`, `file`, `explain` | time against energy; plans as text; in words |
//! | `solve`, `why` | all of these together; words for bounds and refusals |
//! | `placement` | another planning problem, of others |

#![forbid(unsafe_code)]

pub mod bound;
pub mod carried;
pub mod construct;
pub mod dispatch;
pub mod even;
pub mod exact;
pub mod expect;
pub mod explain;
pub mod file;
pub mod first;
pub mod fix;
mod front;
pub mod frontier;
pub mod list;
pub mod lowered;
pub mod network;
pub mod placement;
pub mod problem;
mod prove;
pub mod quick;
pub mod rules;
pub mod schedule;
pub mod search;
pub mod seed;
mod series;
pub mod slack;
pub mod solve;
pub mod timeline;
mod why;
