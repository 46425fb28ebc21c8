//! One step, planned, simulated and run: what was described is what every one of them means.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dahl_core::trace::Trace;
use dahl_core::{Machine, Rated, UnitId};
use dahl_nn::optim::Sgd;
use dahl_nn::{Model, Step, models};
use dahl_plan::PlanPolicy;
use dahl_tune::{
    Followed, MachineModel, MeasuredRun, PlanOptions, RunConfig, SimulateOptions, StepBench,
    StepPlan, ThisMachine, Units, plan, simulate,
};

/// A folder of the test's own.
fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("dahl-tune-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// This computer with two workers, of which nothing was measured: a made-up speed.
fn here(this: &ThisMachine) -> Machine {
    let units: Units = "cpu:2".parse().unwrap();
    let mut machine = this.describe(Some(&units)).unwrap().machine;
    for unit in &mut machine.units {
        unit.rated = Some(Rated {
            flops: 1e10,
            flops_f64: 5e9,
            bandwidth: 1e10,
        });
    }
    machine
}

/// Every option of a training run that is part of a step.
fn step() -> Step {
    let optimizer = Sgd {
        momentum: 0.9,
        nesterov: true,
        weight_decay: 1e-3,
        ..Sgd::default()
    };
    Step::new(models::small_cnn())
        .batch(8)
        .optimizer(optimizer)
        .clip_norm(1.0)
        .seed(7)
}

fn quick() -> PlanOptions {
    PlanOptions {
        time_limit: Duration::from_secs(2),
        gap: 0.5,
        fixed: true,
        ..PlanOptions::default()
    }
}

/// What ran in five steps, and what that says of the plan.
fn five_steps(bench: &mut StepBench, plan: &StepPlan, this: &ThisMachine) -> (Trace, Followed) {
    bench.steps(5).unwrap();
    let trace = bench.runtime.take_trace().unwrap();
    let measured = MeasuredRun {
        pipelined: &trace,
        seconds: None,
        isolated: None,
        energy: &Default::default(),
    };
    let followed = Followed::of(plan, bench.graph(), &measured, this).unwrap();
    (trace, followed)
}

#[test]
fn a_step_with_clipping_and_nesterov_is_planned_and_followed() {
    let home = folder("followed");
    let this = ThisMachine::look().keeping_in(&home);
    let planned = plan(&step(), &here(&this).into(), &quick()).unwrap();
    let file = home.join("plan.json");
    planned.plan.save(&file).unwrap();

    let plan = StepPlan::load(&file).unwrap();
    let step = plan.adopt(step()).unwrap();
    assert_eq!(step.fingerprint(), planned.plan.step.fingerprint());
    // To the letter, and with cores that stand in for each other.
    for exact in [true, false] {
        let config = RunConfig {
            follow: Some(Arc::new(plan.clone())),
            exact,
            trace_events: Some(1 << 14),
            ..RunConfig::default()
        };
        let run = config.resolve(&this).unwrap();
        let mut bench = StepBench::new(&step, &run).unwrap();
        let (_, followed) = five_steps(&mut bench, &plan, &this);
        assert_eq!(followed.placed, Some(1.0));
        assert!(!exact || followed.fidelity == Some(1.0));
    }
    std::fs::remove_dir_all(&home).unwrap();
}

/// A plan for two cores that leaves order and unit to `ws` on the second one.
#[test]
fn a_policy_of_a_plan_has_the_units_of_the_plan_alone() {
    let home = folder("left");
    let this = ThisMachine::look().keeping_in(&home);
    let machine = here(&this);
    let model: MachineModel = machine.clone().into();
    let mut planned = plan(&step(), &model, &quick()).unwrap().plan;
    let file = &mut planned.file;
    file.units[0].order.clear();
    file.units[1].order = (0..file.tasks.len() as u32).collect();
    file.tasks.iter_mut().for_each(|t| t.unit = 1);
    file.transfers.clear();
    *file = file
        .clone()
        .left_to(PlanPolicy::new("ws", &machine, &[UnitId(1)], 0), &machine);
    let path = home.join("plan.json");
    planned.save(&path).unwrap();

    let plan = StepPlan::load(&path).unwrap();
    let config = RunConfig {
        follow: Some(Arc::new(plan.clone())),
        trace_events: Some(1 << 14),
        ..RunConfig::default()
    };
    let exact = RunConfig {
        exact: true,
        ..config.clone()
    };
    let refused = exact.resolve(&this).err().unwrap().to_string();
    assert!(refused.contains("leaves order and unit to ws"), "{refused}");

    let run = config.resolve(&this).unwrap();
    assert_eq!((run.policy(), &*run.decides()), ("ws", "plan: ws"));
    let step = plan.adopt(step()).unwrap();
    let mut bench = StepBench::new(&step, &run).unwrap();
    plan.check(bench.graph()).unwrap();
    let (trace, followed) = five_steps(&mut bench, &plan, &this);
    assert!(!trace.tasks.is_empty() && trace.tasks.iter().all(|t| t.unit == 1));
    assert_eq!((followed.placed, followed.fidelity), (Some(1.0), None));
    let text = format!("{:?}", followed.report(&plan.file));
    assert!(
        text.contains("ws decided order and unit: 100.0 %"),
        "{text}"
    );

    // The simulator follows it the same way: nobody else computes, and the whole step takes what its tasks take.
    let options = SimulateOptions {
        plan: Some(&plan.file),
        steps: 3,
        ..SimulateOptions::default()
    };
    let simulated = simulate(&step, &model, &options).unwrap();
    let tasks: Vec<usize> = (simulated.outcome.units.iter())
        .map(|u| u.tasks as usize)
        .collect();
    assert_eq!(tasks, [0, 3 * bench.graph().len()]);
    assert_eq!(simulated.policy, "ws");
    std::fs::remove_dir_all(&home).unwrap();
}

#[test]
fn a_plan_names_what_differs() {
    let this = ThisMachine::look().keeping_in(folder("differs"));
    let planned = plan(&step(), &here(&this).into(), &quick()).unwrap().plan;
    let refused = |other: Step, says: &str| {
        let error = planned.adopt(other).unwrap_err().to_string();
        assert!(error.contains(says), "{says}: {error}");
    };
    refused(step().batch(9), "batch 8, this run has 9");
    refused(step().seed(8), "seed 7, this run has 8");
    refused(step().clip_norm(None), "clip-norm 1, this run has none");
    refused(step().dtype(dahl_core::DType::F64), "dtype f32");
    refused(step().optimizer(Sgd::default()), "optimizer");
    let other = Step {
        model: models::lenet5(),
        ..step()
    };
    refused(other, "model small-cnn, this run has lenet5");
    // A machine of another name is refused, too, by runs and by simulations.
    let error = planned.check_machine("a laptop").unwrap_err().to_string();
    assert!(error.contains("this run has a laptop"), "{error}");
}

#[test]
fn a_prediction_has_as_many_steps_in_flight_as_a_run() {
    let mut machine = Machine::cpus(2);
    for unit in &mut machine.units {
        unit.rated = Some(Rated {
            flops: 1e10,
            flops_f64: 5e9,
            bandwidth: 1e10,
        });
    }
    let machine = MachineModel::from(machine);
    let predicted = |step: &Step, in_flight| {
        let options = SimulateOptions {
            steps: 4,
            in_flight,
            ..SimulateOptions::default()
        };
        let outcome = simulate(step, &machine, &options).unwrap().outcome;
        (outcome.makespan.0, outcome.memories[0].peak)
    };
    // Of a wide last layer the update is long: the next step's first layers run beside it.
    let wide = Model::builder("wide", [1, 8, 8])
        .flatten()
        .linear(256)
        .relu()
        .linear(1000);
    let small = Step::new(wide.build().unwrap()).batch(4);
    let large = Step::new(models::vgg_small()).batch(512);
    assert_eq!(predicted(&small, None), predicted(&small, Some(2)));
    assert_ne!(predicted(&small, None), predicted(&small, Some(1)));
    // Its temporaries take more than what is overlapped.
    let bytes = large.lower().unwrap().graph.memory.bytes;
    assert!(bytes > 128 << 20, "{bytes}");
    assert_eq!(predicted(&large, None), predicted(&large, Some(1)));
    assert_ne!(predicted(&large, None), predicted(&large, Some(2)));
}
