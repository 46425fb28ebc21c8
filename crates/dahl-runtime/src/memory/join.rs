//! Joins: what else travels when a part of an array is sent to a device.
//!
//! A copy of `b` bytes takes `L + b / B`, by what the backing says of its link. Of the other parts that
//! tasks to come will read there, each that travels along keeps the waiting task waiting for `b / B`
//! longer, and saves its own task the `L` of another copy, if that runs there: with chance `p`. So it
//! travels along if
//!
//! ```text
//! b / B < p · L
//! ```
//!
//! which is the rule of [`is_small`].
//!
//! On a link that is slow to start, an array read in small parts goes whole; a part of a large one goes
//! alone, and the next is fetched while it is computed with. Room is no matter: a copy's buffer is the
//! whole array's. Only values that are there already are thought of: those whose writers of this launch
//! have ended.
//!
//! # Why it is safe to copy what nobody asked for
//!
//! Dependencies keep others from writing what a task reads; they say nothing of the parts that travel
//! along, so these need an argument of their own. All marks are changed and looked at under the one lock:
//!
//! - Elements that a task writes are marked as *being written* from before it runs until it has ended, in
//!   whichever memory. Nothing marked is taken along. So nobody copies what is being written at the time
//!   that the copy is decided.
//! - Elements on their way are marked as *arriving* until they have arrived, and who is about to write
//!   waits, before it sets its own mark, until nothing of that is on its way ([`Memories::claim`]). So nobody
//!   writes what is being copied. Copies wait for nothing, so this wait ends.
//! - An array of which the host writes some elements by a guard is left alone altogether, from before the
//!   guard waits for what is on its way until it is dropped.
//! - Only elements that are current in the host travel along: nothing is written there, so guards that read
//!   are not disturbed.
//!
//! What arrives is therefore the current value, and is marked as such. If a task writes it later, anywhere,
//! it is current no more, as any other copy.

use dahl_core::trace::Load;
use dahl_core::{Bytes, MemoryId, Region, RegionSet};

use super::backing::{Backing, Direction};
use super::batch::is_small;
use super::directory::Entry;
use crate::instance::{Instance, Stage};

/// Most parts that travel together: to look at more of them takes longer than it saves.
const MOST: usize = 256;

/// After so many parts that are too large to travel along, the rest will be no smaller.
const LARGE: u32 = 8;

/// Who asks for a part, where others may want its neighbours.
#[derive(Clone, Copy)]
pub(super) struct Asker<'a> {
    /// The launch.
    pub instance: &'a Instance,
    /// The task.
    pub task: u32,
    /// The storage, in the launch's graph.
    pub storage: u32,
}

/// Pieces that travel together to a memory, those asked for first: current in the host, missing there.
pub(super) fn join(
    entry: &Entry,
    mut pieces: Vec<Region>,
    asker: Option<Asker<'_>>,
    memory: MemoryId,
    backing: &dyn Backing,
) -> (Vec<Region>, Load) {
    let bytes = |pieces: &[Region]| -> u64 {
        let elements: usize = pieces.iter().map(Region::len).sum();
        (elements * entry.size) as u64
    };
    let mut load = Load::asked(bytes(&pieces));
    let starts_at_once = backing.duration(Bytes(0), Direction::In).0 <= 0.0;
    if let Some(asker) = asker.filter(|_| !starts_at_once) {
        let instance = asker.instance;
        let readers = &instance.prepared.readers;
        let mut large = 0;
        for reader in readers.after(asker.storage, asker.task).iter().take(MOST) {
            let is_there = || {
                let mut writers = readers.writers(reader).iter();
                writers.all(|&w| instance.stage(w) == Stage::Ended)
            };
            if instance.stage(reader.task) != Stage::Waits || !is_there() {
                continue;
            }
            let graph = instance.graph();
            let chance = readers.chance(graph, reader.task, usize::from(memory.0));
            let access = &graph.accesses[reader.access as usize];
            let shape = &graph.arrays[access.array as usize].shape;
            let mut part = RegionSet::default();
            entry.translate(shape, &access.region, |p| part.add(&p));
            let there = &entry.copies[usize::from(memory.0)];
            let no_use = there.valid.boxes().iter();
            let no_use = no_use.chain(there.arriving.boxes()).chain(&pieces);
            no_use.for_each(|r| part.remove(r));
            if chance == 0.0 || part.is_empty() {
                continue;
            }
            load.wanted += 1;
            if !is_small(backing, bytes(part.boxes()), Direction::In, chance) {
                large += 1;
                if large == LARGE {
                    break;
                }
                continue;
            }
            entry.writing.boxes().iter().for_each(|r| part.remove(r));
            let before = pieces.len();
            for piece in part.boxes() {
                entry.copies[0].valid.common(piece, |p| pieces.push(p));
            }
            load.parts += u32::from(pieces.len() > before);
        }
    }
    load.whole = bytes(&pieces) == entry.bytes() as u64;
    (pieces, load)
}
