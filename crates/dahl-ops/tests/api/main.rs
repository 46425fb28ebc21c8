//! Operations on typed arrays: values against plain loops for both element types, every form, split
//! arrays, mistakes; and what every codelet of the table must satisfy.

mod common;
mod conformance;
mod coverage;
mod elementwise;
mod layers;
mod linalg;
mod mistakes;
mod reduce;
