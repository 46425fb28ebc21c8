//! The executor's interface: what a training loop needs of what runs its graphs.
//!
//! The runtime implements it, and anything else that can run a graph may.

use std::ops::Range;
use std::sync::Arc;

use crate::array::Handle;
use crate::graph::Graph;

/// Why an executor could not do what it was asked.
pub type ExecError = Box<dyn std::error::Error + Send + Sync>;

/// Values of an array, to look at.
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// Single precision.
    F32(&'a [f32]),
    /// Double precision.
    F64(&'a [f64]),
}

impl Values<'_> {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Values::F32(v) => v.len(),
            Values::F64(v) => v.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Value `i`, widened.
    ///
    /// # Panics
    /// If there is no such value.
    pub fn get(&self, i: usize) -> f64 {
        match self {
            Values::F32(v) => f64::from(v[i]),
            Values::F64(v) => v[i],
        }
    }

    /// The sum of all values in double precision, first to last.
    pub fn sum(&self) -> f64 {
        (0..self.len()).fold(0.0, |sum, i| sum + self.get(i))
    }
}

/// Values of an array, to change.
#[derive(Debug)]
pub enum ValuesMut<'a> {
    /// Single precision.
    F32(&'a mut [f32]),
    /// Double precision.
    F64(&'a mut [f64]),
}

impl ValuesMut<'_> {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            ValuesMut::F32(v) => v.len(),
            ValuesMut::F64(v) => v.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets value `i`, rounded.
    ///
    /// # Panics
    /// If there is no such value.
    pub fn set(&mut self, i: usize, value: f64) {
        match self {
            ValuesMut::F32(v) => v[i] = value as f32,
            ValuesMut::F64(v) => v[i] = value,
        }
    }
}

/// An element type whose values an executor shows as slices.
pub trait Shown: crate::dtype::Element {
    /// The values, if they are of this type.
    fn values(values: Values<'_>) -> Option<&[Self]>;

    /// The values to change, if they are of this type.
    fn values_mut(values: ValuesMut<'_>) -> Option<&mut [Self]>;
}

impl Shown for f32 {
    fn values(values: Values<'_>) -> Option<&[f32]> {
        if let Values::F32(v) = values {
            Some(v)
        } else {
            None
        }
    }

    fn values_mut(values: ValuesMut<'_>) -> Option<&mut [f32]> {
        if let ValuesMut::F32(v) = values {
            Some(v)
        } else {
            None
        }
    }
}

impl Shown for f64 {
    fn values(values: Values<'_>) -> Option<&[f64]> {
        if let Values::F64(v) = values {
            Some(v)
        } else {
            None
        }
    }

    fn values_mut(values: ValuesMut<'_>) -> Option<&mut [f64]> {
        if let ValuesMut::F64(v) = values {
            Some(v)
        } else {
            None
        }
    }
}

/// Runs graphs.
pub trait Executor {
    /// Starts a graph; need not wait for its end.
    fn launch(&mut self, graph: &Arc<Graph>) -> Result<(), ExecError>;

    /// Waits for all graphs started, and reports the first failure.
    fn wait(&mut self) -> Result<(), ExecError>;

    /// Shows an array's values as the graphs started so far leave them.
    fn read(&mut self, array: &Handle, see: &mut dyn FnMut(Values<'_>)) -> Result<(), ExecError>;

    /// Lets an array's values be changed, after the graphs started so far and before later ones.
    fn write(
        &mut self,
        array: &Handle,
        change: &mut dyn FnMut(ValuesMut<'_>),
    ) -> Result<(), ExecError>;

    /// Whether to stop: something that one computer knows and all that work together must agree upon. Asked once per
    /// step. Where there are several, the answer may come some steps late, but after the same step on all.
    fn agree(&mut self, stop: bool) -> Result<bool, ExecError> {
        Ok(stop)
    }

    /// Refuses to go on where computers that work together were given different things to do. `facts` makes names and
    /// values, which must be the same on all; a computer alone does not ask for them.
    fn compare(
        &mut self,
        _facts: &mut dyn FnMut() -> Vec<(&'static str, String)>,
    ) -> Result<(), ExecError> {
        Ok(())
    }

    /// The elements of an array, from the first to the last, that tasks here touch when the graph is launched next; on
    /// computers that share a graph that may be a part. What a program writes elsewhere nobody reads.
    fn touched(&mut self, _graph: &Arc<Graph>, array: &Handle) -> Range<usize> {
        0..array.storage.shape.len()
    }

    /// Whether this computer writes files for all that work together.
    fn is_first(&self) -> bool {
        true
    }
}
