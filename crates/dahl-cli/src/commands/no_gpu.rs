//! What stands in for GPUs in a build without the feature `gpu`: none, and how to have them.

use anyhow::bail;
use dahl_core::graph::Extra;
use dahl_core::{Bytes, DType, Machine};
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

/// Adds nothing.
pub fn extra(_: &[usize]) -> Option<Extra> {
    None
}

/// Adds nothing.
pub fn extra_of(_: &Machine, _: bool) -> Option<Extra> {
    None
}

/// Adds nothing.
pub fn kernels() -> Option<Extra> {
    None
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
