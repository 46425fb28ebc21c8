//! The cycle through the weights: against all placements, all plans, and runs in which anybody decides.

use std::sync::Arc;

use dahl_core::{
    Arena, Codelet, Cost, DType, Graph, Handle, Link, Machine, Memory, MemoryId, Mode, Operand,
    Param, Recorder, Seconds, Task, Unit, UnitKind,
};
use dahl_sched::policy::{Fixed, POLICIES, Policy};
use dahl_sim::{Options, Times, simulate};

use super::exact::exhaustive;
use super::graphs::{machine, planned_with};
use super::random::{self, Dice};
use crate::critical_cycle::{Cycles, Placements, least_cycle_mean};
use crate::delays::Delays;
use crate::file::PlanFile;
use crate::graph_problem::GraphProblem;
use crate::network::Frame;
use crate::problem::{Goal, Objective, Origin, Problem};
use crate::solve::Limits;
use crate::steady::{SteadyBounds, steady_bound};

/// The least mean of all simple cycles that begin at the lowest of their nodes, one after the other.
fn by_hand(weights: &[f64], n: usize) -> f64 {
    fn go(weights: &[f64], n: usize, path: &mut Vec<usize>, sum: f64, best: &mut f64) {
        let (first, last) = (path[0], path[path.len() - 1]);
        *best = best.min((sum + weights[last * n + first]) / path.len() as f64);
        for next in first + 1..n {
            if !path.contains(&next) {
                path.push(next);
                go(weights, n, path, sum + weights[last * n + next], best);
                path.pop();
            }
        }
    }
    let mut best = f64::INFINITY;
    (0..n).for_each(|first| go(weights, n, &mut vec![first], 0.0, &mut best));
    best
}

#[test]
fn least_cycle_means_are_those_of_all_cycles() {
    let mut dice = Dice::new(3);
    let mut finite = 0;
    for _ in 0..2000 {
        let n = 1 + dice.below(5);
        let weight = |dice: &mut Dice| match dice.chance(60) {
            true => dice.below(20) as f64,
            false => f64::INFINITY,
        };
        let weights: Vec<f64> = (0..n * n).map(|_| weight(&mut dice)).collect();
        let (found, wanted) = (least_cycle_mean(&weights, n), by_hand(&weights, n));
        if wanted.is_finite() {
            assert!(
                (found - wanted).abs() < 1e-9,
                "{found} {wanted} {weights:?}"
            );
            finite += 1;
        } else {
            assert_eq!(found, 0.0, "{weights:?}");
        }
    }
    assert!(finite > 1000);
}

/// The longest way from the end of any writer to its next end, where each task runs in the memory given: every path with
/// every transfer on it. None if a task cannot run there.
fn placed(frame: &Frame<'_>, delays: &Delays, memory: &[usize]) -> Option<f64> {
    let p = frame.problem;
    let seconds = |t: usize| {
        let ways = frame.ways_in(t, Some(memory[t])).into_iter();
        ways.map(|w| w.seconds).reduce(f64::min)
    };
    let seconds: Vec<f64> = (0..p.tasks.len()).map(seconds).collect::<Option<_>>()?;
    let carried = |from: u32, to: u32, of: &dyn Fn(&Origin) -> bool| {
        let read = |d: &&crate::problem::Datum| of(&d.origin) && d.readers.contains(&to);
        let bytes = p.data.iter().filter(read).map(|d| d.bytes).sum();
        delays.least(memory[from as usize], memory[to as usize], bytes)
    };
    let mut most = 0.0_f64;
    for last in 0..p.tasks.len() as u32 {
        let left = |o: &Origin| matches!(o, Origin::LeftBy(d) if p.data[*d as usize].origin == Origin::Task(last));
        let mut end = vec![f64::NEG_INFINITY; p.tasks.len()];
        for &t in &frame.topological {
            let mut begin = f64::NEG_INFINITY;
            if p.data
                .iter()
                .any(|d| left(&d.origin) && d.readers.contains(&t))
            {
                begin = carried(last, t, &left);
            }
            for &(b, _) in frame.edges.iter().filter(|e| e.1 == t) {
                let way = carried(b, t, &|o| *o == Origin::Task(b));
                begin = begin.max(end[b as usize] + way);
            }
            end[t as usize] = begin + seconds[t as usize];
        }
        most = most.max(end[last as usize]);
    }
    Some(most)
}

