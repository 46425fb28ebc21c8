//! What the tests of several crates share: skipping aloud, the number of random programs, random programs with
//! their brute-force meaning, plans for them, small files of data sets, values of arrays, and training runs that PyTorch made.
//!
//! It depends on the crates it serves, which is fine for their integration tests. Unit tests see another copy
//! of their own crate's types, so they use [`skip!`], [`scaled`] and [`files`] alone.

pub mod arrays;
pub mod files;
#[cfg(feature = "plans")]
pub mod plans;
pub mod program;
#[cfg(feature = "runs")]
pub mod runs;
mod scale;
#[doc(hidden)]
pub mod skip;

pub use scale::scaled;
