//! Launches: what a recipe asks a device to do, one after the other.
//!
//! Plain data. A device turns tensors into buffers and offsets, and executes launches in order; a later
//! one sees what an earlier one wrote.

use std::ffi::c_void;

use dahl_core::{DType, Mode, Param};
use dahl_ops::window::Window;

use crate::error::GpuError;
use crate::tensor::{Base, Laid, Tensor};
use crate::tuning::Tuning;

/// An argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg {
    /// A pointer to the tensor's buffer, then how it is laid out there.
    Tensor(Tensor),
    /// Only how a tensor is laid out, from offset 0.
    Extents(Tensor),
    /// A whole number.
    Int(i32),
    /// A large whole number.
    Long(i64),
    /// A number, of the element type.
    Real(f64),
    /// Kernel, stride and shift of a window.
    Window([i32; 6]),
}

impl From<Tensor> for Arg {
    fn from(t: Tensor) -> Self {
        Arg::Tensor(t)
    }
}

impl From<usize> for Arg {
    fn from(v: usize) -> Self {
        // Counts and extents were checked against `LIMIT` when the task was read.
        Arg::Int(v as i32)
    }
}

impl From<bool> for Arg {
    fn from(v: bool) -> Self {
        Arg::Int(i32::from(v))
    }
}

impl From<f64> for Arg {
    fn from(v: f64) -> Self {
        Arg::Real(v)
    }
}

impl From<Window> for Arg {
    fn from(w: Window) -> Self {
        let ([a, b], [c, d], [e, f]) = (w.kernel, w.stride, w.shift);
        let sizes = [a, b, c, d].map(|v| v as i32);
        let [a, b, c, d] = sizes;
        Arg::Window([a, b, c, d, e as i32, f as i32])
    }
}

/// One kernel on so many groups of so many items.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// Which kernel.
    pub kernel: &'static str,
    /// Its arguments.
    pub args: Vec<Arg>,
    /// Groups along each axis.
    pub groups: [usize; 3],
    /// Items of a group along each axis.
    pub items: [usize; 3],
}

/// An argument's value, as a kernel gets it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Slot {
    /// A buffer, by what the library knows it as.
    Buffer(usize),
    /// How a tensor is laid out.
    Laid(Laid),
    /// A whole number.
    Int(i32),
    /// A large whole number.
    Long(i64),
    /// A number in single precision.
    F32(f32),
    /// A number in double precision.
    F64(f64),
    /// A window.
    Window([i32; 6]),
}

impl Slot {
    /// Where the value is, and how many bytes it has.
    pub fn bytes(&self) -> (*const c_void, usize) {
        fn of<T>(v: &T) -> (*const c_void, usize) {
            (std::ptr::from_ref(v).cast(), size_of::<T>())
        }
        match self {
            Slot::Buffer(v) => of(v),
            Slot::Laid(v) => of(v),
            Slot::Int(v) => of(v),
            Slot::Long(v) => of(v),
            Slot::F32(v) => of(v),
            Slot::F64(v) => of(v),
            Slot::Window(v) => of(v),
        }
    }
}

impl Launch {
    /// The values of all arguments; `locate` tells a tensor's buffer, and how many bytes in it begins.
    pub fn slots(
        &self,
        dtype: DType,
        mut locate: impl FnMut(&Tensor) -> Result<(usize, usize), GpuError>,
    ) -> Result<Vec<Slot>, GpuError> {
        let mut slots = Vec::with_capacity(2 * self.args.len());
        for arg in &self.args {
            let slot = match arg {
                Arg::Tensor(t) => {
                    let (buffer, offset) = locate(t)?;
                    slots.push(Slot::Buffer(buffer));
                    Slot::Laid(t.laid(offset / dtype.size()))
                }
                Arg::Extents(t) => Slot::Laid(t.laid(0)),
                Arg::Int(v) => Slot::Int(*v),
                Arg::Long(v) => Slot::Long(*v),
                Arg::Window(v) => Slot::Window(*v),
                Arg::Real(v) => match dtype {
                    DType::F32 => Slot::F32(*v as f32),
                    DType::F64 => Slot::F64(*v),
                },
            };
            slots.push(slot);
        }
        Ok(slots)
    }
}

