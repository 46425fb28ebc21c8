//! Which arrays each memory holds, those that were needed longest ago first.
//!
//! A list for every memory, whose links stand in one table by array: noting a need, which every task does
//! for all its operands, takes the same few steps however many arrays there are.

use super::copies::Key;

#[derive(Clone, Copy, Debug)]
struct Links {
    before: u32,
    after: u32,
}

#[derive(Debug)]
pub(super) struct Recent {
    memories: usize,
    /// By array and memory; after those, where the list of each memory begins and ends.
    links: Vec<Links>,
    ends: usize,
}

impl Recent {
    /// For so many arrays; all lists are empty.
    pub(crate) fn new(keys: usize, memories: usize) -> Recent {
        let ends = keys * memories;
        let alone = |at: usize| Links {
            before: at as u32,
            after: at as u32,
        };
        Recent {
            memories,
            links: (0..ends + memories).map(alone).collect(),
            ends,
        }
    }

    fn at(&self, key: Key, memory: usize) -> usize {
        key as usize * self.memories + memory
    }

    /// A memory holds an array, from now on and as the one that was needed last.
    pub(crate) fn add(&mut self, key: Key, memory: usize) {
        let (at, end) = (self.at(key, memory), self.ends + memory);
        let last = self.links[end].before;
        self.links[at] = Links {
            before: last,
            after: end as u32,
        };
        self.links[last as usize].after = at as u32;
        self.links[end].before = at as u32;
    }

    /// A memory does not hold an array any more.
    pub(crate) fn remove(&mut self, key: Key, memory: usize) {
        let Links { before, after } = self.links[self.at(key, memory)];
        self.links[before as usize].after = after;
        self.links[after as usize].before = before;
    }

    /// What a memory holds.
    pub(crate) fn oldest_first(&self, memory: usize) -> impl Iterator<Item = Key> {
        let end = (self.ends + memory) as u32;
        let next = move |at: &u32| Some(self.links[*at as usize].after);
        std::iter::successors(next(&end), next)
            .take_while(move |&at| at != end)
            .map(|at| at / self.memories as u32)
    }
}
