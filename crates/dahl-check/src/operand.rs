//! Operands of a case: extents, and what they hold.

use dahl_core::arena::Block;
use dahl_core::operands::Placed;
use dahl_core::view::for_rows;
use dahl_core::{Access, DType, Element, Mode, Param, Region, Shape};

use super::dice::Dice;

/// What an operand's elements are at first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    /// Numbers between −1 and 1.
    Any,
    /// Numbers between 0.1 and 2.
    Positive,
    /// Multiples of one half, up to so many either way.
    Halves(usize),
    /// Whole numbers in a range, bounds included.
    Whole(usize, usize),
    /// Classes below so many, and now and then something that is none.
    Labels(usize),
    /// Bytes below so many, packed in elements.
    Codes(usize),
    /// These, row by row.
    These(Vec<f64>),
}

/// One operand of a task.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Operand {
    /// Extents.
    pub dims: [usize; 4],
    /// How it is used.
    pub mode: Mode,
    /// What it holds.
    pub content: Content,
    /// Whether it must be a whole array, not a tile of a larger one.
    pub whole: bool,
}

/// A task to try.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    /// Its operands.
    pub operands: Vec<Operand>,
    /// Its parameters.
    pub params: Vec<Param>,
}

impl Operand {
    /// A tile to read.
    pub(crate) fn read(dims: [usize; 4], content: Content) -> Self {
        Operand {
            dims,
            mode: Mode::Read,
            content,
            whole: false,
        }
    }

    /// A tile to write.
    pub(crate) fn write(dims: [usize; 4]) -> Self {
        Operand {
            dims,
            mode: Mode::Write,
            content: Content::Any,
            whole: false,
        }
    }

    /// A tile to change.
    pub(crate) fn change(dims: [usize; 4], content: Content) -> Self {
        Operand {
            dims,
            mode: Mode::ReadWrite,
            content,
            whole: false,
        }
    }

    /// The same as a whole array.
    pub(crate) fn whole(self) -> Self {
        Operand {
            whole: true,
            ..self
        }
    }
}

/// An array in the host's memory with an operand in it.
pub(super) struct Held {
    pub block: Block,
    pub shape: Shape,
    pub access: Access,
    dtype: DType,
}

impl Held {
    /// Makes the array of operand `i`: values inside its region, not-a-number elsewhere.
    pub(crate) fn new(
        i: usize,
        op: &Operand,
        dtype: DType,
        dice: &mut Dice,
    ) -> Result<Self, String> {
        let edge = |dice: &mut Dice| match op.whole {
            true => 0,
            false => dice.between(0, 2),
        };
        let start: [usize; 4] = std::array::from_fn(|_| edge(dice));
        let end: [usize; 4] = std::array::from_fn(|a| start[a] + op.dims[a]);
        let shape: Vec<usize> = end.iter().map(|e| e + edge(dice)).collect();
        let shape = Shape::new(&shape).map_err(|e| e.to_string())?;
        let region = Region::new(start, end).ok_or("an operand is empty")?;
        let block = Block::new(shape.len() * dtype.size()).ok_or("no memory for an operand")?;
        let access = Access {
            array: i as u32,
            mode: op.mode,
            fresh: None,
            region,
        };
        let mut held = Held {
            block,
            shape,
            access,
            dtype,
        };
        match dtype {
            DType::F32 => held.fill::<f32>(&op.content, dice),
            DType::F64 => held.fill::<f64>(&op.content, dice),
        }
        Ok(held)
    }

    fn fill<T: Element>(&mut self, content: &Content, dice: &mut Dice) {
        let (start, dims) = (self.access.region.start(), self.access.region.dims4());
        let strides = self.shape.strides4();
        let all = self.values_mut::<T>();
        all.fill(T::from_f64(f64::NAN));
        let mut count = 0;
        for_rows(dims, |at| {
            let row: usize = (0..3).map(|a| (start[a] + at[a]) * strides[a]).sum();
            for v in &mut all[row + start[3]..row + start[3] + dims[3]] {
                *v = value(content, count, dice);
                count += 1;
            }
        });
    }

    /// Where it is, for the host.
    pub(crate) fn placed(&self) -> Placed {
        Placed {
            base: self.block.as_ptr(),
            shape: self.shape,
            dtype: self.dtype,
        }
    }

    /// Bytes of the array.
    pub(crate) fn bytes(&self) -> usize {
        self.shape.len() * self.dtype.size()
    }

    /// The same values in memory of their own.
    pub(crate) fn copy(&self) -> Result<Self, String> {
        let block = Block::new(self.bytes()).ok_or("no memory for an operand")?;
        // SAFETY: both have so many bytes, and the new one is nobody else's.
        unsafe { std::ptr::copy_nonoverlapping(self.block.as_ptr(), block.as_ptr(), self.bytes()) };
        Ok(Held { block, ..*self })
    }

    /// All elements.
    pub(crate) fn values<T: Element>(&self) -> &[T] {
        // SAFETY: the block has so many elements of this type, aligned; it is borrowed meanwhile.
        unsafe { std::slice::from_raw_parts(self.block.as_ptr().cast(), self.shape.len()) }
    }

    fn values_mut<T: Element>(&mut self) -> &mut [T] {
        // SAFETY: as above, borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.block.as_ptr().cast(), self.shape.len()) }
    }
}

fn value<T: Element>(content: &Content, count: usize, dice: &mut Dice) -> T {
    T::from_f64(match content {
        Content::Any => 2.0 * dice.uniform() - 1.0,
        Content::Positive => 0.1 + 1.9 * dice.uniform(),
        Content::Halves(n) => (dice.between(0, 4 * n) as f64 - 2.0 * *n as f64) / 2.0,
        Content::Whole(low, high) => dice.between(*low, *high) as f64,
        Content::Labels(n) if dice.between(0, 9) == 0 => dice.pick(&[-1.0, 0.5, *n as f64]),
        Content::Labels(n) => dice.between(0, n - 1) as f64,
        Content::Codes(n) => {
            let bytes: [u8; 8] = std::array::from_fn(|_| dice.between(0, n - 1) as u8);
            match T::DTYPE {
                DType::F32 => {
                    f64::from(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
                }
                DType::F64 => f64::from_le_bytes(bytes),
            }
        }
        Content::These(values) => values.get(count).copied().unwrap_or(0.0),
    })
}
