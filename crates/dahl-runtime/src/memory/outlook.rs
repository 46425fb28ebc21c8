//! Outlook: trying out what to give up, a few tasks ahead.
//!
//! The rule of `victims` looks at one copy at a time, and can be far from the best: two small copies may
//! be worth more together than a large one, and what is spared now may have to go at the next task. Here
//! the tasks to come, as far as `needs` knows them, are played through: wherever room is short, sets of
//! copies to give up are tried in the order of that rule, those that cost more than the best so far are
//! left, and states seen before at less cost are not entered again. What was best at the first shortage
//! is done. The search stops after a fixed number of tries, with the best so far, and is left out where
//! there are too many arrays: the rule alone decides then.
//!
//! Costs are bytes moved: those to write back and those to fetch again. A pure function of the directory
//! and the order; it decides on nothing but traffic.

use std::collections::HashMap;

use super::directory::{Directory, Entry};
use super::needs::Needs;
use super::victims::{Candidate, Shortage, can_go, candidate};

/// Tasks played through.
const TASKS: u32 = 24;
/// Arrays thought of; as many as a set has bits.
const ARRAYS: usize = 128;
/// Copies that no task of the outlook needs, and copies to choose from at each shortage: the cheapest.
const OTHERS: usize = 16;
const CHOICES: usize = 10;
/// Sets tried.
const TRIES: usize = 400;

/// What is asked.
pub(super) struct Outlook<'a> {
    /// Where, when and for whom room is short.
    pub shortage: &'a Shortage<'a>,
    /// The keys of the launch's storages.
    pub keys: &'a [u64],
    /// Bytes of the memory that a storage of so many bytes takes.
    pub footprint: &'a dyn Fn(usize) -> u64,
}

/// Sets of arrays, by their places.
type Set = u128;

#[derive(Default)]
struct Array {
    key: u64,
    /// Bytes of the memory that a copy takes.
    room: u64,
    /// Bytes to write back if it goes, before any task writes it; and after.
    back: [f64; 2],
    /// What it costs if it is not there after the last task.
    missed: f64,
    /// What giving it up costs by the rule.
    loss: f64,
}

#[derive(Default)]
struct Step {
    needs: Set,
    writes: Set,
    /// Nobody needs these any more.
    dies: Set,
    /// Bytes to fetch of an array that is not there.
    reads: Vec<(usize, f64)>,
}

#[derive(Clone, Copy)]
struct State {
    there: Set,
    written: Set,
    used: u64,
    cost: f64,
}

struct Search {
    arrays: Vec<Array>,
    steps: Vec<Step>,
    /// Copies that cannot go for the first task.
    stuck: Set,
    capacity: u64,
    seen: HashMap<(usize, Set, Set), f64>,
    tries: usize,
    best: f64,
    /// What goes first, on the way that is being tried and on the best.
    first: [Set; 2],
}

/// Copies that are best given up for a shortage, by the order of the tasks to come; `None` if there is
/// nothing to say beyond the rule. With what that way costs.
pub(super) fn best(directory: &Directory, outlook: &Outlook<'_>) -> Option<(Vec<u64>, f64)> {
    let shortage = outlook.shortage;
    let mut search = prepare(directory, outlook)?;
    let there = |a: &Array| {
        let entry = directory.entries.get(&a.key);
        entry.is_some_and(|e| e.copies[usize::from(shortage.memory.0)].buffer.is_some())
    };
    let state = State {
        there: set(&search.arrays, there),
        written: 0,
        used: directory.used[usize::from(shortage.memory.0)],
        cost: 0.0,
    };
    search.play(0, state);
    let chosen = search.first[1];
    let keys = places(chosen).map(|i| search.arrays[i].key);
    (search.best < f64::INFINITY && chosen != 0).then(|| (keys.collect(), search.best))
}

fn set(arrays: &[Array], is_in: impl Fn(&Array) -> bool) -> Set {
    let all = arrays.iter().enumerate();
    all.fold(0, |s, (i, a)| s | Set::from(is_in(a)) << i)
}

fn places(mut set: Set) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(place)
    })
}

/// Takes down what the next tasks need and what is there.
fn prepare(directory: &Directory, outlook: &Outlook<'_>) -> Option<Search> {
    let &Outlook { shortage, keys, .. } = outlook;
    let (needs, memory) = (shortage.needs, shortage.memory);
    let m = usize::from(memory.0);
    let now = shortage.now as u32;
    let end = (now + TASKS).min(needs.end(m));
    let (mut arrays, mut steps) = (Vec::new(), Vec::new());
    let mut place_of = HashMap::new();
    for time in now..end {
        let mut step = Step::default();
        for u in needs.uses_at(m, time) {
            let place = *place_of.entry(keys[u.storage as usize]).or_insert_with(|| {
                arrays.push(of_graph(directory, outlook, u.storage, end));
                arrays.len() - 1
            });
            if arrays.len() > ARRAYS {
                return None;
            }
            step.needs |= 1 << place;
            if u.writes > 0 {
                step.writes |= 1 << place;
            }
            if needs.dies(m, u.storage, time) {
                step.dies |= 1 << place;
            }
            if u.reads > 0 {
                step.reads.push((place, u.reads as f64));
            }
        }
        steps.push(step);
    }
    let others = directory.entries.iter();
    let others = others.filter(|(key, e)| {
        let is_there = e.copies[m].buffer.is_some();
        is_there && !place_of.contains_key(*key) && !shortage.keep.contains(key)
    });
    let mut others: Vec<Array> = others.map(|(k, e)| other(*k, e, shortage, needs)).collect();
    others.sort_by(|a, b| (a.loss / a.room as f64).total_cmp(&(b.loss / b.room as f64)));
    others.truncate(OTHERS.min(ARRAYS - arrays.len()));
    arrays.extend(others);
    let cannot = |a: &Array| {
        let entry = directory.entries.get(&a.key);
        entry.is_some_and(|e| !can_go(&a.key, e, shortage))
    };
    Some(Search {
        stuck: set(&arrays, cannot),
        arrays,
        steps,
        capacity: directory.capacity[m],
        seen: HashMap::new(),
        tries: 0,
        best: f64::INFINITY,
        first: [0; 2],
    })
}

