//! Fetching what a memory lacks, from where it is current and nearest.

use super::SimError;
use super::agenda::Agenda;
use super::memories::Memories;
use super::needs::Need;
use crate::policy::TaskRef;

impl Memories<'_> {
    /// Sends for what a memory lacks of an operand, unless it is on its way; `unit` waits for it.
    pub(super) fn fetch(
        &mut self,
        need: &Need,
        memory: usize,
        unit: Option<u16>,
        task: TaskRef,
        now: f64,
        agenda: &mut Agenda,
    ) -> Result<(), SimError> {
        let lacks = |cell| self.copies.places(cell) & (1 << memory) == 0;
        if !self.needs.cells(need).any(lacks) {
            return Ok(());
        }
        let mut loaded = std::mem::take(&mut self.loaded);
        for cell in self.needs.cells(need) {
            let places = self.copies.places(cell);
            if places & (1 << memory) != 0 {
                continue;
            }
            if self.copies.moving[cell as usize] > 0
                && let Some(id) = self.moves.bringing(need.key, cell, memory)
            {
                if let Some(unit) = unit {
                    self.moves.wait_for(id, unit, &mut self.wants);
                }
                continue;
            }
            let from = self.ways.nearest(places, memory);
            let id = match loaded.iter().find(|(source, _)| *source == from) {
                Some(&(_, id)) => id,
                None => {
                    let id = self.moves.draw(need.key, from, memory);
                    loaded.push((from, id));
                    id
                }
            };
            self.moves.get(id).cells.push(cell);
        }
        for (_, id) in loaded.drain(..) {
            self.send(id, unit, Some(task), now, agenda)?;
        }
        self.loaded = loaded;
        Ok(())
    }

    /// Waits for transfers that touch what is to be written: a write-back, say.
    pub(super) fn await_still(&mut self, need: &Need, unit: u16) {
        for cell in self.needs.cells(need) {
            if self.copies.moving[cell as usize] > 0 {
                self.moves
                    .wait_for_all(need.key, cell, unit, &mut self.wants);
            }
        }
    }
}
