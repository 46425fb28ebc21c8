//! Linear algebra: products of vectors and matrices, transposes, diagonals, cross-correlation.
//!
//! Vectors and matrices may be tiles of larger ones. Results are overwritten where they are declared as
//! written; dot, outer and matrix products add to results that are read and written or reduced into.
//! [`products`] and [`rearranged`] declare the operations, the other files have their kernels.
//!
//! ```
//! use dahl_core::{Arena, Recorder};
//! use dahl_ops::api::{Transposed, matmul_into};
//!
//! let arena = Arena::new();
//! let a = arena.from_slice([2, 3], &[1.0f64, 2.0, 3.0, 4.0, 5.0, 6.0])?;
//! let mut gram = arena.zeros::<f64, 2>([2, 2])?;
//!
//! let recorder = Recorder::new();
//! matmul_into(&recorder, &a, &a, Transposed::B, &mut gram);
//! let graph = recorder.finish()?;
//!
//! let mut runtime = dahl_runtime::Runtime::builder().workers(1).build()?;
//! runtime.launch(&graph)?;
//! assert_eq!(*runtime.read(&gram)?, [14.0, 32.0, 32.0, 77.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod correlate;
pub(crate) mod matmul;
mod portable;
pub mod products;
pub(crate) mod rearrange;
pub mod rearranged;
mod slice;
pub(crate) mod small;
pub(crate) mod vector;

pub use products::MATMUL;
pub(crate) use products::{DOT, MATVEC, OUTER, VECMAT};
pub(crate) use rearranged::{CORRELATE, DIAG, DIAGONAL, TRANSPOSE};
