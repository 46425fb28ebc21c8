//! Runs cases by the reference and by another implementation, on the host or on a device, and compares.

use std::cell::Cell;
use std::slice::from_ref;
use std::time::Instant;

use dahl_core::arena::Block;
use dahl_core::operands::Placed;
use dahl_core::{
    Access, Call, Codelet, DType, Element, Implementation, Operands, Seconds, Shape, UnitKind,
};
use dahl_ops::compare;
use dahl_runtime::driver::{Code, Driver, Job};
use dahl_runtime::memory::{Backing, Buffer, Cargo, Direction};

use super::cases::cases;
use super::dice::Dice;
use super::operand::{Case, Held, Operand};

/// How an implementation of a codelet fared.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The codelet.
    pub codelet: String,
    /// The implementation.
    pub implementation: String,
    /// The element type.
    pub dtype: DType,
    /// How many cases were tried.
    pub cases: usize,
    /// Whether it is the codelet's only one, so that nothing but equal bits could be checked.
    pub alone: bool,
    /// The largest error of all cases; none if every bit is the reference's.
    pub worst: Option<Worst>,
    /// How long the first case takes, which is the largest, the second time.
    pub seconds: Seconds,
    /// The first case that failed, and how.
    pub failure: Option<String>,
}

/// An error, and where it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst {
    /// In units of the last place of the larger of the expected value and the root mean square of all.
    pub ulps: f64,
    /// The case.
    pub case: usize,
    /// The operand.
    pub operand: usize,
    /// The element of its array.
    pub element: usize,
}

/// A device to check: how it executes, and where its operands are.
#[derive(Clone, Copy)]
pub struct Subject<'s> {
    /// How it executes tasks.
    pub driver: &'s dyn Driver,
    /// Where copies are kept, and how bytes get there.
    pub memory: &'s dyn Backing,
}

impl<'s> Subject<'s> {
    /// What it runs for a call, and under which name; none if it cannot.
    fn code<'c>(&self, codelet: &'c Codelet, call: &Call) -> Option<(Code<'c>, &'static str)> {
        match self.driver.kernels() {
            Some(kernels) => {
                let (place, kernel) = kernels.find(&codelet.name, call)?;
                Some((Code::Kernel(place), kernel.name))
            }
            None => {
                let kind = self.driver.kind();
                let able = |i: &&Implementation| i.kind == kind && (i.supports)(call);
                let own = codelet.implementations.iter().find(able)?;
                Some((Code::Body(own), own.name))
            }
        }
    }

    /// The name of what it has for a codelet, whatever the call; none if it has nothing.
    fn name(&self, codelet: &Codelet) -> Option<&'static str> {
        let own = || codelet.implementations.iter();
        match self.driver.kernels() {
            Some(kernels) => {
                let mut of = kernels.iter().filter(|k| k.codelet == codelet.name);
                of.next().map(|k| k.name)
            }
            None => {
                let mut of_kind = own().filter(|i| i.kind == self.driver.kind());
                of_kind.next().map(|i| i.name)
            }
        }
    }
}

/// What is checked.
enum Checked<'s> {
    Device(Subject<'s>),
    Cpu(&'s Implementation),
}

impl Checked<'_> {
    fn supports(&self, codelet: &Codelet, call: &Call) -> bool {
        match self {
            Checked::Device(subject) => subject.code(codelet, call).is_some(),
            Checked::Cpu(i) => (i.supports)(call),
        }
    }

    /// Whether there is nothing to compare it with.
    fn is_the_reference_of(&self, codelet: &Codelet) -> bool {
        let mut others = codelet.implementations.iter();
        let cpu = |i: &Implementation| i.kind == UnitKind::CPU;
        let plain = others.find(|i| cpu(i) && i.name == "reference");
        let first = || codelet.implementations.iter().find(|i| cpu(i));
        let plain = plain.or_else(first);
        matches!(self, Checked::Cpu(i) if plain.is_some_and(|p| p.name == i.name))
    }

    /// What it makes of these arrays, and how long that takes.
    fn run(
        &self,
        codelet: &Codelet,
        call: &Call,
        before: &[Held],
    ) -> Result<(Vec<Held>, Seconds), String> {
        match self {
            Checked::Device(subject) => on_device(subject, codelet, call, before),
            Checked::Cpu(i) => {
                let arrays = before.iter().map(Held::copy);
                let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
                let seconds = on_host(i, call, &arrays)?;
                Ok((arrays, seconds))
            }
        }
    }
}

/// Relative error allowed, against the larger of an expected value and the root mean square of all.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => 1e-5,
        DType::F64 => 1e-12,
    }
}

/// Checks every codelet of `dahl-ops` on a device, in one element type.
pub fn check_all(subject: Subject<'_>, dtype: DType, seed: u64) -> Vec<Outcome> {
    let all = dahl_ops::codelets::TABLE.iter();
    all.map(|c| check(subject, c, dtype, seed)).collect()
}

