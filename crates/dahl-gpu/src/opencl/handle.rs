//! OpenCL's objects, released when dropped, and its errors.

use cl3::error_codes::error_text;
use cl3::types::{cl_event, cl_int};

use crate::error::GpuError;

/// An object that is ours to release.
pub(super) struct Owned<T: Copy> {
    raw: T,
    release: unsafe fn(T) -> Result<(), cl_int>,
}

// SAFETY: OpenCL's objects may be used by any thread; setting a kernel's arguments, which may not, is
// done under a lock by the owner of the kernels.
unsafe impl<T: Copy> Send for Owned<T> {}
// SAFETY: as above.
unsafe impl<T: Copy> Sync for Owned<T> {}

impl<T: Copy> Owned<T> {
    /// Takes an object over.
    ///
    /// # Safety
    /// The object is valid, `release` is its function, and nobody else releases this reference.
    pub(super) unsafe fn new(raw: T, release: unsafe fn(T) -> Result<(), cl_int>) -> Self {
        Owned { raw, release }
    }

    /// The object, valid as long as this value.
    pub(super) fn raw(&self) -> T {
        self.raw
    }
}

impl<T: Copy> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: by the contract of `new`. Nobody could do anything about a failure here.
        let _ = unsafe { (self.release)(self.raw) };
    }
}

/// An event that is ours to release.
pub(super) fn event(raw: cl_event) -> Owned<cl_event> {
    // SAFETY: only called with what an enqueue has just returned.
    unsafe { Owned::new(raw, cl3::event::release_event) }
}

/// Names the device and the call of an error.
pub(super) fn call<T>(device: &str, what: &str, result: Result<T, cl_int>) -> Result<T, GpuError> {
    result.map_err(|code| GpuError::Call {
        device: device.into(),
        what: what.into(),
        why: format!("{} ({code})", error_text(code)),
    })
}
