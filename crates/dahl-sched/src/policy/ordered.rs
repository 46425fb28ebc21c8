//! Orders of operations, followed as a policy: what pipelines run by.
//!
//! The units form *groups*, one for every device of a pipeline. An [`Order`] gives every task of a graph a group and a rank in it;
//! tasks of one operation have the same rank. A group works through its ranks: no task of a rank begins before all of
//! earlier ranks have been taken, so that what a schedule allows to be in flight is in flight and no more. The units of a
//! group share the tasks of a rank, and where there are several, they may look one rank ahead rather than wait. Launches follow
//! each other, group by group.
//!
//! Without `strict`, a group takes what is ready, the oldest launch and the lowest rank first: batches of an asynchronous
//! pipeline follow each other without a flush, and how many are in flight is the launching program's decision.
//!
//! Graphs without an order are left to work stealing, as are tasks of rank 0 to the unit of their group that is free first. **Nobody waits
//! in a circle** if ranks follow one order of all tasks in which everybody comes after what it needs: the first
//! task of that order which has not been taken has the lowest rank left in its group, and all that it waits for has been
//! taken.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use dahl_core::{Graph, Machine, Seconds, UnitId};

use super::{Policy, TaskRef, World, Ws};
use crate::lock::lock;

/// Where and when the tasks of one graph run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// The group of every task.
    pub group: Vec<u16>,
    /// Its rank there; 0 for what belongs to no operation and may run at any time.
    pub rank: Vec<u32>,
    /// Its place in the one order of all tasks that the ranks follow.
    pub place: Vec<u32>,
    /// Into how many parts the batch is cut that operations keep apart.
    pub parts: usize,
}

/// The orders of graphs, which are added before these are launched.
#[derive(Clone, Debug)]
pub struct Orders {
    groups: Groups,
    strict: bool,
    by_graph: Arc<Mutex<HashMap<u64, Arc<Counted>>>>,
}

/// Which units work together.
#[derive(Clone, Debug)]
enum Groups {
    /// As even as the units allow, or each unit by itself where there are fewer.
    Even(usize),
    /// So many units each.
    Sized(Vec<usize>),
}

/// An order, and how many tasks each group has in every rank.
#[derive(Debug)]
struct Counted {
    order: Order,
    tasks: Vec<Vec<u32>>,
}

impl Orders {
    /// For so many groups of units, or fewer where there are not enough units; as even as possible.
    pub fn new(groups: usize, strict: bool) -> Orders {
        Orders {
            groups: Groups::Even(groups.max(1)),
            strict,
            by_graph: Arc::default(),
        }
    }

    /// For groups of so many units each.
    pub fn sized(sizes: Vec<usize>, strict: bool) -> Orders {
        Orders {
            groups: Groups::Sized(sizes),
            ..Orders::new(1, strict)
        }
    }

    /// How many groups so many units form.
    pub fn groups(&self, units: usize) -> usize {
        match &self.groups {
            Groups::Even(groups) => (*groups).min(units).max(1),
            Groups::Sized(sizes) => sizes.len(),
        }
    }

    /// The group of every unit, where there are so many.
    pub fn group_of(&self, units: usize) -> Result<Vec<u16>, UnequalUnits> {
        match &self.groups {
            Groups::Even(_) => {
                let groups = self.groups(units);
                Ok((0..units).map(|u| (u * groups / units) as u16).collect())
            }
            Groups::Sized(sizes) if sizes.iter().sum::<usize>() != units => Err(UnequalUnits {
                wanted: sizes.iter().sum(),
                units,
            }),
            Groups::Sized(sizes) => {
                let all = (0..).zip(sizes);
                Ok(all.flat_map(|(g, &n)| vec![g; n]).collect())
            }
        }
    }