/// Checks one codelet on a device. One that the device has nothing for has failed.
pub fn check(subject: Subject<'_>, codelet: &Codelet, dtype: DType, seed: u64) -> Outcome {
    match subject.name(codelet) {
        Some(name) => examine(&Checked::Device(subject), name, codelet, dtype, seed),
        None => {
            let kind = subject.driver.kind();
            Outcome {
                codelet: codelet.name.clone(),
                implementation: kind.to_string(),
                dtype,
                cases: 0,
                alone: false,
                worst: None,
                seconds: Seconds(0.0),
                failure: Some(format!("{}: no kernel for {kind}", codelet.name)),
            }
        }
    }
}

/// Checks every other CPU implementation of a codelet against its reference. One that supports none of
/// the cases has tried none.
pub fn check_cpu(codelet: &Codelet, dtype: DType, seed: u64) -> Vec<Outcome> {
    let all = codelet.implementations.iter();
    all.filter(|i| i.kind == UnitKind::CPU && i.name != "reference")
        .map(|i| examine(&Checked::Cpu(i), i.name, codelet, dtype, seed))
        .collect()
}

fn examine(
    checked: &Checked<'_>,
    name: &str,
    codelet: &Codelet,
    dtype: DType,
    seed: u64,
) -> Outcome {
    let mut dice = Dice::new(seed);
    let all = cases(&codelet.name, dtype, &mut dice);
    let mut outcome = Outcome {
        codelet: codelet.name.clone(),
        implementation: name.into(),
        dtype,
        cases: 0,
        alone: checked.is_the_reference_of(codelet),
        worst: None,
        seconds: Seconds(0.0),
        failure: None,
    };
    for (number, case) in all.iter().enumerate() {
        let tried = one(checked, codelet, case, dtype, &mut dice);
        outcome.cases += usize::from(!matches!(tried, Ok(None)));
        match tried {
            Ok(None) => {}
            Ok(Some(tried)) => {
                if outcome.cases == 1 {
                    outcome.seconds = tried.seconds;
                }
                let worst = tried.worst.map(|w| Worst { case: number, ..w });
                outcome.worst = [outcome.worst, worst]
                    .into_iter()
                    .flatten()
                    .max_by(|a, b| a.ulps.total_cmp(&b.ulps));
                outcome.failure = tried.failure;
            }
            Err(e) => outcome.failure = Some(e),
        }
        if let Some(why) = &mut outcome.failure {
            let Codelet { name, .. } = codelet;
            *why = format!("{name} {dtype} {case:?}: {why}");
            break;
        }
    }
    if all.is_empty() {
        outcome.failure = Some(format!("{}: no cases to try", codelet.name));
    }
    outcome
}

/// What came of one case.
struct Tried {
    worst: Option<Worst>,
    seconds: Seconds,
    failure: Option<String>,
}

/// Tries one case; none if the implementation does not support it.
fn one(
    checked: &Checked<'_>,
    codelet: &Codelet,
    case: &Case,
    dtype: DType,
    dice: &mut Dice,
) -> Result<Option<Tried>, String> {
    let shaped = |op: &Operand| Ok((shape(op.dims)?, op.mode));
    let call = Call {
        operands: case
            .operands
            .iter()
            .map(shaped)
            .collect::<Result<_, String>>()?,
        dtype,
        params: case.params.clone(),
    };
    codelet.check(&call, false)?;
    let made = case.operands.iter().enumerate();
    let before: Vec<Held> = made
        .map(|(i, op)| Held::new(i, op, dtype, dice))
        .collect::<Result<_, _>>()?;
    if !checked.supports(codelet, &call) {
        return Ok(None);
    }
    let want: Vec<Held> = before.iter().map(Held::copy).collect::<Result<_, _>>()?;
    on_host(plainest(codelet, &call)?, &call, &want)?;
    let (got, _) = checked.run(codelet, &call, &before)?;
    let (again, seconds) = checked.run(codelet, &call, &before)?;
    let mut tried = Tried {
        worst: None,
        seconds,
        failure: None,
    };
    let name = |i: usize| codelet.operand_name(call.operands.len(), i);
    for (i, (g, w)) in got.iter().zip(&want).enumerate() {
        let (worst, close) = match dtype {
            DType::F32 => compared::<f32>(i, &name(i), g, w),
            DType::F64 => compared::<f64>(i, &name(i), g, w),
        };
        let larger = |a: &Worst, b: &Worst| a.ulps.total_cmp(&b.ulps);
        tried.worst = [tried.worst, worst].into_iter().flatten().max_by(larger);
        tried.failure = tried.failure.or(close.err());
    }
    for (i, (a, g)) in again.iter().zip(&got).enumerate() {
        if bytes(a) != bytes(g) && tried.failure.is_none() {
            tried.failure = Some(format!("{} has other bits when run again", name(i)));
        }
    }
    Ok(Some(tried))
}

