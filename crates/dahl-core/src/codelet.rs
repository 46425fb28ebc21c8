//! Codelets: named operations, what they cost, and the ways to execute them.
//!
//! A codelet says what a task *means* (a rule that its operands must satisfy, a cost) and holds one or
//! more implementations of it. Which implementation a task uses is decided once, when the graph is
//! recorded, and never by timings during a run: all implementations mean the same thing, but their
//! last bits may differ.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::access::{Merge, Mode};
use crate::declare::Declaration;
use crate::dtype::DType;
use crate::machine::UnitKind;
use crate::operands::Operands;
use crate::shape::Shape;

/// The work of one task: arithmetic operations and bytes moved to and from memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Floating-point operations.
    pub flops: f64,
    /// Bytes read and written, each operand counted once.
    pub bytes: f64,
}

/// A parameter of a task, fixed when the graph is recorded. What changes from launch to launch (a
/// learning rate) is an array instead.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Param {
    /// A whole number.
    Int(i64),
    /// A number; equal and hashed by its bits, so that NaN equals itself.
    Float(f64),
}

impl PartialEq for Param {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Param::Int(a), Param::Int(b)) => a == b,
            (Param::Float(a), Param::Float(b)) => a.to_bits() == b.to_bits(),
            _ => false,
        }
    }
}

impl Eq for Param {}

impl Hash for Param {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Param::Int(i) => (0u8, *i as u64).hash(state),
            Param::Float(f) => (1u8, f.to_bits()).hash(state),
        }
    }
}

/// What a rule, a cost or a choice may look at: the operands' shapes and modes, and the parameters.
/// Tasks with equal calls have the same cost and use the same implementation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// Shape and mode of each operand's region.
    pub operands: Vec<(Shape, Mode)>,
    /// The element type, the same for all operands.
    pub dtype: DType,
    /// The parameters.
    pub params: Vec<Param>,
}

impl Call {
    /// Shape of operand `i`.
    ///
    /// # Panics
    /// If there is no such operand.
    pub fn shape(&self, i: usize) -> &Shape {
        &self.operands[i].0
    }

    /// Parameter `i` as a whole number; floats are truncated.
    ///
    /// # Panics
    /// If there is no such parameter.
    pub fn int(&self, i: usize) -> i64 {
        match self.params[i] {
            Param::Int(v) => v,
            Param::Float(v) => v as i64,
        }
    }

    /// Bytes of all operands; those read and written count twice.
    pub fn bytes(&self) -> f64 {
        let each = |&(shape, mode): &(Shape, Mode)| {
            (shape.len() * self.dtype.size()) as f64
                * (f64::from(u8::from(mode.reads())) + f64::from(u8::from(mode.writes())))
        };
        self.operands.iter().map(each).sum()
    }

    /// A number that is equal for equal calls, in every process and on every machine.
    pub fn footprint(&self) -> u64 {
        let mut h = crate::hash::StableHasher::default();
        self.hash(&mut h);
        h.finish()
    }
}

/// Why a task failed while it ran.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TaskError(pub String);

/// The code of an implementation.
pub type Body = Arc<dyn Fn(&Operands<'_>) -> Result<(), TaskError> + Send + Sync>;

/// One way to execute a codelet on one kind of unit.
#[derive(Clone)]
pub struct Implementation {
    /// Its name, unique within the codelet: `reference`, `gemm`, `winograd`…
    pub name: &'static str,
    /// The kind of unit it runs on.
    pub kind: UnitKind,
    /// Whether it can execute this call.
    pub supports: fn(&Call) -> bool,
    /// What it costs compared with the codelet's other implementations, in arbitrary units, where no
    /// calibration profile says better.
    pub weight: fn(&Call) -> f64,
    /// How many bytes of scratch memory it needs.
    pub scratch: fn(&Call) -> usize,
    /// What it does.
    pub body: Body,
}

impl fmt::Debug for Implementation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Implementation({} on {})", self.name, self.kind)
    }
}

