//! Policies: which unit runs which ready task, decided at run time.
//!
//! A policy is told when tasks become ready and asked what a unit should do next. It never reads a
//! clock, an environment variable or a file: the time, estimates and priorities come from the
//! [`World`] that drives it, which is the runtime or the simulator. Policies choose *where and when*;
//! *what* is computed is fixed in the graph.
//!
//! Policies are driven from many threads at once and keep their own locks. They call the world only
//! to ask for facts and to wake units, and the world never calls back into the policy from there, so no
//! lock is held while another is taken.

mod among;
mod deadlock;
mod dm;
mod eager;
mod fixed;
mod follow;
mod ordered;
mod sequence;
#[cfg(test)]
mod stub;
mod ws;

use dahl_core::{Machine, Seconds, UnitId};

use dm::Dm;
use eager::Eager;
use ws::Ws;

pub use self::{
    among::Among,
    deadlock::{Deadlock, check_orders},
    fixed::{Fixed, ScheduleError},
    follow::follow,
    ordered::{Order, Orders, UnequalUnits, ordered},
};

/// A ready task: which launch of which graph, and which task of that. What the launch number means is
/// the world's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskRef {
    /// The launch.
    pub launch: usize,
    /// The task.
    pub task: u32,
}

/// What a policy may ask, and whom it wakes.
pub trait World {
    /// Whether a unit has an implementation of a task.
    fn can_run(&self, task: TaskRef, unit: UnitId) -> bool;

    /// Whether every unit can run every task, so that [`World::can_run`] need not be asked.
    fn is_uniform(&self) -> bool;

    /// How long a task is expected to run on a unit.
    fn duration(&self, task: TaskRef, unit: UnitId) -> Seconds;

    /// How long it is expected to take until a task's data is where a unit can reach it.
    fn transfer(&self, task: TaskRef, unit: UnitId) -> Seconds;

    /// How long a task would keep each unit busy, bringing its data included if `transfers`; infinite where
    /// it cannot run. One question for all units: those who decide by it ask it for every task.
    fn lengths(&self, task: TaskRef, transfers: bool, out: &mut [f64]) {
        for (unit, out) in (0..).map(UnitId).zip(out) {
            *out = if !self.is_uniform() && !self.can_run(task, unit) {
                f64::INFINITY
            } else if transfers {
                self.transfer(task, unit).0 + self.duration(task, unit).0
            } else {
                self.duration(task, unit).0
            };
        }
    }

    /// A task's priority; higher is more urgent.
    fn priority(&self, task: TaskRef) -> i32;

    /// Whether nodes wait for each other's messages, so that [`World::due`] is to be asked.
    fn has_dues(&self) -> bool {
        false
    }

    /// Where a task is due ([`Graph::due_of`](dahl_core::Graph::due_of)); what is lower goes first. Tasks of a computer alone
    /// are all alike.
    fn due(&self, task: TaskRef) -> i64 {
        let _ = task;
        0
    }

    /// Whether a task belongs to the graph that a schedule at hand was made for.
    fn is_planned(&self, task: TaskRef) -> bool {
        let _ = task;
        true
    }

    /// The graph that a task belongs to, by its id, and when it was launched: a number that grows from launch to launch.
    fn origin(&self, task: TaskRef) -> (u64, u64) {
        (0, task.launch as u64)
    }

    /// There is work for a unit, or with `None` for any one unit. False if nobody had to be woken: the
    /// unit is awake, and may be busy for long.
    fn wake(&self, unit: Option<UnitId>) -> bool;
}

/// Decides which unit runs which ready task.
pub trait Policy: Send + Sync {
    /// The name it is chosen by.
    fn name(&self) -> &'static str;

    /// Whether it looks at `now` and at estimates, so that tasks must be timed.
    fn needs_time(&self) -> bool {
        false
    }

    /// Tasks became ready, in this order, because a task on unit `by` ended or because a graph was
    /// launched. May return one of them for `by` to run at once, without being queued.
    fn ready(
        &self,
        world: &dyn World,
        by: Option<UnitId>,
        tasks: &[TaskRef],
        now: Seconds,
    ) -> Option<TaskRef>;

    /// What a unit should run next. `None` means nothing for now: the policy wakes the unit when that
    /// changes.
    fn next(&self, world: &dyn World, unit: UnitId, now: Seconds) -> Option<TaskRef>;

    /// A task that this policy gave to `unit` has ended, or the unit gives it back without having begun it.
    fn ended(&self, world: &dyn World, unit: UnitId, task: TaskRef, now: Seconds) {
        let _ = (world, unit, task, now);
    }

    /// How many tasks are queued, and where: for the dump that a hang leaves behind.
    fn backlog(&self) -> Vec<(String, usize)>;
}

/// Makes a policy for a machine.
type Make = fn(&Machine) -> Box<dyn Policy>;

/// One line per policy: the name, what it is, and how to make it. Everything else derives from this.
pub const POLICIES: &[(&str, &str, Make)] = &[
    (
        "eager",
        "one queue for all units, first come first served",
        |m| Box::new(Eager::new(m)),
    ),
    (
        "ws",
        "a queue per unit; idle units steal; data stays warm",
        |m| Box::new(Ws::new(m)),
    ),
    ("dm", "each task where it is expected to end first", |m| {
        Box::new(Dm::new(m, "dm"))
    }),
    ("dmda", "as dm, counting the time to bring the data", |m| {
        Box::new(Dm::new(m, "dmda"))
    }),
    ("dmdas", "as dmda, urgent tasks first", |m| {
        Box::new(Dm::new(m, "dmdas"))
    }),
];