/// The worst error of an operand, and whether it is small enough.
fn compared<T: Element>(
    i: usize,
    name: &str,
    got: &Held,
    want: &Held,
) -> (Option<Worst>, Result<(), String>) {
    let (got, want) = (got.values::<T>(), want.values::<T>());
    let epsilon = match T::DTYPE {
        DType::F32 => f64::from(f32::EPSILON),
        DType::F64 => f64::EPSILON,
    };
    let worst = compare::worst(got, want).map(|(error, element)| Worst {
        ulps: error / epsilon,
        case: 0,
        operand: i,
        element,
    });
    let allowed = tolerance(T::DTYPE);
    let close = compare::close(name, got, want, allowed, 0);
    (worst, close)
}

fn bytes(held: &Held) -> &[u8] {
    // SAFETY: the block has so many bytes, all initialised, and is borrowed meanwhile.
    unsafe { std::slice::from_raw_parts(held.block.as_ptr(), held.bytes()) }
}

/// Extents without leading ones, as arrays of lower rank have them.
fn shape(dims: [usize; 4]) -> Result<Shape, String> {
    let skip = dims.iter().take_while(|&&d| d == 1).count().min(3);
    Shape::new(&dims[skip..]).map_err(|e| e.to_string())
}

/// The plainest implementation there is.
fn plainest<'c>(codelet: &'c Codelet, call: &Call) -> Result<&'c Implementation, String> {
    let all = || {
        let able = |i: &&Implementation| i.kind == UnitKind::CPU && (i.supports)(call);
        codelet.implementations.iter().filter(able)
    };
    let plain = all()
        .find(|i| i.name == "reference")
        .or_else(|| all().next());
    plain.ok_or_else(|| "no CPU implementation".into())
}

/// Runs an implementation in place; says how long it took.
fn on_host(
    implementation: &Implementation,
    call: &Call,
    arrays: &[Held],
) -> Result<Seconds, String> {
    let need = (implementation.scratch)(call).max(1);
    let scratch = Block::new(need).ok_or("no memory for scratch")?;
    // SAFETY: so many bytes, initialised, and ours alone.
    let scratch = unsafe { std::slice::from_raw_parts_mut(scratch.as_ptr(), scratch.len()) };
    let scratch = Cell::new(scratch);
    let accesses: Vec<Access> = arrays.iter().map(|a| a.access).collect();
    let placed: Vec<Placed> = arrays.iter().map(Held::placed).collect();
    // SAFETY: the arrays are ours alone and apart from each other.
    let operands = unsafe { Operands::new(&accesses, &placed, &call.params, &scratch) };
    let start = Instant::now();
    (implementation.body)(&operands).map_err(|e| e.to_string())?;
    Ok(Seconds(start.elapsed().as_secs_f64()))
}

/// Copies arrays to the device, runs a call there and copies them back; says how long it ran.
fn on_device(
    subject: &Subject<'_>,
    codelet: &Codelet,
    call: &Call,
    before: &[Held],
) -> Result<(Vec<Held>, Seconds), String> {
    let (code, _) = subject
        .code(codelet, call)
        .ok_or("the device cannot run this")?;
    let mut buffers: Vec<Box<dyn Buffer>> = Vec::new();
    let mut placed = Vec::new();
    for a in before {
        let buffer = subject.memory.allocate(a.bytes());
        let buffer = buffer.map_err(|e| e.to_string())?;
        let buffer = buffer.ok_or_else(|| format!("no room for {} bytes", a.bytes()))?;
        copy(subject, &*buffer, a, Direction::In)?;
        placed.push(Placed {
            base: buffer.base(),
            ..a.placed()
        });
        buffers.push(buffer);
    }
    // Access `i` is to array `i`.
    let accesses: Vec<Access> = before.iter().map(|a| a.access).collect();
    let need = match code {
        Code::Body(i) => (i.scratch)(call),
        Code::Kernel(_) => 0,
    };
    let scratch = Block::new(need.max(1)).ok_or("no memory for scratch")?;
    // SAFETY: so many bytes, initialised, and ours alone.
    let scratch = unsafe { std::slice::from_raw_parts_mut(scratch.as_ptr(), scratch.len()) };
    let job = Job {
        code,
        call,
        accesses: &accesses,
        arrays: &placed,
        fresh: false,
    };
    let start = Instant::now();
    // SAFETY: the operands are on the device, ours alone and apart from each other.
    unsafe { subject.driver.execute(&job, scratch) }.map_err(|e| e.to_string())?;
    let seconds = Seconds(start.elapsed().as_secs_f64());
    let mut after = Vec::new();
    for (a, buffer) in before.iter().zip(&buffers) {
        let held = a.copy()?;
        copy(subject, &**buffer, &held, Direction::Out)?;
        after.push(held);
    }
    Ok((after, seconds))
}

/// Copies a whole array between the host and a buffer of the device.
fn copy(
    subject: &Subject<'_>,
    buffer: &dyn Buffer,
    array: &Held,
    direction: Direction,
) -> Result<(), String> {
    let all = 0..array.bytes();
    let cargo = Cargo {
        device: buffer.base(),
        host: array.block.as_ptr(),
        ranges: from_ref(&all),
    };
    // SAFETY: both sides have so many bytes and are ours alone.
    unsafe { subject.memory.copy(&cargo, direction) }.map_err(|e| e.to_string())
}
