//! DAHL's operations: one file each, with shape rule, cost, gradient and CPU implementations.

#![cfg_attr(not(test), warn(unreachable_pub))]

pub mod activation;
pub mod api;
pub mod batch_norm;
pub mod channelwise;
mod choices;
pub mod codelets;
pub mod compare;
pub mod conv2d;
pub mod cross_entropy;
pub mod declare;
pub mod dropout;
pub mod elementwise;
pub(crate) mod float;
mod identity;
pub mod linalg;
pub mod linear;
pub mod loss;
pub mod norm;
pub mod op;
pub mod optim;
pub(crate) mod philox;
pub mod pool;
pub mod reduce;
pub mod simd;
pub mod softmax;
#[cfg(test)]
mod tests;
pub mod upsample;
pub mod window;

pub use choices::Choices;
pub use identity::KernelIdentity;
