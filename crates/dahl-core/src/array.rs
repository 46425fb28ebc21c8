//! Arrays: typed handles at the API, one erased handle inside.
//!
//! An [`Array`] is a name for data, not the data: it can be passed to operations, split and relabelled
//! at once, long before its values exist. Values are read through the executor that computes them.
//!
//! Rank and element type are in the type, so that adding a matrix to a vector does not compile. The
//! lifetime is that of the arena or recorder the array lives in. [`Handle`] is the same thing without
//! the types, for code that works on any array; it is checked when it is used instead.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::arena::{self, Arena, ArenaError, Place};
use crate::dtype::{DType, Element};
use crate::random::Random;
use crate::region::Region;
use crate::shape::{MAX_RANK, Shape, ShapeError};
use crate::split::{Split, SplitError};

/// The data that one or more handles name.
#[derive(Debug)]
pub struct Storage {
    /// Unique in this process, never used again.
    pub id: u64,
    /// What people call it.
    pub name: Option<String>,
    /// The shape it was made with.
    pub shape: Shape,
    /// Its element type.
    pub dtype: DType,
    /// Where it lives.
    pub home: Home,
}

/// Where an array's data lives.
#[derive(Debug)]
pub enum Home {
    /// In an arena, until that is reset.
    Arena(Place),
    /// In the temporary memory of the graph that this recorder makes.
    Temporary {
        /// The recorder's number.
        recorder: u64,
    },
}

impl Storage {
    /// A storage with a fresh id.
    pub fn new(name: Option<String>, shape: Shape, dtype: DType, home: Home) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(Storage {
            id,
            name,
            shape,
            dtype,
            home,
        })
    }

    /// Its name, or a number where it has none.
    pub fn label(&self) -> String {
        self.name
            .clone()
            .unwrap_or_else(|| format!("array {}", self.id))
    }

    /// Bytes of its elements.
    pub fn bytes(&self) -> usize {
        self.shape.len() * self.dtype.size()
    }
}

/// An array without its types: a part of some storage, seen under some shape.
#[derive(Clone, Debug)]
pub struct Handle {
    /// The data.
    pub storage: Arc<Storage>,
    /// The shape the whole storage is seen under.
    pub whole: Shape,
    /// Which part of it this handle is.
    pub region: Region,
    /// The part's own shape.
    pub shape: Shape,
}

impl Handle {
    /// A handle for the whole of a storage.
    pub(crate) fn of(storage: Arc<Storage>) -> Self {
        let shape = storage.shape;
        Handle {
            storage,
            whole: shape,
            region: Region::whole(&shape),
            shape,
        }
    }

    /// A box inside this array; `region` is in this array's own coordinates.
    ///
    /// # Panics
    /// If the region leaves the array.
    pub fn part(&self, region: &Region) -> Handle {
        assert!(
            Region::whole(&self.shape).contains(region),
            "{region} leaves {}",
            self.shape
        );
        let dims = region.dims4();
        let shape =
            Shape::new(&dims[MAX_RANK - self.shape.rank()..]).expect("regions are not empty");
        Handle {
            storage: self.storage.clone(),
            whole: self.whole,
            region: region.inside(&self.region),
            shape,
        }
    }

    /// The same data under another shape with as many elements. Only for whole arrays: the rows of a
    /// part do not lie next to each other.
    pub fn reshape(&self, extents: &[usize]) -> Result<Handle, ReshapeError> {
        let shape = Shape::new(extents)?;
        if self.region != Region::whole(&self.whole) {
            return Err(ReshapeError::Part(self.shape));
        }
        if shape.len() != self.shape.len() {
            return Err(ReshapeError::Elements(self.shape, shape));
        }
        Ok(Handle {
            storage: self.storage.clone(),
            whole: shape,
            region: Region::whole(&shape),
            shape,
        })
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.storage.dtype
    }
}

/// Why an array cannot be seen under another shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReshapeError {
    /// The extents are not a shape.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The number of elements differs.
    #[error("cannot see an array of shape {0} as {1}: {a} elements are not {b}", a = .0.len(), b = .1.len())]
    Elements(Shape, Shape),
    /// Parts cannot be relabelled.
    #[error("cannot reshape a part of shape {0}: only whole arrays lie in one piece")]
    Part(Shape),
}

/// A typed array of rank `R`.
pub struct Array<'a, T, const R: usize> {
    handle: Handle,
    life: PhantomData<&'a T>,
}

