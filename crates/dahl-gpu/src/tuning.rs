//! Sizes of work-groups: asked from the device, never assumed.

/// How many items work together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuning {
    /// Items of a group in reductions, and at most in anything one-dimensional: a power of two.
    pub group: usize,
    /// Items along each side of a group in products.
    pub side: usize,
    /// Results along each side of an item in products; divides `side`.
    pub reg: usize,
    /// Whether the device computes in double precision.
    pub doubles: bool,
}

/// Items of a group beyond which devices gain nothing.
const MOST: usize = 256;

impl Tuning {
    /// For a device whose groups have at most `items` items and `local` bytes of shared memory.
    pub fn new(items: usize, local: usize, doubles: bool) -> Self {
        let items = items.clamp(1, MOST);
        let group = 1 << items.ilog2();
        let fits = |&(side, reg): &(usize, usize)| {
            // Two slices of `side` rows, one element of padding each, in double precision.
            side * side <= items && 2 * side * (side * reg + 1) * 8 <= local
        };
        let sides = [(16, 4), (8, 4), (4, 4), (2, 2)];
        let (side, reg) = sides.into_iter().find(fits).unwrap_or((1, 1));
        Tuning {
            group,
            side,
            reg,
            doubles,
        }
    }

    /// Rows and columns of results that a group computes.
    pub(crate) fn block(&self) -> usize {
        self.side * self.reg
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_fit_the_device() {
        for items in [1, 2, 7, 16, 63, 64, 255, 256, 1024, 4096] {
            for local in [0, 1 << 10, 16 << 10, 32 << 10, 48 << 10] {
                let t = Tuning::new(items, local, true);
                assert!(t.group <= items && t.group.is_power_of_two());
                assert!(t.side * t.side <= items && t.side.is_multiple_of(t.reg));
                assert!(t.side == 1 || 2 * t.side * (t.block() + 1) * 8 <= local);
            }
        }
        let usual = Tuning::new(1024, 48 << 10, true);
        assert_eq!((usual.group, usual.side, usual.reg), (256, 16, 4));
    }
}
