//! Guards: the values of an array, as long as somebody looks at them.
//!
//! A guard borrows the runtime, and launching needs the runtime mutably: while a guard lives nothing
//! new can start, so nobody can wait for a guard, and guards cannot deadlock. Any number of read
//! guards may be held at once.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use dahl_core::arena::Chunk;
use dahl_core::{Element, Handle, Shape, View};

use crate::memory::Memories;

/// Values to read. Dereferences to a slice in row-major order.
pub struct ReadGuard<'r, T> {
    values: Values<T>,
    shape: Shape,
    chunk: Arc<Chunk>,
    life: PhantomData<&'r T>,
}

enum Values<T> {
    /// In place.
    InPlace(*const T, usize),
    /// Copied, because the array is a part with gaps between its rows.
    Packed(Vec<T>),
}

impl<'r, T: Element> ReadGuard<'r, T> {
    /// The values of an array in host memory.
    ///
    /// # Safety
    /// `base` is the array's storage, leased for this guard, and nobody writes the array for `'r`.
    pub(crate) unsafe fn new(handle: &Handle, base: *mut u8, chunk: Arc<Chunk>) -> Self {
        let strides = handle.whole.strides4();
        let start = handle.region.start();
        let offset: usize = (0..4).map(|a| start[a] * strides[a]).sum();
        // SAFETY: the region lies in the storage; nobody writes it.
        let view: View<'_, T> = unsafe {
            View::from_raw(
                base.cast::<T>().add(offset).cast_const(),
                handle.region.dims4(),
                strides,
            )
        };
        let values = match view.as_slice() {
            Some(slice) => Values::InPlace(slice.as_ptr(), slice.len()),
            None => {
                let mut packed = Vec::with_capacity(view.len());
                dahl_core::view::for_rows(view.dims(), |at| packed.extend_from_slice(view.row(at)));
                Values::Packed(packed)
            }
        };
        ReadGuard {
            values,
            shape: handle.shape,
            chunk,
            life: PhantomData,
        }
    }

    /// The array's shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match &self.values {
            // SAFETY: valid and unwritten while the guard lives, by the contract of `new`.
            Values::InPlace(ptr, len) => unsafe { std::slice::from_raw_parts(*ptr, *len) },
            Values::Packed(values) => values,
        }
    }
}

impl<T> Drop for ReadGuard<'_, T> {
    fn drop(&mut self) {
        self.chunk.release();
    }
}

/// Values to change. Dereferences to a slice in row-major order.
pub struct WriteGuard<'r, T> {
    ptr: *mut T,
    handle: Handle,
    chunk: Arc<Chunk>,
    memories: Option<&'r Memories>,
    life: PhantomData<&'r mut T>,
}

impl<'r, T: Element> WriteGuard<'r, T> {
    /// The values of an array in host memory.
    ///
    /// # Safety
    /// `ptr` is the array's first element, its elements are contiguous, leased for this guard, and
    /// nobody else reaches them for `'r`.
    pub(crate) unsafe fn new(
        handle: Handle,
        ptr: *mut T,
        chunk: Arc<Chunk>,
        memories: Option<&'r Memories>,
    ) -> Self {
        WriteGuard {
            ptr,
            handle,
            chunk,
            memories,
            life: PhantomData,
        }
    }
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: ours alone while the guard lives, by the contract of `new`.
        unsafe { std::slice::from_raw_parts(self.ptr, self.handle.shape.len()) }
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.ptr, self.handle.shape.len()) }
    }
}

impl<T> Drop for WriteGuard<'_, T> {
    fn drop(&mut self) {
        if let Some(memories) = self.memories {
            memories.host_wrote(&self.handle);
        }
        self.chunk.release();
    }
}

/// Most rows and columns that are printed; the middle of longer ones is left out.
const SHOWN: usize = 8;

/// Rows in brackets, columns aligned, `…` for what is left out. `{:.2}` sets the digits.
impl<T: Element> fmt::Display for ReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(4);
        let cells: Vec<String> = self
            .iter()
            .map(|v| format!("{:.digits$}", v.to_f64()))
            .collect();
        let width = cells.iter().map(String::len).max().unwrap_or(0);
        if self.shape.rank() == 0 {
            return f.write_str(&cells[0]);
        }
        writeln!(f, "{} of {}", self.shape, T::DTYPE)?;
        print_axis(f, self.shape.extents(), &cells, width, 0)
    }
}

fn shown(len: usize) -> Vec<Option<usize>> {
    if len <= SHOWN {
        return (0..len).map(Some).collect();
    }
    let half = SHOWN / 2;
    (0..half)
        .map(Some)
        .chain([None])
        .chain((len - half..len).map(Some))
        .collect()
}

fn print_axis(
    f: &mut fmt::Formatter<'_>,
    extents: &[usize],
    cells: &[String],
    width: usize,
    depth: usize,
) -> fmt::Result {
    let [len, inner @ ..] = extents else {
        return Ok(());
    };
    write!(f, "[")?;
    for (n, item) in shown(*len).into_iter().enumerate() {
        if inner.is_empty() {
            let gap = if n > 0 { " " } else { "" };
            match item {
                Some(i) => write!(f, "{gap}{:>width$}", cells[i])?,
                None => write!(f, "{gap}…")?,
            }
            continue;
        }
        if n > 0 {
            write!(f, "\n{:indent$}", "", indent = depth + 1)?;
        }
        let each = cells.len() / len;
        match item {
            Some(i) => print_axis(f, inner, &cells[i * each..(i + 1) * each], width, depth + 1)?,
            None => write!(f, "…")?,
        }
    }
    write!(f, "]")
}
