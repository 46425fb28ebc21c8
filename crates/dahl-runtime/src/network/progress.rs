//! The progress engine: messages under way, and what is done about them. One thread at a time has it.

use std::time::{Duration, Instant};

use dahl_core::MemoryId;
use dahl_core::operands::Placed;
use dahl_sched::policy::TaskRef;

use super::{End, NAP, Network, NodeLost, Transport};
use crate::completion::Completion;
use crate::error::RunError;
use crate::instance::Instance;
use crate::memory::{Hold, Refusal};
use crate::shared::Shared;
use crate::sync::{Ordering, lock};
use crate::tracer::Times;

/// Operands of messages in memories other than the host's, by ticket.
pub(super) type Holds<'s> = Vec<Option<Hold<'s>>>;

/// A message under way.
struct UnderWay {
    task: TaskRef,
    peer: u16,
    since: Instant,
    /// The same in ticks, if it is recorded.
    begun: u64,
}

pub(super) struct Progress {
    transport: Box<dyn Transport>,
    completion: Completion,
    /// Messages that are ready and have not begun.
    ready: Vec<TaskRef>,
    /// Messages under way, by ticket.
    slots: Vec<Option<UnderWay>>,
    free: Vec<usize>,
    ended: Vec<usize>,
    /// Why this node has left: what is launched after that fails as well.
    pub(super) left: Option<RunError>,
}

impl Progress {
    pub(super) fn new(shared: &Shared, transport: Box<dyn Transport>) -> Progress {
        Progress {
            transport,
            completion: Completion::new(None, shared),
            ready: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            ended: Vec::new(),
            left: None,
        }
    }

    /// Messages under way.
    fn open(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Begins what is ready, and ends what has arrived or been sent. Whether there was anything.
    pub(super) fn turn<'s>(
        &mut self,
        shared: &'s Shared,
        network: &Network,
        holds: &mut Holds<'s>,
    ) -> Result<bool, RunError> {
        self.ready.append(&mut lock(&network.inbox));
        let mut busy = !self.ready.is_empty();
        let turned = self.begin(shared, network, holds);
        if turned.is_ok() {
            let polled = self.transport.poll(&mut self.ended);
            busy |= !self.ended.is_empty();
            for ticket in std::mem::take(&mut self.ended) {
                let Some(under_way) = self.slots[ticket].take() else {
                    continue;
                };
                self.free.push(ticket);
                if let Some(hold) = holds.get_mut(ticket).and_then(Option::take) {
                    hold.release(true);
                }
                self.record(under_way.task, under_way.begun);
                self.completion.complete(shared, under_way.task);
            }
            polled.map_err(|e| network.lost(e))?;
        }
        // Nobody else would account for it soon.
        self.completion.settle(shared);
        network.under_way.store(self.open(), Ordering::Relaxed);
        turned.map(|()| busy)
    }

