//! Plans of graphs: what they assume of data, their file, and the simulator following them.

use std::sync::Arc;

use crate::explain::{sentences, unit_summaries};
use crate::file::{FileError, PlanFile, PlanTarget};
use crate::graph_problem::GraphProblem;
use crate::problem::{Goal, Objective, Origin};
use crate::solve::{Limits, Plan, plan};
use dahl_core::{
    Arena, Codelet, Cost, DType, FrequencyState, Graph, Handle, Link, Machine, Memory, MemoryId,
    Mode, Operand, Param, Power, Rated, Recorder, Seconds, Task, Unit, UnitKind, Watts,
};
use dahl_sched::policy::Fixed;
use dahl_sim::{Options, Times, simulate};

/// A step: `parts` samples go through one layer, whose weights are then updated: more bytes than arithmetic.
pub fn step(parts: usize) -> Arc<Graph> {
    let work = Codelet::new("work").cost(|call| Cost {
        flops: call.int(0) as f64,
        bytes: call.int(1) as f64,
    });
    let work = work.implement("reference", UnitKind::CPU, |_| Ok(()));
    let work = Arc::new(work.implement("card", UnitKind::GPU, |_| Ok(())));
    let arena = Arena::new();
    let array = |name: &str| -> Handle { arena.alloc(name, &[4], DType::F32).unwrap() };
    let weights = array("weights");
    let ins: Vec<Handle> = (0..parts).map(|_| array("in")).collect();
    let outs: Vec<Handle> = (0..parts).map(|_| array("out")).collect();
    let r = Recorder::new();
    let task = |flops: i64, bytes: i64, operands: &[Operand<'_>]| {
        r.submit(Task::new(&work, operands).params(&[Param::Int(flops), Param::Int(bytes)]));
    };
    for (input, out) in ins.iter().zip(&outs) {
        let weights = weights.with(Mode::Read);
        task(
            2,
            1,
            &[input.with(Mode::Read), weights, out.with(Mode::Write)],
        );
    }
    for out in &outs {
        task(1, 3, &[out.with(Mode::Read), weights.with(Mode::ReadWrite)]);
    }
    r.finish().unwrap()
}

/// Cores with two speeds, and with `card` a device behind a link.
pub fn machine(cores: usize, card: bool) -> Machine {
    let mut m = Machine::cpus(cores);
    m.nodes[0].base = Some(Watts(10.0));
    if card {
        let device = MemoryId(1);
        m.memories.push(Memory::new("device", None));
        m.units.push(Unit::new("gpu:0", UnitKind::GPU, device));
        for (from, to) in [(MemoryId::HOST, device), (device, MemoryId::HOST)] {
            m.links.push(Link::new(from, to, 64.0, Seconds(0.0)));
        }
    }
    for unit in &mut m.units {
        unit.power = Some(Power {
            idle: Watts(1.0),
            busy: Watts(5.0),
        });
        unit.states = vec![FrequencyState::new(0.5, Watts(1.5))];
        unit.switch_seconds = Some(Seconds(0.0));
    }
    m
}

pub fn times(graph: &Graph, machine: &Machine) -> Times {
    let speed = |unit: &Unit| if unit.kind == UnitKind::GPU { 8.0 } else { 1.0 };
    Times::from_fn(graph, machine, |class, unit| {
        Some(Seconds(
            graph.classes[class as usize].cost.flops / speed(unit),
        ))
    })
    .unwrap()
}

pub fn planned(
    graph: &Graph,
    machine: &Machine,
    objective: Objective,
) -> (GraphProblem, Plan, PlanFile) {
    planned_with(
        graph,
        machine,
        &times(graph, machine),
        objective,
        &Limits::default(),
    )
}

pub fn planned_with(
    graph: &Graph,
    machine: &Machine,
    times: &Times,
    objective: Objective,
    limits: &Limits<'_>,
) -> (GraphProblem, Plan, PlanFile) {
    let graph_problem = GraphProblem::new(graph, machine, times);
    let goal = Goal {
        objective,
        deadline: None,
    };
    let solution = plan(&graph_problem.problem, &goal, limits, &mut || true).unwrap();
    let target = PlanTarget::new("test", "step".into(), graph, machine, &goal);
    let file = PlanFile::new(
        target,
        graph,
        machine,
        &graph_problem,
        &solution,
        Vec::new(),
    );
    (graph_problem, solution, file)
}

