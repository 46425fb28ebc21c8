//! Products of matrices and vectors, and rearranging.

use dahl_ops::linalg::products::{Matmul, Matvec, Outer, Transposed, Vecmat};
use dahl_ops::linalg::rearranged::{Diag, Diagonal, Transpose};
use dahl_ops::linear::{Forward, InputGrad, WeightGrad};

use super::reduce::add_parts;
use crate::launch::{Arg, BLAS, Steps, Task, adds};
use crate::tensor::Tensor;

/// A factor: its first element, extents, and the strides between rows and between columns.
#[derive(Clone, Copy)]
struct Factor {
    at: Tensor,
    dims: [usize; 2],
    strides: [usize; 2],
}

impl Factor {
    fn new(t: Tensor) -> Self {
        Factor {
            at: t,
            dims: [t.dims[2], t.dims[3]],
            strides: [t.strides[2], 1],
        }
    }

    fn turned(self) -> Self {
        Factor {
            at: self.at,
            dims: [self.dims[1], self.dims[0]],
            strides: [self.strides[1], self.strides[0]],
        }
    }

    fn turned_if(self, yes: bool) -> Self {
        if yes { self.turned() } else { self }
    }
}

/// Blocks of results below which a product's sum is cut into parts, to give the device enough to do.
const BUSY: usize = 64;
/// Terms of a part, at least.
const PART: usize = 256;

/// Into how many parts to cut a sum of `terms` terms when there are so many blocks of results, and how
/// many terms each has.
pub(super) fn parts(blocks: usize, terms: usize) -> (usize, usize) {
    let parts = (BUSY / blocks.max(1)).clamp(1, terms.div_ceil(PART).max(1));
    let each = terms.div_ceil(parts).max(1);
    (terms.div_ceil(each).max(1), each)
}

/// `c (+)= a · b (+ bias)`.
fn product(a: Factor, b: Factor, bias: Option<Tensor>, c: Tensor, add: bool, s: &mut Steps) {
    let ([m, k], n) = (a.dims, b.dims[1]);
    let head = |c: Tensor| -> [Arg; 13] {
        [
            a.at.into(),
            a.strides[0].into(),
            a.strides[1].into(),
            b.at.into(),
            b.strides[0].into(),
            b.strides[1].into(),
            bias.unwrap_or(a.at).into(),
            bias.is_some().into(),
            c.into(),
            m.into(),
            n.into(),
            k.into(),
            Arg::Int(0),
        ]
    };
    if m.min(n) < s.tuning.side {
        let [x @ .., _] = head(c);
        let [a, b, d, e, f, g, h, i, j, k, l, o] = x;
        let args = [a, b, d, e, f, g, h, i, j, k, l, o, add.into()];
        return s.items("matmul_items", args, m * n);
    }
    if s.blas {
        return by_library(head, bias, c, add, s);
    }
    let block = s.tuning.block();
    let (count, each) = match bias {
        // A bias must be added once.
        Some(_) => (1, k),
        None => parts(m.div_ceil(block) * n.div_ceil(block), k),
    };
    let to = if count > 1 {
        s.scratch([1, count, m, n])
    } else {
        c
    };
    let [a, b, d, e, f, g, h, i, j, k, l, o, _] = head(to);
    let adds = add && count == 1;
    let args = [a, b, d, e, f, g, h, i, j, k, l, o, each.into(), adds.into()];
    s.blocks("matmul", args, [m, n, count]);
    if count > 1 {
        add_parts(to, count, c, add, s);
    }
}

