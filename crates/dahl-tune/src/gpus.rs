//! GPUs as units of a run: found, opened once, measured once, added to runtimes and machines.
//!
//! Devices stay open as long as the process, also if another runtime is made: opening one compiles its
//! kernels. The kernels are kept on disk beside the measurements. A program built without the feature `gpu`
//! has no engine for them: it finds none, and says how to have them.

#[cfg(feature = "gpu")]
mod engine;

use dahl_check::Subject;
use dahl_core::{Bytes, DType, KernelSet, Machine, Rated, Seconds};
use dahl_runtime::Builder;
use serde::Serialize;

use crate::error::TuneError;
use crate::this_machine::ThisMachine;
use crate::units::Gpus;

/// A device as this computer has it.
#[derive(Clone, Debug, Serialize)]
pub struct Gpu {
    /// `gpu:0`.
    pub unit: String,
    /// The device's own name.
    pub name: String,
    /// `OpenCL` or `CUDA`.
    pub library: String,
    /// Platform and driver.
    pub driver: String,
    /// Whether it is a GPU or another accelerator, and not the processor under another name.
    pub accelerator: bool,
    /// Its memory.
    pub memory_bytes: u64,
    /// Whether that is the host's.
    pub shared_memory: bool,
    /// Compute units, or multiprocessors.
    pub compute_units: usize,
    /// Highest clock.
    pub clock_mhz: usize,
    /// Whether it computes in double precision.
    pub f64: bool,
    /// What was measured just now, or why nothing could be.
    #[serde(flatten)]
    pub state: GpuState,
}

/// Whether a device works.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuState {
    /// It does.
    Measured(Box<GpuFigures>),
    /// It does not, for this reason.
    Failure(String),
}

/// Quick figures.
#[derive(Clone, Debug, Serialize)]
pub struct GpuFigures {
    /// From the host.
    pub to_device: LinkFigures,
    /// To the host.
    pub from_device: LinkFigures,
    /// From handing over a task of one element to its end.
    pub launch_seconds: Seconds,
    /// Most bytes of arrays that a run would keep there.
    pub capacity_bytes: Bytes,
    /// Highest rates, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rated: Option<Rated>,
}

/// One direction of a link.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LinkFigures {
    /// Of large copies.
    pub bytes_per_second: f64,
    /// Of small ones.
    pub latency_seconds: Seconds,
}

/// What can be said of a device without opening it.
struct Listed {
    name: String,
    accelerator: bool,
}

/// What finds, opens and measures devices.
trait Engine: Sync {
    fn listed(&self) -> Vec<Listed>;

    /// Why there are not more.
    fn missing(&self) -> Vec<String>;

    /// The kernels that every device has.
    fn kernels(&self) -> KernelSet;

    /// See [`equip`].
    fn equip(&self, machine: &mut Machine, here: bool);

    /// A device with quick figures, and on request its highest rates.
    fn look(&self, number: usize, rated: bool, this: &ThisMachine) -> Gpu;

    /// See [`attach`].
    fn attach(
        &self,
        builder: Builder,
        numbers: &[usize],
        limit: Option<Bytes>,
        dtype: DType,
        this: &ThisMachine,
    ) -> Result<Builder, TuneError>;

    /// See [`subject`].
    fn subject(
        &self,
        number: usize,
        dtype: DType,
        this: &ThisMachine,
        f: &mut dyn FnMut(Subject<'_>),
    ) -> Result<(), TuneError>;
}

/// The engine of this build, if it has one.
const ENGINES: &[&dyn Engine] = &[
    #[cfg(feature = "gpu")]
    &engine::Native,
];

fn engine() -> Option<&'static dyn Engine> {
    ENGINES.first().copied()
}

fn listed() -> Vec<Listed> {
    engine().map_or_else(Vec::new, |e| e.listed())
}

/// The numbers of all devices.
pub fn all() -> Vec<usize> {
    (0..listed().len()).collect()
}

/// The name of a device.
pub(crate) fn name(number: usize) -> Option<String> {
    listed().into_iter().nth(number).map(|d| d.name)
}

/// Why there are not more of them: libraries that are missing, and what to do.
pub fn missing() -> Vec<String> {
    let none = "this program was built without GPUs: build it with `--features gpu`";
    engine().map_or_else(|| vec![none.into()], |e| e.missing())
}

/// The numbers of those that are not the processor under another name.
pub(crate) fn accelerators() -> Vec<usize> {
    let listed = listed();
    (0..listed.len())
        .filter(|&n| listed[n].accelerator)
        .collect()
}

/// The numbers of the devices asked for, all of which exist.
pub(crate) fn numbers(gpus: &Gpus) -> Result<Vec<usize>, TuneError> {
    let none = || format!("there is no GPU here: {}", missing().join("; "));
    let numbers = match gpus {
        Gpus::These(numbers) => numbers.clone(),
        // A processor that is offered as a device competes with the CPU workers: only where there is
        // nothing else.
        Gpus::All if accelerators().is_empty() => all(),
        Gpus::All => accelerators(),
    };
    if let (Gpus::All, true) = (gpus, numbers.is_empty()) {
        return Err(TuneError::Gpu(format!("gpu: {}", none())));
    }
    // Looking for devices takes a moment: not for those who want none.
    if numbers.is_empty() {
        return Ok(numbers);
    }
    let listed = listed();
    if let Some(n) = numbers.iter().find(|n| **n >= listed.len()) {
        if listed.is_empty() {
            return Err(TuneError::Gpu(format!("gpu:{n}: {}", none())));
        }
        let known = listed.iter().enumerate();
        let known: Vec<String> = known
            .map(|(i, d)| format!("gpu:{i} ({})", d.name))
            .collect();
        return Err(TuneError::Gpu(format!(
            "there is no gpu:{n}; there are: {}",
            known.join(", ")
        )));
    }
    Ok(numbers)
}

/// Adds devices, opened for this element type, to a runtime that is being built.
pub(crate) fn attach(
    builder: Builder,
    numbers: &[usize],
    limit: Option<Bytes>,
    dtype: DType,
    this: &ThisMachine,
) -> Result<Builder, TuneError> {
    match engine() {
        Some(engine) => engine.attach(builder, numbers, limit, dtype, this),
        None => Ok(builder),
    }
}

/// The kernels that every device has; none in a build without GPUs.
pub fn kernels() -> KernelSet {
    engine().map(|e| e.kernels()).unwrap_or_default()
}

/// Calls `f` with a device as conformance checks see it.
pub(crate) fn subject<R>(
    number: usize,
    dtype: DType,
    this: &ThisMachine,
    f: impl Fn(Subject<'_>) -> R,
) -> Result<R, TuneError> {
    let mut result = None;
    if let Some(engine) = engine() {
        engine.subject(number, dtype, this, &mut |s| result = Some(f(s)))?;
    }
    result.ok_or_else(|| TuneError::Gpu(format!("gpu:{number}: {}", missing().join("; "))))
}

/// Tells a described machine, which may be this one, what its GPUs can execute.
pub(crate) fn equip(machine: &mut Machine, here: bool) {
    if let Some(engine) = engine() {
        engine.equip(machine, here);
    }
}

/// Describes devices, with quick figures of each, and on request the highest rates that they reach.
pub fn look(numbers: &[usize], rated: bool, this: &ThisMachine) -> Vec<Gpu> {
    let one = |e: &'static dyn Engine| numbers.iter().map(move |&n| e.look(n, rated, this));
    engine().into_iter().flat_map(one).collect()
}
