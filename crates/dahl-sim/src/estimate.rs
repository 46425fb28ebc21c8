//! How long it is expected to take to bring a task's data: what policies ask before they decide.

use super::MOST_MEMORIES;
use super::memories::Memories;
use super::needs::Need;
use dahl_sched::policy::TaskRef;

impl Memories<'_> {
    /// How long it would take to bring a task's missing operands to each memory, if nothing else used the
    /// links. Asked for every task and every memory, so what can be found once for all of them is.
    pub(crate) fn estimate(&self, task: TaskRef, slot: usize, seconds: &mut [f64]) {
        seconds.fill(0.0);
        // Where a batch comes from, by where it goes.
        let mut begun = [0; MOST_MEMORIES];
        for need in self.needs.of(task, slot).filter(|n| n.reads) {
            let current = self.in_one_piece(&need);
            for (memory, (seconds, begun)) in seconds.iter_mut().zip(&mut begun).enumerate() {
                match current {
                    Some((places, _)) if places & (1 << memory) != 0 => {}
                    Some((places, bytes)) => {
                        let source = self.routes.nearest(places, memory);
                        *seconds += self.one_more(source, memory, bytes, begun);
                    }
                    None => self.add_pieces(&need, memory, seconds, begun),
                }
            }
        }
    }

    /// Where an operand is current, as a mask, and its bytes, if that is the same for all of its cells.
    fn in_one_piece(&self, need: &Need) -> Option<(u64, u64)> {
        let mut cells = self.needs.cells(need);
        let first = cells.next()?;
        let (places, mut bytes) = (self.copies.places(first), self.copies.cell_bytes(first));
        for cell in cells {
            if self.copies.places(cell) != places {
                return None;
            }
            bytes += self.copies.cell_bytes(cell);
        }
        Some((places, bytes))
    }

    /// Adds what an operand takes whose cells are current in different places: a transfer from each of them.
    fn add_pieces(&self, need: &Need, memory: usize, seconds: &mut f64, begun: &mut u64) {
        let mut missing = [0; MOST_MEMORIES];
        let mut sources = 0u64;
        for cell in self.needs.cells(need) {
            let places = self.copies.places(cell);
            if places & (1 << memory) == 0 {
                let source = self.routes.nearest(places, memory);
                sources |= 1 << source;
                missing[source] += self.copies.cell_bytes(cell);
            }
        }
        while sources != 0 {
            let source = sources.trailing_zeros() as usize;
            sources &= sources - 1;
            *seconds += self.one_more(source, memory, missing[source], begun);
        }
    }

    /// What one more copy adds: no start if it joins a batch that has begun.
    fn one_more(&self, from: usize, to: usize, bytes: u64, begun: &mut u64) -> f64 {
        let (whole, start) = self.routes.price(from, to, bytes);
        let Some(start) = start else {
            return whole;
        };
        let joins = *begun & (1 << from) != 0;
        *begun |= 1 << from;
        if joins { whole - start } else { whole }
    }
}
