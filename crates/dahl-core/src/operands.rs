//! Operands: what the body of an implementation gets to work on.
//!
//! The executor promises that no task that conflicts with this one runs meanwhile; `Operands` turns
//! that promise into views. Two things could still break it, and both are caught here: asking for the
//! same operand for writing while another view of it is out, and writing an operand declared as read.

use std::cell::Cell;

use crate::access::{Access, Mode};
use crate::codelet::Param;
use crate::dtype::{DType, Element};
use crate::shape::{MAX_RANK, Shape};
use crate::view::{View, ViewMut};

/// Where an array's elements are, for one execution of a graph in one memory.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    /// First byte of the array.
    pub base: *mut u8,
    /// The array's shape.
    pub shape: Shape,
    /// Its element type.
    pub dtype: DType,
}

// SAFETY: a `Placed` is an address and a description; using the address is what is unsafe, and only
// `Operands` does, under the contract of `Operands::new`.
unsafe impl Send for Placed {}
// SAFETY: as above.
unsafe impl Sync for Placed {}

/// The operands, parameters and scratch memory of one running task.
pub struct Operands<'a> {
    accesses: &'a [Access],
    arrays: &'a [Placed],
    params: &'a [Param],
    scratch: &'a Cell<&'a mut [u8]>,
    /// Bit `2i`: a view of operand `i` is out; bit `2i + 1`: for writing.
    out: Cell<u64>,
}

/// Most operands a task can have: two bits of state each.
pub(crate) const MAX_OPERANDS: usize = 32;

impl<'a> Operands<'a> {
    /// The operands of one task.
    ///
    /// # Safety
    /// For every access, the array's elements in the region are valid for `'a`; while this value
    /// lives nothing else writes them, and nothing else reads those that this task writes. Written
    /// regions overlap no other access of the same task. At most 32 accesses.
    pub unsafe fn new(
        accesses: &'a [Access],
        arrays: &'a [Placed],
        params: &'a [Param],
        scratch: &'a Cell<&'a mut [u8]>,
    ) -> Self {
        debug_assert!(accesses.len() <= MAX_OPERANDS);
        Operands {
            accesses,
            arrays,
            params,
            scratch,
            out: Cell::new(0),
        }
    }

