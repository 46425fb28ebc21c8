//! Plans against what anybody would try, on described machines.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dahl_core::{FrequencyState, Machine, NodeId, Power, Watts};
use dahl_nn::{Step, models};
use dahl_plan::{Goal, Objective};
use dahl_sched::model::{Key, PerfModel};

use super::cluster::{kinds, only, plan_cluster_by};
use super::*;

fn machine(name: &str) -> MachineModel {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines");
    let path = std::path::Path::new(folder).join(name);
    crate::load_machine(&path).unwrap().into()
}

fn step(name: &str, batch: usize) -> Step {
    Step::new(models::find(name.as_ref()).unwrap()).batch(batch)
}

fn options(objective: Objective, deadline: Option<f64>) -> PlanOptions {
    PlanOptions {
        goal: Goal {
            objective,
            deadline,
        },
        time_limit: Duration::from_secs(60),
        rounds: 1,
        ..PlanOptions::default()
    }
}

/// A clock on which every look takes a second: how long a search is depends on no computer.
fn looks() -> (Clock, Arc<AtomicU64>) {
    let looks = Arc::new(AtomicU64::new(0));
    let counted = looks.clone();
    let now = move || Duration::from_secs(counted.fetch_add(1, Ordering::Relaxed));
    (Clock::new(now), looks)
}

/// Fails if a rival of a plan costs less than it, by the simulator and to the last digit that rounding leaves.
fn no_rival_is_better(goal: &Goal, plan: (f64, f64), rivals: &[Alternative], what: &str) {
    let cost = goal.cost(plan.0, plan.1);
    assert!(rivals.len() > 1, "{what}: {rivals:?}");
    let first = &rivals[0].name;
    assert!(first.starts_with("the best of "), "{first}");
    for rival in rivals {
        let other = goal.cost(rival.seconds.0, rival.joules.0);
        assert!(cost <= other * (1.0 + 1e-12), "{what}: {cost} {rival:?}");
    }
}

/// Shipped models, each with a batch. For the last ones hardly any order of one step, repeated, does what the best policy does:
/// it overlaps steps, or fetches images ahead.
const MODELS: [(&str, usize); 6] = [
    ("first", 16),
    ("small-cnn", 16),
    ("mlp", 64),
    ("lenet5", 16),
    ("vgg-small", 8),
    ("small-cnn-512", 8),
];

/// Seconds, by a clock on which every look takes one: hardly any time to search, and some.
const HARDLY: u64 = 0;
const SOME: u64 = 60;

/// Energy with hardly any time and with some, time with some.
fn hurried() -> [PlanOptions; 3] {
    let cases = [
        (Objective::Energy, HARDLY),
        (Objective::Energy, SOME),
        (Objective::Time, SOME),
    ];
    cases.map(|(objective, limit)| PlanOptions {
        time_limit: Duration::from_secs(limit),
        ..options(objective, None)
    })
}

fn no_simple_choice_is_better(file: &str, models: &[(&str, usize)]) {
    for &(name, batch) in models {
        for options in hurried() {
            let (objective, limit) = (options.goal.objective, options.time_limit.as_secs());
            let (step, machine) = (step(name, batch), machine(file));
            let planned = plan_by(&step, &machine, &options, None, &looks().0).unwrap();
            let plan = &planned.plan.file;
            let what = format!("{name} {file} {objective} {limit}");
            no_rival_is_better(&options.goal, plan.per_step(), &plan.alternatives, &what);
            assert!(plan.lower_bound <= plan.cost(), "{what}");
        }
    }
}

#[test]
fn no_simple_choice_is_better_on_a_laptop() {
    no_simple_choice_is_better("laptop.toml", &MODELS);
}

#[test]
fn no_simple_choice_is_better_beside_a_gpu() {
    no_simple_choice_is_better("rammus.toml", &MODELS);
}

