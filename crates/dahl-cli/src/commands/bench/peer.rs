//! `dahl bench peer`: DAHL as an engine of experiments. Factors are options of `dahl bench step`, by their names; `threads`
//! is `--workers`. The policy `plan` is a plan made here before the peer is ready; `predict` adds what the simulator says.
//! Nothing is measured here: the other side has the clock.

use std::collections::BTreeMap;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, CommandFactory, Parser};
use dahl::experiment::{Cell, Level, Steps, serve};
use dahl::tune::{MachineModel, StepBench, ThisMachine, TimesFrom, Units};

use crate::commands::run_args::RunArgs;
use crate::commands::step_args::{StepArgs, model};

/// A cell as options.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Options {
    model: std::path::PathBuf,
    #[command(flatten)]
    step: StepArgs,
    #[command(flatten)]
    run: RunArgs,
}

/// Runs the command.
pub fn run() -> anyhow::Result<()> {
    // A terminal's Ctrl-C is for the harness, which says what is kept and ends this process.
    crate::interrupt::keep();
    let input = std::io::stdin().lock();
    serve(input, std::io::stdout().lock(), |cell| {
        load(cell).map_err(|e| dahl::core::text::chain(e.as_ref()))
    })?;
    Ok(())
}

/// The options of a cell. What is no option of a step belongs to the harness.
fn words(cell: &Cell) -> anyhow::Result<Vec<String>> {
    let Some(name) = cell.get("model") else {
        anyhow::bail!("the factor model is missing: it names a shipped model or a file");
    };
    let mut words = vec![name.to_string()];
    for (factor, level) in cell {
        let option = match factor.as_str() {
            "model" | "predict" => continue,
            // Engines of other programs have names of their own.
            "engine" if !level.to_string().starts_with("starpu") => continue,
            "policy" if level.to_string() == "plan" => continue,
            "threads" => "workers",
            other => other,
        };
        match level {
            Level::Truth(false) => {}
            Level::Truth(true) => words.push(format!("--{option}")),
            level => words.push(format!("--{option}={level}")),
        }
    }
    Ok(words)
}

/// What is wrong with a cell's options, in words of factors.
fn refused(error: &clap::Error) -> anyhow::Error {
    if let (ErrorKind::UnknownArgument, Some(ContextValue::String(option))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    {
        let command = Options::command();
        let names: Vec<&str> = command.get_arguments().filter_map(Arg::get_long).collect();
        let factor = option.trim_start_matches('-');
        return anyhow::anyhow!(
            "{} (a factor of other engines needs [[only]])",
            dahl::core::text::unknown("factor", factor, &names)
        );
    }
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    anyhow::anyhow!("{}", first.trim_start_matches("error: "))
}

fn load(cell: &Cell) -> anyhow::Result<Box<dyn Steps>> {
    let options = Options::try_parse_from(words(cell)?).map_err(|e| refused(&e))?;
    let this = ThisMachine::look();
    if let Some(threads) = cell.get("threads").and_then(Level::number)
        && threads > this.cores() as f64
    {
        anyhow::bail!(
            "{threads} workers on {} cores: they would only take turns",
            this.cores()
        );
    }
    let step = options
        .step
        .step(model(Some(&options.model))?, &this, true)?;
    let images = step.batch as u64;
    let mut measures = BTreeMap::new();
    let planned = cell.get("policy").is_some_and(|p| p.to_string() == "plan");
    let mut args = options.run;
    let mut kept = None;
    if planned || cell.get("predict") == Some(&Level::Truth(true)) {
        let machine = machine(cell, &this)?;
        let plan = planned
            .then(|| dahl::tune::quick_plan(&step, &machine))
            .transpose()?;
        let policy = cell.get("policy").map_or("ws".into(), Level::to_string);
        let seconds = dahl::tune::predicted_seconds(&step, &machine, policy, plan.as_ref())?.0;
        measures.insert("predicted_seconds_per_step".into(), seconds);
        if let Some(plan) = plan {
            let path = std::env::temp_dir().join(format!("dahl-peer-{}.json", std::process::id()));
            plan.save(&path)?;
            // Units, policy and grain are the plan's.
            let words = [
                cell["model"].to_string(),
                format!("--plan={}", path.display()),
            ];
            args = Options::try_parse_from(words)?.run;
            kept = Some(path);
        }
    }
    let pipeline = options.step.staging(&step)?;
    let run = args.prepare(this, step, &options.step.graph, pipeline, None);
    // Read by now, or never.
    if let Some(path) = kept {
        let _ = std::fs::remove_file(path);
    }
    let run = run?;
    let mut bench = StepBench::new(&run.step, &run.run)?;
    bench.steps(2)?;
    Ok(Box::new(Peer {
        bench,
        decides: run.run.decides(),
        images,
        measures,
    }))
}

/// The units of a cell, with what is known of them.
fn machine(cell: &Cell, this: &ThisMachine) -> anyhow::Result<MachineModel> {
    let threads = cell.get("threads").and_then(Level::number);
    let units = match cell.get("units") {
        Some(units) => units.to_string().parse()?,
        None => Units::cpus(threads.map(|n| n as u16)),
    };
    let described = this.describe(Some(&units))?;
    Ok(MachineModel::new(described.machine, &TimesFrom::Here, this)?.0)
}

/// A step that is run again and again.
struct Peer {
    bench: StepBench,
    /// Who decides which unit runs what.
    decides: String,
    images: u64,
    /// What is known before any step.
    measures: BTreeMap<String, f64>,
}

impl Steps for Peer {
    fn engine(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        format!("DAHL {version}, {}, {}", self.bench.units(), self.decides)
    }

    fn steps(&mut self, n: u64) -> Result<(), String> {
        self.bench
            .steps(n)
            .map(drop)
            .map_err(|e| dahl::core::text::chain(&e))
    }

    fn images(&self) -> u64 {
        self.images
    }

    fn after(&mut self) -> (Option<f64>, BTreeMap<String, f64>) {
        let tasks = self.bench.graph().len() as f64;
        let mut measures = self.measures.clone();
        measures.insert("tasks_per_step".into(), tasks);
        let temporaries = self.bench.runtime.temporary_bytes() as f64;
        measures.insert("temporary_bytes".into(), temporaries);
        (self.bench.loss().ok(), measures)
    }
}
