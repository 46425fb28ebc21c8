//! Operations: a codelet together with the types of its operands and parameters.
//!
//! An operation is declared once, as a `static`: `Op::new` is given the function that makes the codelet
//! (rule, cost, gradients, implementations), and takes names, modes and ranks from the types. Tasks are
//! submitted with structs, so an operand that is missing or out of place does not compile.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use dahl_core::{
    Array, Call, Codelet, Declaration, Element, Implementation, Operands, Recorder, Task,
    TaskError, UnitKind,
};

use crate::declare::{OperandSet, ParamSet};

/// An operation.
///
/// ```
/// use dahl_core::{Arena, Recorder};
/// use dahl_ops::elementwise::{ADD, Binary};
///
/// let arena = Arena::new();
/// let (a, b) = (arena.full([2], 1.0f32)?, arena.full([2], 2.0f32)?);
/// let recorder = Recorder::new();
/// let mut c = recorder.temporary::<f32, 1>([2]);
/// ADD.submit(&recorder, Binary { a: a.read(), b: b.read(), c: Some(c.write()) }, ());
/// assert_eq!(recorder.finish()?.tasks.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Op<O, P = ()> {
    codelet: OnceLock<Arc<Codelet>>,
    make: fn() -> Codelet,
    of: PhantomData<fn(O, P)>,
}

impl<O: OperandSet, P: ParamSet> Op<O, P> {
    pub(crate) const fn new(make: fn() -> Codelet) -> Self {
        Op {
            codelet: OnceLock::new(),
            make,
            of: PhantomData,
        }
    }

    /// Records a task on tiles, which are held to the codelet's rule.
    #[track_caller]
    pub fn submit(&self, recorder: &Recorder, operands: O::With<'_>, params: P) {
        recorder.submit(Task::new(self, &O::list(operands)).params(&params.list()));
    }

    /// Records a task on whole arrays, which are held to more: see [`Codelet::whole`].
    #[track_caller]
    pub fn submit_whole(&self, recorder: &Recorder, operands: O::With<'_>, params: P) {
        let (operands, params) = (O::list(operands), params.list());
        recorder.submit(Task::new(self, &operands).params(&params).whole());
    }
}

impl<O: OperandSet, P: ParamSet> Deref for Op<O, P> {
    type Target = Arc<Codelet>;

    fn deref(&self) -> &Arc<Codelet> {
        self.codelet.get_or_init(|| {
            Arc::new((self.make)().declare(Declaration {
                operands: O::DECLARED,
                params: P::DECLARED,
            }))
        })
    }
}

/// What a body returns.
pub(crate) type Done = Result<(), TaskError>;

/// An implementation for CPUs; `weight` is its cost relative to the codelet's others.
pub(crate) fn cpu(
    name: &'static str,
    weight: fn(&Call) -> f64,
    scratch: fn(&Call) -> usize,
    body: fn(&Operands<'_>) -> Done,
) -> Implementation {
    Implementation {
        name,
        kind: UnitKind::CPU,
        supports: |_| true,
        weight,
        scratch,
        body: Arc::new(body),
    }
}

/// The only implementation of a codelet, without scratch memory.
pub(crate) fn only(body: fn(&Operands<'_>) -> Done) -> Implementation {
    cpu("vector", |_| 1.0, |_| 0, body)
}

/// Calls a generic body for the type of the task's first operand.
macro_rules! by_type {
    ($body:ident) => {
        |ops: &dahl_core::Operands<'_>| match ops.dtype(0) {
            dahl_core::DType::F32 => $body::<f32>(ops),
            dahl_core::DType::F64 => $body::<f64>(ops),
        }
    };
}
pub(crate) use by_type;

/// Bytes of so many elements of the call's type.
pub(crate) fn elements(call: &Call, n: usize) -> usize {
    // Kernels align what they need themselves; one cache line more lets `Operands` do so too.
    n * call.dtype.size() + 64
}

/// A typed array's extents.
pub(crate) fn extents<T: Element, const R: usize>(x: &Array<'_, T, R>) -> [usize; R] {
    let shape = x.shape();
    std::array::from_fn(|i| shape.extents()[i])
}

/// A temporary of the same extents.
#[track_caller]
pub(crate) fn like<'r, T: Element, const R: usize>(
    recorder: &'r Recorder,
    x: &Array<'_, T, R>,
) -> Array<'r, T, R> {
    recorder.temporary(extents(x))
}