/// The policy of this name, for a machine.
pub fn by_name(name: &str, machine: &Machine) -> Result<Box<dyn Policy>, UnknownPolicy> {
    match POLICIES.iter().find(|(n, ..)| *n == name) {
        Some((_, _, make)) => Ok(make(machine)),
        None => Err(UnknownPolicy(name.to_string())),
    }
}

fn names() -> Vec<&'static str> {
    POLICIES.iter().map(|p| p.0).collect()
}

/// There is no policy of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", dahl_core::text::unknown("policy", .0, &names()))]
pub struct UnknownPolicy(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    /// Unit `u` runs task `t` in `cost[u]`; odd tasks only on the last unit if `split`.
    struct Fake {
        cost: Vec<f64>,
        split: bool,
    }

    impl World for Fake {
        fn can_run(&self, task: TaskRef, unit: UnitId) -> bool {
            !self.split || (task.task % 2 == 1) == (usize::from(unit.0) == self.cost.len() - 1)
        }
        fn is_uniform(&self) -> bool {
            !self.split
        }
        fn duration(&self, task: TaskRef, unit: UnitId) -> Seconds {
            Seconds(if self.can_run(task, unit) {
                self.cost[usize::from(unit.0)]
            } else {
                f64::INFINITY
            })
        }
        fn transfer(&self, _: TaskRef, unit: UnitId) -> Seconds {
            Seconds(if unit.0 == 0 { 0.0 } else { 10.0 })
        }
        fn priority(&self, task: TaskRef) -> i32 {
            task.task as i32
        }
        fn wake(&self, _: Option<UnitId>) -> bool {
            false
        }
    }

    fn tasks(n: u32) -> Vec<TaskRef> {
        (0..n).map(|task| TaskRef { launch: 0, task }).collect()
    }

    /// Lets units take turns until nothing is left; returns who ran what.
    fn drain(policy: &dyn Policy, world: &Fake) -> Vec<(u16, u32)> {
        let mut ran = Vec::new();
        loop {
            let before = ran.len();
            for u in 0..world.cost.len() as u16 {
                if let Some(t) = policy.next(world, UnitId(u), Seconds(0.0)) {
                    ran.push((u, t.task));
                    policy.ended(world, UnitId(u), t, Seconds(0.0));
                }
            }
            if ran.len() == before {
                return ran;
            }
        }
    }

    #[test]
    fn every_policy_runs_every_task_once_where_it_can() {
        for split in [false, true] {
            for (name, _, make) in POLICIES {
                let world = Fake {
                    cost: vec![1.0, 2.0, 3.0],
                    split,
                };
                let policy = make(&Machine::cpus(3));
                let mut ran = Vec::new();
                ran.extend(
                    policy
                        .ready(&world, None, &tasks(10), Seconds(0.0))
                        .map(|t| (0, t.task)),
                );
                let more: Vec<_> = (10..20).map(|task| TaskRef { launch: 0, task }).collect();
                ran.extend(
                    policy
                        .ready(&world, Some(UnitId(1)), &more, Seconds(0.0))
                        .map(|t| (1, t.task)),
                );
                ran.extend(drain(&*policy, &world));
                let mut seen: Vec<u32> = ran.iter().map(|r| r.1).collect();
                seen.sort_unstable();
                assert_eq!(seen, (0..20).collect::<Vec<_>>(), "{name}");
                for (u, task) in ran {
                    assert!(
                        world.can_run(TaskRef { launch: 0, task }, UnitId(u)),
                        "{name} {task} on {u}"
                    );
                }
            }
        }
    }

    #[test]
    fn dm_balances_by_speed_and_dmda_minds_transfers() {
        let world = Fake {
            cost: vec![1.0, 3.0],
            split: false,
        };
        let share = |name: &str| {
            let policy = by_name(name, &Machine::cpus(2)).unwrap();
            assert!(
                policy
                    .ready(&world, None, &tasks(8), Seconds(0.0))
                    .is_none()
            );
            policy.backlog().iter().map(|b| b.1).collect::<Vec<_>>()
        };
        assert_eq!(share("dm"), [6, 2]);
        assert_eq!(share("dmda"), [8, 0]);
    }

    #[test]
    fn dmdas_runs_urgent_tasks_first() {
        let world = Fake {
            cost: vec![1.0],
            split: false,
        };
        let policy = by_name("dmdas", &Machine::cpus(1)).unwrap();
        policy.ready(&world, None, &tasks(4), Seconds(0.0));
        assert_eq!(drain(&*policy, &world), [(0, 3), (0, 2), (0, 1), (0, 0)]);
    }

    #[test]
    fn unknown_names_list_the_known() {
        let error = by_name("dmdar", &Machine::cpus(1))
            .err()
            .unwrap()
            .to_string();
        assert_eq!(error, "unknown policy \"dmdar\": did you mean \"dmda\"?");
    }
}
