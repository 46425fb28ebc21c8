//! Following a schedule while other graphs run too: training has an evaluation and a last, smaller batch
//! that nobody planned.
//!
//! Tasks of the graph that the schedule is for go where and when it says ([`Fixed`]); all others are left
//! to work stealing, on units that have nothing planned to do.

use dahl_core::{Machine, Seconds, UnitId};

use super::{Fixed, Policy, TaskRef, World, Ws};

/// Follows a schedule on a machine.
pub fn follow(fixed: Fixed, machine: &Machine) -> Box<dyn Policy> {
    let rest = Ws::new(machine);
    Box::new(Follow { fixed, rest })
}

struct Follow {
    fixed: Fixed,
    rest: Ws,
}

impl Policy for Follow {
    fn name(&self) -> &'static str {
        "plan"
    }

    fn ready(
        &self,
        world: &dyn World,
        _: Option<UnitId>,
        tasks: &[TaskRef],
        now: Seconds,
    ) -> Option<TaskRef> {
        for task in tasks.chunk_by(|a, b| world.is_planned(*a) == world.is_planned(*b)) {
            let policy: &dyn Policy = match world.is_planned(task[0]) {
                true => &self.fixed,
                false => &self.rest,
            };
            // On behalf of nobody: what is handed back at once would go before what is planned.
            policy.ready(world, None, task, now);
        }
        None
    }

    fn next(&self, world: &dyn World, unit: UnitId, now: Seconds) -> Option<TaskRef> {
        let planned = self.fixed.next(world, unit, now);
        planned.or_else(|| self.rest.next(world, unit, now))
    }

    fn backlog(&self) -> Vec<(String, usize)> {
        let mut all = self.fixed.backlog();
        all.extend(self.rest.backlog());
        all
    }
}
