//! Needs: when each array of a graph is needed next, as far as its order is known.
//!
//! Times are places in the order of tasks: the program's, or a unit's own where a schedule says who runs
//! what. The order is a guess wherever a policy decides while running, and the guess decides on nothing
//! but which copy is given up: a wrong one costs bytes, never a result.

use dahl_core::Graph;

/// Never again.
pub(crate) const NEVER: u64 = u64::MAX;

/// Where and in which order the tasks of a graph will run, if somebody decided that: for every memory,
/// the lists of its units.
pub(crate) type Lists<'a> = &'a [Vec<&'a [u32]>];

/// When the storages of a graph are needed. The default is for a machine that will not ask.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    /// By memory; one for all where nobody knows who runs what.
    memories: Vec<Times>,
    tasks: u64,
    /// Of every storage, its bytes and whether it lives during one launch only.
    storages: Vec<(u64, bool)>,
}

#[derive(Debug)]
struct Times {
    /// Of every task.
    of: Vec<u32>,
    /// For storage `s`, the places from `first[s]` to `first[s + 1]` in `at`.
    first: Vec<u32>,
    /// Times, ascending; with whether the old values are needed then.
    at: Vec<(u32, bool)>,
    /// What is used at time `t`: the places from `starts[t]` to `starts[t + 1]` in `uses`.
    starts: Vec<u32>,
    uses: Vec<Use>,
    /// Whether nobody uses a storage whose time is not here.
    alone: Vec<bool>,
}

/// How much of a storage is used at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Use {
    /// Which, in the graph.
    pub storage: u32,
    /// Bytes whose old values are needed.
    pub reads: u64,
    /// Bytes that are written.
    pub writes: u64,
}

/// The next time that a storage is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    /// When: the launch's number, then the time. [`NEVER`] if not at all.
    pub at: u64,
    /// Whether for its values, not only to be overwritten.
    pub reads: bool,
}

impl Need {
    /// Not any more.
    pub(crate) const NONE: Need = Need {
        at: NEVER,
        reads: false,
    };
}

fn moment(serial: u64, time: u32) -> u64 {
    serial << 32 | u64::from(time)
}

impl Times {
    /// Of the tasks that `of` gives a time.
    fn new(graph: &Graph, of: Vec<Option<u32>>) -> Times {
        let mut uses: Vec<Vec<(u32, bool)>> = vec![Vec::new(); graph.storages.len()];
        let end = of.iter().flatten().max().map_or(0, |t| t + 1);
        let mut by_time: Vec<Vec<Use>> = vec![Vec::new(); end as usize];
        let mut alone = vec![true; graph.storages.len()];
        for (task, time) in of.iter().enumerate() {
            for access in graph.accesses_of(task as u32) {
                let storage = graph.arrays[access.array as usize].storage as usize;
                let Some(time) = *time else {
                    alone[storage] = false;
                    continue;
                };
                let reads = access.mode.reads() && access.fresh.is_none();
                let size = graph.storages[storage].storage.dtype.size();
                let bytes = (access.region.len() * size) as u64;
                let at_once = &mut by_time[time as usize];
                let storage_id = storage as u32;
                let known = at_once.iter().position(|u| u.storage == storage_id);
                let known = known.unwrap_or_else(|| {
                    let storage = storage_id;
                    at_once.push(Use {
                        storage,
                        ..Use::default()
                    });
                    at_once.len() - 1
                });
                at_once[known].reads += u64::from(reads) * bytes;
                at_once[known].writes += u64::from(access.mode.writes()) * bytes;
                match uses[storage].last_mut() {
                    Some((t, r)) if *t == time => *r |= reads,
                    _ => uses[storage].push((time, reads)),
                }
            }
        }
        let mut first = vec![0];
        for list in &mut uses {
            list.sort_unstable();
            first.push(first[first.len() - 1] + list.len() as u32);
        }
        let mut starts = vec![0];
        for list in &by_time {
            starts.push(starts[starts.len() - 1] + list.len() as u32);
        }
        Times {
            of: of.into_iter().map(|t| t.unwrap_or(0)).collect(),
            first,
            at: uses.into_iter().flatten().collect(),
            starts,
            uses: by_time.into_iter().flatten().collect(),
            alone,
        }
    }
}

impl Needs {
    /// Of a graph whose tasks run in these orders, or about in the program's.
    pub(crate) fn new(graph: &Graph, lists: Option<Lists<'_>>) -> Needs {
        let memories = match lists {
            None => vec![Times::new(
                graph,
                (0..graph.len() as u32).map(Some).collect(),
            )],
            Some(lists) => lists
                .iter()
                .map(|units| {
                    let mut of = vec![None; graph.len()];
                    for list in units {
                        for (time, &task) in list.iter().enumerate() {
                            of[task as usize] = Some(time as u32);
                        }
                    }
                    Times::new(graph, of)
                })
                .collect(),
        };
        let about =
            |s: &dahl_core::graph::GraphStorage| (s.storage.bytes() as u64, s.temporary.is_some());
        Needs {
            memories,
            tasks: graph.len() as u64,
            storages: graph.storages.iter().map(about).collect(),
        }
    }

    /// The time after the last task.
    pub(crate) fn end(&self, memory: usize) -> u32 {
        self.times(memory).starts.len() as u32 - 1
    }

