//! Fetching what a memory lacks, from where it is current and nearest: loaded operand by operand, and then
//! sent, small copies from one place as one batch, by the rule of [`dahl_sched::batch`].

use super::SimError;
use super::agenda::Agenda;
use super::memories::Memories;
use super::needs::Need;
use dahl_sched::policy::TaskRef;

/// Room for what a task lacks until it is sent: nothing is allocated per task.
#[derive(Debug, Default)]
pub(super) struct Loading {
    /// Cells of one operand, with where they are to come from.
    missing: Vec<(usize, u32)>,
    /// Transfers: batches of small copies, by where they come from, and copies that travel alone.
    batches: Vec<(usize, u32)>,
    alone: Vec<u32>,
}

impl Memories<'_> {
    /// Loads what a memory lacks of an operand, unless it is on its way; `unit` waits for it.
    pub(super) fn load(&mut self, need: &Need, memory: usize, unit: Option<u16>) {
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
            let from = self.routes.nearest(places, memory);
            self.loading.missing.push((from, cell));
        }
        let Loading {
            missing,
            batches,
            alone,
        } = &mut self.loading;
        while let Some(&(from, _)) = missing.first() {
            let there = missing.iter().filter(|m| m.0 == from);
            let cells = there.map(|m| m.1);
            let bytes = cells.clone().map(|c| self.copies.cell_bytes(c)).sum();
            let id = if self.routes.price(from, memory, bytes).1.is_none() {
                let id = self.moves.draw(from, memory);
                alone.push(id);
                id
            } else if let Some(begun) = batches.iter().find(|b| b.0 == from) {
                begun.1
            } else {
                let id = self.moves.draw(from, memory);
                batches.push((from, id));
                id
            };
            let m = self.moves.get(id);
            m.cells.extend(cells);
            m.close(need.key, &mut self.copies);
            missing.retain(|m| m.0 != from);
        }
    }

    /// Sends what was loaded for a task, small copies first, as the runtime does.
    pub(super) fn send_loaded(
        &mut self,
        unit: Option<u16>,
        task: TaskRef,
        now: f64,
        agenda: &mut Agenda,
    ) -> Result<(), SimError> {
        let mut loading = std::mem::take(&mut self.loading);
        let batches = loading.batches.drain(..).map(|b| b.1);
        for id in batches.chain(loading.alone.drain(..)) {
            self.send(id, unit, Some(task), now, agenda)?;
        }
        self.loading = loading;
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
