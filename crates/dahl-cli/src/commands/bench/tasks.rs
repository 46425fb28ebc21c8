//! `dahl bench tasks`: nanoseconds per empty task.

use dahl::core::DType;
use dahl::tune::{Engine, TaskCosts, TaskPattern, ThisMachine, Units, measure_tasks, units_text};

use crate::commands::one_of;
use crate::commands::run_args::measuring;
use crate::print;

/// Arguments of `dahl bench tasks`.
#[derive(clap::Args)]
pub struct Args {
    /// What tasks depend on: nothing, the one before, or two of 64 arrays chosen pseudo-randomly
    #[arg(long, default_value = "pairs", value_parser = one_of(&TaskPattern::ALL))]
    pattern: TaskPattern,
    /// Number of tasks
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    tasks: u32,
    /// Number of workers
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    workers: u16,
    /// Units that execute tasks, such as cpu:1,gpu:0; on a GPU, operands are brought and nothing is launched
    #[arg(long, value_name = "U", conflicts_with = "workers")]
    units: Option<Units>,
    /// The policy, of DAHL's or of StarPU's
    #[arg(long, default_value = "ws")]
    policy: String,
    /// Who runs tasks: dahl, or starpu or starpu-data where this was built with it
    #[arg(long, value_name = "E", default_value_t)]
    engine: Engine,
    /// How many replays; the median is reported
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    replays: u32,
    /// Record what runs where and when into this file, for `dahl trace`
    #[arg(long, value_name = "F")]
    trace: Option<std::path::PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(serde::Serialize)]
struct Report<'a> {
    pattern: TaskPattern,
    tasks: u32,
    /// Units, whatever their kind.
    workers: usize,
    units: String,
    policy: &'a str,
    engine: String,
    #[serde(flatten)]
    costs: TaskCosts,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let given = args.units.clone();
    let units = given.unwrap_or_else(|| Units::cpus(Some(args.workers)));
    if let Some(path) = &args.trace {
        crate::commands::check_writable(path)?;
    }
    let events = args.trace.as_ref().map(|_| args.tasks as usize);
    let run = measuring(
        &ThisMachine::look(),
        units,
        (args.engine, &args.policy),
        events,
    )?;
    let mut runtime = run.builder(DType::F64)?.0.build()?;
    let costs = measure_tasks(&mut runtime, args.pattern, args.tasks, args.replays)?;
    if let (Some(path), Some(trace)) = (&args.trace, runtime.take_trace()) {
        dahl::trace::save(&trace, path)?;
    }

    let report = Report {
        pattern: args.pattern,
        tasks: args.tasks,
        workers: runtime.machine().units.len(),
        units: units_text(runtime.machine()),
        policy: &args.policy,
        engine: args.engine.to_string(),
        costs,
    };
    if args.json {
        return print::json(&report);
    }
    let mut table = print::table("nanoseconds per empty task|");
    let rows = [
        ("recording", costs.submit_ns),
        ("first execution", costs.first_ns),
        ("replay", costs.replay_ns),
    ];
    for (what, nanoseconds) in rows {
        table.add_row([what.to_string(), format!("{nanoseconds:.0}")]);
    }
    println!("{table}");
    Ok(())
}
