//! Runs a case on the host and on a device, and compares.

use std::cell::Cell;
use std::slice::from_ref;
use std::sync::Arc;

use dahl_core::arena::Block;
use dahl_core::operands::Placed;
use dahl_core::{Access, Call, Codelet, DType, Implementation, Operands, Shape, UnitKind};
use dahl_ops::compare;
use dahl_runtime::driver::{Driver, Job};
use dahl_runtime::memory::Direction;

use super::cases::cases;
use super::dice::Dice;
use super::operand::{Case, Held};
use crate::device::{Device, GpuDriver};
use crate::measure::Borrowed;

/// How a codelet fared.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The codelet.
    pub codelet: String,
    /// The element type.
    pub dtype: DType,
    /// How many cases were tried.
    pub cases: usize,
    /// The first that failed, and how.
    pub failure: Option<String>,
}

/// Relative error allowed, against the larger of an expected value and the root mean square of all.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => 1e-5,
        DType::F64 => 1e-12,
    }
}

/// Checks every codelet of `dahl-ops` in one element type.
pub fn check_all(device: &Arc<dyn Device>, dtype: DType, seed: u64) -> Vec<Outcome> {
    let driver = GpuDriver::new(device.clone());
    let all = dahl_ops::codelets::TABLE.iter();
    all.map(|c| check(device, &driver, c, dtype, seed))
        .collect()
}

/// Checks one codelet.
pub fn check(
    device: &Arc<dyn Device>,
    driver: &GpuDriver,
    codelet: &Codelet,
    dtype: DType,
    seed: u64,
) -> Outcome {
    let mut dice = Dice::new(seed);
    let all = cases(&codelet.name, dtype, &mut dice);
    let failure = all.iter().find_map(|case| {
        let run = one(&**device, driver, codelet, case, dtype, &mut dice);
        run.err()
            .map(|e| format!("{} {dtype} {case:?}: {e}", codelet.name))
    });
    Outcome {
        codelet: codelet.name.clone(),
        dtype,
        cases: all.len(),
        failure: failure.or_else(|| {
            all.is_empty()
                .then(|| format!("{}: no cases to try", codelet.name))
        }),
    }
}

fn one(
    device: &dyn Device,
    driver: &GpuDriver,
    codelet: &Codelet,
    case: &Case,
    dtype: DType,
    dice: &mut Dice,
) -> Result<(), String> {
    let shaped = |op: &super::Operand| Ok((shape(op.dims)?, op.mode));
    let call = Call {
        operands: case
            .operands
            .iter()
            .map(shaped)
            .collect::<Result<_, String>>()?,
        dtype,
        params: case.params.clone(),
    };
    (codelet.rule)(&call)?;
    let made = case.operands.iter().enumerate();
    let before: Vec<Held> = made
        .map(|(i, op)| Held::new(i, op, dtype, dice))
        .collect::<Result<_, _>>()?;
    let want: Vec<Held> = before.iter().map(Held::copy).collect::<Result<_, _>>()?;
    on_host(codelet, &call, &want)?;
    let gpu = driver
        .implementation(&codelet.name)
        .ok_or("no GPU implementation")?;
    let got = on_device(device, driver, gpu, &call, &before)?;
    for (i, (g, w)) in got.iter().zip(&want).enumerate() {
        let name = format!("operand {i}");
        match dtype {
            DType::F32 => {
                compare::close::<f32>(&name, g.values(), w.values(), tolerance(dtype), 0)?
            }
            DType::F64 => {
                compare::close::<f64>(&name, g.values(), w.values(), tolerance(dtype), 0)?
            }
        }
    }
    let again = on_device(device, driver, gpu, &call, &before)?;
    for (i, (a, g)) in again.iter().zip(&got).enumerate() {
        if bytes(a) != bytes(g) {
            return Err(format!("operand {i} has other bits when run again"));
        }
    }
    Ok(())
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

/// Runs the plainest implementation there is, in place.
fn on_host(codelet: &Codelet, call: &Call, arrays: &[Held]) -> Result<(), String> {
    let all = || {
        let able = |i: &&Implementation| i.kind == UnitKind::Cpu && (i.supports)(call);
        codelet.implementations.iter().filter(able)
    };
    let plain = all()
        .find(|i| i.name == "reference")
        .or_else(|| all().next());
    let plain = plain.ok_or("no CPU implementation")?;
    let scratch = Block::new((plain.scratch)(call).max(1)).ok_or("no memory for scratch")?;
    // SAFETY: so many bytes, initialised, and ours alone.
    let scratch = unsafe { std::slice::from_raw_parts_mut(scratch.as_ptr(), scratch.len()) };
    let scratch = Cell::new(scratch);
    let accesses: Vec<Access> = arrays.iter().map(|a| a.access).collect();
    let placed: Vec<Placed> = arrays.iter().map(Held::placed).collect();
    // SAFETY: the arrays are ours alone and apart from each other.
    let operands = unsafe { Operands::new(&accesses, &placed, &call.params, &scratch) };
    (plain.body)(&operands).map_err(|e| e.to_string())
}

/// Copies arrays to the device, runs an implementation there and copies them back.
fn on_device(
    device: &dyn Device,
    driver: &GpuDriver,
    implementation: &Implementation,
    call: &Call,
    before: &[Held],
) -> Result<Vec<Held>, String> {
    let mut memory = Borrowed(device, Vec::new());
    let mut placed = Vec::new();
    for a in before {
        let address = device.allocate(a.bytes()).map_err(|e| e.to_string())?;
        memory.1.push(address);
        placed.push(Placed {
            base: address as *mut u8,
            ..a.placed()
        });
        let all = 0..a.bytes();
        let host = a.block.as_ptr();
        // SAFETY: both sides have so many bytes and are ours alone.
        let copied = unsafe { device.copy(address, host, from_ref(&all), Direction::In) };
        copied.map_err(|e| e.to_string())?;
    }
    let accesses: Vec<Access> = before.iter().map(|a| a.access).collect();
    let job = Job {
        implementation,
        accesses: &accesses,
        arrays: &placed,
        params: &call.params,
        fresh: false,
    };
    // SAFETY: the operands are on the device, ours alone and apart from each other.
    unsafe { driver.execute(&job, &mut []) }.map_err(|e| e.to_string())?;
    let mut after = Vec::new();
    for (a, &address) in before.iter().zip(&memory.1) {
        let held = a.copy()?;
        let (host, all) = (held.block.as_ptr(), 0..a.bytes());
        // SAFETY: as above.
        let copied = unsafe { device.copy(address, host, from_ref(&all), Direction::Out) };
        copied.map_err(|e| e.to_string())?;
        after.push(held);
    }
    Ok(after)
}
