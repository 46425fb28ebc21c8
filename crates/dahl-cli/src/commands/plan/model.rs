//! `dahl plan MODEL`: the plan of a training step, with what it is better than.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use dahl_core::{DType, Machine, Seconds};
use dahl_nn::lower::grain::Grain;
use dahl_nn::model::Model;
use dahl_plan::{Expected, FollowError};
use dahl_plan::{Goal, Objective};
use dahl_plan::{Limits, Plan, plan as plan_step};
use dahl_plan::{PlanFile, PlanTarget};
use dahl_plan::{frontier, svg};
use dahl_sim::Options;

use super::compare::{self, Rivals};
use super::explain;
use super::grains::{self, Lowering};
use crate::commands::follow::PlannedStep;
use crate::commands::{check_writable, machine, run_options, simulate};
use crate::print;

/// Arguments of `dahl plan MODEL`.
#[derive(clap::Args)]
pub struct ModelArgs {
    /// The model: a file, or the name of a shipped one
    #[arg(required = true)]
    model: Option<PathBuf>,
    /// The machine: a `machine.toml` or a SimGrid platform; `dahl machine --describe` writes one
    #[arg(long, value_name = "F", required = true)]
    machine: Option<PathBuf>,
    /// Images per step
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    batch: u32,
    /// What to minimise
    #[arg(long, value_enum, default_value = "energy")]
    objective: Aim,
    /// Latest end of a step, in seconds, or with a unit: 20ms, 150us
    #[arg(long, value_name = "T", value_parser = positive, allow_negative_numbers = true)]
    deadline: Option<f64>,
    /// Plans from the fastest to the thriftiest, as a table and, with a file, as a picture
    #[arg(long, value_name = "F.svg", num_args = 0..=1)]
    frontier: Option<Option<PathBuf>>,
    /// Stop when the plan is proven to be this near to the best: `1%` or `0.01`
    #[arg(long, default_value = "0.1%", value_parser = part)]
    gap: f64,
    /// Stop after this many seconds
    #[arg(long, value_name = "S", default_value = "20", value_parser = positive)]
    time_limit: f64,
    /// How layers are cut into tasks: auto, or parts such as sample=8,channel=2 [default: the best found]
    #[arg(long)]
    grain: Option<Grain>,
    /// Numbers to compute with: f32 or f64
    #[arg(long, default_value = "f32")]
    dtype: DType,
    #[command(flatten)]
    step: simulate::StepOptions,
    /// Measured durations: a performance model's file, or `none` to go by cost and rated speeds [default:
    /// this machine's, if the machine file was described here]
    #[arg(long, value_name = "F|none")]
    times: Option<PathBuf>,
    /// Give units only what they have implementations for; otherwise those without are assumed to have
    /// one that reaches their rated speed
    #[arg(long)]
    strict: bool,
    /// Of the search's random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the plan into this file
    #[arg(short, long, value_name = "F")]
    output: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Aim {
    Energy,
    Time,
    Edp,
}

/// Seconds, or with their unit milli- and microseconds.
fn positive(text: &str) -> Result<f64, String> {
    let units = [
        ("ms", 1e-3),
        ("us", 1e-6),
        ("µs", 1e-6),
        ("s", 1.0),
        ("", 1.0),
    ];
    let found = units
        .iter()
        .find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)));
    match found.and_then(|(number, scale)| Some(number.trim().parse::<f64>().ok()? * scale)) {
        Some(n) if n > 0.0 && n.is_finite() => Ok(n),
        _ => Err("not a positive time, such as 0.02, 20ms or 150us".into()),
    }
}

fn part(text: &str) -> Result<f64, String> {
    let (number, scale) = match text.strip_suffix('%') {
        Some(number) => (number, 0.01),
        None => (text, 1.0),
    };
    match number.trim().parse::<f64>() {
        Ok(n) if (0.0..1.0).contains(&(n * scale)) => Ok(n * scale),
        _ => Err("not a part of the whole, such as 1% or 0.01".into()),
    }
}

