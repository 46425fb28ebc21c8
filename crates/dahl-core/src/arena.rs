//! Arenas: where arrays that die together live.
//!
//! An arena hands out pieces of large aligned chunks and takes them back all at once. Handles with a
//! lifetime ([`crate::Array`]) borrow the arena, so a reset while one lives does not compile. Erased
//! handles ([`crate::Handle`]) carry the arena's *epoch* instead; using one from before a reset is an
//! error when the graph is launched, never a wrong access.
//!
//! A reset does not wait. Executors *lease* chunks while tasks that use them are in flight; a reset
//! leaves leased chunks to drain and continues in others, which it takes back once they are free. So
//! memory is bounded by the number of resets in flight, and nothing is overwritten under a running
//! task.
//!
//! Two executors cannot work on one chunk at the same time, since neither would see the other's
//! dependencies: the second one is refused the lease.

use std::alloc::{self, Layout};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::dtype::{DType, Element};
use crate::shape::{Shape, ShapeError};

/// Alignment of every array, in bytes: a cache line, and the widest vector register.
pub const ALIGNMENT: usize = 64;

/// Smallest chunk, in bytes.
const MIN_CHUNK: usize = 64 << 10;

/// Why an array could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArenaError {
    /// The extents are not a shape.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// An axis does not fit the 32 bits that regions use.
    #[error("an array of shape {0} has an axis longer than 4294967295")]
    AxisTooLong(Shape),
    /// The system refused the memory.
    #[error("out of memory: cannot allocate {} for an array of shape {shape}", crate::Bytes(*bytes as u64))]
    OutOfMemory {
        /// What was asked for.
        bytes: usize,
        /// The array it was for.
        shape: Shape,
    },
    /// A slice of the wrong length was given for the content.
    #[error("{given} values given for an array of shape {shape}, which has {}", shape.len())]
    WrongLength {
        /// The array's shape.
        shape: Shape,
        /// The number of values.
        given: usize,
    },
}

/// A large page of memory. Kernels that walk through large arrays wait for translations of addresses otherwise: one
/// for every 4 KiB, and on a virtual machine each is looked up twice.
const HUGE_PAGE: usize = 2 << 20;

/// Asks for large pages where the system gives them to those who ask; it may refuse, and nothing else changes.
///
/// # Safety
/// The bytes from `ptr`, which is aligned to [`HUGE_PAGE`], are an allocation of ours.
unsafe fn prefer_huge_pages(ptr: *mut u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    // SAFETY: the caller's promise; the advice changes no content. The part of a page at the end, which others may
    // share, is left out.
    unsafe {
        libc::madvise(
            ptr.cast(),
            bytes / HUGE_PAGE * HUGE_PAGE,
            libc::MADV_HUGEPAGE,
        );
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (ptr, bytes);
}

/// Zeroed memory, aligned to [`ALIGNMENT`], freed when dropped.
#[derive(Debug)]
pub struct Block {
    ptr: *mut u8,
    layout: Layout,
}

// SAFETY: a block is memory that it owns; code that dereferences its pointer argues for the access.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    /// A block of `bytes`, or `None` if the system refuses.
    pub fn new(bytes: usize) -> Option<Self> {
        let bytes = bytes.max(ALIGNMENT);
        let align = match bytes < 2 * HUGE_PAGE {
            true => ALIGNMENT,
            false => HUGE_PAGE,
        };
        let layout = Layout::from_size_align(bytes, align).ok()?;
        // SAFETY: the layout's size is not zero, and as many bytes as it has are written before anybody reads them.
        let ptr = unsafe {
            let ptr = alloc::alloc(layout);
            if ptr.is_null() {
                return None;
            }
            if align == HUGE_PAGE {
                prefer_huge_pages(ptr, bytes);
            }
            ptr.write_bytes(0, bytes);
            ptr
        };
        Some(Block { ptr, layout })
    }

    /// The first byte.
    pub fn as_ptr(&self) -> *mut u8 {
        self.ptr
    }

    /// Number of bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout and not freed before.
        unsafe { alloc::dealloc(self.ptr, self.layout) }
    }
}

/// A piece of memory that arrays lie in, with the account of who uses it.
#[derive(Debug)]
pub struct Chunk {
    block: Block,
    lease: Mutex<Lease>,
}

#[derive(Debug, Default)]
struct Lease {
    owner: u64,
    count: usize,
}