#[test]
fn weights_are_where_the_last_step_left_them() {
    let (graph, machine) = (step(3), machine(2, false));
    let graph_problem = GraphProblem::new(&graph, &machine, &times(&graph, &machine));
    let data = &graph_problem.problem.data;
    // Three inputs, three outputs, the weights as found and after each of three updates.
    let left = data
        .iter()
        .filter(|d| matches!(d.origin, Origin::LeftBy(_)))
        .count();
    let found = data
        .iter()
        .filter(|d| d.origin == Origin::Memory(0) && !d.readers.is_empty())
        .count();
    assert_eq!((left, found), (1, 3));
    assert_eq!(data.iter().filter(|d| d.replaces.is_some()).count(), 3);
    assert!(data.iter().all(|d| d.bytes == 16));
    assert_eq!(
        graph_problem.units,
        [[dahl_core::UnitId(0), dahl_core::UnitId(1)]]
    );
}

#[test]
fn the_simulator_follows_a_plan_to_the_predicted_end() {
    for objective in [Objective::Energy, Objective::Time, Objective::Edp] {
        let (graph, machine) = (step(3), machine(2, false));
        let (_, solution, file) = planned(&graph, &machine, objective);
        assert!(solution.gap < 1e-9, "{objective}: {solution:?}");
        let fixed = Fixed::new(graph.len(), file.orders()).unwrap();
        let options = Options {
            states: file.states(),
            ..Options::default()
        };
        let out = simulate(&graph, &machine, &times(&graph, &machine), &fixed, &options).unwrap();
        assert!(
            (out.makespan.0 - file.seconds.0).abs() < 1e-9,
            "{objective}"
        );
        assert!(
            (out.joules().0 - file.joules.total.0).abs() < 1e-9,
            "{objective}"
        );
    }
}

#[test]
fn slower_states_cost_no_time_where_memory_binds() {
    let (graph, mut machine) = (step(3), machine(1, false));
    machine.units[0].rated = Some(Rated {
        flops: 1.0,
        flops_f64: 1.0,
        bandwidth: 1.0,
    });
    let times = Times::estimate(&graph, &machine, None, false).unwrap();
    // As fast as can be: three layers of two seconds, three updates of three.
    let (_, _, file) = planned_with(
        &graph,
        &machine,
        &times,
        Objective::Energy,
        &Limits::default(),
    );
    let updates = file.tasks.iter().skip(3);
    assert!(updates.clone().all(|t| t.state == 1), "{file:?}");
    let (_, _, fast) = planned_with(
        &graph,
        &machine,
        &times,
        Objective::Time,
        &Limits::default(),
    );
    assert_eq!(fast.seconds, Seconds(15.0));
    let fixed = Fixed::new(graph.len(), file.orders()).unwrap();
    let options = Options {
        states: file.states(),
        ..Options::default()
    };
    let out = simulate(&graph, &machine, &times, &fixed, &options).unwrap();
    assert!((out.makespan.0 - file.seconds.0).abs() < 1e-9, "{file:?}");
    assert!((out.joules().0 - file.joules.total.0).abs() < 1e-9);
    // Nine seconds of updates in either state, twice the time for the layers in the slower one.
    let slow = file.tasks.iter().take(3).filter(|t| t.state == 1).count();
    assert_eq!(out.makespan, Seconds(15.0 + 2.0 * slow as f64));
}

