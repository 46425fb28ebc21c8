//! `dahl experiment run`: runs, goes on, reports. Exit codes: 0 all measured, 3 something failed or stayed disturbed,
//! 130 and 143 stopped by a signal with everything kept.

use std::path::PathBuf;

use anyhow::Context;
use dahl::core::Seconds;
use dahl::experiment::{Environment, Experiment, ExperimentError, Machine, Session, SessionEvent};
use indicatif::{ProgressBar, ProgressStyle};

use super::ChangeArgs;
use crate::commands::{Exit, stopped};
use crate::{interrupt, print};

/// Arguments of `dahl experiment run`.
#[derive(clap::Args)]
pub struct Args {
    /// The experiment: a file, or the name of a shipped one
    #[arg(required_unless_present = "resume")]
    file: Option<PathBuf>,
    /// The folder of the session [default: the experiment's name and a number]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Go on with a session that was stopped
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "output", "only", "blocks", "shorter", "noisy", "others", "meters"])]
    resume: Option<PathBuf>,
    #[command(flatten)]
    changes: ChangeArgs,
    /// Run although the tree differs from its commit; the difference is kept
    #[arg(long)]
    allow_dirty: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let program = std::env::current_exe()?;
    let mut session = match &args.resume {
        Some(folder) => {
            let session = Session::open(folder)?;
            session.check_environment(&look(&program, &session.experiment.text)?)?;
            session
        }
        None => begin(args, &program)?,
    };
    // Paths of commands are looked for above the session, and above the file it came from.
    let folder = args.file.as_ref().map_or(session.folder.clone(), |f| {
        f.canonicalize().unwrap_or_else(|_| f.clone())
    });
    let folder = if folder.starts_with("/") {
        folder
    } else {
        std::env::current_dir()?.join(folder)
    };
    let meter = session.changes.meter()?;
    let mut machine = Machine::new(
        &session.experiment,
        &folder,
        &program,
        &meter,
        interrupt::stop(),
    );
    machine.prepare()?;
    interrupt::keep();
    let bar = ProgressBar::new(session.status().planned as u64);
    bar.set_style(ProgressStyle::with_template("{bar:24} {pos}/{len} {msg}")?);
    let outcome = session.run(&mut machine, &mut |event| tell(&bar, &event));
    bar.finish_and_clear();
    if let Err(why) = outcome {
        let s = session.status();
        eprintln!(
            "stopped after {} of {} runs; go on with: dahl experiment run --resume {}",
            s.done,
            s.planned,
            session.folder.display()
        );
        return match why {
            ExperimentError::Stopped => Err(stopped()),
            other => Err(other.into()),
        };
    }
    let page = session.report().with_context(|| {
        let folder = session.folder.display();
        format!("all rows are kept, and `dahl experiment report {folder}` makes the page of them")
    })?;
    print::report(&session.shown());
    println!("{}", page.display());
    let lost = session.unmeasured();
    match lost.is_empty() {
        true => Ok(()),
        false => {
            for (cell, why) in lost.iter().take(10) {
                print::warning(&format!("{cell}: {why}"));
            }
            Err(Exit(3).into())
        }
    }
}

fn look(program: &std::path::Path, text: &str) -> anyhow::Result<Environment> {
    Ok(Environment::look(program, &std::env::current_dir()?, text))
}

fn begin(args: &Args, program: &std::path::Path) -> anyhow::Result<Session> {
    let file = args.file.as_ref().expect("clap asks for it");
    let experiment = Experiment::find(file)?;
    let environment = look(program, &experiment.text)?;
    anyhow::ensure!(
        args.allow_dirty || !environment.is_dirty(),
        "the tree differs from its commit, so that nobody could repeat this: commit, or use --allow-dirty, which keeps the difference"
    );
    let given = args.output.clone();
    let folder = given.unwrap_or_else(|| experiment.free_folder());
    Ok(Session::create(
        &folder,
        experiment,
        &args.changes.changes()?,
        environment,
    )?)
}

fn tell(bar: &ProgressBar, event: &SessionEvent<'_>) {
    let left = |s: &dahl::experiment::Status| format!("{} left", Seconds(s.left.round()));
    match event {
        SessionEvent::Idle(s) => bar.set_message(format!("{}, idle power", left(s))),
        SessionEvent::Begins(s, cell) => bar.set_message(format!("{}, {cell}", left(s))),
        SessionEvent::Ended(s, run) => {
            bar.set_length(s.planned as u64);
            bar.set_position(s.done as u64);
            if let Some(why) = run.failed.as_ref().or(run.disturbed.as_ref()) {
                bar.println(format!(
                    "block {}, {}: {why}",
                    run.block + 1,
                    dahl::experiment::cell_name(&run.levels)
                ));
            }
        }
    }
}
