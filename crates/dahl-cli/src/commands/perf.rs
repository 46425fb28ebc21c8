//! `dahl perf`: how long each codelet takes, by implementation, unit and shape, against what this machine
//! can do; which implementation is chosen, and why.

use dahl::tune::{ThisMachine, perf_overview, perf_rows, perf_shapes};

use crate::print;

/// Arguments of `dahl perf`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    /// One codelet, shape by shape [default: all, summed up]
    codelet: Option<String>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    /// Draw the durations of the codelet into this file
    #[arg(long, value_name = "F.svg", requires = "codelet")]
    svg: Option<std::path::PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Forget all durations and the profile of this machine
    Reset,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let this = ThisMachine::look();
    if let Some(Command::Reset) = args.command {
        for path in this.forget()? {
            println!("removed {}", path.display());
        }
        return Ok(());
    }
    let (model, warning) = dahl::runtime::perf_store::load(&this.times_path()?)?;
    if let Some(warning) = warning {
        print::warning(&warning.to_string());
    }
    let profile = this.profile()?;
    let mut rows = perf_rows(&model, profile.as_ref());
    if let Some(name) = &args.codelet {
        let all: std::collections::BTreeSet<String> =
            rows.iter().map(|r| r.codelet.clone()).collect();
        rows.retain(|r| r.codelet == *name);
        if rows.is_empty() && !all.is_empty() {
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            anyhow::bail!(
                "no durations of a codelet {name}; there are: {}",
                all.join(", ")
            );
        }
    }
    if let (Some(path), Some(codelet)) = (&args.svg, &args.codelet) {
        let picture = dahl::durations_chart(codelet, &rows).svg();
        print::write_text(path, &picture)?;
    }
    if args.json {
        return print::json(&rows);
    }
    if rows.is_empty() {
        println!("nothing has been timed here yet: run `dahl calibrate`");
        return Ok(());
    }
    let (report, indent) = match &args.codelet {
        None => (perf_overview(&rows), 0),
        Some(_) => (perf_shapes(&model, &rows, profile.as_ref()), 2),
    };
    print::sections(report.heads, &report.sections);
    for line in &report.notes {
        print::folded(line, indent);
    }
    if let Some(picture) = report.picture {
        println!("\n{picture}");
    }
    Ok(())
}
