//! A policy on some units of a machine: the others are left without tasks.
//!
//! The policy is made for a machine that has these units and no others, and sees a world of that machine, so it decides
//! as it would there: it deals tasks to nobody else, asks for nobody else's durations and wakes nobody else. Tasks that
//! none of the units can run, because an implementation is missing or a device was lost, are left to work stealing on all
//! units: else they would wait for ever.

use std::cell::RefCell;

use dahl_core::{Machine, Seconds, UnitId};

use super::{Policy, TaskRef, UnknownPolicy, World, Ws, by_name};

/// A policy that gives tasks to some units alone.
pub struct Among {
    policy: Box<dyn Policy>,
    rest: Ws,
    /// The units, by their places among them.
    units: Vec<UnitId>,
    /// The places, by unit.
    places: Vec<Option<UnitId>>,
}

impl Among {
    /// The policy of this name on some units of a machine, each once.
    pub fn new(name: &str, units: &[UnitId], machine: &Machine) -> Result<Among, UnknownPolicy> {
        let mut own = machine.clone();
        own.units = units
            .iter()
            .map(|u| machine.units[usize::from(u.0)].clone())
            .collect();
        let mut places = vec![None; machine.units.len()];
        for (place, unit) in (0..).map(UnitId).zip(units) {
            places[usize::from(unit.0)] = Some(place);
        }
        Ok(Among {
            policy: by_name(name, &own)?,
            rest: Ws::new(machine),
            units: units.to_vec(),
            places,
        })
    }

    fn place(&self, unit: UnitId) -> Option<UnitId> {
        self.places.get(usize::from(unit.0)).copied().flatten()
    }

    fn view<'a>(&'a self, world: &'a dyn World) -> View<'a> {
        View { world, among: self }
    }
}

impl Policy for Among {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn needs_time(&self) -> bool {
        self.policy.needs_time()
    }

    fn ready(
        &self,
        world: &dyn World,
        by: Option<UnitId>,
        tasks: &[TaskRef],
        now: Seconds,
    ) -> Option<TaskRef> {
        let (by, view) = (by.and_then(|u| self.place(u)), self.view(world));
        let able = |t: &TaskRef| self.units.iter().any(|&u| world.can_run(*t, u));
        if world.is_uniform() || tasks.iter().all(able) {
            return self.policy.ready(&view, by, tasks, now);
        }
        let (own, rest): (Vec<TaskRef>, Vec<TaskRef>) = tasks.iter().partition(|t| able(t));
        self.rest.ready(world, None, &rest, now);
        match own.is_empty() {
            true => None,
            false => self.policy.ready(&view, by, &own, now),
        }
    }

    fn next(&self, world: &dyn World, unit: UnitId, now: Seconds) -> Option<TaskRef> {
        let place = self.place(unit);
        let own = place.and_then(|place| self.policy.next(&self.view(world), place, now));
        own.or_else(|| self.rest.next(world, unit, now))
    }

    fn ended(&self, world: &dyn World, unit: UnitId, task: TaskRef, now: Seconds) {
        if let Some(place) = self.place(unit) {
            self.policy.ended(&self.view(world), place, task, now);
        }
    }

    fn backlog(&self) -> Vec<(String, usize)> {
        let mut all = self.policy.backlog();
        all.extend(self.rest.backlog());
        all
    }
}

/// The world of the units.
struct View<'a> {
    world: &'a dyn World,
    among: &'a Among,
}

impl View<'_> {
    fn unit(&self, place: UnitId) -> UnitId {
        self.among.units[usize::from(place.0)]
    }
}

thread_local! {
    /// Room for the lengths on all units, so that nothing is allocated per task.
    static LENGTHS: RefCell<Vec<f64>> = const { RefCell::new(Vec::new()) };
}

