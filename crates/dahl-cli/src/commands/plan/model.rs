//! `dahl plan MODEL`: the plan of a training step, with what it is better than.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use dahl::core::Seconds;
use dahl::plan::{Goal, Objective, Progress};
use dahl::tune::{self, ClusterPlan, FrontierPoint, PlanOptions, Planned, ThisMachine};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use super::cluster;
use crate::commands::machine::MachineArgs;
use crate::commands::step_args::{StepArgs, model};
use crate::commands::{check_writable, stopped};
use crate::{interrupt, print};

/// Arguments of `dahl plan MODEL`.
#[derive(clap::Args)]
pub struct ModelArgs {
    /// The model: a file, or the name of a shipped one
    #[arg(required = true)]
    model: Option<PathBuf>,
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    step: StepArgs,
    /// What to minimise
    #[arg(long, value_enum, default_value = "energy")]
    objective: Aim,
    /// Latest end of a step, in seconds, or with a unit: 20ms, 150us
    #[arg(long, value_name = "T", value_parser = tune::time)]
    deadline: Option<Seconds>,
    /// Plans from the fastest to the thriftiest, as a table and, with a file, as a picture
    #[arg(long, value_name = "F.svg", num_args = 0..=1)]
    frontier: Option<Option<PathBuf>>,
    /// Give every task its unit and its place in the order: leave nothing to a policy at run time
    #[arg(long)]
    fixed: bool,
    /// Stop when the plan is proven to be this near to the best: `1%` or `0.01`
    #[arg(long, default_value = "0.1%", value_parser = part)]
    gap: f64,
    /// Stop after this many seconds
    #[arg(long, value_name = "S", default_value = "20", value_parser = tune::time)]
    time_limit: Seconds,
    /// Seed of the search's random numbers
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    search_seed: u64,
    /// Plan with the machine's frequency states, also where this computer cannot set them; of a machine that is not
    /// here they always count
    #[arg(long)]
    states: bool,
    /// Write the plan into this file
    #[arg(short, long, value_name = "F")]
    output: Option<PathBuf>,
    /// Plan the nodes of a cluster as one machine, task by task: to be simulated, not followed
    #[arg(long)]
    as_one: bool,
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
    let planned = match plan(args)? {
        Answer::Machine(planned) => *planned,
        Answer::Cluster(found) => {
            cluster::report(args, &found, begin.elapsed())?;
            return if_whole(found.stopped, found.gap);
        }
    };
    if let Some(text) = &planned.warning {
        print::warning(text);
    }
    if let Some(path) = &args.output {
        let text = planned.plan.file.to_json();
        print::write_text(path, &text)?;
    }
    let points = match &args.frontier {
        None => Vec::new(),
        Some(_) => planned.frontier(args.limit())?,
    };
    if let Some(path) = args.picture() {
        let picture = dahl::frontier_chart(&planned, &points).svg();
        print::write_text(path, &picture)?;
    }
    if args.json {
        let mut value = serde_json::to_value(&planned.plan.file)?;
        if args.frontier.is_some() {
            value["frontier"] = serde_json::to_value(&points)?;
        }
        print::json(&value)?;
    } else if !args.files().any(print::is_stdout) {
        print::report(&planned.report(begin.elapsed()));
        show_frontier(&points);
        if let (Some(path), Some(model)) = (&args.output, &args.model) {
            say_how_to_follow(args, &planned, model, path);
        }
    }
    if_whole(planned.stopped, planned.plan.file.gap)
}

fn say_how_to_follow(args: &ModelArgs, planned: &Planned, model: &Path, path: &Path) {
    match planned.plan.check_states(&ThisMachine::look()) {
        Ok(()) => println!(
            "To follow it on that machine: dahl train {} {} --plan {}",
            model.display(),
            args.step.repeated(),
            path.display()
        ),
        Err(why) => println!("It can be simulated, not followed here: {why}"),
    }
}

/// Prints a frontier, if there is one.
pub(super) fn show_frontier(points: &[FrontierPoint]) {
    if !points.is_empty() {
        println!("\n{}", print::laid_out(&FrontierPoint::table(points)));
    }
}

