//! Views: what an implementation of a codelet sees of its operands.
//!
//! A view is a pointer, four extents and four strides. The innermost stride is always 1, so a *row*
//! (the last axis) is a slice, and whole contiguous views are one slice. Views are handed out by the
//! executor for the duration of one task; they are how the promise "tasks that touch the same element
//! never run at the same time" becomes `&[T]` and `&mut [T]`, which is why making one is unsafe and
//! using one is not.

use std::marker::PhantomData;

use crate::shape::MAX_RANK;

/// A box of elements that can be read.
#[derive(Clone, Copy)]
pub struct View<'a, T> {
    ptr: *const T,
    dims: [usize; MAX_RANK],
    strides: [usize; MAX_RANK],
    life: PhantomData<&'a [T]>,
}

/// A box of elements that can be read and written.
pub struct ViewMut<'a, T> {
    ptr: *mut T,
    dims: [usize; MAX_RANK],
    strides: [usize; MAX_RANK],
    life: PhantomData<&'a mut [T]>,
}

// SAFETY: a view is a shared (respectively exclusive) borrow of plain elements, like `&[T]` and
// `&mut [T]`; the constructors' contracts make those borrows valid.
unsafe impl<T: Sync> Send for View<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for View<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for ViewMut<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for ViewMut<'_, T> {}

fn is_contiguous(dims: &[usize; MAX_RANK], strides: &[usize; MAX_RANK]) -> bool {
    let mut expected = 1;
    for a in (0..MAX_RANK).rev() {
        if dims[a] != 1 && strides[a] != expected {
            return false;
        }
        expected *= dims[a];
    }
    true
}

fn row_offset(dims: &[usize; MAX_RANK], strides: &[usize; MAX_RANK], at: [usize; 3]) -> usize {
    assert!(
        at[0] < dims[0] && at[1] < dims[1] && at[2] < dims[2],
        "row {at:?} outside {dims:?}"
    );
    at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2]
}

/// Extents and strides with height and width as one axis, where every row follows the one before.
fn planes_as_rows(
    [n, c, h, w]: [usize; MAX_RANK],
    [by_n, by_c, by_h, _]: [usize; MAX_RANK],
) -> Option<([usize; MAX_RANK], [usize; MAX_RANK])> {
    (h == 1 || by_h == w).then_some(([n, c, 1, h * w], [by_n, by_c, h * w, 1]))
}

impl<'a, T> View<'a, T> {
    /// A view of `dims` elements from `ptr` on.
    ///
    /// # Safety
    /// Every element the extents and strides reach must be valid to read for `'a` and not written
    /// meanwhile. No extent is zero and the innermost stride is 1.
    pub unsafe fn from_raw(
        ptr: *const T,
        dims: [usize; MAX_RANK],
        strides: [usize; MAX_RANK],
    ) -> Self {
        debug_assert!(strides[MAX_RANK - 1] == 1 && dims.iter().all(|&d| d > 0));
        View {
            ptr,
            dims,
            strides,
            life: PhantomData,
        }
    }

    /// A row-major view of a slice.
    ///
    /// # Panics
    /// If the slice has not exactly as many elements as `dims`, or `dims` has a zero.
    pub fn from_slice(data: &'a [T], dims: [usize; MAX_RANK]) -> Self {
        assert_eq!(
            data.len(),
            dims.iter().product::<usize>(),
            "slice length for {dims:?}"
        );
        assert!(!data.is_empty(), "views are not empty");
        let strides = [dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1];
        View {
            ptr: data.as_ptr(),
            dims,
            strides,
            life: PhantomData,
        }
    }

    /// Extents, right-aligned in four dimensions.
    pub fn dims(&self) -> [usize; MAX_RANK] {
        self.dims
    }

    /// Strides in elements; the last is 1.
    pub fn strides(&self) -> [usize; MAX_RANK] {
        self.strides
    }

    /// Number of elements.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// Whether [`View::as_slice`] gives a slice.
    pub fn is_contiguous(&self) -> bool {
        is_contiguous(&self.dims, &self.strides)
    }

