//! Planned transfers in virtual time: sent ahead of the tasks that wait for them, by the rule of
//! [`dahl_sched::transfers`].
//!
//! As a prefetch, each takes only room that is free, and carries what is current where it comes from; what
//! it leaves behind is fetched by the task itself. It is sent when its link is free, so that what tasks
//! fetch for themselves, which is needed now, goes first.

use std::sync::Arc;

use dahl_core::graph::cells::Cells;

use super::agenda::Agenda;
use super::memories::Memories;
use super::routes::Routes;
use dahl_sched::policy::TaskRef;
use dahl_sched::transfers::{PlannedTransfer, TransferQueues, Transfers};

/// The host's memory, which has room for everything.
const HOST: usize = 0;

#[derive(Debug)]
pub(super) struct Planned {
    lines: TransferQueues,
    /// For every transfer, its cells at the first place of the ring.
    cells: Vec<Vec<u32>>,
    /// For every line the link that it begins with, if there is one.
    links: Vec<Option<u16>>,
    /// Units whose tasks wait for a transfer.
    waiting: Vec<u16>,
}

impl Planned {
    /// What is to be followed.
    pub(crate) fn new(transfers: &Arc<Transfers>, cells: &Cells, routes: &Routes) -> Planned {
        let of = |t: &PlannedTransfer| {
            let mut own = Vec::new();
            for part in &t.parts {
                cells.inside(t.storage as usize, part, |cell| own.push(cell));
            }
            own
        };
        let way = |(from, to): (u16, u16)| routes.get(usize::from(from), usize::from(to));
        Planned {
            cells: transfers.all().iter().map(of).collect(),
            links: transfers
                .links()
                .map(|ends| way(ends).and_then(|links| links.first().copied()))
                .collect(),
            lines: TransferQueues::new(transfers.clone()),
            waiting: Vec::new(),
        }
    }

    /// A transfer has ended, or is not producer: who waits may look again.
    pub(crate) fn done(&mut self, (launch, transfer): (u64, u32), again: &mut Vec<u16>) {
        self.lines.done(launch, transfer);
        again.append(&mut self.waiting);
    }
}

impl Memories<'_> {
    /// A launch begins.
    pub(crate) fn launched(
        &mut self,
        launch: usize,
        now: f64,
        agenda: &mut Agenda,
        again: &mut Vec<u16>,
    ) {
        if let Some(planned) = &mut self.planned {
            planned.lines.begin(launch as u64);
            self.send_planned(now, agenda, again);
        }
    }

    /// A task has ended, and what it wrote is current where it ran.
    pub(crate) fn ended(
        &mut self,
        task: TaskRef,
        now: f64,
        agenda: &mut Agenda,
        again: &mut Vec<u16>,
    ) {
        if let Some(planned) = &mut self.planned
            && planned.lines.ended(task.launch as u64, task.task)
        {
            self.send_planned(now, agenda, again);
        }
    }

    /// Whether all that was to be brought for a task has been.
    #[inline]
    pub(super) fn is_brought(&self, task: TaskRef, memory: usize) -> bool {
        self.planned.as_ref().is_none_or(|planned| {
            let launch = task.launch as u64;
            planned.lines.is_brought(launch, task.task, memory as u16)
        })
    }

    /// A unit's task waits for what is to be brought for it.
    pub(super) fn await_planned(&mut self, unit: u16) {
        if let Some(planned) = &mut self.planned {
            planned.waiting.push(unit);
        }
    }

    /// Sends what may go now. Collects the units that may try again.
    pub(super) fn send_planned(&mut self, now: f64, agenda: &mut Agenda, again: &mut Vec<u16>) {
        let Some(mut planned) = self.planned.take() else {
            return;
        };
        // What is not made may have been what another line waited for.
        let mut went_on = true;
        while std::mem::take(&mut went_on) {
            for line in 0..planned.links.len() {
                let link = planned.links[line];
                while link.is_none_or(|link| self.lanes.is_free(link))
                    && let Some((launch, i)) = planned.lines.next(line)
                {
                    let sent =
                        link.is_some() && self.send_ahead(&planned, (launch, i), now, agenda);
                    if !sent {
                        planned.done((launch, i), again);
                        went_on = true;
                    }
                }
            }
        }
        self.planned = Some(planned);
    }

    /// Sends a transfer; false if there is nothing to send, or no room for it.
    fn send_ahead(
        &mut self,
        planned: &Planned,
        (launch, i): (u64, u32),
        now: f64,
        agenda: &mut Agenda,
    ) -> bool {
        let transfer = &planned.lines.transfers().all()[i as usize];
        let (from, to) = (usize::from(transfer.from), usize::from(transfer.to));
        let (key, raise) = self
            .needs
            .in_launch(transfer.storage, launch as usize % self.ring);
        let copies = &mut self.copies;
        let travels = |cell: &u32| {
            let places = copies.places(*cell);
            places & (1 << from) != 0
                && places & (1 << to) == 0
                && (copies.moving[*cell as usize] == 0
                    || self.moves.bringing(key, *cell, to).is_none())
        };
        let cells = planned.cells[i as usize].iter().map(|cell| cell + raise);
        let cells: Vec<u32> = cells.filter(travels).collect();
        if cells.is_empty() {
            return false;
        }
        if to != HOST {
            if !copies.has_buffer(key, to) {
                if !copies.fits(copies.bytes(key), to) {
                    return false;
                }
                copies.allocate(key, to, now);
            }
            copies.touch(key, to);
        }
        let id = self.moves.draw(from, to);
        let m = self.moves.get(id);
        m.cells.extend(cells);
        m.close(key, copies);
        m.planned = Some((launch, i));
        let reader = transfer.readers.first().map(|&task| TaskRef {
            launch: launch as usize,
            task,
        });
        self.send(id, None, reader, now, agenda).is_ok()
    }
}
