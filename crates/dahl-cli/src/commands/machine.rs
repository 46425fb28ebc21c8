//! `dahl machine`: what this computer has.

use dahl_runtime::discover;

use crate::print;

/// Arguments of `dahl machine`.
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let host = discover::host();
    if args.json {
        return print::json(&host);
    }
    println!(
        "{} ({}, {})",
        host.processor, host.architecture, host.system
    );
    println!(
        "vector instructions: {}\n",
        or_none(&host.features.join(" "))
    );

    let mut units = print::table(&["unit", "kind", "memory", "core"]);
    for (i, core) in host.cores.iter().enumerate() {
        units.add_row([
            format!("cpu:{i}"),
            "cpu".into(),
            "host".into(),
            core.to_string(),
        ]);
    }
    println!("{units}\n");

    let mut memories = print::table(&["memory", "size", "free now"]);
    let size = |b: Option<u64>| b.map_or("unknown".into(), |b| dahl_core::Bytes(b).to_string());
    memories.add_row([
        "host".into(),
        size(host.memory_total),
        size(host.memory_available),
    ]);
    println!("{memories}\n");

    if host.caches.is_empty() {
        println!("caches: this system does not say");
    } else {
        let mut caches = print::table(&["cache", "size", "line", "shared by cores"]);
        for c in &host.caches {
            let name = format!("L{} {}", c.level, c.kind.to_lowercase());
            caches.add_row([
                name,
                dahl_core::Bytes(c.bytes).to_string(),
                format!("{} B", c.line),
                c.shared.clone(),
            ]);
        }
        println!("{caches}");
    }
    println!();

    let mut measured = print::table(&["what can be measured here", "", "how to allow it"]);
    for m in &host.measurable {
        let state = if m.available { "yes" } else { "no" };
        measured.add_row([m.what.as_str(), state, m.remedy.as_str()]);
    }
    println!("{measured}");
    Ok(())
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none known" } else { text }
}
