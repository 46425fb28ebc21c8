//! What commands that run on several nodes share.

use std::path::{Path, PathBuf};

use dahl::core::Joules;
use dahl::energy::Energy;
use dahl::runtime::network::{Member, launched};

use super::Exit;

/// Says who works together.
pub fn announce(member: &Member) {
    if member.nodes() > 1 {
        println!(
            "{} nodes, one graph: {}",
            member.nodes(),
            member.names().join(", ")
        );
    }
}

/// The end of a command on this node: together with the others, or with a word to them why not.
pub fn leave(member: &mut Member, result: anyhow::Result<()>) -> anyhow::Result<()> {
    let failed = match &result {
        Ok(()) => false,
        // All nodes come to the same end, whatever its exit code.
        Err(error) => error.downcast_ref::<Exit>().is_none(),
    };
    if failed {
        if let Err(error) = &result {
            member.leave_because(dahl::core::text::chain(error.as_ref()));
        }
        return result;
    }
    member.finish().map_err(|e| anyhow::anyhow!("{e}"))?;
    result
}

/// What every node has used, with where the figure comes from, and the sum; nothing for a computer alone. All nodes must
/// ask.
pub fn energy(member: &mut Member, own: &Energy) -> anyhow::Result<Option<String>> {
    if member.nodes() == 1 {
        return Ok(None);
    }
    let joules = own.joules().map_or(f64::NAN, |j| j.0);
    let told = [&joules.to_le_bytes()[..], own.to_string().as_bytes()].concat();
    let all = member.gather(&told).map_err(|e| anyhow::anyhow!("{e}"))?;
    let mut total = 0.0;
    let mut lines = Vec::new();
    for (name, told) in member.names().iter().zip(&all) {
        let (joules, text) = told.split_at(8.min(told.len()));
        total += joules.try_into().map_or(f64::NAN, f64::from_le_bytes);
        lines.push(format!("{name}: {}", String::from_utf8_lossy(text)));
    }
    let together = match total.is_nan() {
        true => "not known of all nodes".to_string(),
        false => format!("{} together", Joules(total)),
    };
    Ok(Some(format!("{together}; {}", lines.join("; "))))
}

/// Where this node writes its trace: the others add their number to the name that node 0 has.
pub fn trace_file(path: &Path) -> PathBuf {
    match launched() {
        Some(here) if here.rank > 0 => {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".node{}", here.rank));
            name.into()
        }
        _ => path.to_path_buf(),
    }
}