#[test]
fn no_simple_choice_is_better_on_clusters() {
    for file in ["two-nodes.toml", "four-nodes.toml"] {
        for (name, batch) in MODELS {
            for options in hurried() {
                let (objective, limit) = (options.goal.objective, options.time_limit.as_secs());
                let (step, machine) = (step(name, batch), machine(file));
                let found = plan_cluster_by(&step, &machine, &options, &looks().0).unwrap();
                let takes = (found.seconds.0, found.joules.0);
                let what = format!("{name} {file} {objective} {limit}");
                no_rival_is_better(&options.goal, takes, &found.alternatives, &what);
                assert!(
                    found.lower_bound <= options.goal.cost(takes.0, takes.1),
                    "{what}"
                );
            }
        }
    }
}

#[test]
fn a_plan_has_a_bound() {
    for file in ["laptop.toml", "rammus.toml"] {
        for objective in [Objective::Energy, Objective::Time] {
            let options = options(objective, None);
            let planned = plan(&step("small-cnn", 16), &machine(file), &options).unwrap();
            let plan = &planned.plan.file;
            no_rival_is_better(&options.goal, plan.per_step(), &plan.alternatives, file);
            assert!(plan.lower_bound <= plan.cost() && plan.lower_bound > 0.0);
        }
    }
}

#[test]
fn a_deadline_is_one_of_the_run() {
    let (step, machine) = (step("small-cnn", 16), machine("laptop.toml"));
    let fast = plan(&step, &machine, &options(Objective::Time, None)).unwrap();
    let latest = 1.3 * fast.plan.file.per_step().0;
    let found = plan(&step, &machine, &options(Objective::Energy, Some(latest))).unwrap();
    let (seconds, joules) = found.plan.file.per_step();
    assert!(seconds <= latest * (1.0 + 1e-9) && joules <= fast.plan.file.per_step().1);
    let error = plan(&step, &machine, &options(Objective::Energy, Some(1e-7)));
    let error = error.err().expect("too early").to_string();
    assert!(error.contains("deadline"), "{error}");
}

#[test]
fn a_cluster_is_planned_with_the_nodes_that_pay() {
    let cluster = machine("two-nodes.toml");
    let found = plan_cluster(
        &step("small-cnn", 32),
        &cluster,
        &options(Objective::Energy, None),
    )
    .unwrap();
    // The server draws 90 W for nothing: the desktop alone does it for less.
    assert!(
        found.nodes[0].share == 1.0 && !found.nodes[1].on,
        "{:?}",
        found.nodes
    );
    assert!(found.alone.is_some());
    for rival in &found.alternatives {
        assert!(found.joules.0 <= rival.joules.0 * (1.0 + 1e-9), "{rival:?}");
    }
    let names: String = found.alternatives.iter().map(|a| &*a.name).collect();
    for what in [
        "fastest node alone",
        "best single unit",
        "shares by speed",
        "even shares",
    ] {
        assert!(names.contains(what), "{what} is missing from {names}");
    }
    assert!(found.lower_bound > 0.0 && found.gap >= 0.0);
}

/// What all have, and time for a search to end.
#[test]
fn more_nodes_are_never_dearer() {
    let of_all = MODELS.iter().map(|&model| (model, HARDLY));
    let cases: Vec<_> = of_all.chain([(("small-cnn", 32), 2000)]).collect();
    for (file, growing) in [
        ("two-nodes.toml", &[&[0][..], &[0, 1]][..]),
        ("two-nodes.toml", &[&[1], &[0, 1]]),
        ("four-nodes.toml", &[&[0], &[0, 1], &[0, 1, 2, 3]]),
    ] {
        for (objective, &((name, batch), limit)) in [Objective::Energy, Objective::Time]
            .into_iter()
            .flat_map(|objective| cases.iter().map(move |case| (objective, case)))
        {
            let (of, step) = (machine(file), step(name, batch));
            let costs = growing.iter().map(|nodes| {
                let nodes: Vec<NodeId> = nodes.iter().map(|n| NodeId(*n)).collect();
                let mut some = of.machine.of_nodes(&nodes);
                some.name = "some".into();
                let options = PlanOptions {
                    time_limit: Duration::from_secs(limit),
                    ..options(objective, None)
                };
                let found = plan_cluster_by(&step, &some.into(), &options, &looks().0).unwrap();
                options.goal.cost(found.seconds.0, found.joules.0)
            });
            let costs: Vec<f64> = costs.collect();
            let falling = costs.windows(2).all(|w| w[1] <= w[0] * (1.0 + 1e-9));
            assert!(falling, "{name} {file} {objective} {limit}: {costs:?}");
        }
    }
}

