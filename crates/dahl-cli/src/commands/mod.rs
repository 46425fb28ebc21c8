//! The commands, one file each.

pub mod bench;
pub mod calibrate;
pub mod check;
pub mod energy;
pub mod eval;
mod follow;
#[cfg_attr(not(feature = "gpu"), path = "no_gpu.rs")]
mod gpu;
pub mod graph;
pub mod machine;
mod measure;
pub mod ops;
pub mod perf;
pub mod plan;
mod profile;
mod rhythm;
mod run_options;
pub mod simulate;
mod stretches;
pub mod trace;
pub mod train;
mod tune;
mod units;

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
