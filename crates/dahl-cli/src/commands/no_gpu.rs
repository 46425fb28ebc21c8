//! What stands in for GPUs in a build without the feature `gpu`: none, and how to have them.

use anyhow::bail;
use dahl_check::Subject;
use dahl_core::{Bytes, DType, KernelSet, Machine};
use dahl_runtime::Builder;

use super::machine::gpus::Gpu;
use super::units::Gpus;

const WITHOUT: &str = "this program was built without GPUs: build it with `--features gpu`";

/// Why there are no devices.
pub fn missing() -> Vec<String> {
    vec![WITHOUT.into()]
}

/// Refuses any.
pub fn numbers(gpus: &Gpus) -> anyhow::Result<Vec<usize>> {
    match gpus {
        Gpus::These(numbers) if numbers.is_empty() => Ok(Vec::new()),
        _ => bail!("{WITHOUT}"),
    }
}

/// Adds none.
pub fn add(builder: Builder, _: &[usize], _: Option<Bytes>, _: DType) -> anyhow::Result<Builder> {
    Ok(builder)
}

/// Refuses any.
pub fn subject<R>(_: usize, _: DType, _: impl FnOnce(Subject<'_>) -> R) -> anyhow::Result<R> {
    bail!("{WITHOUT}")
}

/// Says nothing.
pub fn equip(_: &mut Machine, _: bool) {}

/// None.
pub fn kernels() -> KernelSet {
    KernelSet::default()
}

/// None.
pub fn all() -> Vec<usize> {
    Vec::new()
}

/// None.
pub fn accelerators() -> Vec<usize> {
    Vec::new()
}

/// None.
pub fn look(_: &[usize], _: bool) -> Vec<Gpu> {
    Vec::new()
}