    /// All elements as one slice, if they lie next to each other.
    pub fn as_slice(&self) -> Option<&'a [T]> {
        // SAFETY: contiguous, so the `len` elements from `ptr` on are exactly the view's own.
        self.is_contiguous()
            .then(|| unsafe { std::slice::from_raw_parts(self.ptr, self.len()) })
    }

    /// The row at these three outer indices.
    ///
    /// # Panics
    /// If an index is out of bounds.
    #[inline]
    pub fn row(&self, at: [usize; 3]) -> &'a [T] {
        let offset = row_offset(&self.dims, &self.strides, at);
        // SAFETY: the indices were checked, and a row has `dims[3]` elements at stride 1.
        unsafe { std::slice::from_raw_parts(self.ptr.add(offset), self.dims[3]) }
    }

    /// The same elements with each plane as one row, if the rows of a plane lie next to each other.
    pub fn planes_as_rows(&self) -> Option<View<'a, T>> {
        let (dims, strides) = planes_as_rows(self.dims, self.strides)?;
        Some(View {
            dims,
            strides,
            ..*self
        })
    }

    /// The first element, for kernels that do their own index arithmetic with [`View::strides`].
    /// Elements between rows may be in use by another task and must not be read.
    pub fn as_ptr(&self) -> *const T {
        self.ptr
    }

    /// The part from `start` on, `dims` long.
    ///
    /// # Panics
    /// If the part leaves the view.
    pub fn part(&self, start: [usize; MAX_RANK], dims: [usize; MAX_RANK]) -> View<'a, T> {
        check_part(&self.dims, &start, &dims);
        let offset: usize = (0..MAX_RANK).map(|a| start[a] * self.strides[a]).sum();
        // SAFETY: `check_part` keeps the part inside this view.
        let ptr = unsafe { self.ptr.add(offset) };
        View {
            ptr,
            dims,
            strides: self.strides,
            life: PhantomData,
        }
    }
}

fn check_part(whole: &[usize; MAX_RANK], start: &[usize; MAX_RANK], dims: &[usize; MAX_RANK]) {
    let fits = (0..MAX_RANK).all(|a| dims[a] > 0 && start[a] + dims[a] <= whole[a]);
    assert!(fits, "part {start:?} + {dims:?} leaves {whole:?}");
}

impl<T: Copy> View<'_, T> {
    /// One element.
    ///
    /// # Panics
    /// If an index is out of bounds.
    #[inline]
    pub fn at(&self, at: [usize; MAX_RANK]) -> T {
        self.row([at[0], at[1], at[2]])[at[3]]
    }
}

impl<'a, T> ViewMut<'a, T> {
    /// A view of `dims` elements from `ptr` on.
    ///
    /// # Safety
    /// Every element the extents and strides reach must be valid to read and write for `'a`, and
    /// reached by nothing else meanwhile. Elements between rows belong to others and are not touched.
    /// No extent is zero and the innermost stride is 1.
    pub unsafe fn from_raw(
        ptr: *mut T,
        dims: [usize; MAX_RANK],
        strides: [usize; MAX_RANK],
    ) -> Self {
        debug_assert!(strides[MAX_RANK - 1] == 1 && dims.iter().all(|&d| d > 0));
        ViewMut {
            ptr,
            dims,
            strides,
            life: PhantomData,
        }
    }

    /// A row-major view of a slice.
    ///
    /// # Panics
    /// As [`View::from_slice`].
    pub fn from_slice(data: &'a mut [T], dims: [usize; MAX_RANK]) -> Self {
        assert_eq!(
            data.len(),
            dims.iter().product::<usize>(),
            "slice length for {dims:?}"
        );
        assert!(!data.is_empty(), "views are not empty");
        let strides = [dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1];
        ViewMut {
            ptr: data.as_mut_ptr(),
            dims,
            strides,
            life: PhantomData,
        }
    }

    /// Extents, right-aligned in four dimensions.
    pub fn dims(&self) -> [usize; MAX_RANK] {
        self.dims
    }

    /// Strides in elements; the last is 1.
    pub fn strides(&self) -> [usize; MAX_RANK] {
        self.strides
    }

    /// Number of elements.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// Whether [`ViewMut::as_slice`] gives a slice.
    pub fn is_contiguous(&self) -> bool {
        is_contiguous(&self.dims, &self.strides)
    }