/// Elements that kernels can count: they index with 32 bits.
pub(crate) const LIMIT: usize = 1 << 31;

/// Stands for a library's product of matrices in place of a kernel; arguments as those of `matmul`.
pub(crate) const BLAS: &str = "blas";

/// Most groups of a launch whose items take several elements each.
const MOST_GROUPS: usize = 1 << 15;

/// What a recipe gets to see of a task.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// Its operands.
    pub tensors: &'a [Tensor],
    /// How it uses them.
    pub modes: &'a [Mode],
    /// Its parameters.
    pub params: &'a [Param],
    /// Where operand 0 begins in its array, in elements.
    pub first: usize,
}

impl Task<'_> {
    /// The first two parameters of an elementwise operation, 0 for those it does not have.
    pub(crate) fn values(&self) -> [f64; 2] {
        [0, 1].map(|i| match self.params.get(i) {
            Some(Param::Int(v)) => *v as f64,
            Some(Param::Float(v)) => *v,
            None => 0.0,
        })
    }
}

/// Whether an operand of this mode is added to rather than overwritten.
pub(crate) fn adds(mode: Mode) -> bool {
    mode != Mode::Write
}

/// Launches, and the scratch memory they share.
#[derive(Clone, Debug)]
pub struct Steps {
    /// The element type.
    pub dtype: DType,
    /// Sizes of groups.
    pub tuning: Tuning,
    /// Whether the device has a library for products of matrices, and may use it here: the kernel is
    /// then that product.
    pub blas: bool,
    /// What to do, in order.
    pub launches: Vec<Launch>,
    /// Bytes of scratch memory.
    pub scratch: usize,
}

impl Steps {
    /// Nothing yet.
    pub fn new(dtype: DType, tuning: Tuning) -> Self {
        Steps {
            dtype,
            tuning,
            blas: false,
            launches: Vec::with_capacity(4),
            scratch: 0,
        }
    }

    /// Scratch memory for a box without gaps, content arbitrary.
    pub(crate) fn scratch(&mut self, dims: [usize; 4]) -> Tensor {
        let base = Base::Scratch(self.scratch);
        let bytes = dims.iter().product::<usize>() * self.dtype.size();
        self.scratch += bytes.next_multiple_of(256);
        Tensor::contiguous(base, dims)
    }

    fn push(
        &mut self,
        kernel: &'static str,
        args: Vec<Arg>,
        groups: [usize; 3],
        items: [usize; 3],
    ) {
        self.launches.push(Launch {
            kernel,
            args,
            groups,
            items,
        });
    }

    /// A kernel that shares `count` elements among as many items as are useful.
    pub(crate) fn items<const N: usize>(
        &mut self,
        kernel: &'static str,
        args: [Arg; N],
        count: usize,
    ) {
        let group = self.tuning.group;
        let groups = count.div_ceil(group).clamp(1, MOST_GROUPS);
        self.push(kernel, args.into(), [groups, 1, 1], [group, 1, 1]);
    }

    /// A kernel with one group for each of `count` results, of at most `terms` terms.
    pub(crate) fn groups<const N: usize>(
        &mut self,
        kernel: &'static str,
        args: [Arg; N],
        count: usize,
        terms: usize,
    ) {
        // Two sizes only: each may be compiled on its own.
        let small = self.tuning.group.min(32);
        let items = if terms <= 2 * small {
            small
        } else {
            self.tuning.group
        };
        self.push(kernel, args.into(), [count, 1, 1], [items, 1, 1]);
    }

    /// A kernel that computes `rows` × `columns` results by blocks, in `depth` layers.
    pub(crate) fn blocks<const N: usize>(
        &mut self,
        kernel: &'static str,
        args: [Arg; N],
        [rows, columns, depth]: [usize; 3],
    ) {
        let (block, side) = (self.tuning.block(), self.tuning.side);
        let groups = [columns.div_ceil(block), rows.div_ceil(block), depth];
        self.push(kernel, args.into(), groups, [side, side, 1]);
    }
}
