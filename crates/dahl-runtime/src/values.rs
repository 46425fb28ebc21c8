//! Values: how arrays are read and written between launches.
//!
//! A reader waits for exactly the tasks that produce what it reads, through their exits, and for no
//! others. It holds nothing while it waits, so readers cannot deadlock.

use dahl_core::{Array, Element, Handle};

use crate::error::RunError;
use crate::exit::Node;
use crate::guard::{ReadGuard, WriteGuard};
use crate::runtime::Runtime;
use crate::shared::{FOR_WAITER, Waiter};
use crate::sync::{AtomicU32, Ordering};

/// What a waiting reader needs, kept for the next one.
#[derive(Default)]
pub(crate) struct WaitScratch {
    /// Layers and tasks to wait for.
    tasks: Vec<(usize, u32)>,
    nodes: Vec<Node>,
}

impl Runtime {
    /// Waits for the tasks that a reader, or a writer, of an array must wait for, and for no others.
    fn settle(&self, handle: &Handle, to_write: bool) -> Result<(), RunError> {
        let Some(layers) = self.layers.get(&handle.storage.id) else {
            return Ok(());
        };
        let WaitScratch { tasks, nodes } = &mut *self.wait_scratch.borrow_mut();
        tasks.clear();
        for (i, layer) in layers.iter().enumerate() {
            if !layer.instance.has_ended(layer.serial) {
                let boundary = &layer.instance.graph().boundary;
                let (whole, region) = (&handle.whole, &handle.region);
                boundary.last_users(layer.storage, whole, region, to_write, |t| {
                    tasks.push((i, t))
                });
            }
        }
        if nodes.len() < tasks.len() {
            nodes.resize_with(tasks.len(), Node::default);
        }
        let waiter = Waiter {
            left: AtomicU32::new(1),
        };
        let who = std::ptr::from_ref(&waiter).expose_provenance();
        for (&(layer, task), node) in tasks.iter().zip(&*nodes) {
            let exit = layers[layer]
                .instance
                .exit(task)
                .expect("last users have exits");
            waiter.left.fetch_add(1, Ordering::Relaxed);
            // SAFETY: the wait_scratch keeps the node, and nobody else uses it, until the waiter has been told
            // of every task.
            if !unsafe { exit.add(node, who, FOR_WAITER) } {
                waiter.left.fetch_sub(1, Ordering::Relaxed);
            }
        }
        // The last one down, here or in a worker, sees zero; acquire what the tasks wrote.
        waiter.left.fetch_sub(1, Ordering::AcqRel);
        self.wait_until(|| waiter.left.load(Ordering::Acquire) == 0)
    }

    fn place<'h>(&self, handle: &'h Handle) -> Result<&'h dahl_core::arena::Place, RunError> {
        match &handle.storage.home {
            dahl_core::array::Home::Temporary { .. } => {
                Err(RunError::Temporary(handle.storage.label()))
            }
            dahl_core::array::Home::Arena(p) if !p.is_live() => {
                Err(RunError::Stale(handle.storage.label()))
            }
            dahl_core::array::Home::Arena(p) if !p.chunk.lease(self.id) => {
                Err(RunError::InUse(handle.storage.label()))
            }
            dahl_core::array::Home::Arena(p) => Ok(p),
        }
    }

    fn check_type<T: Element>(&self, handle: &Handle) -> Result<(), RunError> {
        if handle.dtype() == T::DTYPE {
            return Ok(());
        }
        let (array, holds) = (handle.storage.label(), handle.dtype());
        Err(RunError::WrongType {
            array,
            holds,
            asked: T::DTYPE,
        })
    }

    /// The values of an array. Waits for the tasks that produce them, and for no others.
    pub fn read<'r, T: Element, const R: usize>(
        &'r self,
        array: &'r Array<'_, T, R>,
    ) -> Result<ReadGuard<'r, T>, RunError> {
        self.read_handle(array.handle())
    }

    /// As [`Runtime::read`], for an array without types.
    pub fn read_handle<T: Element>(&self, handle: &Handle) -> Result<ReadGuard<'_, T>, RunError> {
        self.check_type::<T>(handle)?;
        let place = self.place(handle)?;
        self.settle(handle, false)
            .inspect_err(|_| place.chunk.release())?;
        if self.shared.is_failing() {
            place.chunk.release();
            return Err(self.failure());
        }
        if let Some(memories) = &self.shared.memories {
            memories
                .to_host(handle)
                .inspect_err(|_| place.chunk.release())?;
        }
        // SAFETY: the chunk is leased; the writers have ended, and nothing can be launched while the
        // guard borrows the runtime.
        Ok(unsafe { ReadGuard::new(handle, place.base(), place.chunk.clone()) })
    }

    /// The error of a failed launch, seen through a shared borrow: it stays until somebody waits.
    fn failure(&self) -> RunError {
        self.shared.peek_error()
    }

    /// The values of an array, to be changed. Waits for the tasks that use them, and for no others. Those
    /// that were lost with a device are not-a-number: a caller that writes them all need not care.
    pub fn write<'r, T: Element, const R: usize>(
        &'r mut self,
        array: &'r mut Array<'_, T, R>,
    ) -> Result<WriteGuard<'r, T>, RunError> {
        self.write_handle(array.handle())
    }

    /// As [`Runtime::write`], for an array without types.
    pub fn write_handle<T: Element>(
        &mut self,
        handle: &Handle,
    ) -> Result<WriteGuard<'_, T>, RunError> {
        self.check_type::<T>(handle)?;
        let (strides, start) = (handle.whole.strides4(), handle.region.start());
        let offset: usize = (0..4).map(|a| start[a] * strides[a]).sum();
        let mut runs = 0;
        dahl_core::graph::runs::runs(&handle.whole, &handle.region, |_, _| runs += 1);
        if runs != 1 {
            return Err(RunError::Gaps(handle.storage.label()));
        }
        let place = self.place(handle)?;
        self.settle(handle, true)
            .inspect_err(|_| place.chunk.release())?;
        if let Some(memories) = &self.shared.memories {
            memories.to_host_to_write(handle);
        }
        // SAFETY: the chunk is leased, the region is one run of elements inside the storage; all users
        // have ended, and the guard borrows the runtime mutably, so there is no other guard either.
        Ok(unsafe {
            let ptr = place.base().cast::<T>().add(offset);
            WriteGuard::new(
                handle.clone(),
                ptr,
                place.chunk.clone(),
                self.shared.memories.as_ref(),
            )
        })
    }
}