/// Fails, if a signal ended the search.
fn if_whole(stopped_early: bool, gap: f64) -> anyhow::Result<()> {
    if !stopped_early {
        return Ok(());
    }
    let gap = 100.0 * gap;
    let by = interrupt::name();
    eprintln!("stopped by {by}: this is the best plan so far, within {gap:.2} % of the optimum");
    Err(stopped())
}

/// What was planned.
enum Answer {
    Machine(Box<Planned>),
    Cluster(Box<ClusterPlan>),
}

/// Resolves what is planned for which machine, and plans.
fn plan(args: &ModelArgs) -> anyhow::Result<Answer> {
    args.step.graph.refuse_tuned()?;
    // The parser sees to it, unless a sub-command is given.
    let name = args.model.as_deref();
    let name = name.context("name a model to plan, or a command; see --help")?;
    let this = ThisMachine::look();
    let model = model(Some(name))?;
    let mut machine = args.machine.load(&this)?;
    if !args.states {
        let (without, why) = machine.with_states_that_run(&this);
        machine = without;
        if let Some(why) = why {
            print::warning(&format!(
                "planned without frequency states, which cannot be set here ({why}); --states plans with them all the \
                 same"
            ));
        }
    }
    for path in args.files() {
        if !print::is_stdout(path) {
            check_writable(path)?;
        }
    }
    let here = this.is(&machine.machine);
    let step = args.step.step_on(model, &this, here, Some(&machine))?;
    let progress: Arc<Progress> = Arc::default();
    let found = progress.clone();
    let options = PlanOptions {
        goal: Goal {
            objective: match args.objective {
                Aim::Energy => Objective::Energy,
                Aim::Time => Objective::Time,
                Aim::Edp => Objective::Edp,
            },
            deadline: args.deadline.map(|t| t.0),
        },
        search_grain: args.step.graph.grain.is_none(),
        fixed: args.fixed,
        gap: args.gap,
        time_limit: args.limit(),
        seed: args.search_seed,
        pipeline: args.step.staging(&step)?,
        rounds: u64::MAX,
        stop: interrupt::stop_if(move || found.best().is_some()),
        progress,
    };
    let line = progress_line(&options);
    let answer = match machine.machine.nodes.len() > 1 && !args.as_one {
        true => tune::plan_cluster(&step, &machine, &options).map(|c| Answer::Cluster(c.into())),
        false => tune::plan(&step, &machine, &options).map(|p| Answer::Machine(p.into())),
    };
    line.finish_and_clear();
    Ok(answer?)
}

/// On a terminal, the best plan so far and how far from the optimum it may be.
fn progress_line(options: &PlanOptions) -> ProgressBar {
    let (progress, objective) = (options.progress.clone(), options.goal.objective);
    let best = move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
        let _ = match progress.best() {
            None => write!(out, "no plan yet"),
            Some((cost, gap)) => {
                let cost = objective.show(cost);
                write!(
                    out,
                    "best {cost}, within {:.2} % of the optimum",
                    100.0 * gap
                )
            }
        };
    };
    let style = ProgressStyle::with_template("planning {elapsed} {spinner} {best}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
    let line = ProgressBar::new_spinner().with_style(style.with_key("best", best));
    line.enable_steady_tick(Duration::from_millis(200));
    line
}

impl ModelArgs {
    fn limit(&self) -> Duration {
        Duration::from_secs_f64(self.time_limit.0.min(1e6))
    }

    pub(super) fn output(&self) -> Option<&Path> {
        self.output.as_deref()
    }

    pub(super) fn json(&self) -> bool {
        self.json
    }

    pub(super) fn wants_frontier(&self) -> bool {
        self.frontier.is_some()
    }

    /// Model and settings, as `dahl train` takes them.
    pub(super) fn step_text(&self) -> String {
        let model = self.model.as_deref().unwrap_or(Path::new(""));
        format!("{} {}", model.display(), self.step.repeated())
    }

    fn picture(&self) -> Option<&Path> {
        self.frontier.as_ref().and_then(Option::as_deref)
    }

    /// What is written.
    fn files(&self) -> impl Iterator<Item = &Path> {
        self.output.as_deref().into_iter().chain(self.picture())
    }
}
