//! `dahl trace view`: a trace as a page for the browser.

use std::path::PathBuf;

use anyhow::bail;

use super::load;
use crate::print;

/// Arguments of `dahl trace view`.
#[derive(clap::Args)]
pub struct Args {
    /// A file that `--trace` wrote
    file: PathBuf,
    /// Where to write the page; `-` is standard output. If left out, beside the trace: `run.trace`
    /// becomes `run.html`
    #[arg(short, long)]
    output: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let trace = load(&args.file)?;
    let beside = args.file.with_extension("html");
    let output = args.output.as_deref().unwrap_or(&beside);
    let name = output.display();
    if let (Ok(a), Ok(b)) = (args.file.canonicalize(), output.canonicalize())
        && a == b
    {
        bail!("the page would replace the trace {name}; name another file with -o");
    }
    print::write(output, |out| dahl::trace::view::write(&trace, out))?;
    if !print::is_stdout(output) {
        println!("{name}: {} tasks; open it in a browser", trace.tasks.len());
    }
    Ok(())
}