    /// What a graph becomes that is run in an order on so many units, so that its temporaries take what that order needs; none
    /// where launches follow each other without a flush, for then nobody knows who waits for whom.
    pub fn sequenced(&self, graph: &Graph, order: &Order, units: usize) -> Option<Arc<Graph>> {
        // Where a group has several units, they look one rank ahead.
        let alone = self
            .group_of(units)
            .is_ok_and(|g| g.windows(2).all(|w| w[0] != w[1]));
        let ahead = usize::from(!alone);
        self.strict.then(|| order.sequenced(graph, ahead))?
    }

    /// Whether the order of a graph is known.
    pub fn knows(&self, graph: u64) -> bool {
        lock(&self.by_graph).contains_key(&graph)
    }

    /// Adds the order of a graph, by its id.
    pub fn insert(&self, graph: u64, order: Order) {
        let groups = order.group.iter().max();
        let groups = groups.map_or(1, |&g| usize::from(g) + 1);
        let mut tasks = vec![Vec::new(); groups.max(self.groups(usize::MAX))];
        for (&group, &rank) in order.group.iter().zip(&order.rank) {
            let counts: &mut Vec<u32> = &mut tasks[usize::from(group)];
            if counts.len() <= rank as usize {
                counts.resize(rank as usize + 1, 0);
            }
            counts[rank as usize] += u32::from(rank > 0);
        }
        let counted = Counted { order, tasks };
        lock(&self.by_graph).insert(graph, Arc::new(counted));
    }
}

/// There are not as many units as the groups have together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stages have {wanted} units together, and there are {units}: give as many")]
pub struct UnequalUnits {
    wanted: usize,
    units: usize,
}

/// Follows orders on a machine.
pub fn ordered(orders: Orders, machine: &Machine) -> Result<Box<dyn Policy>, UnequalUnits> {
    let group_of = orders.group_of(machine.units.len())?;
    let groups = orders.groups(machine.units.len());
    let mut members = vec![Vec::new(); groups];
    for (unit, &group) in (0..).map(UnitId).zip(&group_of) {
        members[usize::from(group)].push(unit);
    }
    Ok(Box::new(Ordered {
        rest: Ws::new(machine),
        queues: Mutex::new(Queues {
            launches: Vec::new(),
            free: vec![VecDeque::new(); groups],
        }),
        group_of,
        members,
        orders,
    }))
}

struct Ordered {
    orders: Orders,
    group_of: Vec<u16>,
    /// The units of each group.
    members: Vec<Vec<UnitId>>,
    queues: Mutex<Queues>,
    rest: Ws,
}

struct Queues {
    /// Those with tasks that are ready and not yet taken by all groups, in the order of launching.
    launches: Vec<Progress>,
    /// By group, ready tasks of no rank.
    free: Vec<VecDeque<TaskRef>>,
}

/// How far a launch has come.
struct Progress {
    serial: u64,
    launch: usize,
    /// By group, what is ready: rank and task.
    ready: Vec<BTreeSet<(u32, u32)>>,
    /// By group and rank, tasks that nobody has taken; and the lowest rank that has any.
    left: Vec<Vec<u32>>,
    at: Vec<usize>,
}

impl Progress {
    fn new(launch: usize, serial: u64, order: &Counted) -> Progress {
        let groups = order.tasks.len();
        let mut progress = Progress {
            launch,
            serial,
            ready: vec![BTreeSet::new(); groups],
            left: order.tasks.clone(),
            at: vec![0; groups],
        };
        (0..groups).for_each(|g| progress.advance(g));
        progress
    }

    fn advance(&mut self, group: usize) {
        let left = &self.left[group];
        while left.get(self.at[group]) == Some(&0) {
            self.at[group] += 1;
        }
    }

    /// Whether a group has taken all its tasks.
    fn is_done(&self, group: usize) -> bool {
        self.at[group] >= self.left[group].len()
    }

