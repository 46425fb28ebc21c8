//! CUDA: NVIDIA GPUs, with the same kernels as OpenCL compiled by NVRTC, and cuBLAS for products.
//!
//! Driver, compiler and cuBLAS are loaded when first asked for; without the first two there are no
//! devices, without the last the kernels here multiply.

mod blas;
mod compile;
mod device;
mod library;
mod memory;
mod module;

pub use compile::ptx;
pub(crate) use device::{CudaDevice, Info, devices};
pub use library::compiler_present;
pub(crate) use library::{blas_present, driver_present};