#[test]
fn a_card_that_is_worth_it_does_the_work_and_keeps_the_weights() {
    let (graph, machine) = (step(4), machine(2, true));
    let (graph_problem, solution, file) = planned(&graph, &machine, Objective::Time);
    assert!(solution.gap < 1e-9);
    let gpu = file.units.iter().position(|u| u.name == "gpu:0").unwrap();
    assert!(file.units[gpu].order.len() >= 4, "{file:?}");
    // Weights stay where they are updated: no transfer carries them there.
    let update = file.tasks.last().unwrap().unit;
    assert_eq!(update, gpu);
    let carried = |d: &u32| {
        matches!(
            graph_problem.problem.data[*d as usize].origin,
            Origin::LeftBy(_)
        )
    };
    let into = |l: u32| graph_problem.problem.links[l as usize].to == 1;
    assert!(
        !solution
            .schedule
            .moves
            .iter()
            .any(|m| into(m.link) && carried(&m.datum))
    );
    let text = sentences(&file).join("\n");
    assert!(text.contains("No plan of this graph costs less"), "{text}");
    assert_eq!(
        unit_summaries(&file).iter().map(|d| d.tasks).sum::<usize>(),
        graph.len()
    );
}

#[test]
fn files_round_trip_and_are_refused_where_they_do_not_fit() {
    let (graph, machine) = (step(3), machine(2, false));
    let (_, _, file) = planned(&graph, &machine, Objective::Energy);
    let text = file.to_json();
    assert_eq!(PlanFile::from_json(&text).unwrap(), file);
    assert_eq!(file.refusal(&graph, &machine), None);
    let other = file.refusal(&step(4), &machine).unwrap();
    assert!(
        other.contains("6 tasks") && other.contains("the graph has 8"),
        "{other}"
    );
    let other = file.refusal(&graph, &self::machine(3, false)).unwrap();
    assert!(
        other.contains("cpu:0 cpu:1; the machine has cpu:0 cpu:1 cpu:2"),
        "{other}"
    );
    // Those of before plans had what a run is expected to take, what transfers carry, the step as a value, and a bound of
    // the run, and policies.
    for version in [1, 2, 3, 4, 5] {
        let old = text.replacen("\"version\": 6", &format!("\"version\": {version}"), 1);
        let refused = PlanFile::from_json(&old).unwrap_err();
        assert!(
            matches!(refused, FileError::Version(v) if v == version),
            "{refused:?}"
        );
        assert!(refused.to_string().contains("plan again"));
    }
    let mut twice = file.clone();
    let unit = twice.tasks[0].unit;
    twice.units[unit].order.push(0);
    assert!(matches!(
        PlanFile::from_json(&twice.to_json()),
        Err(FileError::Task { task: 0, .. })
    ));
    for cut in [0, 1, text.len() / 2, text.len() - 2] {
        assert!(PlanFile::from_json(&text[..cut]).is_err());
    }
}

#[test]
fn plans_with_impossible_figures_names_and_orders_are_refused() {
    let (graph, machine) = (step(3), machine(2, false));
    let (_, _, file) = planned(&graph, &machine, Objective::Energy);
    let read = |change: &dyn Fn(&mut PlanFile)| {
        let mut other = file.clone();
        change(&mut other);
        PlanFile::from_json(&other.to_json()).map_err(|e| e.to_string())
    };
    for (read, part) in [
        (read(&|f| f.seconds.0 = -1.0), "seconds is -1e0"),
        (read(&|f| f.joules.total.0 = -2.0), "joules.total is -2e0"),
        (read(&|f| f.lower_bound = 1e300), "lower_bound is 1e300"),
        (
            read(&|f| f.tasks[2].start.0 = -1.0),
            "task 2: does not begin",
        ),
        (read(&|f| f.tasks[2].end.0 = -1.0), "task 2: does not begin"),
        (read(&|f| f.units[0].busy.0 = -1.0), "units.busy is -1e0"),
    ] {
        let error = read.unwrap_err();
        assert!(error.contains(part), "{part}: {error}");
    }
    let other = read(&|f| f.tasks[1].implementation = Some("nonsense".into())).unwrap();
    let refused = other.refusal(&graph, &machine).unwrap();
    assert!(
        refused.contains("\"nonsense\"") && refused.contains("task 1"),
        "{refused}"
    );
    let reversed = read(&|f| f.units.iter_mut().for_each(|u| u.order.reverse())).unwrap();
    let refused = reversed.refusal(&graph, &machine).unwrap();
    assert!(refused.contains("waits for"), "{refused}");
}
