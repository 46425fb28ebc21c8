//! Making a planned transfer: room for it, what of it has to travel, and the copy.
//!
//! Who may make which one, and why that is safe, is said in `planned`.

use dahl_core::{MemoryId, Region};
use dahl_sched::transfers::PlannedTransfer;

use super::carry::Move;
use super::directory::Entry;
use super::needs::Need;
use super::planned::Order;
use super::room::Wish;
use super::transfer::{Ask, Why};
use super::{Memories, StateGuard};
use crate::instance::Stage;
use crate::sync::Ordering;

impl Memories {
    /// Makes a transfer that a thread has taken on, as far as it can be made.
    pub(super) fn carry_planned<'s>(
        &'s self,
        state: StateGuard<'s>,
        order: Order,
    ) -> StateGuard<'s> {
        let (mut state, bytes) = self.bring_planned(state, &order);
        let prefetched = &self.counters.prefetched;
        prefetched.fetch_add(bytes as u64, Ordering::Relaxed);
        if let Some(following) = &mut state.following {
            following.done(&order);
        }
        self.note_usage(&mut state);
        self.changed.notify_all();
        self.requested.notify_all();
        state
    }

    fn bring_planned<'s>(
        &'s self,
        mut state: StateGuard<'s>,
        order: &Order,
    ) -> (StateGuard<'s>, usize) {
        let instance = &order.instance;
        let Some(transfers) = instance.prepared.transfers.clone() else {
            return (state, 0);
        };
        let transfer = &transfers.all()[order.number as usize];
        // As `planned` argues: from here on this task, and with it the launch, waits for us.
        let mut readers = transfers.awaited_by(order.number).iter();
        let waits = |task: &&u32| instance.stage(**task) == Stage::Waits;
        let Some(&reader) = readers.find(waits) else {
            return (state, 0);
        };
        let key = instance.keys[transfer.storage as usize];
        let is_temporary = {
            let storage = &instance.graph().storages[transfer.storage as usize];
            storage.temporary.is_some()
        };
        if !is_temporary {
            state.directory.entry(instance, transfer.storage);
        }
        if self.pieces(&state, transfer, key).is_empty() {
            return (state, 0);
        }
        let to = MemoryId(transfer.to);
        if to != MemoryId::HOST {
            let needs = &instance.prepared.needs;
            let now = needs.moment(usize::from(to.0), order.launch, reader);
            let wish = Wish {
                keys: &[key],
                memory: to,
                now,
                needs,
                launch: &instance.keys,
            };
            let (guard, has_room) = self.room_ahead(state, &wish, key);
            state = guard;
            if !has_room {
                return (state, 0);
            }
            let need = Need {
                at: now,
                reads: true,
            };
            state.directory.touch(key, to, need);
        }
        // Making room may have taken a while.
        let pieces = self.pieces(&state, transfer, key);
        let Some(entry) = state.directory.entries.get_mut(&key) else {
            return (state, 0);
        };
        if pieces.is_empty() {
            return (state, 0);
        }
        let why = Why::task(instance, reader, true);
        let mv = match self.device(to) {
            None => Move::back(entry, key, pieces, MemoryId(transfer.from)),
            Some(device) => {
                let (shape, whole) = (entry.shape, Region::whole(&entry.shape));
                let ask = Ask {
                    memory: to,
                    why,
                    ..Ask::home(key, &shape, &whole)
                };
                Move::there(entry, &ask, pieces, None, &*device.backing)
            }
        };
        self.carry_out(state, &[mv], why)
    }

    /// What of a transfer can travel and has to: current where it comes from, missing where it goes, on its
    /// way there for nobody, and written by none.
    fn pieces(&self, state: &StateGuard<'_>, transfer: &PlannedTransfer, key: u64) -> Vec<Region> {
        let (from, to) = (MemoryId(transfer.from), MemoryId(transfer.to));
        let by_host = from == MemoryId::HOST || to == MemoryId::HOST;
        let lost = |memory| state.directory.is_lost(memory);
        let entry = state.directory.entries.get(&key);
        match entry {
            Some(entry) if by_host && !lost(from) && !lost(to) && state.guarded != Some(key) => {
                travels(entry, transfer)
            }
            _ => Vec::new(),
        }
    }
}

fn travels(entry: &Entry, transfer: &PlannedTransfer) -> Vec<Region> {
    let source = &entry.copies[usize::from(transfer.from)];
    let target = &entry.copies[usize::from(transfer.to)];
    let mut pieces = transfer.parts.clone();
    for taken in [&target.valid, &target.arriving, &entry.writing] {
        let mut rest = Vec::with_capacity(pieces.len());
        pieces
            .iter()
            .for_each(|p| taken.missing(p, |q| rest.push(q)));
        pieces = rest;
    }
    let mut found = Vec::with_capacity(pieces.len());
    pieces
        .iter()
        .for_each(|p| source.valid.common(p, |q| found.push(q)));
    found
}
