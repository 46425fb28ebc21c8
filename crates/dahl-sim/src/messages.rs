//! Ends of messages on a node: no unit runs them, and no policy hears of them.
//!
//! A message's values must be in the host's memory. Where a node has other memories, a message asks for them as a unit of
//! the host would; its number there comes after those of all units.

use dahl_core::Seconds;

use super::SimError;
use super::engine::Engine;
use super::prediction::MessageSpan;
use dahl_sched::policy::TaskRef;

/// A message whose values are asked for, or there and on their way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    task: TaskRef,
    /// Whether the network has it.
    posted: bool,
    /// When it was ready.
    ready: f64,
}

impl Engine<'_> {
    /// Takes the messages out of tasks that became ready.
    #[inline]
    pub(super) fn take_messages(&mut self, released: &mut Vec<TaskRef>) -> Result<(), SimError> {
        match self.graph.messages.is_empty() {
            true => Ok(()),
            false => self.take_some(released),
        }
    }

    fn take_some(&mut self, released: &mut Vec<TaskRef>) -> Result<(), SimError> {
        let mut found = Vec::new();
        released.retain(|task| {
            let is_message = self.graph.message(task.task).is_some();
            if is_message {
                found.push(*task);
            }
            !is_message
        });
        for task in found {
            let client = Client {
                task,
                posted: false,
                ready: self.now,
            };
            let free = self.clients.iter().position(Option::is_none);
            let place = free.unwrap_or_else(|| {
                self.clients.push(None);
                if let Some(memories) = &self.facts.memories {
                    memories.borrow_mut().wants.push(Default::default());
                }
                self.clients.len() - 1
            });
            self.clients[place] = Some(client);
            self.bring_message(place)?;
        }
        Ok(())
    }

    fn number(&self, client: usize) -> u16 {
        (self.units.len() + client) as u16
    }

    /// Brings the values of a message to the host, and posts it once they are there.
    pub(super) fn bring_message(&mut self, place: usize) -> Result<(), SimError> {
        let Some(client) = self.clients[place].filter(|c| !c.posted) else {
            return Ok(());
        };
        if let Some(memories) = &self.facts.memories {
            let slot = self.launches.slot(client.task.launch);
            let number = self.number(place);
            let mut memories = memories.borrow_mut();
            if !memories.acquire(number, client.task, slot, self.now, &mut self.agenda)? {
                return Ok(());
            }
        }
        self.clients[place] = Some(Client {
            posted: true,
            ..client
        });
        self.outbox.push(client.task);
        Ok(())
    }

    /// A message has ended, at this moment.
    pub(crate) fn message_ended(&mut self, task: TaskRef, at: f64) -> Result<(), SimError> {
        self.now = at;
        let now = Seconds(at);
        let of = |c: &Option<Client>| c.is_some_and(|c| c.task == task);
        let place = self.clients.iter().position(of);
        let client = place.and_then(|p| self.clients[p].take());
        let mut again = std::mem::take(&mut self.again);
        if let (Some(memories), Some(place)) = (&self.facts.memories, place) {
            let slot = self.launches.slot(task.launch);
            let mut memories = memories.borrow_mut();
            memories.release(self.number(place), task, slot, at, &mut again);
            memories.ended(task, at, &mut self.agenda, &mut again);
        }
        if let (true, Some(client)) = (self.options.record, client) {
            self.out.messages.push(MessageSpan {
                task,
                start: Seconds(client.ready),
                end: now,
            });
        }
        let mut released = std::mem::take(&mut self.released);
        if self.launches.end(task, &mut released) {
            self.out.launches[task.launch].1 = now;
        }
        if let Some(marks) = &mut self.marks {
            marks.ready(&released, Some(task), now);
        }
        self.take_messages(&mut released)?;
        if !released.is_empty() {
            let handed = self.policy.ready(&self.facts, None, &released, now);
            debug_assert!(handed.is_none(), "nobody is there to run it at once");
        }
        released.clear();
        self.released = released;
        self.try_again(again)?;
        if self.launches.may_begin() && self.launcher_is_free() {
            self.launch()?;
        }
        self.look()
    }
}
