//! A run beside the plan that it followed, for people.

use dahl::core::{Bytes, Joules, Seconds};
use dahl::plan::PlanFile;
use dahl::tune::Followed;

use crate::print;

/// Prints predictions beside measurements.
pub fn show(followed: &Followed, plan: &PlanFile) {
    let mut table = print::table(&["of a step", "predicted", "measured", "difference"]);
    let mut add = |what: &str, pair: [Option<f64>; 2], text: fn(f64) -> String| {
        let share = match pair {
            [Some(a), Some(b)] if a > 0.0 => format!("{:+.1} %", 100.0 * (b / a - 1.0)),
            _ => String::new(),
        };
        let [a, b] = pair.map(|v| v.map_or("unknown".into(), text));
        table.add_row([what.into(), a, b, share]);
    };
    let time = |v: f64| Seconds(v).to_string();
    add("step time, pipelined", followed.step_seconds, time);
    add(
        "step time, rescaled to measured unit speeds",
        followed.rescaled_seconds,
        time,
    );
    add("step time, isolated", followed.isolated_seconds, time);
    for (unit, &pair) in plan.units.iter().zip(&followed.busy_seconds) {
        add(&format!("{} works", unit.name), pair, time);
    }
    let bytes = followed.peak_bytes.map(|b| Some(b as f64));
    add("memory of arrays", bytes, |b| Bytes(b as u64).to_string());
    add("energy", followed.joules, |j| Joules(j).to_string());
    print::align_right(&mut table, 1..=3);
    println!("{table}");
    match followed.fidelity {
        Some(part) => print!(
            "{:.1} % of the recorded tasks ran on their unit in their order",
            100.0 * part
        ),
        None => print!("no step was recorded whole: --trace F with more --trace-events keeps more"),
    }
    println!("; energy {}", followed.joules_source);
}
