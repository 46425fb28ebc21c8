//! The loops behind the losses.

pub(crate) mod smooth;
pub(crate) mod soft;
pub(crate) mod values;