impl Chunk {
    fn new(bytes: usize) -> Option<Arc<Self>> {
        Some(Arc::new(Chunk {
            block: Block::new(bytes)?,
            lease: Mutex::default(),
        }))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Lease> {
        // A panic cannot leave two integers inconsistent.
        self.lease
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Takes a lease for the executor `owner`. False if another executor holds one.
    pub fn lease(&self, owner: u64) -> bool {
        let mut lease = self.lock();
        if lease.count > 0 && lease.owner != owner {
            return false;
        }
        lease.owner = owner;
        lease.count += 1;
        true
    }

    /// Gives one lease back.
    pub fn release(&self) {
        let mut lease = self.lock();
        debug_assert!(lease.count > 0, "released more often than leased");
        lease.count = lease.count.saturating_sub(1);
    }

    fn is_leased(&self) -> bool {
        self.lock().count > 0
    }
}

/// Where an array of an arena lies.
#[derive(Clone, Debug)]
pub struct Place {
    /// The chunk.
    pub chunk: Arc<Chunk>,
    /// Bytes from the chunk's beginning.
    pub offset: usize,
    epoch: u64,
    current: Arc<AtomicU64>,
}

impl Place {
    /// Whether the arena was not reset since.
    pub fn is_live(&self) -> bool {
        self.current.load(Ordering::Acquire) == self.epoch
    }

    /// First byte of the array.
    pub fn base(&self) -> *mut u8 {
        // SAFETY: the arena put the array inside the chunk.
        unsafe { self.chunk.block.as_ptr().add(self.offset) }
    }
}

/// Owns arrays that die together.
///
/// ```
/// use dahl_core::Arena;
///
/// let mut arena = Arena::new();
/// let x = arena.from_slice([2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// assert_eq!(x.shape().to_string(), "2×3");
/// arena.reset(); // `x` is not used below, so it may go
/// assert_eq!(arena.used(), 0);
/// # Ok::<(), dahl_core::arena::ArenaError>(())
/// ```
///
/// ```compile_fail
/// # use dahl_core::Arena;
/// let mut arena = Arena::new();
/// let x = arena.zeros::<f32, 1>([3]).unwrap();
/// arena.reset();
/// x.shape(); // error: `arena` is still borrowed
/// ```
#[derive(Debug)]
pub struct Arena {
    epoch: Arc<AtomicU64>,
    chunks: RefCell<Chunks>,
}

#[derive(Debug, Default)]
struct Chunks {
    /// In use since the last reset; arrays are made in the last one.
    active: Vec<Arc<Chunk>>,
    /// Bytes used in the last active chunk.
    filled: usize,
    /// Bytes handed out since the last reset.
    used: usize,
    /// Left behind by resets; some may still be leased.
    resting: Vec<Arc<Chunk>>,
}

impl Default for Arena {
    fn default() -> Self {
        Self::new()
    }
}

impl Arena {
    /// An empty arena. Memory is taken from the system as arrays are made.
    pub fn new() -> Self {
        Arena {
            epoch: Arc::new(AtomicU64::new(0)),
            chunks: RefCell::default(),
        }
    }

    /// Bytes that arrays occupy, padding included.
    pub fn used(&self) -> usize {
        self.chunks.borrow().used
    }

    /// Bytes held from the system.
    pub fn reserved(&self) -> usize {
        let chunks = self.chunks.borrow();
        chunks
            .active
            .iter()
            .chain(&chunks.resting)
            .map(|c| c.block.len())
            .sum()
    }

    /// Forgets all arrays and makes their memory available again, without waiting for tasks in flight.
    pub fn reset(&mut self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
        let chunks = self.chunks.get_mut();
        chunks.resting.append(&mut chunks.active);
        (chunks.filled, chunks.used) = (0, 0);
    }

    /// A place without room, for an array of a graph that is looked at and never executed.
    pub(crate) fn place_nothing(&self, shape: &Shape) -> Result<Place, ArenaError> {
        if shape.dims4().iter().any(|&d| u32::try_from(d).is_err()) {
            return Err(ArenaError::AxisTooLong(*shape));
        }
        let one = Shape::SCALAR;
        self.place(&one, DType::F32, false)
    }

    /// Room for an array, its bytes zero if `zero`.
    pub(crate) fn place(
        &self,
        shape: &Shape,
        dtype: DType,
        zero: bool,
    ) -> Result<Place, ArenaError> {
        if shape.dims4().iter().any(|&d| u32::try_from(d).is_err()) {
            return Err(ArenaError::AxisTooLong(*shape));
        }
        let bytes = (shape.len() * dtype.size()).next_multiple_of(ALIGNMENT);
        let mut chunks = self.chunks.borrow_mut();
        let fits = chunks
            .active
            .last()
            .is_some_and(|c| chunks.filled + bytes <= c.block.len());
        if !fits {
            let chunk = chunks.next(bytes).ok_or(ArenaError::OutOfMemory {
                bytes,
                shape: *shape,
            })?;
            chunks.active.push(chunk);
            chunks.filled = 0;
        }
        let offset = chunks.filled;
        chunks.filled += bytes;
        chunks.used += bytes;
        let chunk = chunks.active.last().expect("one was just pushed").clone();
        let place = Place {
            chunk,
            offset,
            epoch: self.epoch.load(Ordering::Acquire),
            current: self.epoch.clone(),
        };
        if zero {
            // SAFETY: these bytes were just set apart for this array, in a chunk that nobody leases
            // for an older one, so nothing else reaches them.
            unsafe { std::ptr::write_bytes(place.base(), 0, bytes) };
        }
        Ok(place)
    }
}

impl Chunks {
    /// A chunk with room for `bytes`: one that rests and has drained, else a new one.
    fn next(&mut self, bytes: usize) -> Option<Arc<Chunk>> {
        let drained = |c: &Arc<Chunk>| c.block.len() >= bytes && !c.is_leased();
        if let Some(i) = self.resting.iter().position(drained) {
            return Some(self.resting.swap_remove(i));
        }
        let grown = self
            .active
            .iter()
            .map(|c| c.block.len())
            .sum::<usize>()
            .min(1 << 30);
        Chunk::new(bytes.max(grown).max(MIN_CHUNK)).or_else(|| Chunk::new(bytes))
    }
}

/// Writes the initial content of an array that was just placed.
pub(crate) fn fill<T: Element>(place: &Place, len: usize, mut value: impl FnMut(usize) -> T) {
    let base = place.base().cast::<T>();
    for i in 0..len {
        // SAFETY: the place has room for `len` elements, is aligned, and nobody has a handle yet.
        unsafe { base.add(i).write(value(i)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_aligned_and_disjoint() {
        let arena = Arena::new();
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for n in [1, 7, 100, 40_000, 3] {
            let shape = Shape::new(&[n]).unwrap();
            let p = arena.place(&shape, DType::F64, true).unwrap();
            let start = p.base() as usize;
            assert_eq!(start % ALIGNMENT, 0);
            assert!(
                ranges
                    .iter()
                    .all(|&(s, e)| start + n * 8 <= s || e <= start)
            );
            ranges.push((start, start + n * 8));
        }
    }

    #[test]
    fn memory_is_reused_unless_leased() {
        let mut arena = Arena::new();
        let shape = Shape::new(&[1000]).unwrap();
        let first = arena.place(&shape, DType::F32, true).unwrap();
        arena.reset();
        assert!(!first.is_live());
        let second = arena.place(&shape, DType::F32, true).unwrap();
        assert_eq!(first.base(), second.base());
        assert!(second.chunk.lease(1));
        assert!(!second.chunk.lease(2), "a second executor is refused");
        arena.reset();
        let third = arena.place(&shape, DType::F32, true).unwrap();
        assert_ne!(second.base(), third.base(), "leased memory drains first");
        second.chunk.release();
        arena.reset();
        let reserved = arena.reserved();
        for _ in 0..100 {
            arena.place(&shape, DType::F32, true).unwrap();
            arena.reset();
        }
        assert_eq!(arena.reserved(), reserved);
    }

    #[test]
    fn huge_arrays_are_errors() {
        let arena = Arena::new();
        let axis = Shape::new(&[1 << 33]).unwrap();
        assert!(matches!(
            arena.place(&axis, DType::F32, false),
            Err(ArenaError::AxisTooLong(_))
        ));
        let huge = Shape::new(&[1 << 28, 1 << 30]).unwrap();
        assert!(matches!(
            arena.place(&huge, DType::F32, false),
            Err(ArenaError::OutOfMemory { .. })
        ));
    }
}
