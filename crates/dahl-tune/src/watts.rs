//! What units draw, for where nothing can be measured: as a machine says, or stated defaults.

use dahl_core::{Machine, Power, UnitKind, Watts};
use dahl_energy::WattsModel;

use crate::error::TuneError;
use crate::gpus;

/// Watts of a GPU that computes, and that waits: a card of the middle class, NVIDIA's figure for the RTX
/// 4060 and what reviews measure of an idle one. The same as in `machines/rammus.toml`.
pub(crate) const CARD: Power = Power {
    idle: Watts(12.0),
    busy: Watts(115.0),
};

/// What the cores of a machine draw.
pub fn core_watts(machine: &Machine) -> Result<WattsModel, TuneError> {
    let cores = machine.units.iter().filter(|u| u.kind == UnitKind::CPU);
    let each = cores.map(|u| u.power.map(|p| (p.busy, p.idle)));
    let each: Option<Vec<_>> = each.collect();
    let model = each.and_then(|each| WattsModel::of_units(&each, machine.base()));
    model.ok_or_else(|| {
        let name = &machine.name;
        TuneError::Machine(format!(
            "machine {name:?} does not say what its cores draw: give them idle_watts and busy_watts"
        ))
    })
}

/// What GPUs draw, for where no card can be measured: as a machine says of its own, or the stated
/// defaults. None if all of them are the processor under another name, whose CPU time is counted.
pub(crate) fn gpu_watts(numbers: &[usize], machine: Option<&Machine>) -> Option<WattsModel> {
    if numbers.is_empty() {
        return None;
    }
    let real = gpus::accelerators();
    let cards = numbers.iter().filter(|n| real.contains(n)).count();
    let units = machine.into_iter().flat_map(|m| &m.units);
    let each = units.filter(|u| u.kind == UnitKind::GPU);
    let each: Vec<_> = each
        .filter_map(|u| u.power)
        .map(|p| (p.busy, p.idle))
        .collect();
    let usual = || WattsModel {
        busy: CARD.busy,
        idle: CARD.idle,
        units: 1,
        unit: "gpu".into(),
        base: Watts(0.0),
    };
    let one = WattsModel::of_units(&each, Watts(0.0)).unwrap_or_else(usual);
    (cards > 0).then(|| WattsModel {
        units: cards,
        unit: "gpu".into(),
        ..one
    })
}
