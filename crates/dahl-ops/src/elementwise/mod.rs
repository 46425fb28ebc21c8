//! Operations that treat every element alike, on views of any rank.

pub mod binary;
pub mod relu;
pub mod unary;
pub mod walk;
