//! `dahl plan MODEL --machine F` where the machine has several nodes: which of them take part, and with what share.

use std::path::Path;
use std::time::Duration;

use dahl::core::{Joules, Seconds};
use dahl::tune::{ClusterPlan, ThisMachine};

use super::{explain, model};
use crate::print;

/// Prints a plan, and writes it if a file was asked for.
pub fn report(args: &model::ModelArgs, found: &ClusterPlan, taken: Duration) -> anyhow::Result<()> {
    if let Some(path) = args.output() {
        let text = match &found.alone {
            Some(planned) => planned.plan.file.to_json(),
            None => serde_json::to_string_pretty(found)?,
        };
        print::write(path, |out| out.write_all(text.as_bytes()))?;
    }
    if args.json() {
        let mut value = serde_json::to_value(found)?;
        if let Some(planned) = &found.alone {
            value["plan"] = serde_json::to_value(&planned.plan.file)?;
        }
        return print::json(&value);
    }
    if args.output().is_some_and(print::is_stdout) {
        return Ok(());
    }
    show(found, taken);
    if args.wants_frontier() {
        model::show_frontier(&found.frontier);
    }
    if let Some(planned) = &found.alone {
        println!();
        explain::show(&planned.plan.file);
    }
    println!("{}", how_to_follow(args, found));
    Ok(())
}

fn show(found: &ClusterPlan, taken: Duration) {
    let on: Vec<&str> = found
        .nodes
        .iter()
        .filter(|n| n.share > 0.0)
        .map(|n| &*n.name)
        .collect();
    match &on[..] {
        [one] => println!("one machine is best: {one} alone, the others take no part"),
        many => println!("{} of {} nodes take part", many.len(), found.nodes.len()),
    }
    println!(
        "expected of a run: {} and {} per step; gap {:.2} % to what no nodes, shares and states can beat; grain {}; {:.1} s\n",
        found.seconds,
        found.joules,
        100.0 * found.gap,
        found.grain,
        taken.as_secs_f64()
    );
    let mut nodes = print::table(&["node", "share", "state", "power"]);
    for node in &found.nodes {
        nodes.add_row([
            node.name.clone(),
            format!("{:.1} %", 100.0 * node.share),
            match node.state {
                0 => "usual".into(),
                state => state.to_string(),
            },
            if node.on { "on" } else { "off" }.into(),
        ]);
    }
    print::align_right(&mut nodes, 1..=1);
    println!("{nodes}\n");
    let mut rows = print::table(&["compared with", "time", "energy", "saved"]);
    for other in &found.alternatives {
        let (Seconds(seconds), Joules(joules)) = (other.seconds, other.joules);
        rows.add_row([
            other.name.clone(),
            Seconds(seconds).to_string(),
            Joules(joules).to_string(),
            format!("{:.1} %", 100.0 * (1.0 - found.joules.0 / joules)),
        ]);
    }
    print::align_right(&mut rows, 1..=3);
    println!("{rows}");
}

fn how_to_follow(args: &model::ModelArgs, found: &ClusterPlan) -> String {
    let step = args.step_text();
    let on = found.nodes.iter().filter(|n| n.share > 0.0);
    let (names, shares): (Vec<&str>, Vec<String>) = on
        .clone()
        .map(|n| (&*n.name, format!("{:.4}", n.share)))
        .unzip();
    if on.clone().any(|n| n.state > 0) {
        return "It can be simulated, not followed: it has frequency states".into();
    }
    match (&found.alone, args.output()) {
        (Some(planned), path) => match planned.plan.check_states(&ThisMachine::look()) {
            Err(why) => format!("It can be simulated, not followed: {why}"),
            Ok(()) => {
                let file = path.unwrap_or(Path::new("plan.json")).display();
                format!(
                    "To follow it, on {}: dahl train {step} --plan {file}",
                    names.join(", ")
                )
            }
        },
        (None, _) if found.stages.is_some() => format!(
            "To follow it: mpirun -n {} --host {} dahl train {step} {}",
            names.len(),
            names.join(","),
            found.stages.as_deref().unwrap_or_default()
        ),
        (None, _) => format!(
            "To follow it: mpirun -n {} --host {} dahl train {step} --grain {} --policy {} --shares {}",
            names.len(),
            names.join(","),
            found.grain,
            found.policy,
            shares.join(":")
        ),
    }
}
