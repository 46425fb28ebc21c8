//! The loops behind the losses.

pub mod smooth;
pub mod values;