/// Runs the command.
pub fn run(args: &ModelArgs) -> anyhow::Result<()> {
    let begin = Instant::now();
    let limit = Duration::from_secs_f64(args.time_limit.min(1e6));
    // The parser sees to both, unless a sub-command is given.
    let (Some(model), Some(machine)) = (&args.model, &args.machine) else {
        anyhow::bail!("name a model and a machine to plan for, or a command; see --help");
    };
    let model = run_options::model(Some(model))?;
    let machine = machine::load(machine)?;
    let picture = args.frontier.as_ref().and_then(Option::as_ref);
    for path in args.output.iter().chain(picture) {
        check_writable(path)?;
    }
    let goal = Goal {
        objective: match args.objective {
            Aim::Energy => Objective::Energy,
            Aim::Time => Objective::Time,
            Aim::Edp => Objective::Edp,
        },
        deadline: args.deadline,
    };
    let lowering = Lowering {
        model: &model,
        machine: &machine,
        batch: args.batch as usize,
        dtype: args.dtype,
        known: simulate::measured(args.times.as_deref(), machine::is_here(&machine))?,
        own: args.times.is_none() && machine::is_here(&machine),
        assume: !args.strict,
        step: &args.step,
    };
    let step = match &args.grain {
        Some(grain) => lowering.one(grain)?,
        None => grains::choose(&lowering, &goal, &mut || begin.elapsed() < limit / 3)?,
    };
    let mut rivals = Rivals::new(step, &machine);
    let limits = Limits {
        gap: args.gap,
        seed: args.seed,
        rounds: u64::MAX,
        ..Limits::default()
    };
    // Cuts were compared with little effort each; the usual one gets a chance with as much as the best.
    let mut usual = match rivals.step.grain {
        Grain::Auto => None,
        _ => Some(Rivals::new(lowering.one(&Grain::Auto)?, &machine)),
    };
    let compete = usual.is_some() && args.grain.is_none();
    let first = if compete { limit * 2 / 3 } else { limit };
    let problem = &rivals.step.lowered.problem;
    let mut keep_going = || begin.elapsed() < first;
    let from_rivals = Limits {
        warm_starts: &rivals.seeds,
        ..limits
    };
    let mut solution = plan_step(problem, &goal, &from_rivals, &mut keep_going)?;
    let mut keep_going = || begin.elapsed() < limit;
    if let Some(rival) = usual.as_mut().filter(|_| compete)
        && let problem = &rival.step.lowered.problem
        && let warm_starts = &rival.seeds
        && let quiet = (Limits {
            warm_starts,
            explain: false,
            ..limits
        })
        && let Ok(better) = plan_step(problem, &goal, &quiet, &mut keep_going)
        && better.cost < solution.cost
    {
        solution = better;
        std::mem::swap(rival, &mut rivals);
    }
    // Where the usual cut won, there is no other to compare with.
    usual = usual.filter(|_| rivals.step.grain != Grain::Auto);
    let others = compare::others(&rivals, usual.as_ref(), &goal);
    let step = rivals.step;
    let target = target(args, &model, &machine, &goal, &step)?;
    let mut plan = PlanFile::new(
        target,
        &step.step.graph,
        &machine,
        &step.lowered,
        &solution,
        others,
    );
    match expected(&plan, &step) {
        Ok(expected) => plan.expected = Some(expected),
        Err(error) => eprintln!("warning: what a run takes is unknown: {error}"),
    }
    if let Some(path) = &args.output {
        save(path, &plan.to_json())?;
    }
    let points = match &args.frontier {
        None => Vec::new(),
        Some(picture) => {
            let light = Limits {
                rounds: 1500,
                bound_iterations: 500,
                exact_tasks: 0,
                ..limits
            };
            let end = begin.elapsed() + limit;
            let mut all = frontier(&step.lowered.problem, args.deadline, 9, &light, &mut || {
                begin.elapsed() < end
            })?;
            merge(&mut all, solution.clone());
            if let Some(path) = picture {
                save(path, &drawn(&plan, &all))?;
            }
            all
        }
    };
    if args.json {
        let mut value = serde_json::to_value(&plan)?;
        let point = |s: &Plan| {
            serde_json::json!({
                "seconds": s.schedule.seconds,
                "joules": s.schedule.energy.total(),
                "lower_bound_joules": s.bound.joules,
            })
        };
        if args.frontier.is_some() {
            value["frontier"] = points.iter().map(point).collect();
        }
        return print::json(&value);
    }
    if let Some(expected) = &plan.expected {
        let (seconds, joules) = (expected.seconds, expected.joules);
        println!("expected of a run: {seconds} and {joules} per step");
    }
    println!(
        "by the plan's equations: {} and {}; lower bound {:.6e}, gap {:.2} % ({}); grain {}; {:.1} s\n",
        plan.seconds,
        plan.joules.total,
        plan.lower_bound,
        100.0 * plan.gap,
        goal.objective,
        step.grain.in_short(),
        begin.elapsed().as_secs_f64()
    );
    explain::show(&plan);
    show_frontier(&points);
    if let (Some(path), Some(model)) = (&args.output, &args.model) {
        println!(
            "To follow it on that machine: dahl train {} --batch {} --optimizer {} --plan {}",
            model.display(),
            args.batch,
            args.step.optimizer(),
            path.display()
        );
    }
    Ok(())
}

