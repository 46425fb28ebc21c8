//! Reductions: to one value, or over some axes. The order of summation depends on the extents and the
//! instruction set only.

pub mod axes;
pub mod rows;
