//! Conformance: every recipe, and every CPU implementation, against the CPU's reference, on whatever device
//! is at hand.
//!
//! One driver for all codelets: random operands of odd extents, as tiles of larger arrays whose other
//! elements are not numbers, go through the reference on the host and through the device. Results must
//! agree within a tolerance, elements outside the tiles must not have changed, and running again must
//! give the same bits. Tests call this, and so can anybody who wants to know whether a device can be
//! trusted.

mod cases;
mod dice;
mod operand;
mod run;
mod windows;

pub use cases::cases;
pub use dice::Dice;
pub use operand::{Case, Content, Operand};
pub use run::{Outcome, Worst, check, check_all, check_cpu};