    /// The same box, for reading.
    pub fn as_view(&self) -> View<'_, T> {
        View {
            ptr: self.ptr,
            dims: self.dims,
            strides: self.strides,
            life: PhantomData,
        }
    }

    /// The same box, borrowed for a shorter time.
    pub fn reborrow(&mut self) -> ViewMut<'_, T> {
        ViewMut {
            ptr: self.ptr,
            dims: self.dims,
            strides: self.strides,
            life: PhantomData,
        }
    }

    /// All elements as one slice, if they lie next to each other.
    pub fn as_slice(&mut self) -> Option<&mut [T]> {
        let n = self.len();
        // SAFETY: contiguous, so the `n` elements from `ptr` on are exactly the view's own, and the
        // borrow of `self` is exclusive.
        self.is_contiguous()
            .then(|| unsafe { std::slice::from_raw_parts_mut(self.ptr, n) })
    }

    /// The row at these three outer indices.
    ///
    /// # Panics
    /// If an index is out of bounds.
    #[inline]
    pub fn row(&mut self, at: [usize; 3]) -> &mut [T] {
        let offset = row_offset(&self.dims, &self.strides, at);
        // SAFETY: the indices were checked, a row has `dims[3]` elements at stride 1, and the borrow
        // of `self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.add(offset), self.dims[3]) }
    }

    /// As [`View::planes_as_rows`].
    pub fn planes_as_rows(&mut self) -> Option<ViewMut<'_, T>> {
        let (dims, strides) = planes_as_rows(self.dims, self.strides)?;
        Some(ViewMut {
            dims,
            strides,
            ..self.reborrow()
        })
    }

    /// The first element, for kernels that do their own index arithmetic with
    /// [`ViewMut::strides`]. Elements between rows must not be touched.
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.ptr
    }

    /// The part from `start` on, `dims` long.
    ///
    /// # Panics
    /// If the part leaves the view.
    pub fn part(&mut self, start: [usize; MAX_RANK], dims: [usize; MAX_RANK]) -> ViewMut<'_, T> {
        check_part(&self.dims, &start, &dims);
        let offset: usize = (0..MAX_RANK).map(|a| start[a] * self.strides[a]).sum();
        // SAFETY: `check_part` keeps the part inside this view, which is exclusively borrowed.
        let ptr = unsafe { self.ptr.add(offset) };
        ViewMut {
            ptr,
            dims,
            strides: self.strides,
            life: PhantomData,
        }
    }
}

impl<T: Copy> ViewMut<'_, T> {
    /// Sets every element.
    pub fn fill(&mut self, value: T) {
        if let Some(all) = self.as_slice() {
            all.fill(value);
            return;
        }
        for_rows(self.dims, |at| self.row(at).fill(value));
    }

    /// Copies every element of `from`, which has the same extents.
    ///
    /// # Panics
    /// If the extents differ.
    pub fn copy_from(&mut self, from: View<'_, T>) {
        assert_eq!(self.dims, from.dims, "copy between different extents");
        if let Some(src) = from.as_slice()
            && let Some(dst) = self.as_slice()
        {
            dst.copy_from_slice(src);
            return;
        }
        for_rows(self.dims, |at| self.row(at).copy_from_slice(from.row(at)));
    }
}

/// Calls `f` with the outer indices of every row, in row-major order.
pub fn for_rows(dims: [usize; MAX_RANK], mut f: impl FnMut([usize; 3])) {
    for a in 0..dims[0] {
        for b in 0..dims[1] {
            for c in 0..dims[2] {
                f([a, b, c]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_see_their_own_elements() {
        let data: Vec<i32> = (0..24).collect();
        let v = View::from_slice(&data, [1, 2, 3, 4]);
        assert_eq!(v.as_slice().unwrap(), &data[..]);
        let p = v.part([0, 1, 1, 2], [1, 1, 2, 2]);
        assert!(p.as_slice().is_none());
        assert_eq!(
            (p.row([0, 0, 0]), p.row([0, 0, 1])),
            (&[18, 19][..], &[22, 23][..])
        );
        assert_eq!(p.at([0, 0, 1, 0]), 22);
        assert!(v.part([0, 1, 0, 0], [1, 1, 3, 4]).is_contiguous());
    }

    #[test]
    #[should_panic(expected = "outside")]
    fn rows_out_of_bounds_panic() {
        View::from_slice(&[1, 2], [1, 1, 2, 1]).row([0, 0, 2]);
    }

    #[test]
    fn writing_a_part_leaves_the_rest() {
        let mut data = vec![0; 12];
        let mut v = ViewMut::from_slice(&mut data, [1, 1, 3, 4]);
        v.part([0, 0, 1, 1], [1, 1, 2, 2]).fill(7);
        assert_eq!(data, [0, 0, 0, 0, 0, 7, 7, 0, 0, 7, 7, 0]);
    }
}