/// A named operation.
///
/// ```
/// use dahl_core::{Codelet, Cost, UnitKind};
///
/// let double = Codelet::new("double")
///     .cost(|call| Cost { flops: call.shape(0).len() as f64, bytes: call.bytes() })
///     .implement("reference", UnitKind::CPU, |ops| {
///         let mut x = ops.write::<f32>(0);
///         dahl_core::view::for_rows(x.dims(), |at| x.row(at).iter_mut().for_each(|v| *v *= 2.0));
///         Ok(())
///     });
/// assert_eq!(double.implementations.len(), 1);
/// ```
#[derive(Clone, Debug)]
pub struct Codelet {
    /// Its name.
    pub name: String,
    /// What its operands and parameters are; none if it takes whatever it is given.
    pub declaration: Option<Declaration>,
    /// What the extents of its operands and its parameters must satisfy; the message says what is wrong.
    pub rule: fn(&Call) -> Result<(), String>,
    /// What whole arrays must satisfy besides. Tiles need not: how much of the input a tile must hold
    /// depends on where it lies, which a call does not say.
    pub whole: fn(&Call) -> Result<(), String>,
    /// The codelets that compute its gradients; none if it has none.
    pub gradients: &'static [&'static str],
    /// What one task costs.
    pub cost: fn(&Call) -> Cost,
    /// How its results come together where tasks reduce into one region.
    pub merge: Merge,
    /// Whether each element that it writes follows from those at the same place of the operands that are as large, and from
    /// the other ones: a task may then be cut into several, with the same bits.
    pub elementwise: bool,
    /// The ways to execute it.
    pub implementations: Vec<Implementation>,
}

impl Codelet {
    /// A codelet that accepts any operands and costs the bytes it touches, without an implementation.
    pub fn new(name: impl Into<String>) -> Self {
        Codelet {
            name: name.into(),
            declaration: None,
            rule: |_| Ok(()),
            whole: |_| Ok(()),
            gradients: &[],
            cost: |call| Cost {
                flops: 0.0,
                bytes: call.bytes(),
            },
            merge: Merge::Add,
            elementwise: false,
            implementations: Vec::new(),
        }
    }

    /// Declares operands and parameters.
    pub fn declare(mut self, declaration: Declaration) -> Self {
        self.declaration = Some(declaration);
        self
    }

    /// What operand `i` of a task with `given` operands is called.
    pub fn operand_name(&self, given: usize, i: usize) -> Cow<'static, str> {
        match self.declaration.and_then(|d| d.given(given).nth(i)) {
            Some(operand) => Cow::Borrowed(operand.name),
            None => Cow::Owned(format!("operand {i}")),
        }
    }

    /// Whether it can be applied so: first the declaration, then the rule, and for whole arrays
    /// what they must satisfy besides.
    pub fn check(&self, call: &Call, whole: bool) -> Result<(), String> {
        if let Some(declaration) = &self.declaration {
            declaration.check(call)?;
        }
        (self.rule)(call)?;
        if whole { (self.whole)(call) } else { Ok(()) }
    }

    /// Sets what whole arrays must satisfy besides the rule.
    pub fn whole(mut self, whole: fn(&Call) -> Result<(), String>) -> Self {
        self.whole = whole;
        self
    }

    /// Names the codelets that compute its gradients.
    pub fn gradients(mut self, gradients: &'static [&'static str]) -> Self {
        self.gradients = gradients;
        self
    }

    /// Sets the rule.
    pub fn rule(mut self, rule: fn(&Call) -> Result<(), String>) -> Self {
        self.rule = rule;
        self
    }

    /// Sets the cost.
    pub fn cost(mut self, cost: fn(&Call) -> Cost) -> Self {
        self.cost = cost;
        self
    }

    /// Sets how its results come together where tasks reduce into one region; they add unless set.
    pub fn merge(mut self, merge: Merge) -> Self {
        self.merge = merge;
        self
    }

    /// Says that it computes element by element: see [`Codelet::elementwise`](Self#structfield.elementwise).
    pub fn elementwise(mut self) -> Self {
        self.elementwise = true;
        self
    }

    /// Adds an implementation that can execute every call and needs no scratch memory.
    pub fn implement(
        self,
        name: &'static str,
        kind: UnitKind,
        body: impl Fn(&Operands<'_>) -> Result<(), TaskError> + Send + Sync + 'static,
    ) -> Self {
        self.with(Implementation {
            name,
            kind,
            supports: |_| true,
            weight: |_| 1.0,
            scratch: |_| 0,
            body: Arc::new(body),
        })
    }

    /// Adds an implementation.
    pub fn with(mut self, implementation: Implementation) -> Self {
        self.implementations.push(implementation);
        self
    }
}
