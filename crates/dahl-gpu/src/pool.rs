//! Device memory: a few large buffers, dealt out in pieces.
//!
//! Asking a driver for memory is slow and synchronises; pieces of a buffer cost a look at a table. A
//! pool counts exactly what it has handed out and what its buffers take, and keeps the latter within a
//! limit. It knows addresses and sizes only: what a buffer is, and how one is made, is the device's
//! business. Buffers are kept until the pool is dropped, but for empty ones that stand in the way of a
//! larger one.

use std::collections::BTreeMap;

/// Pieces begin at multiples of this, which suits every device's alignment of sub-buffers.
pub(crate) const ALIGN: usize = 256;

/// A buffer and the parts of it that are free.
struct Slab<S> {
    base: usize,
    len: usize,
    store: S,
    /// Free pieces by offset, none touching another.
    free: BTreeMap<usize, usize>,
}

/// What a pool holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes handed out now, alignment included.
    pub used: usize,
    /// At most so far.
    pub peak: usize,
    /// Bytes of all buffers.
    pub reserved: usize,
    /// Most bytes that buffers may take.
    pub limit: usize,
}

/// Memory of one device.
pub(crate) struct Pool<S> {
    slabs: Vec<Slab<S>>,
    /// Sizes of pieces handed out, by address.
    pieces: BTreeMap<usize, usize>,
    usage: Usage,
    /// Bytes of a usual buffer, and most that one buffer may have.
    slab: usize,
    most: usize,
}

impl<S> Pool<S> {
    /// A pool of at most `limit` bytes in buffers of at most `most`.
    pub(crate) fn new(limit: usize, most: usize) -> Self {
        let most = most.min(limit) / ALIGN * ALIGN;
        Pool {
            slabs: Vec::new(),
            pieces: BTreeMap::new(),
            usage: Usage {
                limit,
                ..Usage::default()
            },
            slab: (limit / 4).next_multiple_of(ALIGN).min(most),
            most,
        }
    }

    /// What it holds.
    pub(crate) fn usage(&self) -> Usage {
        self.usage
    }

    /// The address of a free piece of so many bytes. If no buffer has one, `make` is asked for another
    /// buffer and its address, if the limit allows; `None` if not.
    pub(crate) fn allocate<E>(
        &mut self,
        bytes: usize,
        make: impl FnOnce(usize) -> Result<(S, usize), E>,
    ) -> Result<Option<usize>, E> {
        let Some(need) = bytes.max(1).checked_next_multiple_of(ALIGN) else {
            return Ok(None);
        };
        let at = match self.fit(need) {
            Some(at) => at,
            None => {
                if need > self.most {
                    return Ok(None);
                }
                let mut room = self.room();
                if need > room {
                    self.drop_empty();
                    room = self.room();
                }
                let len = self.slab.max(need).min(room);
                if need > len {
                    return Ok(None);
                }
                let (store, base) = make(len)?;
                self.usage.reserved += len;
                self.slabs.push(Slab {
                    base,
                    len,
                    store,
                    free: BTreeMap::from([(0, len)]),
                });
                (self.slabs.len() - 1, 0)
            }
        };
        Ok(Some(self.take(at, need)))
    }

    /// Bytes that new buffers may have.
    fn room(&self) -> usize {
        (self.usage.limit - self.usage.reserved) / ALIGN * ALIGN
    }

    /// Gives back buffers of which nothing is handed out.
    fn drop_empty(&mut self) {
        self.slabs.retain(|s| s.free.get(&0) != Some(&s.len));
        self.usage.reserved = self.slabs.iter().map(|s| s.len).sum();
    }

    /// The free piece that leaves the least behind.
    fn fit(&self, need: usize) -> Option<(usize, usize)> {
        let pieces = self.slabs.iter().enumerate().flat_map(|(i, slab)| {
            slab.free
                .iter()
                .map(move |(&offset, &len)| (len, i, offset))
        });
        let best = pieces.filter(|&(len, ..)| len >= need).min()?;
        Some((best.1, best.2))
    }

    fn take(&mut self, (slab, offset): (usize, usize), need: usize) -> usize {
        let slab = &mut self.slabs[slab];
        let len = slab.free.remove(&offset).unwrap_or(need);
        if len > need {
            slab.free.insert(offset + need, len - need);
        }
        let address = slab.base + offset;
        self.pieces.insert(address, need);
        self.usage.used += need;
        self.usage.peak = self.usage.peak.max(self.usage.used);
        address
    }

