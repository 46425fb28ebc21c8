//! What decides at run time: policies, performance models, and the rules of transfers.
//!
//! The runtime drives it with real time, the simulator with virtual time, so what is simulated is what will
//! run. Nothing here executes, reads a clock, an environment variable or a file.
//!
//! | module | what |
//! |---|---|
//! | [`policy`] | which unit runs which ready task; a schedule decided beforehand is one of them |
//! | [`model`] | how long tasks take, learned from their runs |
//! | [`transfers`], [`batch`] | which planned transfers may go now; which copies travel together |

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(unreachable_pub))]

pub mod batch;
pub mod edges;
mod lock;
pub mod model;
pub mod policy;
pub mod transfers;