/// Random problems whose last task updates what others read, and in which each task reads what others wrote: chains where most
/// has to move if tasks run in several memories.
fn of_a_run(dice: &mut Dice, tasks: usize) -> (Problem, Goal) {
    loop {
        let (mut problem, goal) = random::problem(dice, tasks);
        let left = |d: &crate::problem::Datum| matches!(d.origin, Origin::LeftBy(_));
        let apart = |g: &crate::problem::Group| g.memory != problem.groups[0].memory;
        if !problem.groups.iter().any(apart) || !problem.data.iter().any(left) {
            continue;
        }
        // Each is at home somewhere.
        for class in &mut problem.classes {
            let home = dice.below(class.seconds.len());
            let others = class.seconds.iter_mut().enumerate();
            let others = others.filter(|(g, _)| *g != home).map(|(_, times)| times);
            others.flatten().for_each(|seconds| *seconds *= 3.0);
        }
        for t in 1..tasks as u32 {
            let from = t - 1 - dice.below(t.min(3) as usize) as u32;
            let origin = Origin::Task(from);
            problem.data.push(crate::problem::Datum {
                bytes: 1 + dice.below(8) as u64,
                origin,
                readers: vec![t],
                replaces: None,
                kept: false,
            });
        }
        problem.memories.iter_mut().for_each(|m| m.capacity = None);
        return (problem, goal);
    }
}

#[test]
fn no_placement_has_a_shorter_cycle() {
    let (mut compared, mut equal, mut helped) = (0, 0, 0);
    for seed in 0..1500 {
        let mut dice = Dice::new(90_000 + seed);
        let tasks = 2 + dice.below(6);
        let (mut problem, _) = of_a_run(&mut dice, tasks);
        let frame = Frame::new(&problem).unwrap();
        let (net, delays) = (frame.relaxed(), Delays::new(&problem));
        let (bound, _) =
            Cycles::new(&frame, &net).critical(&Placements::new(&frame, &net, &delays));
        let memories = problem.memories.len();
        let every = (0..memories.pow(tasks as u32)).map(|mut number| {
            let digit = |_| {
                let digit = number % memories;
                number /= memories;
                digit
            };
            (0..tasks).map(digit).collect::<Vec<_>>()
        });
        let best = every.filter_map(|m| placed(&frame, &delays, &m));
        let best = best.fold(f64::INFINITY, f64::min);
        assert!(
            bound <= best + 1e-9,
            "seed {seed}: {bound} {best}\n{problem:#?}"
        );
        if best.is_infinite() {
            continue;
        }
        compared += 1;
        equal += usize::from((bound - best).abs() < 1e-9);
        // The same with free transfers: what was known before transfers were.
        problem.data.iter_mut().for_each(|d| d.bytes = 0);
        let frame = Frame::new(&problem).unwrap();
        let net = frame.relaxed();
        let (free, _) = Cycles::new(&frame, &net).critical(&Placements::new(&frame, &net, &delays));
        assert!(free <= bound + 1e-9);
        helped += usize::from(bound > free + 1e-9);
    }
    println!("{compared} compared, {equal} tight, {helped} longer by transfers");
    assert!(compared >= 1000 && equal >= compared / 2 && helped >= 100);
}

#[test]
fn no_plan_of_a_step_beats_the_bound_of_a_run() {
    // A plan that is followed step by step is a run, too.
    let (mut compared, mut near) = (0, 0);
    for seed in 0..1200 {
        let mut dice = Dice::new(95_000 + seed);
        let tasks = 2 + dice.below(5);
        let (problem, goal) = of_a_run(&mut dice, tasks);
        let Some(best) = exhaustive(&problem, &goal).filter(|b| b.is_finite()) else {
            continue;
        };
        for in_flight in [1, 2] {
            let bound =
                steady_bound(&problem, &goal, in_flight, (300, 2000), &mut || true).unwrap();
            let bound = bound.plans;
            assert!(
                bound.cost <= best * (1.0 + 1e-9),
                "seed {seed}, {in_flight}: {bound:?}, but a plan costs {best}\n{problem:#?} {goal:?}"
            );
            near += usize::from(in_flight == 2 && bound.cost > 0.9 * best);
        }
        compared += 1;
    }
    println!("{compared} compared, {near} within a tenth");
    assert!(compared >= 700 && near >= 100);
}

