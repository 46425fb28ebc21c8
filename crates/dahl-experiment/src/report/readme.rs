//! The folder's README: what it is, what is in it, how to repeat it.

use crate::session::Session;

pub(super) fn readme(session: &Session) -> String {
    let e = &session.experiment;
    let facts = &session.environment.facts;
    let fact = |name: &str| facts.get(name).map_or("unknown", String::as_str);
    let notes: Vec<String> = session.notes().iter().map(|n| format!("- {n}")).collect();
    format!(
        "# {}\n\n{}\n\n{}\n\n## How to repeat\n\nCommit `{}` (changes beside it: {}), {}, kernel {}, on {} ({} cores):\n\n```sh\ncargo build --release\ntarget/release/dahl experiment run experiment.toml -o again{}\ntarget/release/dahl experiment compare . again\n```\n\n## What is here\n\n| File | What |\n|---|---|\n| `report.html` | everything on one page |\n| `experiment.toml`, `session.json` | the description, and what the command line changed |\n| `order.csv` | the order of all runs, written before the first |\n| `environment.json`, `changes.diff` | machine, commit, compiler, variables; what differs from the commit |\n| `rows.jsonl` | raw rows; all the rest is made of them by `dahl experiment report` |\n| `runs.csv`, `summary.csv` | rows as a tidy table; medians with 95 % intervals |\n| `figures/`, `tables/`, `pgf/` | SVG; LaTeX; pgfplots |\n| `paper.tex` | a LaTeX document of all tables and figures: `pdflatex paper` |\n",
        e.name,
        e.question,
        notes.join("\n"),
        fact("commit"),
        fact("dirty"),
        fact("rustc"),
        fact("kernel"),
        fact("cpu"),
        fact("cores"),
        session.changes.options(),
    )
}