/// A run that follows a plan which leaves order and unit to a policy takes what the plan says, read from its file.
#[test]
fn a_simple_choice_that_is_the_plan_is_followed_as_expected() {
    for (file, name, batch) in [
        ("rammus.toml", "small-cnn-512", 8),
        ("laptop.toml", "lenet5", 16),
    ] {
        let (step, machine) = (step(name, batch), machine(file));
        let options = PlanOptions {
            time_limit: Duration::from_secs(HARDLY),
            ..options(Objective::Energy, None)
        };
        let found = Choices::of(&step, &machine, &options, &mut || false).unwrap();
        let rival = &found.rivals(&machine)[0];
        let grain = &found.candidates[rival.choice.candidate].step.grain;
        let planned = plan_of_choice(
            &step,
            &machine,
            &options,
            (grain, rival),
            Vec::new(),
            &mut || true,
        );
        let text = planned.unwrap().plan.file.to_json();
        let plan = dahl_plan::PlanFile::from_json(&text).unwrap();
        assert_eq!(plan.decides(), rival.choice.policy);
        let step = step.grain(grain.clone());
        let run = |steps| {
            let options = crate::SimulateOptions {
                plan: Some(&plan),
                steps,
                ..crate::SimulateOptions::default()
            };
            let run = crate::simulate(&step, &machine, &options).unwrap().outcome;
            (run.makespan.0, run.joules().0)
        };
        let (few, more) = (run(4), run(12));
        let (seconds, joules) = plan.per_step();
        assert!(
            ((more.0 - few.0) / 8.0 / seconds - 1.0).abs() < 1e-9,
            "{file}"
        );
        assert!(
            ((more.1 - few.1) / 8.0 / joules - 1.0).abs() < 1e-9,
            "{file}"
        );
        let states = rival.choice.state > 0;
        assert!(states, "{file}: a choice with frequency states shows more");
    }
}

/// Sixteen desktops on one switch, each a little slower than the one before, so that all are kinds of their own.
fn sixteen() -> MachineModel {
    let mut text = "version = 1\nname = \"sixteen\"\n".to_string();
    let names: Vec<String> = (0..16).map(|n| format!("n{n}")).collect();
    for (n, name) in names.iter().enumerate() {
        let flops = 1.1e11 - 1e9 * n as f64;
        text += &format!(
            "[[node]]\nname = {name:?}\nbase_watts = 25.0\n\
             port = {{ bandwidth = 1.18e8, latency = 25e-6, joules_per_byte = 4e-9 }}\n\
             [[memory]]\nname = {name:?}\nnode = {name:?}\n\
             [[unit]]\nname = \"{name}-cpu\"\nkind = \"cpu\"\ncount = 2\nmemory = {name:?}\nidle_watts = 1.0\n\
             busy_watts = 10.0\nflops = {flops}\nbandwidth = 5.6e9\noverhead = 0.7e-6\n"
        );
    }
    text += &format!(
        "[[switch]]\nname = \"switch\"\nnodes = {names:?}\nlatency = 12e-6\njoules_per_byte = 0.0\n"
    );
    Machine::from_toml(&text, "sixteen.toml").unwrap().into()
}

/// A search that looks before each simulation, and simulates no more when its time is
/// over, looks hardly oftener than it has seconds, whatever the computer and the number of nodes.
#[test]
fn a_time_limit_holds_on_sixteen_nodes() {
    let looks_of = |machine: &MachineModel, limit: u64| {
        let (clock, looks) = looks();
        let options = PlanOptions {
            time_limit: Duration::from_secs(limit),
            rounds: u64::MAX,
            ..options(Objective::Energy, None)
        };
        let found = plan_cluster_by(&step("small-cnn", 32), machine, &options, &clock).unwrap();
        for rival in &found.alternatives {
            assert!(found.joules.0 <= rival.joules.0 * (1.0 + 1e-9), "{rival:?}");
        }
        looks.load(Ordering::Relaxed)
    };
    for limit in [0, 50, 500] {
        let looks = looks_of(&sixteen(), limit);
        assert!(looks <= limit + 100, "{looks} looks, {limit} allowed");
    }
}

