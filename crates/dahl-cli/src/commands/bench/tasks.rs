//! `dahl bench tasks`: nanoseconds per empty task.
//!
//! Peers run the same graphs in `bench/tasks`; the generator of `pairs` is specified there.

use std::sync::Arc;
use std::time::Instant;

use dahl::core::{Arena, Codelet, DType, Graph, Mode, Recorder, Task, UnitKind};
use dahl::tune::{Engine, ThisMachine, Units, units_text};

use crate::commands::run_args::measuring;
use crate::print;

/// Arguments of `dahl bench tasks`.
#[derive(clap::Args)]
pub struct Args {
    /// What tasks depend on: nothing, the one before, or two of 64 arrays chosen pseudo-randomly
    #[arg(long, value_enum, default_value = "pairs")]
    pattern: Pattern,
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

#[derive(Clone, Copy, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum Pattern {
    Independent,
    Chain,
    Pairs,
}

#[derive(serde::Serialize)]
struct Report<'a> {
    pattern: Pattern,
    tasks: u32,
    /// Units, whatever their kind.
    workers: usize,
    units: String,
    policy: &'a str,
    engine: String,
    submit_ns: f64,
    first_ns: f64,
    replay_ns: f64,
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
    let per_task = |start: Instant| start.elapsed().as_nanos() as f64 / f64::from(args.tasks);
    let arena = Arena::new();

    let start = Instant::now();
    let graph = record(args, &arena)?;
    let submit_ns = per_task(start);

    let mut run = || -> anyhow::Result<f64> {
        let start = Instant::now();
        runtime.launch(&graph)?;
        runtime.wait()?;
        Ok(per_task(start))
    };
    let first_ns = run()?;
    let mut replays = (0..args.replays)
        .map(|_| run())
        .collect::<anyhow::Result<Vec<f64>>>()?;
    replays.sort_by(f64::total_cmp);
    let replay_ns = replays[replays.len() / 2];
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
        submit_ns,
        first_ns,
        replay_ns,
    };
    if args.json {
        return print::json(&report);
    }
    let mut table = print::table(&["nanoseconds per empty task", ""]);
    table.add_row(["recording".to_string(), format!("{submit_ns:.0}")]);
    table.add_row(["first execution".to_string(), format!("{first_ns:.0}")]);
    table.add_row(["replay".to_string(), format!("{replay_ns:.0}")]);
    println!("{table}");
    Ok(())
}

fn record(args: &Args, arena: &Arena) -> anyhow::Result<Arc<Graph>> {
    let kinds = [UnitKind::CPU, UnitKind::GPU].into_iter();
    let empty = Codelet::new("empty");
    let empty = Arc::new(kinds.fold(empty, |c, kind| c.implement("empty", kind, |_| Ok(()))));
    let arrays = (0..64)
        .map(|i| arena.alloc(&format!("a{i}"), &[], DType::F64))
        .collect::<Result<Vec<_>, _>>()?;
    let recorder = Recorder::new();
    let mut random = SplitMix(42);
    for _ in 0..args.tasks {
        match args.pattern {
            Pattern::Independent => recorder.submit(Task::new(&empty, &[])),
            Pattern::Chain => {
                recorder.submit(Task::new(&empty, &[arrays[0].with(Mode::ReadWrite)]))
            }
            Pattern::Pairs => {
                let r = random.next() % 64;
                let w = random.next() % 63;
                let w = w + u64::from(w >= r);
                let operands = [
                    arrays[r as usize].with(Mode::Read),
                    arrays[w as usize].with(Mode::ReadWrite),
                ];
                recorder.submit(Task::new(&empty, &operands))
            }
        };
    }
    Ok(recorder.finish()?)
}

/// The generator that all engines share: splitmix64.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