/// A training step of so many layers and samples with sizes, durations and dependencies by chance. Gradients of weights are
/// reduced over samples.
fn training(dice: &mut Dice, layers: usize, samples: usize) -> Arc<Graph> {
    let codelet = |name: &str, cpu: bool, gpu: bool| {
        let mut made = Codelet::new(name).cost(|call| Cost {
            flops: call.int(0) as f64,
            bytes: 0.0,
        });
        if cpu {
            made = made.implement("reference", UnitKind::CPU, |_| Ok(()));
        }
        if gpu {
            made = made.implement("card", UnitKind::GPU, |_| Ok(()));
        }
        Arc::new(made)
    };
    let any = codelet("any", true, true);
    let (host, card) = (codelet("host", true, false), codelet("card", false, true));
    let arena = Arena::new();
    let r = Recorder::new();
    let size = |dice: &mut Dice| 1 + dice.below(40);
    let persistent = |name: &str, n: usize| arena.alloc(name, &[n], DType::F32).unwrap();
    let temporary = |name: &str, n: usize| r.temporary_handle(name, &[n], DType::F32);
    let sizes: Vec<usize> = (0..layers).map(|_| size(dice)).collect();
    let weights = sizes.iter().map(|&n| persistent("weights", n));
    let weights: Vec<Handle> = weights.collect();
    let gradients = sizes.iter().map(|&n| temporary("gradient", n));
    let gradients: Vec<Handle> = gradients.collect();
    let task = |dice: &mut Dice, operands: &[Operand<'_>]| {
        let codelet = match dice.below(12) {
            0 => &host,
            1 => &card,
            _ => &any,
        };
        let seconds = Param::Int(1 + dice.below(16) as i64);
        r.submit(Task::new(codelet, operands).params(&[seconds]));
    };
    for _ in 0..samples {
        let mut through = vec![persistent("input", size(dice))];
        for (l, weights) in weights.iter().enumerate() {
            let out = temporary("out", size(dice));
            let operands = [
                through[l].with(Mode::Read),
                weights.with(Mode::Read),
                out.with(Mode::Write),
            ];
            task(dice, &operands);
            through.push(out);
        }
        let mut back = temporary("loss", size(dice));
        task(
            dice,
            &[through[layers].with(Mode::Read), back.with(Mode::Write)],
        );
        for l in (0..layers).rev() {
            let next = temporary("back", size(dice));
            let operands = [
                through[l].with(Mode::Read),
                weights[l].with(Mode::Read),
                back.with(Mode::Read),
                gradients[l].with(Mode::Reduce),
                next.with(Mode::Write),
            ];
            let few = dice.chance(30);
            task(dice, if few { &operands[1..] } else { &operands });
            back = next;
        }
    }
    for (weights, gradient) in weights.iter().zip(&gradients) {
        let operands = [gradient.with(Mode::Read), weights.with(Mode::ReadWrite)];
        task(dice, &operands);
    }
    r.finish().unwrap()
}

/// One or two cards behind links, one of them perhaps reached by way of the other, or by two links.
fn with_cards(dice: &mut Dice) -> Machine {
    let mut machine = machine(1 + dice.below(3), true);
    let mut link = |machine: &mut Machine, from: MemoryId, to: MemoryId| {
        let (bandwidth, latency) = ((32 << dice.below(5)) as f64, dice.below(8) as f64 / 4.0);
        let mut link = Link::new(from, to, bandwidth, Seconds(latency));
        link.at_once = 1 + dice.below(2) as u32;
        link.joules_per_byte = Some(dice.below(3) as f64 / 16.0);
        machine.links.push(link);
    };
    machine.links.clear();
    let device = MemoryId(1);
    link(&mut machine, MemoryId::HOST, device);
    link(&mut machine, device, MemoryId::HOST);
    machine
}

fn second_card(dice: &mut Dice, machine: &mut Machine) {
    let (first, second) = (MemoryId(1), MemoryId(2));
    machine.memories.push(Memory::new("second", None));
    let mut unit = Unit::new("gpu:1", UnitKind::GPU, second);
    unit.power = machine.units[0].power;
    machine.units.push(unit);
    let mut ways = vec![[MemoryId::HOST, first][dice.below(2)]];
    if dice.chance(40) {
        ways = vec![MemoryId::HOST, first];
    }
    for other in ways {
        for (from, to) in [(other, second), (second, other)] {
            machine.links.push(Link::new(from, to, 32.0, Seconds(1.0)));
        }
    }
}

fn durations(graph: &Graph, machine: &Machine) -> Times {
    let speed = |kind| if kind == UnitKind::GPU { 8.0 } else { 1.0 };
    Times::from_fn(graph, machine, |class, unit| {
        let class = &graph.classes[class as usize];
        class.choice(unit.kind)?;
        Some(Seconds(class.cost.flops / speed(unit.kind)))
    })
    .unwrap()
}

/// Which unit each task runs on; each unit runs its tasks in program order.
struct Dealt(Vec<usize>);

impl Dealt {
    fn policy(&self, units: usize) -> Fixed {
        let mut orders = vec![Vec::new(); units];
        let all = self.0.iter().enumerate();
        all.for_each(|(t, &unit)| orders[unit].push(t as u32));
        Fixed::new(self.0.len(), orders).unwrap()
    }
}