/// One number.
pub type Scalar<'a, T> = Array<'a, T, 0>;
/// A row of numbers.
pub type Vector<'a, T> = Array<'a, T, 1>;
/// Rows and columns.
pub type Matrix<'a, T> = Array<'a, T, 2>;
/// Three axes: channel × height × width.
pub type Block<'a, T> = Array<'a, T, 3>;
/// Four axes: batch × channel × height × width.
pub type Tensor<'a, T> = Array<'a, T, 4>;

impl<'a, T: Element, const R: usize> Array<'a, T, R> {
    /// The array that a handle names, where its rank and element type are these.
    pub fn from_handle(handle: Handle) -> Option<Self> {
        (handle.shape.rank() == R && handle.dtype() == T::DTYPE).then_some(Array {
            handle,
            life: PhantomData,
        })
    }

    /// The array without its types.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The extents.
    pub fn shape(&self) -> Shape {
        self.handle.shape
    }

    /// The same data under another shape, without copying: `tensor.into_shape([n, c * h * w])`.
    pub fn into_shape<const S: usize>(
        self,
        extents: [usize; S],
    ) -> Result<Array<'a, T, S>, ReshapeError> {
        Ok(Array {
            handle: self.handle.reshape(&extents)?,
            life: PhantomData,
        })
    }

    /// All elements in a row, without copying.
    pub fn flatten(self) -> Result<Vector<'a, T>, ReshapeError> {
        let n = self.handle.shape.len();
        self.into_shape([n])
    }

    /// Parts to read. Any number of splits of one array can be held at once, and parts may overlap
    /// (see [`Split::halo`]). Tasks that read parts written under another split wait for exactly the
    /// tasks that wrote those elements.
    pub fn split(&self, split: &Split) -> Result<Vec<Part<'_, T, R>>, SplitError> {
        let parts = split.regions(&self.handle.shape)?;
        Ok(parts
            .iter()
            .map(|r| {
                Part(Array {
                    handle: self.handle.part(r),
                    life: PhantomData,
                })
            })
            .collect())
    }

    /// Parts to write, which together are this array and do not overlap. While they live the array
    /// itself cannot be used.
    ///
    /// ```compile_fail
    /// # use dahl_core::{Arena, split::{By, Split}};
    /// let arena = Arena::new();
    /// let mut x = arena.zeros::<f32, 1>([4]).unwrap();
    /// let mut once = x.split_mut(&Split::new().axis(0, By::Count(2))).unwrap();
    /// let mut again = x.split_mut(&Split::new().axis(0, By::Count(2))).unwrap();
    /// once.pop(); // error: `x` is borrowed twice
    /// ```
    pub fn split_mut(&mut self, split: &Split) -> Result<Vec<Array<'_, T, R>>, SplitError> {
        if split.has_halo() {
            return Err(SplitError::HaloForWriting);
        }
        let parts = split.regions(&self.handle.shape)?;
        Ok(parts
            .iter()
            .map(|r| Array {
                handle: self.handle.part(r),
                life: PhantomData,
            })
            .collect())
    }
}

impl<T: Element, const R: usize> fmt::Debug for Array<'_, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let h = &self.handle;
        write!(
            f,
            "{} ({} of {}{})",
            h.storage.label(),
            h.shape,
            T::DTYPE,
            h.region
        )
    }
}

/// A part of an array that can be read: a `&Array`, and never a `&mut Array`.
///
/// ```compile_fail
/// # use dahl_core::{Array, Arena, split::{By, Split}};
/// let arena = Arena::new();
/// let x = arena.zeros::<f32, 1>([4]).unwrap();
/// let mut parts = x.split(&Split::new().axis(0, By::Count(2))).unwrap();
/// let writable: &mut Array<'_, f32, 1> = &mut parts[0]; // error: cannot borrow as mutable
/// ```
pub struct Part<'a, T, const R: usize>(Array<'a, T, R>);

impl<'a, T, const R: usize> std::ops::Deref for Part<'a, T, R> {
    type Target = Array<'a, T, R>;

    fn deref(&self) -> &Array<'a, T, R> {
        &self.0
    }
}

impl Arena {
    /// An array without types, its elements zero.
    pub fn alloc(&self, name: &str, extents: &[usize], dtype: DType) -> Result<Handle, ArenaError> {
        let shape = Shape::new(extents)?;
        let place = self.place(&shape, dtype, true)?;
        let name = (!name.is_empty()).then(|| name.to_string());
        Ok(Handle::of(Storage::new(
            name,
            shape,
            dtype,
            Home::Arena(place),
        )))
    }