/// What a run is expected to take, with what was measured of this machine's runs if it is for that.
fn expected(plan: &PlanFile, step: &grains::Candidate) -> Result<Expected, FollowError> {
    let (graph, machine) = (&*step.step.graph, &step.paced);
    let run = Options {
        noise: step.adds.map(|adds| adds.varies.noise(0)),
        ..simulate::as_run(graph, machine)
    };
    Expected::of(plan, graph, machine, &step.times, &run)
}

fn target(
    args: &ModelArgs,
    model: &Model,
    machine: &Machine,
    goal: &Goal,
    step: &grains::Candidate,
) -> anyhow::Result<PlanTarget> {
    let planned = PlannedStep {
        model: model.name.clone(),
        batch: args.batch as usize,
        dtype: args.dtype.to_string(),
        grain: step.grain.to_string(),
        optimizer: args.step.optimizer(),
    };
    let title = format!(
        "{}, batch {}, {}",
        planned.model, planned.batch, planned.dtype
    );
    let planned = serde_json::to_value(planned)?;
    Ok(PlanTarget::new(
        title,
        planned,
        &step.step.graph,
        machine,
        goal,
    ))
}

fn save(path: &std::path::Path, text: &str) -> anyhow::Result<()> {
    Ok(dahl_core::file::write_atomically(path, |out| {
        out.write_all(text.as_bytes())
    })?)
}

/// Adds the plan itself to the frontier, where nothing there beats it.
fn merge(points: &mut Vec<Plan>, plan: Plan) {
    let key = |s: &Plan| (s.schedule.seconds, s.schedule.energy.total());
    let (seconds, joules) = key(&plan);
    if points
        .iter()
        .any(|p| key(p).0 <= seconds && key(p).1 <= joules)
    {
        return;
    }
    points.retain(|p| key(p).0 < seconds || key(p).1 < joules);
    points.push(plan);
    points.sort_by(|a, b| key(a).0.total_cmp(&key(b).0));
}

fn drawn(plan: &PlanFile, points: &[Plan]) -> String {
    let title = format!("{} on {}", plan.target.title, plan.target.machine);
    let points: Vec<(f64, f64)> = points
        .iter()
        .map(|s| (s.schedule.seconds, s.schedule.energy.total()))
        .collect();
    let others: Vec<(String, f64, f64)> = plan
        .alternatives
        .iter()
        .map(|o| (o.name.clone(), o.seconds.0, o.joules.0))
        .collect();
    svg(&title, &points, &others)
}

fn show_frontier(points: &[Plan]) {
    if points.is_empty() {
        return;
    }
    let mut table = print::table(&["time", "energy", "no less than", "mean power"]);
    for s in points {
        let (seconds, joules) = (s.schedule.seconds, s.schedule.energy.total());
        table.add_row([
            Seconds(seconds).to_string(),
            dahl_core::Joules(joules).to_string(),
            dahl_core::Joules(s.bound.joules).to_string(),
            dahl_core::Watts(joules / seconds.max(f64::MIN_POSITIVE)).to_string(),
        ]);
    }
    print::align_right(&mut table, 0..=3);
    println!("\n{table}");
}

#[cfg(test)]
mod tests {
    use super::positive;

    #[test]
    fn times_may_have_units() {
        let near = |text: &str, seconds: f64| {
            let read = positive(text).unwrap();
            assert!((read / seconds - 1.0).abs() < 1e-12, "{text}: {read}");
        };
        near("2", 2.0);
        near("0.5s", 0.5);
        near("20ms", 0.02);
        near("150 us", 150e-6);
        near("150µs", 150e-6);
        for wrong in [
            "", "ms", "-3", "0", "nan", "inf", "1ss", "1 minute", "1e400",
        ] {
            assert!(positive(wrong).is_err(), "{wrong:?}");
        }
    }
}
