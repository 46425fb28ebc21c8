//! The commands, one file each, and what several of them share.

pub mod bench;
pub mod calibrate;
pub mod check;
pub mod energy;
pub mod eval;
mod follow;
pub mod graph;
pub mod machine;
pub mod ops;
pub mod perf;
pub mod plan;
pub mod predict;
mod run_args;
pub mod simulate;
mod step_args;
pub mod trace;
pub mod train;

use anyhow::Context;

/// Refuses a path in a folder that does not exist or cannot be written.
pub fn check_writable(path: &std::path::Path) -> anyhow::Result<()> {
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(std::path::Path::new("."));
    let data =
        std::fs::metadata(folder).with_context(|| format!("cannot write {}", path.display()))?;
    if !data.is_dir() || data.permissions().readonly() || path.is_dir() {
        anyhow::bail!(
            "cannot write {}: not a file in a folder that can be written",
            path.display()
        );
    }
    Ok(())
}
