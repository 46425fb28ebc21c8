//! GPU units: kernels for every codelet, and the devices that run them.
//!
//! | module | what it is |
//! |---|---|
//! | [`source`] | the kernels, one text for OpenCL C and CUDA C |
//! | [`recipes`] | per codelet: which kernels, with which arguments, on how many items; and the table |
//! | [`launch`], [`tensor`], `tuning` | what a recipe is made of |
//! | `device` | what a device must do; the runtime's driver and memory on top of it |
//! | `devices`, [`measure`] | all devices of this computer in one list; what one does at best |
//! | `pool`, `store` | device memory, dealt out from a few large buffers; counters of what a device did |
//! | `fault` | the first failure, after which a device is out of use; failures for tests |
//! | `chunks` | copies through pinned memory, small ones joined |
//! | `check` | every recipe against the CPU's reference, on a device at hand |
//! | [`opencl`], [`cuda`] | devices, through libraries that are loaded when first asked for |
//!
//! A recipe is a pure function from operands and parameters to launches: it knows no device, so one
//! recipe serves OpenCL and CUDA alike, and tests can look at launches without either. Nothing here
//! links to a GPU library: without one, listing devices finds none, and says why.
//!
//! A device has two queues. Kernels go to one, copies to the other, so that the runtime's prefetches travel
//! while kernels run; the caller waits for the event of its own last command, once per task and once per
//! copy, and for nothing else. Once warm, a device is asked for no memory and compiles nothing:
//! [`Device::stats`] counts both. A call that fails takes the device out of use ([`Device::lost`]); a lack of
//! memory does not, and is sorted out by the runtime, which gives up copies or runs the task elsewhere.

#![cfg_attr(not(test), warn(unreachable_pub))]

mod attach;
mod cache;
mod chunks;
pub mod cuda;
mod device;
mod devices;
mod error;
mod fault;
pub mod launch;
pub mod measure;
pub mod opencl;
mod pool;
pub mod recipes;
pub mod source;
mod store;
pub mod tensor;
mod tuning;

pub use attach::{Opened, Opening, attach, equip, open};
pub use device::{Device, GpuDriver, GpuMemory, LinkSpeed, Settings, kernels};
pub use devices::{Found, Library, Listing, list};
pub use error::GpuError;
pub use fault::Fault;
pub use store::Stats;
pub use tuning::Tuning;