    /// Number of operands.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.accesses.len()
    }

    /// How operand `i` may be used.
    ///
    /// # Panics
    /// If there is no such operand.
    pub fn mode(&self, i: usize) -> Mode {
        self.accesses[i].mode
    }

    /// Element type of operand `i`.
    ///
    /// # Panics
    /// If there is no such operand.
    pub fn dtype(&self, i: usize) -> DType {
        self.arrays[self.accesses[i].array as usize].dtype
    }

    /// Where operand `i` begins inside its array, and the array's shape: for operations whose result
    /// depends on the absolute position of an element (random numbers).
    pub fn origin(&self, i: usize) -> ([usize; MAX_RANK], Shape) {
        let access = &self.accesses[i];
        (
            access.region.start(),
            self.arrays[access.array as usize].shape,
        )
    }

    /// All parameters.
    pub fn params(&self) -> &'a [Param] {
        self.params
    }

    /// Parameter `i` as a whole number; floats are truncated.
    ///
    /// # Panics
    /// If there is no such parameter.
    pub fn int(&self, i: usize) -> i64 {
        match self.params[i] {
            Param::Int(v) => v,
            Param::Float(v) => v as i64,
        }
    }

    /// Parameter `i` as a number.
    ///
    /// # Panics
    /// If there is no such parameter.
    pub fn float(&self, i: usize) -> f64 {
        match self.params[i] {
            Param::Int(v) => v as f64,
            Param::Float(v) => v,
        }
    }

    fn address<T: Element>(&self, i: usize) -> (*mut T, [usize; MAX_RANK], [usize; MAX_RANK]) {
        let access = &self.accesses[i];
        let placed = &self.arrays[access.array as usize];
        assert!(
            placed.dtype == T::DTYPE,
            "operand {i} holds {}, the implementation asks for {}",
            placed.dtype,
            T::DTYPE
        );
        let strides = placed.shape.strides4();
        let start = access.region.start();
        let offset: usize = (0..MAX_RANK).map(|a| start[a] * strides[a]).sum();
        // The array may begin before its memory does, where only a part of it is used.
        let ptr = placed.base.cast::<T>().wrapping_add(offset);
        (ptr, access.region.dims4(), strides)
    }

    /// Operand `i`, to read.
    ///
    /// # Panics
    /// If there is no such operand, it holds another type, or a view of it for writing is out.
    pub fn read<T: Element>(&self, i: usize) -> View<'_, T> {
        let (ptr, dims, strides) = self.address(i);
        assert!(
            self.out.get() & (2 << (2 * i)) == 0,
            "operand {i} is being written"
        );
        self.out.set(self.out.get() | (1 << (2 * i)));
        // SAFETY: nobody writes these elements meanwhile: other tasks by the contract of `new`, this
        // one because of the bit just checked.
        unsafe { View::from_raw(ptr, dims, strides) }
    }

    /// Operand `i`, to write.
    ///
    /// # Panics
    /// If there is no such operand, it holds another type, it was declared as read, or a view of it
    /// was handed out before.
    pub fn write<T: Element>(&self, i: usize) -> ViewMut<'_, T> {
        let (ptr, dims, strides) = self.address(i);
        assert!(
            self.accesses[i].mode.writes(),
            "operand {i} was declared as read"
        );
        assert!(
            self.out.get() & (3 << (2 * i)) == 0,
            "operand {i} is already in use"
        );
        self.out.set(self.out.get() | (3 << (2 * i)));
        // SAFETY: nobody reaches these elements meanwhile: other tasks by the contract of `new`, this
        // one because of the bits just checked.
        unsafe { ViewMut::from_raw(ptr, dims, strides) }
    }

    /// Scratch memory for `len` elements, its content arbitrary. The implementation announced how
    /// much it needs; the memory is taken for the rest of the task.
    ///
    /// # Panics
    /// If more is taken than was announced.
    pub fn scratch<T: Element>(&self, len: usize) -> &'a mut [T] {
        if len == 0 {
            // An implementation that announced none was given a place that may be aligned to nothing.
            return &mut [];
        }
        let bytes = self.scratch.take();
        let need = len * size_of::<T>();
        assert!(
            need <= bytes.len(),
            "{need} bytes of scratch asked, {} announced",
            bytes.len()
        );
        // Keep what follows aligned for the next taker.
        let (mine, rest) = bytes.split_at_mut(need.next_multiple_of(64).min(bytes.len()));
        self.scratch.set(rest);
        assert!(
            mine.as_ptr().cast::<T>().is_aligned(),
            "scratch memory is aligned to 64 bytes"
        );
        // SAFETY: large enough and aligned; any bit pattern is a float; exclusively borrowed.
        unsafe { std::slice::from_raw_parts_mut(mine.as_mut_ptr().cast(), len) }
    }

    /// Fills the operands that are fresh accumulators: what the executor does before the body.
    pub fn fill_fresh(&self) {
        for (i, access) in self.accesses.iter().enumerate() {
            let Some(merge) = access.fresh else { continue };
            match self.dtype(i) {
                DType::F32 => self.write::<f32>(i).fill(merge.identity() as f32),
                DType::F64 => self.write::<f64>(i).fill(merge.identity()),
            }
        }
        self.out.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_scratch_memory_is_taken_where_none_was_announced() {
        let none: &mut [u8] = &mut [];
        let scratch = Cell::new(none);
        // SAFETY: there are no operands.
        let operands = unsafe { Operands::new(&[], &[], &[], &scratch) };
        assert!(operands.scratch::<f64>(0).is_empty());
    }
}
