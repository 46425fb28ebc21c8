//! Address space without memory behind it.
//!
//! OpenCL's buffers have no addresses, yet the runtime tells operands apart by them. So every buffer is
//! given a range of the process's own address space in which nothing lies: unique, and a host that
//! follows such an address by mistake is stopped at once instead of reading something else.

/// A range of addresses, given back when dropped.
#[derive(Debug)]
pub(super) struct Reserved {
    base: *mut u8,
    len: usize,
}

// SAFETY: a range of numbers; nothing is ever read or written there.
unsafe impl Send for Reserved {}
// SAFETY: as above.
unsafe impl Sync for Reserved {}

impl Reserved {
    /// The first address.
    pub(super) fn base(&self) -> usize {
        self.base.expose_provenance()
    }
}

#[cfg(unix)]
impl Reserved {
    /// Reserves so many addresses; `None` if the system refuses.
    pub(super) fn new(len: usize) -> Option<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping anywhere, without access rights: nothing that exists is affected.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
        (base != libc::MAP_FAILED).then_some(Reserved {
            base: base.cast(),
            len,
        })
    }
}

#[cfg(unix)]
impl Drop for Reserved {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing lies in it.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

#[cfg(not(unix))]
impl Reserved {
    /// Reserves so many addresses: not known how on this system.
    pub(crate) fn new(_: usize) -> Option<Self> {
        None
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_apart_and_cost_nothing() {
        let ranges: Vec<Reserved> = (0..8).filter_map(|_| Reserved::new(1 << 32)).collect();
        assert_eq!(ranges.len(), 8);
        for (i, a) in ranges.iter().enumerate() {
            for b in &ranges[..i] {
                assert!(a.base() + a.len <= b.base() || b.base() + b.len <= a.base());
            }
        }
    }
}
