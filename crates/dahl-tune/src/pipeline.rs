//! A step as a profile of its layers: what partitioning a pipeline starts from.
//!
//! Durations are those that simulations and plans go by: measured here where the machine is this computer, else from
//! costs and rated speeds. The units of a memory work on a layer together, and share it without loss. Layers that run
//! as one are one layer of the profile.

use std::collections::HashMap;

use dahl_core::{Graph, Machine, MemoryId, UnitId};
use dahl_nn::Step;
use dahl_plan::pipeline::{Layer, Platform, Profile};

use crate::error::TuneError;
use crate::machine_model::{Durations, MachineModel};

/// The layers of a step, timed on the machine's fastest memory, and the machine as a platform with speeds relative to
/// that one. `memory` limits every unit, beside what the machine says.
///
/// # Errors
/// If the step cannot be lowered or the machine does not say how fast it is.
pub fn profile_layers(
    step: &Step,
    model: &MachineModel,
    memory: Option<f64>,
) -> Result<(Profile, Platform), TuneError> {
    let graph = step.lower()?.graph;
    let durations = model.durations(&graph, "dmda")?;
    let machine = &model.machine;
    let places = 0..machine.memories.len();
    let totals = places.map(|m| total(&graph, &durations, MemoryId(m as u16)));
    let totals: Vec<Option<f64>> = totals.collect();
    let able = totals
        .iter()
        .enumerate()
        .filter_map(|(m, t)| Some((m, (*t)?)));
    let fastest = able.min_by(|a, b| a.1.total_cmp(&b.1));
    let Some((place, least)) = fastest else {
        let name = &machine.name;
        let text = format!("no memory of {name} has units that can run the whole step");
        return Err(TuneError::Machine(text));
    };
    let profile = profile(step, &graph, &durations, MemoryId(place as u16))?;
    let able = |m: usize| totals[m].is_some();
    let mut platform = Platform::of(&only(machine, able), memory)?;
    for unit in &mut platform.units {
        let m = machine.memories.iter().position(|m| m.name == unit.name);
        unit.speed = m.and_then(|m| totals[m]).map_or(1.0, |t| least / t);
    }
    Ok((profile, platform))
}

/// The machine without units whose memory cannot take a stage.
fn only(machine: &Machine, able: impl Fn(usize) -> bool) -> Machine {
    let mut machine = machine.clone();
    machine.units.retain(|u| able(usize::from(u.memory.0)));
    machine
}

/// Seconds of a kind of task if the units of a memory share it.
fn shared(durations: &Durations, class: u32, place: MemoryId) -> Option<f64> {
    let units = durations.machine.units.iter().enumerate();
    let units = units.filter(|(_, u)| u.memory == place);
    let rates = units.filter_map(|(u, _)| durations.times.get(class, UnitId(u as u16)));
    // A task of no length is done by anybody.
    let rate: f64 = rates.map(|t| 1.0 / t.0.max(1e-12)).sum();
    (rate > 0.0).then(|| 1.0 / rate)
}

fn total(graph: &Graph, durations: &Durations, place: MemoryId) -> Option<f64> {
    let classes = 0..graph.classes.len() as u32;
    let known: Option<Vec<f64>> = classes.map(|c| shared(durations, c, place)).collect();
    let known = known?;
    Some(graph.tasks.iter().map(|t| known[t.class as usize]).sum())
}

fn profile(
    step: &Step,
    graph: &Graph,
    durations: &Durations,
    place: MemoryId,
) -> Result<Profile, TuneError> {
    let mut seconds: HashMap<&str, f64> = HashMap::new();
    for task in &graph.tasks {
        let section = graph.sections[task.section as usize].as_str();
        let time = shared(durations, task.class, place).unwrap_or(0.0);
        *seconds.entry(section).or_default() += time;
    }
    let model = &step.model;
    let element = step.dtype.size() as f64;
    let parameters = |layers: std::ops::RangeInclusive<usize>| -> f64 {
        let params = model.params().iter().filter(|p| layers.contains(&p.layer));
        params.map(|p| p.len() as f64 * element).sum()
    };
    let all = parameters(0..=model.layers.len());
    let update = seconds.get("update").copied().unwrap_or(0.0);
    let (mut layers, mut edges) = (Vec::new(), Vec::new());
    // The layer of the profile that makes each value; the model's input is made by none.
    let mut maker: Vec<Option<usize>> = vec![None];
    let mut first = 0;
    while first < model.layers.len() {
        let (last, label) = group(step, &seconds, first);
        let bytes = parameters(first..=last);
        let of = |section: &str| seconds.get(section).copied().unwrap_or(0.0);
        let share = if all > 0.0 { bytes / all } else { 0.0 };
        let reads = model.layers[first].from.iter().filter_map(|&v| maker[v]);
        edges.extend(reads.map(|u| (u, layers.len())));
        layers.push(Layer {
            what: model.layers[first].layer.name().to_owned(),
            forward: of(&label),
            backward: of(&format!("{label} backward")) + update * share,
            activation: (model.extents()[last + 1].len() * step.batch) as f64 * element,
            parameters: bytes,
            name: label,
        });
        maker.resize(last + 2, Some(layers.len() - 1));
        first = last + 1;
    }
    if let Some(last) = layers.last_mut() {
        last.backward += seconds.get("loss").copied().unwrap_or(0.0);
    }
    Ok(Profile::new(layers, &edges)?)
}

/// The last of the layers that run as one with a first, and what they are called in graphs.
fn group(step: &Step, sections: &HashMap<&str, f64>, first: usize) -> (usize, String) {
    let model = &step.model;
    let alone = model.label(first);
    let end = (first + 4).min(model.layers.len());
    let mut joined = (first + 1..end).map(|last| {
        let label = format!("{alone}..{}", model.label(last));
        (last, label)
    });
    joined
        .find(|(_, label)| sections.contains_key(label.as_str()))
        .unwrap_or((first, alone))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dahl_nn::models;

    #[test]
    fn layers_add_up_to_the_step() {
        let text = include_str!("../../../machines/two-nodes.toml");
        let machine = Machine::from_toml(text, "two-nodes.toml").unwrap();
        let model = MachineModel::from(machine);
        for name in ["lenet5", "resnet18-32"] {
            let step = Step::new(models::find(name.as_ref()).unwrap()).batch(16);
            let (profile, platform) = profile_layers(&step, &model, None).unwrap();
            let graph = step.lower().unwrap().graph;
            let durations = model.durations(&graph, "dmda").unwrap();
            let all = total(&graph, &durations, MemoryId(1)).unwrap();
            let layers = profile.layers.iter().map(|l| l.forward + l.backward);
            let sum: f64 = layers.sum();
            assert!((sum / all - 1.0).abs() < 1e-9, "{name}: {sum} of {all}");
            let parameters: f64 = profile.layers.iter().map(|l| l.parameters).sum();
            assert!(parameters >= 4.0 * step.model.parameter_count() as f64);
            assert_eq!(platform.units.len(), 3);
            assert_eq!(platform.units[1].speed, 1.0, "{platform:?}");
            // Layers that run as one, and those that add two values, have their places.
            assert!(profile.layers.len() < step.model.layers.len());
            assert!(profile.reads[1..].iter().all(|r| !r.is_empty()));
        }
    }
}