    /// Takes the first ready task of a group, if it may begin.
    fn take(&mut self, group: usize, ahead: Option<usize>) -> Option<TaskRef> {
        let &(rank, task) = self.ready[group].first()?;
        let most = ahead.map_or(usize::MAX, |ahead| self.at[group] + ahead);
        if rank as usize > most {
            return None;
        }
        self.ready[group].pop_first();
        self.left[group][rank as usize] -= 1;
        self.advance(group);
        Some(TaskRef {
            launch: self.launch,
            task,
        })
    }
}

impl Queues {
    fn add(&mut self, task: TaskRef, serial: u64, order: &Arc<Counted>) -> usize {
        let (group, rank) = (
            usize::from(order.order.group[task.task as usize]),
            order.order.rank[task.task as usize],
        );
        if rank == 0 {
            self.free[group].push_back(task);
            return group;
        }
        let at = self.launches.partition_point(|l| l.serial < serial);
        if self.launches.get(at).is_none_or(|l| l.serial != serial) {
            let progress = Progress::new(task.launch, serial, order);
            self.launches.insert(at, progress);
        }
        self.launches[at].ready[group].insert((rank, task.task));
        group
    }

    fn take(&mut self, group: usize, ahead: Option<usize>) -> Option<TaskRef> {
        if let Some(task) = self.free[group].pop_front() {
            return Some(task);
        }
        for at in 0..self.launches.len() {
            let progress = &mut self.launches[at];
            if progress.is_done(group) {
                continue;
            }
            let taken = progress.take(group, ahead);
            if taken.is_some() {
                if (0..progress.left.len()).all(|g| progress.is_done(g)) {
                    self.launches.remove(at);
                }
                return taken;
            }
            if ahead.is_some() {
                return None;
            }
        }
        None
    }
}

impl Ordered {
    fn wake(&self, world: &dyn World, group: usize, but: Option<UnitId>) {
        let units = self.members[group].iter().filter(|u| Some(**u) != but);
        units.for_each(|&unit| {
            world.wake(Some(unit));
        });
    }
}