impl World for View<'_> {
    fn can_run(&self, task: TaskRef, unit: UnitId) -> bool {
        self.world.can_run(task, self.unit(unit))
    }

    fn is_uniform(&self) -> bool {
        self.world.is_uniform()
    }

    fn duration(&self, task: TaskRef, unit: UnitId) -> Seconds {
        self.world.duration(task, self.unit(unit))
    }

    fn transfer(&self, task: TaskRef, unit: UnitId) -> Seconds {
        self.world.transfer(task, self.unit(unit))
    }

    fn lengths(&self, task: TaskRef, transfers: bool, out: &mut [f64]) {
        let mut all = LENGTHS.take();
        all.resize(self.among.places.len(), 0.0);
        self.world.lengths(task, transfers, &mut all);
        for (out, unit) in out.iter_mut().zip(&self.among.units) {
            *out = all[usize::from(unit.0)];
        }
        LENGTHS.set(all);
    }

    fn priority(&self, task: TaskRef) -> i32 {
        self.world.priority(task)
    }

    fn has_dues(&self) -> bool {
        self.world.has_dues()
    }

    fn due(&self, task: TaskRef) -> i64 {
        self.world.due(task)
    }

    fn is_planned(&self, task: TaskRef) -> bool {
        self.world.is_planned(task)
    }

    fn origin(&self, task: TaskRef) -> (u64, u64) {
        self.world.origin(task)
    }

    /// Work for any one unit is work for one of these; where they differ all are woken, as one of them might not be
    /// able to run it.
    fn wake(&self, unit: Option<UnitId>) -> bool {
        let wake = |u: &UnitId| self.world.wake(Some(*u));
        let mut units = self.among.units.iter();
        match unit {
            Some(place) => wake(&self.unit(place)),
            None if self.world.is_uniform() => units.any(wake),
            None => units.fold(false, |woken, u| wake(u) | woken),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everybody sleeps; notes who is woken. Task 9 is for unit 1 alone, unless all can run it.
    struct Asleep {
        uniform: bool,
        woken: RefCell<Vec<u16>>,
    }

    impl World for Asleep {
        fn can_run(&self, task: TaskRef, unit: UnitId) -> bool {
            self.uniform || task.task != 9 || unit.0 == 1
        }
        fn is_uniform(&self) -> bool {
            self.uniform
        }
        fn duration(&self, _: TaskRef, unit: UnitId) -> Seconds {
            // The unit that takes no part would be the fastest.
            Seconds([3.0, 0.1, 1.0][usize::from(unit.0)])
        }
        fn transfer(&self, _: TaskRef, _: UnitId) -> Seconds {
            Seconds(0.0)
        }
        fn priority(&self, _: TaskRef) -> i32 {
            0
        }
        fn has_dues(&self) -> bool {
            true
        }
        fn due(&self, task: TaskRef) -> i64 {
            i64::from(task.task)
        }
        fn wake(&self, unit: Option<UnitId>) -> bool {
            // A policy that wakes anybody wakes whom it should not.
            self.woken.borrow_mut().push(unit.map_or(u16::MAX, |u| u.0));
            true
        }
    }

    const T0: Seconds = Seconds(0.0);

    fn tasks(numbers: &[u32]) -> Vec<TaskRef> {
        let task = |&task: &u32| TaskRef { launch: 0, task };
        numbers.iter().map(task).collect()
    }

    fn asleep(uniform: bool) -> Asleep {
        Asleep {
            uniform,
            woken: RefCell::default(),
        }
    }

    #[test]
    fn every_policy_gives_and_tells_those_that_take_part_alone() {
        let machine = Machine::cpus(3);
        for (name, ..) in super::super::POLICIES {
            for uniform in [true, false] {
                let policy = Among::new(name, &[UnitId(2), UnitId(0)], &machine).unwrap();
                let world = asleep(uniform);
                let all: Vec<u32> = (0..8).collect();
                // On behalf of nobody, and of the unit that takes no part.
                for by in [None, Some(UnitId(1))] {
                    assert_eq!(policy.ready(&world, by, &tasks(&all), T0), None, "{name}");
                }
                let woken = world.woken.borrow();
                assert!(woken.iter().all(|u| [0, 2].contains(u)), "{name} {woken:?}");
                assert!(!woken.is_empty());
                assert_eq!(policy.next(&world, UnitId(1), T0), None, "{name}");
                let mut ran = [0, 0];
                for (unit, ran) in [UnitId(0), UnitId(2)].into_iter().zip(&mut ran) {
                    while let Some(task) = policy.next(&world, unit, T0) {
                        policy.ended(&world, unit, task, T0);
                        *ran += 1;
                    }
                }
                assert_eq!(ran[0] + ran[1], 16, "{name}");
                if name.starts_with("dm") {
                    assert_eq!(ran, [4, 12], "{name}: unit 2 is three times as fast");
                }
            }
        }
    }

    #[test]
    fn what_none_of_them_can_run_the_others_run() {
        let policy = Among::new("ws", &[UnitId(0)], &Machine::cpus(3)).unwrap();
        let world = asleep(false);
        let handed = policy.ready(&world, Some(UnitId(0)), &tasks(&[9, 3]), T0);
        assert_eq!(handed, tasks(&[3]).pop());
        assert_eq!(policy.next(&world, UnitId(0), T0), None);
        assert_eq!(policy.next(&world, UnitId(2), T0), None);
        assert_eq!(policy.next(&world, UnitId(1), T0), tasks(&[9]).pop());
        let left: usize = policy.backlog().iter().map(|b| b.1).sum();
        assert_eq!(left, 0);
    }

    #[test]
    fn what_is_due_first_goes_first() {
        let policy = Among::new("ws", &[UnitId(0)], &Machine::cpus(3)).unwrap();
        let world = asleep(true);
        assert_eq!(policy.ready(&world, None, &tasks(&[2, 5, 3]), T0), None);
        let order = [2, 3, 5].map(|_| policy.next(&world, UnitId(0), T0));
        assert_eq!(
            order.map(|t| t.map(|t| t.task)),
            [Some(2), Some(3), Some(5)]
        );
    }

    #[test]
    fn a_name_that_is_none_is_refused() {
        let error = Among::new("wss", &[UnitId(0)], &Machine::cpus(1)).err();
        assert_eq!(error, Some(UnknownPolicy("wss".into())));
    }
}
