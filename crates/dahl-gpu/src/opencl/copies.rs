//! Copies between host and device through pinned memory.
//!
//! A staging buffer has two halves: while one travels, the other is packed or unpacked. Each direction
//! has its own, so the two do not wait for each other here. Commands go to the copy queue and overlap
//! with kernels on the other one.

use std::ffi::c_void;

use cl3::command_queue as cl;
use cl3::memory::{CL_MAP_READ, CL_MAP_WRITE, CL_MEM_ALLOC_HOST_PTR, CL_MEM_READ_WRITE};
use cl3::types::{CL_FALSE, CL_TRUE, cl_command_queue, cl_context, cl_event, cl_int, cl_mem};
use dahl_runtime::memory::{Cargo, Direction};

use super::handle::{Owned, event};
use crate::chunks::{HALF, Piece, carry};

/// Pinned memory for copies in one direction.
pub(super) struct Staging {
    pinned: Owned<cl_mem>,
    at: *mut u8,
    queue: cl_command_queue,
}

// SAFETY: the mapped memory is reached through `&mut self` only.
unsafe impl Send for Staging {}

impl Staging {
    /// Pins and maps a buffer. The queue must outlive it.
    pub(super) fn new(context: cl_context, queue: cl_command_queue) -> Result<Self, cl_int> {
        let flags = CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR;
        let mut at: *mut c_void = std::ptr::null_mut();
        // SAFETY: valid context and queue; no host pointer is given, so none must be valid.
        let pinned = unsafe {
            let raw = cl3::memory::create_buffer(context, flags, 2 * HALF, std::ptr::null_mut())?;
            Owned::new(raw, cl3::memory::release_mem_object)
        };
        let how = CL_MAP_READ | CL_MAP_WRITE;
        // SAFETY: the whole of a buffer made just now; waits until it is mapped.
        let mapped = unsafe {
            cl::enqueue_map_buffer(
                queue,
                pinned.raw(),
                CL_TRUE,
                how,
                0,
                2 * HALF,
                &mut at,
                0,
                std::ptr::null(),
            )?
        };
        drop(event(mapped));
        Ok(Staging {
            pinned,
            at: at.cast(),
            queue,
        })
    }

    /// Copies ranges of arrays between the host and the device, where each lies in a buffer, so many bytes
    /// in. A failure comes with how many have arrived, see [`carry`].
    ///
    /// # Safety
    /// The ranges are inside both; nothing else writes them, nor reads the destination, meanwhile.
    pub(super) unsafe fn copy(
        &mut self,
        places: &[(cl_mem, usize)],
        all: &[Cargo<'_>],
        way: Direction,
    ) -> Result<(), (usize, cl_int)> {
        let start = |pieces: &[Piece], half: *mut u8| {
            let mut last = None;
            for p in pieces {
                let (buffer, offset) = places[p.of];
                // SAFETY: the piece lies in the buffer, and packed in this half, which is left alone
                // until the event has been waited for: the queue works in order.
                last = Some(event(unsafe { self.send(p, buffer, offset, half, way)? }));
            }
            cl::flush(self.queue)?;
            Ok(last)
        };
        let wait = |e: Option<Owned<cl_event>>| match e {
            None => Ok(()),
            Some(e) => cl3::event::wait_for_events(&[e.raw()]),
        };
        // SAFETY: the staging memory is borrowed exclusively; the rest is passed on to the caller.
        let carried = unsafe { carry(self.at, all, way, start, wait) };
        if carried.is_err() {
            // Copies begun before the failure must not outlive this call.
            let _ = cl::finish(self.queue);
        }
        carried
    }

    /// Starts the copy of a piece between a buffer and the staging half.
    unsafe fn send(
        &self,
        p: &Piece,
        buffer: cl_mem,
        offset: usize,
        staging: *mut u8,
        way: Direction,
    ) -> Result<cl_event, cl_int> {
        let (queue, none) = (self.queue, std::ptr::null());
        let start = offset + p.start;
        // SAFETY: the caller's contract: everything named here exists until the event.
        unsafe {
            let packed = staging.add(p.at).cast::<c_void>();
            if p.rows == 1 {
                return match way {
                    Direction::In => cl::enqueue_write_buffer(
                        queue, buffer, CL_FALSE, start, p.len, packed, 0, none,
                    ),
                    Direction::Out => cl::enqueue_read_buffer(
                        queue, buffer, CL_FALSE, start, p.len, packed, 0, none,
                    ),
                };
            }
            let (there, here) = ([start, 0, 0], [0, 0, 0]);
            let (region, pitches) = ([p.len, p.rows, 1], [p.pitch, p.len]);
            let (there, here, region) = (there.as_ptr(), here.as_ptr(), region.as_ptr());
            let [far, near] = pitches;
            match way {
                Direction::In => cl::enqueue_write_buffer_rect(
                    queue, buffer, CL_FALSE, there, here, region, far, 0, near, 0, packed, 0, none,
                ),
                Direction::Out => cl::enqueue_read_buffer_rect(
                    queue, buffer, CL_FALSE, there, here, region, far, 0, near, 0, packed, 0, none,
                ),
            }
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // SAFETY: mapped once in `new`; the queue still exists.
        let unmapped = unsafe {
            cl::enqueue_unmap_mem_object(
                self.queue,
                self.pinned.raw(),
                self.at.cast(),
                0,
                std::ptr::null(),
            )
        };
        if let Ok(e) = unmapped {
            let e = event(e);
            let _ = cl3::event::wait_for_events(&[e.raw()]);
        }
    }
}