impl Policy for Ordered {
    fn name(&self) -> &'static str {
        "pipeline"
    }

    fn ready(
        &self,
        world: &dyn World,
        _: Option<UnitId>,
        tasks: &[TaskRef],
        now: Seconds,
    ) -> Option<TaskRef> {
        for tasks in tasks.chunk_by(|a, b| a.launch == b.launch) {
            let (graph, serial) = world.origin(tasks[0]);
            let order = lock(&self.orders.by_graph).get(&graph).cloned();
            let Some(order) = order else {
                // On behalf of nobody: what is handed back at once would go before what has an order.
                self.rest.ready(world, None, tasks, now);
                continue;
            };
            let mut queues = lock(&self.queues);
            let mut groups: Vec<usize> = tasks
                .iter()
                .map(|&t| queues.add(t, serial, &order))
                .collect();
            drop(queues);
            groups.sort_unstable();
            groups.dedup();
            groups.iter().for_each(|&g| self.wake(world, g, None));
        }
        None
    }

    fn next(&self, world: &dyn World, unit: UnitId, now: Seconds) -> Option<TaskRef> {
        let group = usize::from(*self.group_of.get(usize::from(unit.0))?);
        let alone = self.members[group].len() < 2;
        let ahead = self.orders.strict.then_some(usize::from(!alone));
        let taken = lock(&self.queues).take(group, ahead);
        match taken {
            Some(_) if !alone => self.wake(world, group, Some(unit)),
            Some(_) => {}
            None => return self.rest.next(world, unit, now),
        }
        taken
    }

    fn backlog(&self) -> Vec<(String, usize)> {
        let queues = lock(&self.queues);
        let waiting = |g: usize| -> usize {
            let ready = queues.launches.iter().map(|l| l.ready[g].len());
            ready.sum::<usize>() + queues.free[g].len()
        };
        let mut all: Vec<(String, usize)> = (0..queues.free.len())
            .map(|g| (format!("group {g}"), waiting(g)))
            .collect();
        drop(queues);
        all.extend(self.rest.backlog());
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::stub::Stub;
    use super::*;

    /// Odd launches are of a graph without an order.
    fn quiet() -> Stub {
        Stub {
            origin: Some(|task| (task.launch as u64 % 2, task.launch as u64)),
            ..Stub::default()
        }
    }

    const T0: Seconds = Seconds(0.0);

    /// Two groups; of the first, tasks 0 and 1 have rank 1, task 2 rank 2, task 3 rank 3, task 4 none; task 5 is the other's.
    fn policy(orders: Orders, units: usize) -> Box<dyn Policy> {
        orders.insert(
            0,
            Order {
                group: vec![0, 0, 0, 0, 0, 1],
                rank: vec![1, 1, 2, 3, 0, 1],
                ..Order::default()
            },
        );
        ordered(orders, &Machine::cpus(units)).unwrap()
    }

    fn ready(policy: &dyn Policy, launch: usize, tasks: &[u32]) {
        let tasks: Vec<TaskRef> = tasks.iter().map(|&task| TaskRef { launch, task }).collect();
        assert_eq!(policy.ready(&quiet(), None, &tasks, T0), None);
    }

    fn next(policy: &dyn Policy, unit: u16) -> Option<(usize, u32)> {
        let task = policy.next(&quiet(), UnitId(unit), T0);
        task.map(|t| (t.launch, t.task))
    }

    #[test]
    fn a_strict_group_keeps_to_its_ranks() {
        let policy = &*policy(Orders::new(2, true), 2);
        ready(policy, 2, &[1, 2, 3]);
        assert_eq!(next(policy, 1), None, "of the other group nothing is ready");
        assert_eq!(next(policy, 0), Some((2, 1)));
        assert_eq!(next(policy, 0), None, "task 0 comes before task 2");
        ready(policy, 2, &[4]);
        assert_eq!(
            next(policy, 0),
            Some((2, 4)),
            "what has no rank at any time"
        );
        // A later launch waits until a group has taken all of this one.
        ready(policy, 4, &[0, 5]);
        assert_eq!(next(policy, 0), None);
        assert_eq!(next(policy, 1), None);
        ready(policy, 2, &[0, 5]);
        let rest: Vec<_> = std::iter::from_fn(|| next(policy, 0)).collect();
        assert_eq!(rest, [(2, 0), (2, 2), (2, 3), (4, 0)]);
        let rest: Vec<_> = std::iter::from_fn(|| next(policy, 1)).collect();
        assert_eq!(rest, [(2, 5), (4, 5)]);
        // Graphs without an order run where nothing else is to do.
        ready(policy, 3, &[7]);
        assert_eq!(next(policy, 1).or_else(|| next(policy, 0)), Some((3, 7)));
        assert_eq!(policy.backlog().iter().map(|b| b.1).sum::<usize>(), 0);
    }

    #[test]
    fn units_of_one_group_look_one_rank_ahead() {
        let policy = &*policy(Orders::sized(vec![2, 1], true), 3);
        ready(policy, 2, &[1, 2, 3]);
        assert_eq!(next(policy, 0), Some((2, 1)));
        assert_eq!(next(policy, 1), Some((2, 2)), "one rank ahead");
        assert_eq!(next(policy, 1), None, "and no more");
        assert!(ordered(Orders::sized(vec![2, 1], true), &Machine::cpus(2)).is_err());
    }

    #[test]
    fn without_a_flush_the_oldest_goes_first() {
        let policy = &*policy(Orders::new(2, false), 2);
        ready(policy, 4, &[0, 1]);
        ready(policy, 2, &[3, 2]);
        let all: Vec<_> = std::iter::from_fn(|| next(policy, 0)).collect();
        assert_eq!(all, [(2, 2), (2, 3), (4, 0), (4, 1)]);
    }
}