    /// What is used at a time before that.
    pub(crate) fn uses_at(&self, memory: usize, time: u32) -> &[Use] {
        let times = self.times(memory);
        let (from, to) = (times.starts[time as usize], times.starts[time as usize + 1]);
        &times.uses[from as usize..to as usize]
    }

    /// Bytes of a storage.
    pub(crate) fn bytes(&self, storage: u32) -> u64 {
        self.storages[storage as usize].0
    }

    fn uses_of(&self, memory: usize, storage: u32) -> &[(u32, bool)] {
        let times = self.times(memory);
        let s = storage as usize;
        &times.at[times.first[s] as usize..times.first[s + 1] as usize]
    }

    /// Whether nobody needs a storage after it is used at a time.
    pub(crate) fn dies(&self, memory: usize, storage: u32, time: u32) -> bool {
        let (_, temporary) = self.storages[storage as usize];
        let last = self.uses_of(memory, storage).last();
        temporary
            && self.times(memory).alone[storage as usize]
            && last.is_none_or(|&(last, _)| last <= time)
    }

    /// If the values of a storage are needed from a time on, in this launch or the next: when, and its
    /// bytes.
    pub(crate) fn reads_after(&self, memory: usize, storage: u32, time: u32) -> Option<(u64, u64)> {
        let (bytes, temporary) = self.storages[storage as usize];
        let uses = self.uses_of(memory, storage);
        let (at, reads) = match uses.get(uses.partition_point(|u| u.0 < time)) {
            Some(&(at, reads)) => (u64::from(at), reads),
            None if temporary => return None,
            None => {
                let &(at, reads) = uses.first()?;
                (self.tasks + u64::from(at), reads)
            }
        };
        reads.then_some((at, bytes))
    }

    /// Whether each memory has an order of its own.
    pub(crate) fn by_memory(&self) -> bool {
        self.memories.len() > 1
    }

    fn times(&self, memory: usize) -> &Times {
        // There is at least one: only machines with devices ask.
        &self.memories[memory.min(self.memories.len() - 1)]
    }

    /// The moment of a task in launch number `serial`.
    pub(crate) fn moment(&self, memory: usize, serial: u64, task: u32) -> u64 {
        moment(serial, self.times(memory).of[task as usize])
    }

    /// When a storage is needed after a task. What lasts is needed again by the next launch, which will
    /// most likely be of the same graph; a temporary is not.
    pub(crate) fn after(
        &self,
        memory: usize,
        storage: u32,
        serial: u64,
        task: u32,
        lasts: bool,
    ) -> Need {
        let times = self.times(memory);
        let (from, to) = (
            times.first[storage as usize] as usize,
            times.first[storage as usize + 1] as usize,
        );
        let (uses, now) = (&times.at[from..to], times.of[task as usize]);
        match (uses.get(uses.partition_point(|u| u.0 <= now)), uses.first()) {
            (Some(&(time, reads)), _) => Need {
                at: moment(serial, time),
                reads,
            },
            (None, Some(&(time, _))) if lasts => Need {
                at: moment(serial + 1, time),
                reads: true,
            },
            _ => Need::NONE,
        }
    }

    /// How many tasks lie between two moments, if launches are of this graph; at least one.
    pub(crate) fn distance(&self, now: u64, then: u64) -> u64 {
        let launches = (then >> 32).saturating_sub(now >> 32).min(1 << 20);
        let (now, then) = (now & u64::from(u32::MAX), then & u64::from(u32::MAX));
        (launches * self.tasks + then).saturating_sub(now).max(1)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dahl_core::{Arena, Codelet, Recorder, Task, UnitKind};

    use super::*;

    #[test]
    fn needs_follow_the_order_and_wrap_to_the_next_launch() {
        let nothing =
            Arc::new(Codelet::new("nothing").implement("reference", UnitKind::CPU, |_| Ok(())));
        let arena = Arena::new();
        let mut x = arena.zeros::<f32, 1>([2]).unwrap();
        let mut y = arena.zeros::<f32, 1>([2]).unwrap();
        let recorder = Recorder::new();
        recorder.submit(Task::new(&nothing, &[x.read(), y.write()]));
        recorder.submit(Task::new(&nothing, &[y.read()]));
        recorder.submit(Task::new(&nothing, &[x.write()]));
        let graph = recorder.finish().unwrap();
        let needs = Needs::new(&graph, None);
        let at = |serial: u64, time: u32, reads| Need {
            at: moment(serial, time),
            reads,
        };
        assert_eq!(needs.after(1, 0, 7, 0, true), at(7, 2, false));
        assert_eq!(needs.after(1, 0, 7, 2, true), at(8, 0, true));
        assert_eq!(needs.after(1, 1, 7, 0, false), at(7, 1, true));
        assert_eq!(needs.after(1, 1, 7, 1, false), Need::NONE);
        assert_eq!(needs.distance(moment(7, 2), moment(8, 0)), 1);
        assert_eq!(needs.distance(moment(7, 1), moment(9, 0)), 5);
        // A schedule: tasks 2 and 0 in the host, task 1 on the device.
        let (host, device): (&[u32], &[u32]) = (&[2, 0], &[1]);
        let planned = Needs::new(&graph, Some(&[vec![host], vec![device]]));
        assert_eq!(planned.after(0, 0, 3, 2, true), at(3, 1, true));
        assert_eq!(planned.after(1, 0, 3, 1, true), Need::NONE);
    }
}