/// A storage of the graph that a task of the outlook needs.
fn of_graph(directory: &Directory, outlook: &Outlook<'_>, storage: u32, end: u32) -> Array {
    let shortage = outlook.shortage;
    let (needs, m) = (shortage.needs, usize::from(shortage.memory.0));
    let key = outlook.keys[storage as usize];
    let bytes = needs.bytes(storage);
    let (mut back, mut loss) = (0.0, 0.0);
    let mut room = (outlook.footprint)(bytes as usize);
    if let Some(entry) = directory.entries.get(&key)
        && entry.copies[m].buffer.is_some()
    {
        let c: Candidate = candidate(key, entry, shortage);
        (back, loss, room) = (c.back as f64, c.loss, c.bytes);
    }
    let again = needs.reads_after(m, storage, end);
    let now = shortage.now & u64::from(u32::MAX);
    let missed = again.map_or(0.0, |(at, bytes)| {
        weigh(shortage, end, at.saturating_sub(now)) * bytes as f64
    });
    Array {
        key,
        room,
        back: [back, bytes as f64],
        missed,
        loss,
    }
}

/// A copy that no task of the outlook needs.
fn other(key: u64, entry: &Entry, shortage: &Shortage<'_>, needs: &Needs) -> Array {
    let c = candidate(key, entry, shortage);
    let end = shortage.now as u32 + 1;
    Array {
        key,
        room: c.bytes,
        back: [c.back as f64; 2],
        missed: weigh(shortage, end, needs.distance(shortage.now, c.need)) * c.again as f64,
        loss: c.loss,
    }
}

/// How much a need beyond the last task counts: the further, the likelier the copy had gone anyway.
fn weigh(shortage: &Shortage<'_>, end: u32, distance: u64) -> f64 {
    let tasks = f64::from(end - shortage.now as u32);
    (tasks / distance.max(1) as f64).min(1.0)
}

impl Search {
    /// Plays through the steps from one on.
    fn play(&mut self, from: usize, mut state: State) {
        for step in from..self.steps.len() {
            if state.cost >= self.best {
                return;
            }
            let room = |s: Set, a: &[Array]| -> u64 { places(s).map(|i| a[i].room).sum() };
            let needs = self.steps[step].needs;
            let missing = room(needs & !state.there, &self.arrays);
            if state.used + missing > self.capacity {
                return self.choose(step, state, state.used + missing - self.capacity);
            }
            let s = &self.steps[step];
            let fetched = s.reads.iter().filter(|(i, _)| state.there & 1 << i == 0);
            state.cost += fetched.map(|(_, bytes)| bytes).sum::<f64>();
            state.there |= needs;
            state.used += missing;
            state.written |= s.writes;
            state.used -= room(s.dies, &self.arrays);
            state.there &= !s.dies;
            state.written &= !s.dies;
        }
        let at_the_end = |(i, a): (usize, &Array)| match state.there >> i & 1 {
            0 => a.missed,
            // Newer than the host's: to be written back some day.
            _ => a.back[(state.written >> i & 1) as usize],
        };
        let all = self.arrays.iter().enumerate();
        let cost = state.cost + all.map(at_the_end).sum::<f64>();
        if cost < self.best {
            (self.best, self.first[1]) = (cost, self.first[0]);
        }
    }

    /// Tries what may go at a step.
    fn choose(&mut self, step: usize, state: State, short: u64) {
        let known = self.seen.entry((step, state.there, state.written));
        let known = known.or_insert(f64::INFINITY);
        if *known <= state.cost {
            return;
        }
        *known = state.cost;
        let stuck = if step == 0 { self.stuck } else { 0 };
        let mut can: Vec<usize> = places(state.there & !self.steps[step].needs & !stuck).collect();
        let price = |i: &usize| {
            let a = &self.arrays[*i];
            a.loss / a.room.clamp(1, short) as f64
        };
        can.sort_by(|a, b| price(a).total_cmp(&price(b)).then(a.cmp(b)));
        can.truncate(CHOICES);
        self.extend(step, state, short, &can, 0);
    }

    /// Sets that begin with `gone` and go on with some of these.
    fn extend(&mut self, step: usize, state: State, short: u64, can: &[usize], gone: Set) {
        let freed: u64 = places(gone).map(|i| self.arrays[i].room).sum();
        if freed >= short {
            let is_spare = |i: usize| freed - self.arrays[i].room >= short;
            if self.tries >= TRIES || places(gone).any(is_spare) {
                return;
            }
            self.tries += 1;
            let back = |i: usize| self.arrays[i].back[usize::from(state.written >> i & 1 == 1)];
            let next = State {
                there: state.there & !gone,
                written: state.written & !gone,
                used: state.used - freed,
                cost: state.cost + places(gone).map(back).sum::<f64>(),
            };
            if step == 0 {
                self.first[0] = gone;
            }
            return self.play(step, next);
        }
        for (i, &place) in can.iter().enumerate() {
            self.extend(step, state, short, &can[i + 1..], gone | 1 << place);
        }
    }
}
