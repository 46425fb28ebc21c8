//! Readers: which tasks of a graph will read parts of an array, and in which memory.
//!
//! Facts of a graph and of who may run it, found once before its first launch. Where nobody decided who
//! runs what, a task is as likely in one memory that can run it as in another. It is a guess that
//! decides on nothing but what travels together (`join`): a wrong one costs bytes, never a result.

use dahl_core::access::Access;
use dahl_core::{DeviceKernels, Graph, UnitKind};

/// The readers of every storage of a graph. The default is for a machine that will not ask.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    /// For storage `s`, the places from `first[s]` to `first[s + 1]` in `all`.
    first: Vec<u32>,
    /// By task.
    all: Vec<Reader>,
    /// Tasks that write what readers read.
    writers: Vec<u32>,
    chances: Chances,
}

/// An access that needs the values of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reader {
    /// Its task.
    pub task: u32,
    /// Its place among the graph's accesses.
    pub access: u32,
    /// Its places among the writers.
    writers: std::ops::Range<u32>,
}

/// Where tasks will run.
#[derive(Debug)]
enum Chances {
    /// The memory of every task, as a schedule says.
    Known(Vec<u16>),
    /// For every class and memory, how likely it is.
    Likely(Vec<f64>, usize),
}

impl Default for Chances {
    fn default() -> Self {
        Chances::Known(Vec::new())
    }
}

impl Readers {
    /// Of a graph that these units may run, each of a kind and with a memory; or will run, in the memory
    /// that `homes` gives each task.
    pub(crate) fn new(
        graph: &Graph,
        units: (&[(UnitKind, u16)], &DeviceKernels),
        homes: Option<Vec<u16>>,
    ) -> Readers {
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); graph.len()];
        for task in 0..graph.len() as u32 {
            for &next in graph.successors(task) {
                before[next as usize].push(task);
            }
        }
        let storage = |access: &Access| graph.arrays[access.array as usize].storage;
        let mut lists: Vec<Vec<Reader>> = vec![Vec::new(); graph.storages.len()];
        let mut writers = Vec::new();
        for task in 0..graph.len() as u32 {
            let places = graph.tasks[task as usize].first_access..;
            for (place, access) in places.zip(graph.accesses_of(task)) {
                if !access.mode.reads() || access.fresh.is_some() {
                    continue;
                }
                // The last writers of what a task reads are among those it waits for.
                let s = storage(access);
                let writes = |a: &Access| a.mode.writes() && storage(a) == s;
                let wrote = |t: &&u32| graph.accesses_of(**t).iter().any(writes);
                let from = writers.len() as u32;
                writers.extend(before[task as usize].iter().filter(wrote));
                lists[s as usize].push(Reader {
                    task,
                    access: place,
                    writers: from..writers.len() as u32,
                });
            }
        }
        let mut first = vec![0];
        for list in &lists {
            first.push(first[first.len() - 1] + list.len() as u32);
        }
        Readers {
            first,
            all: lists.into_iter().flatten().collect(),
            writers,
            chances: match homes {
                Some(homes) => Chances::Known(homes),
                None => likely(graph, units),
            },
        }
    }

    /// Whether nobody will ask.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// Readers of a storage whose tasks come after one, by task.
    pub(crate) fn after(&self, storage: u32, task: u32) -> &[Reader] {
        let s = storage as usize;
        let of = &self.all[self.first[s] as usize..self.first[s + 1] as usize];
        &of[of.partition_point(|r| r.task <= task)..]
    }

    /// The tasks whose ends make a reader's part what it will read.
    pub(crate) fn writers(&self, reader: &Reader) -> &[u32] {
        &self.writers[reader.writers.start as usize..reader.writers.end as usize]
    }

    /// How likely it is that a task runs in a memory.
    pub(crate) fn chance(&self, graph: &Graph, task: u32, memory: usize) -> f64 {
        match &self.chances {
            Chances::Known(homes) => f64::from(u8::from(homes[task as usize] as usize == memory)),
            Chances::Likely(chances, memories) => {
                chances[graph.tasks[task as usize].class as usize * memories + memory]
            }
        }
    }
}

fn likely(graph: &Graph, (units, kernels): (&[(UnitKind, u16)], &DeviceKernels)) -> Chances {
    let memories = units.iter().map(|u| usize::from(u.1) + 1).max();
    let memories = memories.unwrap_or(1);
    let mut chances = Vec::with_capacity(graph.classes.len() * memories);
    for class in 0..graph.classes.len() as u32 {
        let runs = |kind| kernels.choice(graph, class, kind).is_some();
        let mut able = vec![false; memories];
        for &(kind, memory) in units {
            able[usize::from(memory)] |= runs(kind);
        }
        let count = able.iter().filter(|a| **a).count().max(1) as f64;
        chances.extend(able.iter().map(|&a| f64::from(u8::from(a)) / count));
    }
    Chances::Likely(chances, memories)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dahl_core::{Arena, Codelet, Recorder, Task};

    use super::*;

    #[test]
    fn readers_come_by_task_with_their_writers_and_chances() {
        let nothing =
            Arc::new(Codelet::new("nothing").implement("reference", UnitKind::CPU, |_| Ok(())));
        let arena = Arena::new();
        let x = arena.zeros::<f32, 1>([2]).unwrap();
        let mut y = arena.zeros::<f32, 1>([2]).unwrap();
        let recorder = Recorder::new();
        recorder.submit(Task::new(&nothing, &[y.write(), x.read()]));
        recorder.submit(Task::new(&nothing, &[y.read_write()]));
        recorder.submit(Task::new(&nothing, &[y.read(), x.read()]));
        let graph = recorder.finish().unwrap();
        let cpu = UnitKind::CPU;
        let kernels = DeviceKernels::default();
        let units = [(cpu, 0), (cpu, 1), (cpu, 1), (UnitKind::GPU, 2)];
        let units = (&units[..], &kernels);
        let readers = Readers::new(&graph, units, None);
        let of = |storage, task| {
            let all = readers.after(storage, task).iter();
            all.map(|r| (r.task, readers.writers(r).to_vec()))
                .collect::<Vec<_>>()
        };
        let y = [(1, vec![0]), (2, vec![1])];
        assert_eq!(of(0, 0), y, "y is the first storage");
        assert_eq!(of(1, 0), [(2, vec![])]);
        assert_eq!(of(0, 2), []);
        let chances = |r: &Readers| [0, 1, 2].map(|m| r.chance(&graph, 2, m));
        assert_eq!(chances(&readers), [0.5, 0.5, 0.0]);
        let planned = Readers::new(&graph, units, Some(vec![0, 0, 1]));
        assert_eq!(chances(&planned), [0.0, 1.0, 0.0]);
    }
}
