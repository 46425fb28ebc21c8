//! A step with one grain on a machine: what plans are made for, and what a run of many steps that follows one takes.

use dahl_core::access::Access;
use dahl_core::{Joules, Seconds};
use dahl_nn::Step;
use dahl_nn::lower::grain::Grain;
use dahl_nn::step::Lowered;
use dahl_plan::{Expected, Goal, GraphProblem, Orders, PlanFile, PlanTarget, SteadyBounds};
use dahl_sched::policy::Fixed;
use dahl_sim::{Options, TimeSource};

use crate::error::TuneError;
use crate::machine_model::{Durations, MachineModel};
use crate::simulate::as_run;

/// Seconds and joules of a step in the middle of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PerStep {
    pub seconds: Seconds,
    pub joules: Joules,
}

impl PerStep {
    /// What is expected of a run.
    pub(super) fn of(expected: &Expected) -> PerStep {
        PerStep {
            seconds: expected.seconds,
            joules: expected.joules,
        }
    }

    /// Between the ends of two numbers of steps, for any way to simulate them.
    pub(super) fn between(
        [few, more]: [usize; 2],
        simulated: &mut dyn FnMut(usize) -> Option<dahl_sim::Prediction>,
    ) -> Option<PerStep> {
        let (first, all) = (simulated(few)?, simulated(more)?);
        let each = |all: f64, first: f64| (all - first) / (more - few) as f64;
        Some(PerStep {
            seconds: Seconds(each(all.makespan.0, first.makespan.0)),
            joules: Joules(each(all.joules().0, first.joules().0)),
        })
    }

    /// What it costs; more than anything else if it is late.
    pub(super) fn cost(&self, goal: &Goal) -> f64 {
        match goal.in_time(self.seconds.0) {
            true => goal.cost(self.seconds.0, self.joules.0),
            false => f64::INFINITY,
        }
    }
}

/// The step with one grain, as the planner sees it.
pub(crate) struct Candidate {
    pub step: Step,
    pub lowered: Lowered,
    /// With what following a plan adds.
    pub durations: Durations,
    pub problem: GraphProblem,
}

/// How many steps tell what one takes where little time is to be spent on it.
const FEW: [usize; 2] = [2, 6];

impl Candidate {
    pub(super) fn new(
        step: &Step,
        grain: &Grain,
        machine: &MachineModel,
    ) -> Result<Candidate, TuneError> {
        let step = step.clone().grain(grain.clone());
        let lowered = step.lower()?;
        let durations = machine.durations(&lowered.graph, "plan")?;
        let problem = GraphProblem::new(&lowered.graph, &durations.machine, &durations.times);
        Ok(Candidate {
            step,
            lowered,
            durations,
            problem,
        })
    }

    /// Seconds that no run spends less on a step because tasks wait for each other, where each takes so long: the longest
    /// path divided by the steps in flight, and the way from the first task that reads what steps change to the one that
    /// leaves that to the next.
    pub(super) fn waits(&self, seconds: impl Fn(usize) -> f64, in_flight: usize) -> f64 {
        let graph = &self.lowered.graph;
        let lasts = |array: u32| {
            let storage = graph.arrays[array as usize].storage;
            graph.storages[storage as usize].temporary.is_none()
        };
        // The first task that reads what a later one leaves in the same place.
        let written = |task: usize, read: &Access| {
            let all = graph.accesses_of(task as u32).iter();
            let same = |a: &Access| a.array == read.array && a.region.overlaps(&read.region);
            all.filter(|a| a.mode.writes()).any(same)
        };
        let cycle = (0..graph.len()).find_map(|first| {
            let reads = graph.accesses_of(first as u32).iter();
            let reads = reads.filter(|a| a.mode.reads() && lasts(a.array));
            let last = |read: &Access| (first + 1..graph.len()).rev().find(|&t| written(t, read));
            let last = reads.filter_map(last).max()?;
            Some((first, last))
        });
        // Ends of the longest paths, from anywhere and from that task.
        let mut ends = vec![(0.0_f64, f64::NEG_INFINITY); graph.len()];
        let mut longest = 0.0_f64;
        for task in 0..graph.len() {
            let own = seconds(task);
            let (any, from) = &mut ends[task];
            *any += own;
            *from = match cycle {
                Some((first, _)) if first == task => own,
                _ => *from + own,
            };
            let done = (*any, *from);
            longest = longest.max(done.0);
            for &next in graph.successors(task as u32) {
                let next = &mut ends[next as usize];
                *next = (next.0.max(done.0), next.1.max(done.1));
            }
        }
        let round = cycle.map_or(0.0, |(_, last)| ends[last].1);
        round.max(longest / in_flight.max(1) as f64)
    }

