//! CUDA's memory: buffers on the device, pinned memory on the host, and copies between them.

use std::sync::Arc;

use cudarc::driver::result as cu;
use cudarc::driver::sys::{
    self, CUDA_MEMCPY2D_st, CUevent, CUevent_flags_enum, CUmemorytype, CUstream,
};
use dahl_runtime::memory::{Cargo, Direction};

use super::device::Context;
use crate::chunks::{HALF, Piece, carry};

/// A buffer on the device, released when dropped.
pub(super) struct Slab {
    at: sys::CUdeviceptr,
    context: Arc<Context>,
}

impl Slab {
    /// So many bytes.
    pub(super) fn new(context: &Arc<Context>, len: usize) -> Result<Self, cu::DriverError> {
        context.bind()?;
        // SAFETY: nothing looks at the memory before something is written there.
        let at = unsafe { cu::malloc_sync(len)? };
        Ok(Slab {
            at,
            context: context.clone(),
        })
    }

    /// Its first address.
    pub(super) fn base(&self) -> usize {
        self.at as usize
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        let _ = self.context.bind();
        // SAFETY: allocated by us, released once; what used it has been waited for.
        let _ = unsafe { cu::free_sync(self.at) };
    }
}

/// Pinned memory for copies in one direction.
pub(super) struct Staging {
    at: *mut u8,
    context: Arc<Context>,
}

// SAFETY: the memory is reached through `&mut self` only.
unsafe impl Send for Staging {}

/// An event, released when dropped.
struct Event(CUevent);

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created by us, released once.
        let _ = unsafe { cu::event::destroy(self.0) };
    }
}

impl Staging {
    /// Pins memory. The context must be current.
    pub(super) fn new(context: Arc<Context>) -> Result<Self, cu::DriverError> {
        // SAFETY: nothing looks at the memory before something is written there.
        let at = unsafe { cu::malloc_host(2 * HALF, 0)? };
        Ok(Staging {
            at: at.cast(),
            context,
        })
    }

    /// Copies ranges of arrays between the host and the device, by a stream of the current context. A failure
    /// comes with how many have arrived, see [`carry`].
    ///
    /// # Safety
    /// The ranges are inside both; nothing else writes them, nor reads the destination, meanwhile.
    pub(super) unsafe fn copy(
        &mut self,
        stream: CUstream,
        all: &[Cargo<'_>],
        way: Direction,
    ) -> Result<(), (usize, cu::DriverError)> {
        let start = |pieces: &[Piece], half: *mut u8| {
            for p in pieces {
                let address = all[p.of].device as usize;
                // SAFETY: the piece lies in the buffer, and packed in this half, which is left alone
                // until the event has been waited for.
                unsafe { send(p, stream, address, half, way)? };
            }
            let event = Event(cu::event::create(
                CUevent_flags_enum::CU_EVENT_DISABLE_TIMING,
            )?);
            // SAFETY: both exist.
            unsafe { cu::event::record(event.0, stream)? };
            Ok(event)
        };
        // SAFETY: recorded just now.
        let wait = |e: Event| unsafe { cu::event::synchronize(e.0) };
        // SAFETY: the staging memory is borrowed exclusively; the rest is passed on to the caller.
        let carried = unsafe { carry(self.at, all, way, start, wait) };
        if carried.is_err() {
            // Copies begun before the failure must not outlive this call.
            // SAFETY: the stream exists.
            let _ = unsafe { cu::stream::synchronize(stream) };
        }
        carried
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _ = self.context.bind();
        // SAFETY: allocated by us, released once.
        let _ = unsafe { cu::free_host(self.at.cast()) };
    }
}

/// Starts the copy of a piece between the device and the staging half.
///
/// # Safety
/// The piece lies in both, until the stream has come so far.
unsafe fn send(
    p: &Piece,
    stream: CUstream,
    address: usize,
    half: *mut u8,
    way: Direction,
) -> Result<(), cu::DriverError> {
    let (host, device) = (
        CUmemorytype::CU_MEMORYTYPE_HOST,
        CUmemorytype::CU_MEMORYTYPE_DEVICE,
    );
    // SAFETY: the piece is packed in this half.
    let packed = unsafe { half.add(p.at) };
    let there = (address + p.start) as sys::CUdeviceptr;
    let mut copy = CUDA_MEMCPY2D_st {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: host,
        srcHost: packed.cast(),
        srcDevice: 0,
        srcArray: std::ptr::null_mut(),
        srcPitch: p.len,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: device,
        dstHost: std::ptr::null_mut(),
        dstDevice: there,
        dstArray: std::ptr::null_mut(),
        dstPitch: p.pitch,
        WidthInBytes: p.len,
        Height: p.rows,
    };
    if way == Direction::Out {
        (copy.srcMemoryType, copy.dstMemoryType) = (device, host);
        (copy.srcHost, copy.dstHost) = (std::ptr::null(), packed.cast());
        (copy.srcDevice, copy.dstDevice) = (there, 0);
        (copy.srcPitch, copy.dstPitch) = (p.pitch, p.len);
    }
    // SAFETY: as above; the description is read before the call returns.
    unsafe { sys::cuMemcpy2DAsync_v2(&copy, stream).result() }
}
