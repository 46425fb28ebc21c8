//! Products of matrices by cuBLAS.
//!
//! cuBLAS stores columns, we store rows: it is asked for the transposed product of transposed factors.
//! A factor must have one stride of 1, which those of recipes have.

use std::ffi::c_int;

use cudarc::cublas::result as cublas;
use cudarc::cublas::sys::{cublasHandle_t, cublasOperation_t, cudaStream_t};
use cudarc::driver::sys::CUstream;
use dahl_core::DType;

use crate::error::GpuError;
use crate::launch::Slot;

/// A handle of cuBLAS, bound to a stream.
pub(super) struct Blas(cublasHandle_t);

// SAFETY: a handle may move between threads; it is used by one at a time, behind a lock.
unsafe impl Send for Blas {}

/// A factor: address, strides between rows and between columns.
struct Factor(usize, [i32; 2]);

impl Factor {
    fn new(slots: &[Slot], at: usize, size: usize) -> Option<Self> {
        let [
            Slot::Buffer(p),
            Slot::Laid(l),
            Slot::Int(rows),
            Slot::Int(columns),
        ] = slots.get(at..at + 4)?
        else {
            return None;
        };
        Some(Factor(p + l.at as usize * size, [*rows, *columns]))
    }

    /// How to read it, and its leading dimension, as its transposed in columns.
    fn layout(&self) -> Option<(cublasOperation_t, c_int)> {
        match self.1 {
            [rows, 1] => Some((cublasOperation_t::CUBLAS_OP_N, rows)),
            [1, columns] => Some((cublasOperation_t::CUBLAS_OP_T, columns)),
            _ => None,
        }
    }
}

impl Blas {
    /// A handle whose products run on a stream of the current context.
    pub(super) fn new(device: &str, stream: CUstream) -> Result<Self, GpuError> {
        let failed = |e: cublas::CublasError| GpuError::Call {
            device: device.into(),
            what: "starting cuBLAS".into(),
            why: format!("{e:?}"),
        };
        let blas = Blas(cublas::create_handle().map_err(failed)?);
        // SAFETY: a valid handle and a valid stream, which is the same thing to both libraries.
        unsafe { cublas::set_stream(blas.0, stream as cudaStream_t) }.map_err(failed)?;
        Ok(blas)
    }

    /// Starts the product that arguments as those of the kernel `matmul` describe.
    ///
    /// # Safety
    /// The operands are on the device, and stay as they are until the stream has come so far.
    pub(super) unsafe fn product(
        &self,
        device: &str,
        slots: &[Slot],
        dtype: DType,
    ) -> Result<(), GpuError> {
        // a, b and bias with their layouts, then c, then rows, columns, depth, part, whether to add.
        let read = || {
            let size = dtype.size();
            let (a, b) = (Factor::new(slots, 0, size)?, Factor::new(slots, 4, size)?);
            let [Slot::Buffer(p), Slot::Laid(l)] = slots.get(11..13)? else {
                return None;
            };
            let c = Factor(p + l.at as usize * size, [l.strides[2], 1]);
            let [Slot::Int(m), Slot::Int(n), Slot::Int(k), _, Slot::Int(add)] =
                slots.get(13..18)?
            else {
                return None;
            };
            Some((a, b, c, [*m, *n, *k], *add != 0))
        };
        let odd = || GpuError::Unsupported("cuBLAS was asked for a product it cannot do".into());
        let (a, b, c, [m, n, k], add) = read().ok_or_else(odd)?;
        let ((ta, lda), (tb, ldb)) = (a.layout().ok_or_else(odd)?, b.layout().ok_or_else(odd)?);
        let ldc = c.1[0];
        // SAFETY: extents and strides are those of operands that exist, by the caller's contract; the
        // factors are read before the call returns.
        let done = unsafe {
            match dtype {
                DType::F32 => cublas::sgemm(
                    self.0,
                    tb,
                    ta,
                    n,
                    m,
                    k,
                    &1.0,
                    b.0 as *const f32,
                    ldb,
                    a.0 as *const f32,
                    lda,
                    &f32::from(u8::from(add)),
                    c.0 as *mut f32,
                    ldc,
                ),
                DType::F64 => cublas::dgemm(
                    self.0,
                    tb,
                    ta,
                    n,
                    m,
                    k,
                    &1.0,
                    b.0 as *const f64,
                    ldb,
                    a.0 as *const f64,
                    lda,
                    &f64::from(u8::from(add)),
                    c.0 as *mut f64,
                    ldc,
                ),
            }
        };
        done.map_err(|e| GpuError::Call {
            device: device.into(),
            what: "a product by cuBLAS".into(),
            why: format!("{e:?}"),
        })
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        // SAFETY: ours, and released once.
        let _ = unsafe { cublas::destroy_handle(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::{BLAS, Steps, Task};
    use crate::tensor::{Base, Tensor};
    use crate::tuning::Tuning;
    use dahl_core::{Mode, Param};

    /// No device is at hand: what cuBLAS would be asked for is checked instead.
    #[test]
    fn transposed_factors_become_operations() {
        let tuning = Tuning::new(256, 48 << 10, true);
        for (ta, tb) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let dims = |r: usize, c: usize, t: i64| match t {
                0 => [1, 1, r, c],
                _ => [1, 1, c, r],
            };
            let (m, k, n) = (40, 50, 60);
            let tensors = [dims(m, k, ta), dims(k, n, tb), [1, 1, m, n]]
                .map(|d| Tensor::contiguous(Base::At(4096), d));
            let task = Task {
                tensors: &tensors,
                modes: &[Mode::Read, Mode::Read, Mode::Write],
                params: &[Param::Int(ta), Param::Int(tb)],
                first: 0,
            };
            let mut steps = Steps::new(DType::F32, tuning);
            steps.blas = true;
            crate::recipes::by_name("matmul").unwrap()(&task, &mut steps);
            assert_eq!(steps.launches[0].kernel, BLAS);
            let slots = steps.launches[0]
                .slots(DType::F32, |_| Ok((4096, 8)))
                .unwrap();
            let (a, b) = (Factor::new(&slots, 0, 4), Factor::new(&slots, 4, 4));
            let (a, b) = (a.unwrap(), b.unwrap());
            assert_eq!(a.0, 4096 + 8);
            let op = |t: i64| match t {
                0 => cublasOperation_t::CUBLAS_OP_N,
                _ => cublasOperation_t::CUBLAS_OP_T,
            };
            let (lda, ldb) = ([k, m][ta as usize], [n, k][tb as usize]);
            assert_eq!(a.layout(), Some((op(ta), lda as i32)));
            assert_eq!(b.layout(), Some((op(tb), ldb as i32)));
            assert!(matches!(
                slots[11..],
                [Slot::Buffer(_), Slot::Laid(_), Slot::Int(40), ..]
            ));
            assert_eq!(slots.len(), 18);
        }
    }
}
