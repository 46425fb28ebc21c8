//! Tasks to submit: a codelet applied to arrays, and how each of them is used.

use std::borrow::Cow;
use std::sync::Arc;

use crate::access::Mode;
use crate::array::{Array, Handle};
use crate::codelet::{Call, Codelet, Param};
use crate::dtype::{DType, Element};

/// An array and how a task uses it.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// The array.
    pub handle: &'a Handle,
    /// The use.
    pub mode: Mode,
}

impl Handle {
    /// This array as an operand.
    pub fn with(&self, mode: Mode) -> Operand<'_> {
        Operand { handle: self, mode }
    }
}

impl<T: Element, const R: usize> Array<'_, T, R> {
    /// This array, to be read.
    pub fn read(&self) -> Operand<'_> {
        self.handle().with(Mode::Read)
    }

    /// This array, to be overwritten.
    pub fn write(&mut self) -> Operand<'_> {
        self.handle().with(Mode::Write)
    }

    /// This array, to be changed.
    pub fn read_write(&mut self) -> Operand<'_> {
        self.handle().with(Mode::ReadWrite)
    }

    /// This array, to be added to.
    pub fn reduce(&mut self) -> Operand<'_> {
        self.handle().with(Mode::Reduce)
    }
}

/// A task to submit.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    pub(super) codelet: &'a Arc<Codelet>,
    pub(super) operands: &'a [Operand<'a>],
    pub(super) params: &'a [Param],
    pub(super) priority: i32,
    pub(super) pin: Option<&'a str>,
    pub(super) whole: bool,
}

impl<'a> Task<'a> {
    /// A codelet applied to operands.
    pub fn new(codelet: &'a Arc<Codelet>, operands: &'a [Operand<'a>]) -> Self {
        Task {
            codelet,
            operands,
            params: &[],
            priority: 0,
            pin: None,
            whole: false,
        }
    }

    /// Sets the parameters.
    pub fn params(mut self, params: &'a [Param]) -> Self {
        self.params = params;
        self
    }

    /// The operands are whole arrays, or parts that stand for themselves: more of them can be checked,
    /// see [`Codelet::whole`].
    pub fn whole(mut self) -> Self {
        self.whole = true;
        self
    }

    /// Sets the priority; higher is more urgent, zero is usual.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Uses this implementation, whatever profile and costs say.
    pub fn implementation(mut self, name: &'a str) -> Self {
        self.pin = Some(name);
        self
    }

    pub(super) fn call(&self) -> Call {
        let first = self.operands.first();
        Call {
            operands: self
                .operands
                .iter()
                .map(|o| (o.handle.shape, o.mode))
                .collect(),
            dtype: first.map_or(DType::F32, |o| o.handle.dtype()),
            params: self.params.to_vec(),
        }
    }

    pub(super) fn operand_name(&self, i: usize) -> Cow<'static, str> {
        self.codelet.operand_name(self.operands.len(), i)
    }
}
