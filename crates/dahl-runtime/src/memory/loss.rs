//! Losses: a device that failed is taken out, and what it alone knew is gone.
//!
//! The thread that finds out says so with [`Memories::lose`], once for every device. From then on nothing in its
//! memory is current, nothing is fetched there or written there, and its unit runs what it was given in
//! the host's memory. This cannot lose anything silently: a value is *current* where the directory says
//! so, under the lock under which the loss is noted, so a reader finds it somewhere else, or finds out
//! that it is nowhere and fails with an error. What a task on the device had half written does not
//! matter: its results count only when it has succeeded and the device is still there, and both are
//! looked at under that same lock.
//!
//! Tasks that its unit could have run are others' from now on, who may be asleep: everybody is woken
//! after the loss is known. A thread that made a task ready before that has published it before, so those who
//! wake find it; a thread that does so later knows of the loss and wakes everybody too.
//!
//! Nobody waits for a lost device. Copies under way end, well or not; each takes its marks away and wakes
//! those who wait for them, who look again.

use dahl_core::{Handle, MemoryId, Region, Shape};

use super::transfer::{Ask, Stop};
use super::{Memories, StateGuard};
use crate::driver::DriverError;
use crate::error::RunError;
use crate::sync::lock;

/// Bytes of values that are gone: every element is not-a-number, and cannot be mistaken for a result.
const GONE: u8 = 0xFF;

impl Memories {
    /// Takes a device out.
    pub(crate) fn lose(&self, memory: MemoryId, why: &str) {
        self.lose_locked(&mut lock(&self.state), memory, why);
    }

    pub(super) fn lose_locked(&self, state: &mut StateGuard<'_>, memory: MemoryId, why: &str) {
        let Some(device) = self.device(memory) else {
            return;
        };
        if state.directory.lose(memory) {
            let _ = device.lost.set(why.to_string());
            state.requests.retain(|r| r.memory() != memory);
            if let Some(notify) = &self.on_loss {
                notify(&device.name, why);
            }
            if let Some(sleep) = &self.sleep {
                sleep.wake_all();
            }
        }
        self.changed.notify_all();
    }

    /// The error of a task that its device cannot run, for when nobody else can either.
    pub(crate) fn unable(
        &self,
        memory: MemoryId,
        task: String,
        error: Option<&DriverError>,
    ) -> RunError {
        let device = self.device(memory).map_or("host", |d| &d.name).to_string();
        match error {
            Some(error @ DriverError::NoRoom { .. }) => {
                RunError::OutOfMemory(format!("{device}, for {task}: {error}"))
            }
            _ => RunError::DeviceLost {
                task,
                device,
                why: self.lost(memory).unwrap_or_default().to_string(),
            },
        }
    }

    /// Why a memory is out of use, if it is.
    pub(crate) fn lost(&self, memory: MemoryId) -> Option<&str> {
        let device = self.device(memory)?;
        device.lost.get().map(String::as_str)
    }

    /// The devices that are out of use, and why.
    pub(crate) fn losses(&self) -> impl Iterator<Item = (&str, &str)> {
        self.devices
            .iter()
            .filter_map(|d| Some((d.name.as_str(), d.lost.get()?.as_str())))
    }

    /// The error of a task that needs values that are gone.
    pub(super) fn gone(&self, array: String) -> RunError {
        let losses: Vec<String> = self
            .losses()
            .map(|(n, why)| format!("{n}: {why}"))
            .collect();
        RunError::Lost {
            array,
            losses: losses.join("; "),
        }
    }

    /// Brings an array to the host, to be read there.
    pub(crate) fn to_host(&self, handle: &Handle) -> Result<(), RunError> {
        let state = lock(&self.state);
        let ask = Ask::home(handle.storage.id, &handle.whole, &handle.region);
        let (state, fetched) = self.fetch(state, &ask);
        drop(state);
        fetched.map_err(|_| self.gone(handle.storage.label()))?;
        Ok(())
    }

    /// Brings what is left of an array to the host, to be written there by a guard: until that is gone, see
    /// [`Memories::host_wrote`], no element of the array is copied that no task asked for. What is gone is
    /// not-a-number.
    pub(crate) fn to_host_to_write(&self, handle: &Handle) {
        let mut state = lock(&self.state);
        let (key, whole, region) = (handle.storage.id, &handle.whole, &handle.region);
        state.guarded = Some(key);
        let state = self.salvage(state, key, whole, region);
        drop(self.settled(state, key, whole, region));
    }

    /// Brings everything that is current only on a device back to the host: nobody will afterwards. What
    /// is gone is not-a-number from now on.
    pub(crate) fn flush(&self) {
        let mut state = lock(&self.state);
        let entries = state.directory.entries.iter();
        let away = |e: &super::directory::Entry| e.owner.is_some() && e.is_away();
        let dirty: Vec<_> = entries
            .filter(|(_, e)| away(e))
            .map(|(k, e)| (*k, e.shape))
            .collect();
        let wholes: Vec<Region> = dirty
            .iter()
            .map(|(_, shape)| Region::whole(shape))
            .collect();
        let asks = dirty.iter().zip(&wholes);
        let asks = asks.map(|((key, shape), whole)| Ask::home(*key, shape, whole));
        (state, _) = self.fetch_small(state, asks);
        for (key, shape) in dirty {
            state = self.salvage(state, key, &shape, &Region::whole(&shape));
        }
        for (_, entry) in state.directory.entries.iter_mut() {
            entry.mind_lease(self.runtime);
        }
    }

    /// Brings a region to the host, with not-a-number for what is gone.
    fn salvage<'s>(
        &'s self,
        mut state: StateGuard<'s>,
        key: u64,
        shape: &Shape,
        region: &Region,
    ) -> StateGuard<'s> {
        loop {
            let (guard, fetched) = self.fetch(state, &Ask::home(key, shape, region));
            state = guard;
            match fetched {
                Err(Stop::Gone) => give_up(&mut state, key),
                _ => return state,
            }
        }
    }
}

/// Marks what is current nowhere, and not on its way to the host, as not-a-number in the host.
fn give_up(state: &mut StateGuard<'_>, key: u64) {
    let Some(entry) = state.directory.entries.get_mut(&key) else {
        return;
    };
    let mut gone = vec![Region::whole(&entry.shape)];
    let known = entry.copies.iter().map(|c| &c.valid);
    for set in known.chain([&entry.copies[0].arriving]) {
        let mut rest = Vec::new();
        for r in &gone {
            set.missing(r, |p| rest.push(p));
        }
        gone = rest;
    }
    for piece in &gone {
        let (size, host) = (entry.size, entry.host);
        dahl_core::graph::runs::runs(&entry.shape, piece, |lo, hi| {
            // SAFETY: the piece lies in the storage, whose memory the entry keeps; its elements are
            // current nowhere and on their way to nowhere, so nobody else touches them. Under the lock,
            // which is long: but this happens once for every array of a device that failed.
            unsafe { host.add(lo * size).write_bytes(GONE, (hi - lo) * size) };
        });
        entry.copies[0].valid.add(piece);
    }
}