/// A core with a state of half the speed, and durations as `calibrate --states` records them: a millisecond for every task, and
/// so many in that state.
fn core_with_a_state(step: &Step, in_state: f64) -> MachineModel {
    let mut machine = Machine::cpus(1);
    let unit = &mut machine.units[0];
    unit.power = Some(Power {
        idle: Watts(0.1),
        busy: Watts(10.0),
    });
    unit.states = vec![FrequencyState {
        hertz: Some(8e8),
        ..FrequencyState::new(0.5, Watts(4.0))
    }];
    unit.switch_seconds = Some(dahl_core::Seconds(1e-4));
    let (graph, unit) = (step.lower().unwrap().graph, &machine.units[0]);
    let mut times = PerfModel::default();
    let names = [
        (machine.timed_as(unit), 1e-3),
        (dahl_sim::timed_in(&machine, unit, 8e8), in_state),
    ];
    for (name, seconds) in names {
        for class in 0..graph.classes.len() as u32 {
            let key = Key::of(&graph, class, (&name, unit.kind), &machine.kernels).unwrap();
            for _ in 0..16 {
                let cost = graph.classes[class as usize].cost;
                times.record(&key, cost, dahl_core::Seconds(seconds));
            }
        }
    }
    MachineModel::measured(machine, times, Vec::new())
}

#[test]
fn plans_take_the_durations_that_were_measured_in_a_state() {
    let step = step("small-cnn", 16);
    let options = PlanOptions {
        search_grain: false,
        ..options(Objective::Energy, None)
    };
    let tasks = step.lower().unwrap().graph.len() as f64;
    // 10 W for a millisecond, or 4 W for 1.25 or 4: by its speed alone it would be two, and always cheaper.
    for (in_state, state, seconds) in [(1.25e-3, 1, 1.25e-3), (4e-3, 0, 1e-3)] {
        let model = core_with_a_state(&step, in_state);
        let found = plan(&step, &model, &options).unwrap().plan.file;
        assert!(found.tasks.iter().all(|t| t.state == state), "{in_state}");
        let ratio = found.per_step().0 / (tasks * seconds);
        assert!((0.99..1.05).contains(&ratio), "{in_state}: {ratio}");
    }
}

#[test]
fn steps_that_differ_are_refused_on_one_computer_and_on_several() {
    let pipeline: crate::Pipeline = "pipedream:2".parse().unwrap();
    let step = pipeline.adopt(step("small-cnn", 16), None).unwrap();
    let options = options(Objective::Energy, None);
    let alone = plan(&step, &machine("laptop.toml"), &options).err();
    let cluster = plan_cluster(&step, &machine("two-nodes.toml"), &options).err();
    for error in [alone, cluster] {
        let error = error.expect("a refusal").to_string();
        assert!(error.contains("a pipeline with a flush"), "{error}");
    }
}

#[test]
fn a_node_that_stays_on_draws_what_it_draws_waiting() {
    let mut machine = machine("two-nodes.toml").machine;
    let watts = |m: &Machine| only(m, &[NodeId(0)]).base().0;
    assert_eq!(watts(&machine), 40.0);
    machine.nodes[1].off = Some(dahl_core::Watts(3.0));
    assert_eq!(watts(&machine), 43.0);
    machine.nodes[1].off = None;
    assert_eq!(watts(&machine), 40.0 + 90.0 + 20.0 * 3.0);
    let alone = only(&machine, &[NodeId(1)]);
    assert_eq!(alone.memories[0].name, "server");
    assert_eq!((alone.units.len(), alone.nodes.len()), (20, 1));
}

#[test]
fn equal_nodes_are_one_kind() {
    let kinds = |file: &str| kinds(&machine(file).machine);
    assert_eq!(kinds("four-nodes.toml"), [(NodeId(0), 4)]);
    assert_eq!(kinds("two-nodes.toml").len(), 2);
}