    /// How a run would run its steps.
    pub(super) fn run(&self) -> Options {
        as_run(&self.lowered.graph, &self.durations.machine)
    }

    /// What steps that follow orders take; tasks fetch what they lack. `None` if the orders contradict the graph.
    fn simulated(&self, orders: &Orders, run: &Options) -> Option<dahl_sim::Prediction> {
        let (graph, d) = (&*self.lowered.graph, &self.durations);
        let fixed = Fixed::new(graph.len(), orders.units.clone()).ok()?;
        let options = Options {
            states: orders.states.clone(),
            ..run.clone()
        };
        dahl_sim::simulate(graph, &d.machine, &d.times, &fixed, &options).ok()
    }

    /// What a step of a run that follows orders takes.
    pub(super) fn follow(&self, orders: &Orders) -> Option<PerStep> {
        let run = self.run();
        PerStep::between(FEW, &mut |steps| {
            let run = run.clone();
            self.simulated(orders, &Options { steps, ..run })
        })
    }

    /// Two runs of steps one after another, the second longer by the last step, in which every task is recorded.
    pub(super) fn alone(&self, orders: &Orders) -> Option<[dahl_sim::Prediction; 2]> {
        let run = |steps, record| {
            let options = Options {
                steps,
                record,
                in_flight: 1,
                ..self.run()
            };
            self.simulated(orders, &options)
        };
        Some([run(2, false)?, run(3, true)?])
    }

    /// The plan of orders.
    pub(super) fn file(&self, target: PlanTarget, orders: &Orders) -> Option<PlanFile> {
        let [shorter, run] = self.alone(orders)?;
        let (graph, machine) = (&*self.lowered.graph, &self.durations.machine);
        Some(PlanFile::of_orders(
            target,
            graph,
            machine,
            orders,
            [&shorter, &run],
        ))
    }

    /// What a run is expected to take, with what was measured of runs of the machine if it is this one.
    pub(super) fn expected(&self, plan: &PlanFile) -> Result<Expected, TuneError> {
        let (graph, d) = (&*self.lowered.graph, &self.durations);
        let run = Options {
            noise: d.adds.map(|adds| adds.variation.noise(0)),
            ..self.run()
        };
        Ok(Expected::of(plan, graph, &d.machine, &d.times, &run)?)
    }

    /// What no run and no plan of the graph can beat, with so many iterations and nodes.
    pub(super) fn bound(
        &self,
        goal: &Goal,
        effort: (usize, usize),
        keep_going: &mut dyn FnMut() -> bool,
    ) -> Option<SteadyBounds> {
        let (problem, in_flight) = (&self.problem.problem, self.run().in_flight);
        dahl_plan::steady_bound(problem, goal, in_flight, effort, keep_going).ok()
    }

    pub(super) fn target(&self, machine: &str, goal: &Goal) -> Result<PlanTarget, TuneError> {
        let (step, graph) = (&self.step, &self.lowered.graph);
        let title = format!("{}, batch {}, {}", step.model.name, step.batch, step.dtype);
        let text = serde_json::to_value(step);
        let text = text.map_err(|e| TuneError::Plan(format!("the step cannot be written: {e}")))?;
        let described = dahl_core::Machine {
            name: machine.into(),
            ..self.durations.machine.clone()
        };
        Ok(PlanTarget::new(title, text, graph, &described, goal))
    }
}

impl Durations {
    /// Tasks of a graph whose durations nobody measured, where others of the table were: such figures are guesses.
    pub(super) fn guessed(&self, graph: &dahl_core::Graph) -> usize {
        let units = (0..self.machine.units.len() as u16).map(dahl_core::UnitId);
        let known = |class: u32| {
            let able = units
                .clone()
                .filter(|&u| self.times.get(class, u).is_some());
            able.map(|u| self.times.known(class, u)).min()
        };
        let all: Vec<_> = graph.tasks.iter().filter_map(|t| known(t.class)).collect();
        let measured = all.contains(&TimeSource::Measured) || all.contains(&TimeSource::Fitted);
        let guess = |k: &&TimeSource| measured && **k != TimeSource::Measured;
        all.iter().filter(guess).count()
    }
}
