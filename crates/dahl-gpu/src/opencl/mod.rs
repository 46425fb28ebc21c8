//! OpenCL: AMD, Intel and NVIDIA GPUs, and PoCL, which runs on any CPU.
//!
//! The library is loaded when devices are first asked for. Without one that is an error that says so,
//! and nothing else happens.

mod copies;
mod device;
mod handle;
mod info;
mod program;
mod reserve;

pub use device::OpenClDevice;
pub use info::{Info, devices};
