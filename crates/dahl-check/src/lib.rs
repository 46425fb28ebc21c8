//! Conformance: every kernel of a device, and every CPU implementation, against the CPU's reference.
//!
//! One procedure for all codelets: random operands of odd extents, as tiles of larger arrays whose other
//! elements are not numbers, go through the reference on the host and through the device. Results must
//! agree within a tolerance, elements outside the tiles must not have changed, and running again must
//! give the same bits. It checks any [`Driver`](dahl_runtime::driver::Driver) with its memory, whatever
//! its kind; it opens none, and writes nothing.
//!
//! ```
//! use std::time::Duration;
//! use dahl_check::{Subject, check};
//! use dahl_core::DType;
//! use dahl_runtime::driver::CpuDriver;
//! use dahl_runtime::memory::HostDevice;
//!
//! let memory = HostDevice::new(1e12, Duration::ZERO);
//! let subject = Subject { driver: &CpuDriver, memory: &memory };
//! let copy = dahl_ops::codelets::by_name("copy").expect("a codelet");
//! let outcome = check(subject, copy, DType::F32, 1);
//! assert_eq!((outcome.failure, outcome.cases > 0), (None, true));
//! ```

#![cfg_attr(not(test), warn(unreachable_pub))]

mod cases;
mod dice;
mod operand;
mod run;
mod windows;

pub use run::{Outcome, Subject, Worst, check, check_all, check_cpu};