    /// Takes a piece back. Returns whether it was one.
    pub(crate) fn release(&mut self, address: usize) -> bool {
        let Some(mut len) = self.pieces.remove(&address) else {
            return false;
        };
        self.usage.used -= len;
        let Some(slab) = self.slabs.iter_mut().find(|s| s.holds(address)) else {
            return false;
        };
        let mut offset = address - slab.base;
        if let Some(after) = slab.free.remove(&(offset + len)) {
            len += after;
        }
        if let Some((&before, &n)) = slab.free.range(..offset).next_back()
            && before + n == offset
        {
            offset = before;
            len += n;
        }
        slab.free.insert(offset, len);
        true
    }

    /// The buffer that an address lies in, and how far.
    pub(crate) fn find(&self, address: usize) -> Option<(&S, usize)> {
        let slab = self.slabs.iter().find(|s| s.holds(address))?;
        Some((&slab.store, address - slab.base))
    }
}

impl<S> Slab<S> {
    fn holds(&self, address: usize) -> bool {
        (self.base..self.base + self.len).contains(&address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dahl_core::random::Random;

    fn make(next: &mut usize) -> impl FnMut(usize) -> Result<((), usize), String> + '_ {
        |len| {
            *next += len + 4096;
            Ok(((), *next - len))
        }
    }

    #[test]
    fn pieces_never_overlap_and_all_comes_back() {
        let (mut pool, mut next) = (Pool::<()>::new(1 << 20, 1 << 18), 4096);
        let random = Random::new(3, 0);
        let mut held: Vec<(usize, usize)> = Vec::new();
        for i in 0..4000 {
            let bits = random.bits(i);
            if bits.is_multiple_of(3) && !held.is_empty() {
                let (at, _) = held.swap_remove(bits as usize / 4 % held.len());
                assert!(pool.release(at) && !pool.release(at));
                continue;
            }
            let bytes = 1 + (bits >> 8) as usize % (1 << 15);
            if let Some(at) = pool.allocate(bytes, make(&mut next)).unwrap() {
                let apart = |&(a, n): &(usize, usize)| at + bytes <= a || a + n <= at;
                assert!(at.is_multiple_of(ALIGN) && held.iter().all(apart));
                assert!(pool.find(at + bytes - 1).is_some());
                held.push((at, bytes));
            }
            let sum: usize = held.iter().map(|(_, n)| n.next_multiple_of(ALIGN)).sum();
            assert_eq!(pool.usage().used, sum);
            assert!(pool.usage().reserved <= 1 << 20);
        }
        assert!(pool.usage().peak > 1 << 19);
        held.iter().for_each(|&(at, _)| assert!(pool.release(at)));
        assert_eq!(pool.usage().used, 0);
        // Pieces joined again: a whole buffer can be handed out.
        assert!(pool.allocate(1 << 18, make(&mut next)).unwrap().is_some());
    }

    #[test]
    fn empty_buffers_make_way_for_a_larger_one() {
        let (mut pool, mut next) = (Pool::<()>::new(1 << 20, 1 << 20), 4096);
        let mut small: Vec<usize> = Vec::new();
        while let Some(at) = pool.allocate(1 << 16, make(&mut next)).unwrap() {
            small.push(at);
        }
        assert_eq!((small.len(), pool.usage().reserved), (16, 1 << 20));
        // All but one, in the last buffer: the others are empty, yet none holds three quarters.
        small[..15].iter().for_each(|&at| assert!(pool.release(at)));
        let large = pool.allocate(3 << 18, make(&mut next)).unwrap();
        assert!(large.is_some() && pool.find(small[15]).is_some());
        assert_eq!(pool.usage().reserved, 1 << 20);
    }

    #[test]
    fn the_limit_and_failures_hold() {
        let mut pool = Pool::<()>::new(1000, 1 << 30);
        assert_eq!(pool.allocate(1001, make(&mut 4096)), Ok(None));
        assert_eq!(pool.allocate(usize::MAX, make(&mut 4096)), Ok(None));
        let refused = pool.allocate(10, |_| Err::<((), usize), _>("refused"));
        assert_eq!(refused, Err("refused"));
        assert_eq!(pool.usage().reserved, 0);
        assert!(pool.allocate(10, make(&mut 4096)).unwrap().is_some());
        assert!(pool.find(1).is_none());
    }
}