fn any_unit(dice: &mut Dice, graph: &Graph, machine: &Machine, task: u32) -> usize {
    loop {
        let unit = dice.below(machine.units.len());
        if graph
            .implementation(task, machine.units[unit].kind)
            .is_some()
        {
            return unit;
        }
    }
}

/// A random step on a random machine, and what is said of its runs.
struct Case {
    graph: Arc<Graph>,
    machine: Machine,
    times: Times,
    in_flight: usize,
    bounds: Vec<(Goal, SteadyBounds)>,
}

const STEPS: usize = 48;

impl Case {
    fn new(dice: &mut Dice) -> Case {
        let (layers, samples) = (1 + dice.below(4), 1 + dice.below(3));
        let graph = training(dice, layers, samples);
        let mut machine = with_cards(dice);
        if dice.chance(30) {
            second_card(dice, &mut machine);
        }
        let times = durations(&graph, &machine);
        let problem = GraphProblem::new(&graph, &machine, &times).problem;
        let in_flight = 1 + dice.below(3);
        let bounds = [Objective::Energy, Objective::Time, Objective::Edp].map(|objective| {
            let deadline = None;
            let goal = Goal {
                objective,
                deadline,
            };
            let found = steady_bound(&problem, &goal, in_flight, (200, 2000), &mut || true);
            (goal, found.unwrap())
        });
        Case {
            graph,
            machine,
            times,
            in_flight,
            bounds: bounds.to_vec(),
        }
    }

    fn planned(&self, goal: usize) -> PlanFile {
        let objective = self.bounds[goal].0.objective;
        let limits = Limits {
            rounds: 500,
            exact_tasks: 0,
            ..Limits::default()
        };
        planned_with(&self.graph, &self.machine, &self.times, objective, &limits).2
    }

    /// What each goal's cost is of a step of a run, and how much of that the bound is; the bound must hold.
    fn run(&self, policy: &dyn Policy, is_plan: bool, what: &str) -> Vec<(f64, f64)> {
        let options = Options {
            steps: STEPS,
            in_flight: self.in_flight,
            new_inputs_each_step: true,
            ..Options::default()
        };
        let run = simulate(&self.graph, &self.machine, &self.times, policy, &options).unwrap();
        // So many whole cycles, and so many steps one after the other, are in a run.
        let whole = (STEPS - self.in_flight) as f64;
        let (seconds, joules) = (run.makespan.0 / whole, run.joules().0 / whole);
        let one = |(goal, bounds): &(Goal, SteadyBounds)| {
            let bound = if is_plan { &bounds.plans } else { &bounds.any };
            let cost = goal.cost(seconds, joules);
            assert!(
                cost >= bound.cost * (1.0 - 1e-9),
                "{what}, {goal:?}: {cost} {bound:?}"
            );
            (cost, bound.cost / cost)
        };
        self.bounds.iter().map(one).collect()
    }
}

#[test]
fn no_run_of_random_steps_beats_the_bound() {
    let (mut runs, mut near) = (0, 0);
    for seed in 0..120 {
        let mut dice = Dice::new(seed);
        let case = Case::new(&mut dice);
        let mut parts = Vec::new();
        for (name, _, make) in POLICIES {
            let policy = make(&case.machine);
            parts.extend(case.run(&*policy, false, &format!("seed {seed}, {name}")));
            runs += 1;
        }
        // A plan of the equations, and what becomes of its units as long as changes help.
        let goal = dice.below(3);
        let file = case.planned(goal);
        let policy = Fixed::new(case.graph.len(), file.orders()).unwrap();
        parts.extend(case.run(&policy, true, &format!("seed {seed}, planned")));
        let mut plan = Dealt(file.tasks.iter().map(|t| t.unit).collect());
        let mut best = f64::INFINITY;
        for number in 0..60 {
            let task = dice.below(plan.0.len());
            let unit = any_unit(&mut dice, &case.graph, &case.machine, task as u32);
            let before = std::mem::replace(&mut plan.0[task], unit);
            let policy = plan.policy(case.machine.units.len());
            let found = case.run(&policy, true, &format!("seed {seed}, plan {number}"));
            runs += 1;
            if found[goal].0 <= best {
                best = found[goal].0;
                parts.extend(found);
            } else {
                plan.0[task] = before;
            }
        }
        near += usize::from(parts.iter().any(|p| p.1 > 0.8));
    }
    println!("{runs} runs; {near} steps with one within a fifth of the bound");
    assert!(runs >= 7000 && near >= 40);
}