/// The same by a library, which knows no bias: that is written first, and added to.
fn by_library(
    head: impl Fn(Tensor) -> [Arg; 13],
    bias: Option<Tensor>,
    c: Tensor,
    add: bool,
    s: &mut Steps,
) {
    if let Some(bias) = bias {
        let rows = Tensor {
            dims: c.dims,
            strides: [0, 0, 0, 1],
            ..bias
        };
        let count = c.len().into();
        if add {
            s.items("add", [c.into(), rows.into(), c.into(), count], c.len());
        } else {
            let none = Arg::Real(0.0);
            s.items("copy", [rows.into(), c.into(), count, none, none], c.len());
        }
    }
    let [a, b, d, e, f, g, h, _, j, k, l, o, _] = head(c);
    let adds = (add || bias.is_some()).into();
    let args = [a, b, d, e, f, g, h, Arg::Int(0), j, k, l, o, o, adds];
    s.blocks(BLAS, args, [1, 1, 1]);
}

/// `c = a · b`
pub(super) fn matmul(t: &Task<'_>, s: &mut Steps) {
    let (Matmul { a, b, c }, turned) = (Matmul::of(t.tensors), Transposed::of(t.params));
    let a = Factor::new(a).turned_if(turned.a);
    let b = Factor::new(b).turned_if(turned.b);
    product(a, b, None, c, adds(Matmul::of(t.modes).c), s);
}

/// `c = a · bᵀ` of vectors.
pub(super) fn outer(t: &Task<'_>, s: &mut Steps) {
    let Outer { a, b, c } = Outer::of(t.tensors);
    let (a, b, add) = (Factor::new(a), Factor::new(b), adds(Outer::of(t.modes).c));
    product(a.turned(), b, None, c, add, s);
}

/// `y = m · x`
pub(super) fn matvec(t: &Task<'_>, s: &mut Steps) {
    let Matvec { m, x, y } = Matvec::of(t.tensors);
    product(Factor::new(x), Factor::new(m).turned(), None, y, false, s);
}

/// `y = x · m`
pub(super) fn vecmat(t: &Task<'_>, s: &mut Steps) {
    let Vecmat { x, m, y } = Vecmat::of(t.tensors);
    product(Factor::new(x), Factor::new(m), None, y, false, s);
}

/// `y = x · wᵀ (+ bias)`
pub(super) fn linear(t: &Task<'_>, s: &mut Steps) {
    let Forward { x, w, bias, y } = Forward::of(t.tensors);
    product(Factor::new(x), Factor::new(w).turned(), bias, y, false, s);
}

/// `dx = dy · w`
pub(super) fn linear_input_grad(t: &Task<'_>, s: &mut Steps) {
    let InputGrad { dy, w, dx } = InputGrad::of(t.tensors);
    product(Factor::new(dy), Factor::new(w), None, dx, false, s);
}

/// `dw += dyᵀ · x`
pub(super) fn linear_weight_grad(t: &Task<'_>, s: &mut Steps) {
    let WeightGrad { dy, x, dw } = WeightGrad::of(t.tensors);
    product(Factor::new(dy).turned(), Factor::new(x), None, dw, true, s);
}

/// The last two axes exchanged.
pub(super) fn transpose(t: &Task<'_>, s: &mut Steps) {
    let Transpose { x, y } = Transpose::of(t.tensors);
    s.items("transpose", [x.into(), y.into(), y.len().into()], y.len());
}

/// A diagonal matrix.
pub(super) fn diag(t: &Task<'_>, s: &mut Steps) {
    let Diag { x, y } = Diag::of(t.tensors);
    s.items("diag", [x.into(), y.into(), x.len().into()], y.len());
}

/// The diagonal of a matrix.
pub(super) fn diagonal(t: &Task<'_>, s: &mut Steps) {
    let Diagonal { x, y } = Diagonal::of(t.tensors);
    s.items("diagonal", [x.into(), y.into(), y.len().into()], y.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_all_terms_and_are_never_tiny() {
        for blocks in [1, 3, 63, 64, 1000] {
            for terms in [1, 255, 256, 257, 5000, 1 << 20] {
                let (count, each) = parts(blocks, terms);
                assert!(count * each >= terms && (count - 1) * each < terms);
                assert!(count == 1 || each >= PART / 2, "{blocks} {terms}");
                assert!(blocks < BUSY || count == 1);
            }
        }
    }
}