    fn begin<'s>(
        &mut self,
        shared: &'s Shared,
        network: &Network,
        holds: &mut Holds<'s>,
    ) -> Result<(), RunError> {
        // What is due first goes first; links are first come first served.
        let rank = |task: &TaskRef| {
            // SAFETY: the task has not ended, so neither has its launch.
            let instance = unsafe { Instance::of(*task) };
            let serial = instance.serial();
            let due = instance.graph().due_of(task.task, serial);
            (due, serial, task.task)
        };
        if self.ready.iter().any(|task| rank(task).0 != 0) {
            self.ready.sort_unstable_by_key(rank);
        }
        let mut begun = 0;
        let mut result = Ok(());
        while begun < self.ready.len() && result.is_ok() && !shared.is_failing() {
            let task = self.ready[begun];
            begun += 1;
            result = self.start(shared, network, holds, task);
        }
        self.ready.drain(..begun);
        result
    }

    /// A turn of the communication thread, which may do more: whether it should sleep, and for how long.
    pub(super) fn serve<'s>(
        &mut self,
        shared: &'s Shared,
        network: &Network,
        holds: &mut Holds<'s>,
    ) -> Option<Duration> {
        let turned = match &self.left {
            None => self
                .turn(shared, network, holds)
                .and_then(|busy| self.check_patience(network).map(|()| busy)),
            Some(error) => {
                self.ready.append(&mut lock(&network.inbox));
                match self.ready.is_empty() {
                    true => Ok(false),
                    false => Err(error.clone()),
                }
            }
        };
        let busy = turned.unwrap_or_else(|error| {
            shared.fail(error);
            true
        });
        if shared.is_failing() && !network.has_finished() {
            if self.left.is_none() {
                self.transport.abandon(&network.farewell(shared));
                self.left = Some(shared.peek_error());
            }
            self.give_up(shared, network, holds);
        }
        if busy {
            return None;
        }
        let dozes = self.open() == 0;
        network.dozes.store(dozes, Ordering::Relaxed);
        let soon = shared.sleep.nobody_works();
        Some(match dozes {
            true => NAP,
            false => self.transport.nap(soon).min(NAP),
        })
    }

    /// The end: leaves the cluster, and gives the transport back.
    pub(super) fn close<'s>(
        mut self,
        shared: &'s Shared,
        network: &Network,
        holds: &mut Holds<'s>,
    ) -> Box<dyn Transport> {
        match (&self.left, network.has_finished()) {
            (Some(_), _) => {}
            (None, true) => self.transport.close(),
            (None, false) => self.transport.abandon(&network.farewell(shared)),
        }
        self.ready.append(&mut lock(&network.inbox));
        self.give_up(shared, network, holds);
        self.transport
    }

    fn ticks(&self) -> u64 {
        let writer = self.completion.writer();
        writer.map_or(0, |w| w.clock.ticks())
    }

    /// Records a message that has ended.
    fn record(&mut self, task: TaskRef, begun: u64) {
        let times = Times {
            taken: begun,
            start: begun,
            end: self.ticks(),
        };
        // SAFETY: the task has not completed, so its launch has not ended.
        let instance = unsafe { Instance::of(task) };
        self.completion.record(instance, task.task, times, false);
    }

    fn start<'s>(
        &mut self,
        shared: &'s Shared,
        network: &Network,
        holds: &mut Holds<'s>,
        task: TaskRef,
    ) -> Result<(), RunError> {
        // SAFETY: the task has not ended, so neither has its launch.
        let instance = unsafe { Instance::of(task) };
        let graph = instance.graph();
        let message = graph.message(task.task).expect("only messages come here");
        let memories = shared.memories.as_ref();
        let hold = memories.map(|m| m.acquire(instance, task.task, MemoryId::HOST));
        let hold = hold.transpose().map_err(|refusal| match refusal {
            Refusal::Failed(error) | Refusal::Elsewhere(error) => error,
        });
        let hold = match hold {
            Ok(hold) => hold,
            Err(error) => {
                self.completion.complete(shared, task);
                return Err(error);
            }
        };
        let (accesses, placed): (_, &[Placed]) = match &hold {
            Some(hold) => (hold.accesses(), hold.placed()),
            None => (graph.accesses_of(task.task), &instance.placed),
        };
        let access = &accesses[0];
        let array = &placed[access.array as usize];
        let (strides, start) = (array.shape.strides4(), access.region.start());
        let offset: usize = (0..4).map(|a| start[a] * strides[a]).sum();
        let size = array.dtype.size();
        let end = End {
            peer: message.peer,
            launch: instance.serial(),
            transfer: message.transfer,
            sends: message.sends,
            bytes: array.base.wrapping_add(offset * size),
            len: access.region.len() * size,
        };
        let ticket = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        if hold.is_some() {
            holds.resize_with(self.slots.len(), || None);
            holds[ticket] = hold;
        }
        self.slots[ticket] = Some(UnderWay {
            task,
            peer: message.peer,
            since: Instant::now(),
            begun: self.ticks(),
        });
        // SAFETY: the region is one run of elements (partition packs what is not). The task is ready and does not
        // complete before its ticket is back or everything is abandoned, so all that conflicts with it waits.
        unsafe { self.transport.start(end, ticket) }.map_err(|e| network.lost(e))
    }

    /// A message that has been under way for long, with no sign of life from its node since, is given up.
    fn check_patience(&self, network: &Network) -> Result<(), RunError> {
        let now = Instant::now();
        for under_way in self.slots.iter().flatten() {
            let heard = self.transport.heard(under_way.peer).max(under_way.since);
            if now.saturating_duration_since(heard) > network.patience {
                // SAFETY: as in `start`.
                let graph = unsafe { Instance::of(under_way.task) }.graph();
                return Err(network.lost(NodeLost {
                    node: under_way.peer,
                    why: format!(
                        "no answer for {:.1} s, while waiting for {}",
                        network.patience.as_secs_f64(),
                        graph.describe(under_way.task.task)
                    ),
                }));
            }
        }
        Ok(())
    }

    /// After a failure: lets what waits for messages run out.
    fn give_up<'s>(&mut self, shared: &'s Shared, network: &Network, holds: &mut Holds<'s>) {
        for slot in 0..self.slots.len() {
            if let Some(under_way) = self.slots[slot].take() {
                self.free.push(slot);
                if let Some(hold) = holds.get_mut(slot).and_then(Option::take) {
                    hold.release(false);
                }
                self.completion.complete(shared, under_way.task);
            }
        }
        for task in self.ready.drain(..) {
            self.completion.complete(shared, task);
        }
        self.completion.settle(shared);
        network.under_way.store(0, Ordering::Relaxed);
    }
}