    fn make<T: Element, const R: usize>(
        &self,
        extents: [usize; R],
        value: impl FnMut(usize) -> T,
    ) -> Result<Array<'_, T, R>, ArenaError> {
        let shape = Shape::new(&extents)?;
        let place = self.place(&shape, T::DTYPE, false)?;
        arena::fill(&place, shape.len(), value);
        let handle = Handle::of(Storage::new(None, shape, T::DTYPE, Home::Arena(place)));
        Ok(Array {
            handle,
            life: PhantomData,
        })
    }

    /// An array of zeros.
    pub fn zeros<T: Element, const R: usize>(
        &self,
        extents: [usize; R],
    ) -> Result<Array<'_, T, R>, ArenaError> {
        self.full(extents, T::default())
    }

    /// An array of one value.
    pub fn full<T: Element, const R: usize>(
        &self,
        extents: [usize; R],
        value: T,
    ) -> Result<Array<'_, T, R>, ArenaError> {
        self.make(extents, |_| value)
    }

    /// An array with these values, row by row.
    pub fn from_slice<T: Element, const R: usize>(
        &self,
        extents: [usize; R],
        values: &[T],
    ) -> Result<Array<'_, T, R>, ArenaError> {
        let shape = Shape::new(&extents)?;
        if shape.len() != values.len() {
            return Err(ArenaError::WrongLength {
                shape,
                given: values.len(),
            });
        }
        self.make(extents, |i| values[i])
    }

    /// Uniform random numbers in `low..high`: element `i` is a pure function of the seed and `i`.
    pub fn uniform<T: Element, const R: usize>(
        &self,
        extents: [usize; R],
        seed: u64,
        low: f64,
        high: f64,
    ) -> Result<Array<'_, T, R>, ArenaError> {
        let random = Random::new(seed, 0);
        self.make(extents, |i| {
            T::from_f64(low + (high - low) * random.uniform(i as u64))
        })
    }

    /// Normal random numbers: element `i` is a pure function of the seed and `i`.
    pub fn normal<T: Element, const R: usize>(
        &self,
        extents: [usize; R],
        seed: u64,
        mean: f64,
        deviation: f64,
    ) -> Result<Array<'_, T, R>, ArenaError> {
        let random = Random::new(seed, 0);
        self.make(extents, |i| {
            T::from_f64(mean + deviation * random.normal(i as u64))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::By;

    #[test]
    fn parts_of_parts_keep_absolute_regions() {
        let arena = Arena::new();
        let mut x = arena.zeros::<f64, 2>([6, 8]).unwrap();
        let mut rows = x.split_mut(&Split::new().axis(0, By::Count(2))).unwrap();
        let cells = rows[1]
            .split_mut(&Split::new().axis(1, By::Size(3)))
            .unwrap();
        assert_eq!(cells[2].handle().region.to_string(), "[3..6, 6..8]");
        assert_eq!(cells[2].shape().to_string(), "3×2");
        let halo = Split::new().axis(0, By::Count(2)).halo(0, 1, 1);
        assert_eq!(x.split_mut(&halo).unwrap_err(), SplitError::HaloForWriting);
        assert_eq!(x.split(&halo).unwrap()[0].shape().to_string(), "4×8");
    }

    #[test]
    fn reshaping_keeps_the_storage() {
        let arena = Arena::new();
        let x = arena.uniform::<f32, 4>([2, 3, 4, 5], 7, 0.0, 1.0).unwrap();
        let id = x.handle().storage.id;
        let flat = x.into_shape([2, 60]).unwrap();
        assert_eq!(
            (flat.handle().storage.id, flat.shape().to_string()),
            (id, "2×60".into())
        );
        assert!(matches!(
            flat.into_shape([7]),
            Err(ReshapeError::Elements(..))
        ));
        let y = arena.zeros::<f32, 2>([4, 4]).unwrap();
        let part = y
            .handle()
            .part(&Region::new([0, 0, 0, 0], [1, 1, 4, 2]).unwrap());
        assert!(matches!(part.reshape(&[8]), Err(ReshapeError::Part(_))));
    }

    #[test]
    fn bad_constructions_are_errors() {
        let arena = Arena::new();
        assert!(matches!(
            arena.zeros::<f32, 1>([0]),
            Err(ArenaError::Shape(ShapeError::Empty(..)))
        ));
        let wrong = arena.from_slice([2, 2], &[1.0f32]).unwrap_err();
        assert_eq!(
            wrong.to_string(),
            "1 values given for an array of shape 2×2, which has 4"
        );
    }
}
