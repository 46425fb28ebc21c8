//! `dahl plan MODEL --machine F` where the machine has several nodes: which of them take part, and with what share.

use std::path::Path;
use std::time::Duration;

use dahl::plan::explain::report as explain;
use dahl::tune::{ClusterPlan, ThisMachine};

use super::model;
use crate::print;

/// Prints a plan, and writes it if a file was asked for.
pub fn report(args: &model::ModelArgs, found: &ClusterPlan, taken: Duration) -> anyhow::Result<()> {
    if let Some(path) = args.output() {
        let text = match &found.alone {
            Some(planned) => planned.plan.file.to_json(),
            None => serde_json::to_string_pretty(found)?,
        };
        print::write_text(path, &text)?;
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
    print::report(&found.report(taken));
    if args.wants_frontier() {
        model::show_frontier(&found.frontier);
    }
    if let Some(planned) = &found.alone {
        println!();
        print::report(&explain(&planned.plan.file));
    }
    println!("{}", how_to_follow(args, found));
    Ok(())
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
        (None, Some(path)) => format!(
            "To follow it: mpirun -n {} --host {} dahl train {step} --plan {}",
            names.len(),
            names.join(","),
            path.display()
        ),
        (None, None) if found.stages.is_some() => format!(
            "To follow it: mpirun -n {} --host {} dahl train {step} {}",
            names.len(),
            names.join(","),
            found.stages.as_deref().unwrap_or_default()
        ),
        (None, None) => format!(
            "To follow it: mpirun -n {} --host {} dahl train {step} --grain {} --policy {} --shares {}",
            names.len(),
            names.join(","),
            found.grain,
            found.policy,
            shares.join(":")
        ),
    }
}
