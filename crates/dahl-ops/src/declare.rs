//! Declaring an operation's operands and parameters, once and by name.
//!
//! `operands!` makes a struct with one field per operand, generic over what stands for one: arrays to
//! submit, positions in a task, extents in a rule, tensors on a device. `params!` makes one with a
//! field per parameter. Both also make the plain declaration that recorder and tables read, so field
//! names, their order, modes and ranks are said in one place and no number stands for an operand.

use dahl_core::{
    Call, Declaration, Mode, Operand, OperandDecl, Param, ParamDecl, ParamKind, Shape,
};

use crate::window::Window;

/// A struct of operands, made by `operands!`.
pub trait OperandSet {
    /// The same, of arrays to submit.
    type With<'a>;

    /// What they are, in a task's order.
    const DECLARED: &'static [OperandDecl];

    /// The arrays in a task's order.
    fn list(with: Self::With<'_>) -> Vec<Operand<'_>>;
}

/// A struct of parameters, made by `params!`.
pub trait ParamSet {
    /// What they are, in a task's order.
    const DECLARED: &'static [ParamDecl];

    /// The parameters in a task's order.
    fn list(self) -> Vec<Param>;
}

/// No parameters.
impl ParamSet for () {
    const DECLARED: &'static [ParamDecl] = &[];

    fn list(self) -> Vec<Param> {
        Vec::new()
    }
}

/// Hands out a task's operands first to last; optional ones only while there are more than needed.
#[derive(Debug)]
pub struct Given<F> {
    next: usize,
    spare: usize,
    get: F,
}

impl<A, F: Fn(usize) -> A> Given<F> {
    /// Operands of a task that has `count` of them.
    pub fn new(declared: &[OperandDecl], count: usize, get: F) -> Self {
        let required = declared.iter().filter(|o| !o.optional).count();
        let spare = count.saturating_sub(required);
        Given {
            next: 0,
            spare,
            get,
        }
    }

    /// The next one.
    pub fn one(&mut self) -> A {
        self.next += 1;
        (self.get)(self.next - 1)
    }

    /// The next one, if there is one to spare.
    pub fn maybe(&mut self) -> Option<A> {
        self.spare = self.spare.checked_sub(1)?;
        Some(self.one())
    }
}

/// An operand of a call that a rule looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shaped {
    pub name: &'static str,
    pub shape: Shape,
    pub mode: Mode,
}

impl Shaped {
    /// Operand `i` of a call.
    pub(crate) fn of(declared: &'static [OperandDecl], call: &Call, i: usize) -> Self {
        let declaration = Declaration {
            operands: declared,
            params: &[],
        };
        let (shape, mode) = call.operands[i];
        let name = declaration
            .given(call.operands.len())
            .nth(i)
            .map_or("operand", |o| o.name);
        Shaped { name, shape, mode }
    }

    /// Extents in four dimensions.
    pub(crate) fn dims(&self) -> [usize; 4] {
        self.shape.dims4()
    }

    /// Refuses other extents than these.
    pub(crate) fn expect(&self, want: [usize; 4]) -> Result<(), String> {
        if self.dims() == want {
            return Ok(());
        }
        let first = want.iter().position(|&d| d != 1).unwrap_or(3);
        let skip = first.min(4 - self.shape.rank().clamp(1, 4));
        let want: Vec<String> = want[skip..].iter().map(usize::to_string).collect();
        let want = want.join("×");
        Err(format!(
            "{} has shape {}, expected {want}",
            self.name, self.shape
        ))
    }

    /// Refuses other extents than those of another operand.
    pub(crate) fn expect_like(&self, other: &Shaped) -> Result<(), String> {
        if self.dims() == other.dims() {
            return Ok(());
        }
        Err(format!(
            "{} has shape {}, {} has {}",
            self.name, self.shape, other.name, other.shape
        ))
    }
}

/// What a parameter's type says about it, and how it is written as numbers.
pub(crate) trait ParamValue: Sized {
    /// What its numbers are.
    const KIND: ParamKind;
    /// How many there are, at least and at most.
    const COUNT: (usize, usize) = (1, 1);

    /// Appends its numbers.
    fn put(self, all: &mut Vec<Param>);

    /// Takes its numbers from the front.
    fn take(all: &mut &[Param]) -> Self;
}

fn whole(all: &mut &[Param]) -> i64 {
    match next(all) {
        Param::Int(v) => v,
        Param::Float(v) => v as i64,
    }
}

/// Missing parameters were refused by the declaration.
fn next(all: &mut &[Param]) -> Param {
    let (first, rest) = all.split_first().expect("as many as declared");
    *all = rest;
    *first
}

macro_rules! whole_param {
    ($($type:ty, $kind:ident, $from:expr, $to:expr;)+) => {
        $(impl ParamValue for $type {
            const KIND: ParamKind = ParamKind::$kind;

            fn put(self, all: &mut Vec<Param>) {
                let to: fn($type) -> i64 = $to;
                all.push(Param::Int(to(self)));
            }

            fn take(all: &mut &[Param]) -> Self {
                let from: fn(i64) -> $type = $from;
                from(whole(all))
            }
        })+
    };
}

whole_param! {
    bool, Flag, |v| v != 0, i64::from;
    usize, Int, |v| v.max(0) as usize, |v| v as i64;
    u32, Int, |v| v as u32, i64::from;
    u64, Int, |v| v as u64, |v| v as i64;
}

impl ParamValue for f64 {
    const KIND: ParamKind = ParamKind::Float;

    fn put(self, all: &mut Vec<Param>) {
        all.push(Param::Float(self));
    }

    fn take(all: &mut &[Param]) -> Self {
        match next(all) {
            Param::Int(v) => v as f64,
            Param::Float(v) => v,
        }
    }
}

/// May be left out; only the last parameter may.
impl<V: ParamValue> ParamValue for Option<V> {
    const KIND: ParamKind = V::KIND;
    const COUNT: (usize, usize) = (0, V::COUNT.1);

    fn put(self, all: &mut Vec<Param>) {
        if let Some(v) = self {
            v.put(all);
        }
    }

    fn take(all: &mut &[Param]) -> Self {
        (!all.is_empty()).then(|| V::take(all))
    }
}

/// Any number of them; only the last parameter may be.
impl<V: ParamValue> ParamValue for Vec<V> {
    const KIND: ParamKind = V::KIND;
    const COUNT: (usize, usize) = (0, usize::MAX);

    fn put(self, all: &mut Vec<Param>) {
        self.into_iter().for_each(|v| v.put(all));
    }

    fn take(all: &mut &[Param]) -> Self {
        std::iter::from_fn(|| (!all.is_empty()).then(|| V::take(all))).collect()
    }
}

/// Along height and width.
impl ParamValue for [usize; 2] {
    const KIND: ParamKind = ParamKind::Int;
    const COUNT: (usize, usize) = (2, 2);

    fn put(self, all: &mut Vec<Param>) {
        self.into_iter().for_each(|v| v.put(all));
    }

    fn take(all: &mut &[Param]) -> Self {
        [usize::take(all), usize::take(all)]
    }
}

/// Kernel, stride and shift, each along height and width.
impl ParamValue for Window {
    const KIND: ParamKind = ParamKind::Int;
    const COUNT: (usize, usize) = (6, 6);

    fn put(self, all: &mut Vec<Param>) {
        let sizes = [self.kernel, self.stride].concat();
        sizes.into_iter().for_each(|v| v.put(all));
        all.extend(self.shift.map(|s| Param::Int(s as i64)));
    }

    fn take(all: &mut &[Param]) -> Self {
        let mut two = || [usize::take(all), usize::take(all)];
        let (kernel, stride) = (two(), two());
        let shift = [whole(all) as isize, whole(all) as isize];
        Window {
            kernel,
            stride,
            shift,
        }
    }
}

/// Declares operands: `name: one|maybe [Mode|…] rank "what it holds"`, in a task's order. `maybe` may be
/// left out; the rank is the greatest, or `any`.
macro_rules! operands {
    (
        $(#[$doc:meta])*
        $set:ident { $($name:ident: $many:ident [$($mode:ident)|+] $rank:tt $about:literal,)+ }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $set<A = ()> {
            $(#[doc = $about] pub $name: $crate::declare::many::$many<A>,)+
        }

        impl $crate::declare::OperandSet for $set {
            type With<'a> = $set<dahl_core::Operand<'a>>;

            const DECLARED: &'static [dahl_core::OperandDecl] = &[$(dahl_core::OperandDecl {
                name: stringify!($name),
                about: $about,
                modes: &[$(dahl_core::Mode::$mode),+],
                rank: $crate::declare::operand!(rank $rank),
                optional: $crate::declare::operand!(optional $many),
            },)+];

            fn list(with: Self::With<'_>) -> Vec<dahl_core::Operand<'_>> {
                let mut all = Vec::with_capacity(Self::DECLARED.len());
                $($crate::declare::operand!(list $many all with.$name);)+
                all
            }
        }

        impl<A: Copy> $set<A> {
            /// A task's operands by name.
            ///
            /// # Panics
            /// If fewer are given than declared.
            #[allow(dead_code)]
            pub fn of(given: &[A]) -> Self {
                Self::from_fn(given.len(), |i| given[i])
            }
        }

        impl<A> $set<A> {
            fn from_fn(count: usize, get: impl Fn(usize) -> A) -> Self {
                let declared = <$set as $crate::declare::OperandSet>::DECLARED;
                let mut given = $crate::declare::Given::new(declared, count, get);
                $set { $($name: given.$many(),)+ }
            }
        }

        impl $set<usize> {
            /// Where the operands of a task with so many of them are.
            #[allow(dead_code)]
            pub fn at(count: usize) -> Self {
                Self::from_fn(count, |i| i)
            }
        }

        impl $set<$crate::declare::Shaped> {
            /// A call's operands by name.
            #[allow(dead_code)]
            pub(crate) fn shapes(call: &dahl_core::Call) -> Self {
                let declared = <$set as $crate::declare::OperandSet>::DECLARED;
                let shaped = |i| $crate::declare::Shaped::of(declared, call, i);
                Self::from_fn(call.operands.len(), shaped)
            }
        }
    };
}
pub(crate) use operands;

/// What a field holds, by the words of `operands!`.
#[allow(non_camel_case_types)]
pub mod many {
    /// An operand that every task has.
    pub type one<A> = A;
    /// An operand that may be left out.
    pub type maybe<A> = Option<A>;
}

/// The other words of `operands!`.
macro_rules! operand {
    (rank any) => {
        None
    };
    (rank $rank:literal) => {
        Some($rank)
    };
    (optional one) => {
        false
    };
    (optional maybe) => {
        true
    };
    (list one $all:ident $with:ident.$name:ident) => {
        $all.push($with.$name)
    };
    (list maybe $all:ident $with:ident.$name:ident) => {
        $all.extend($with.$name)
    };
}
pub(crate) use operand;

/// Declares parameters: `name: type "what it says"`, in a task's order.
macro_rules! params {
    ($(#[$doc:meta])* $set:ident { $($name:ident: $type:ty, $about:literal;)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $set {
            $(#[doc = $about] pub $name: $type,)+
        }

        impl $crate::declare::ParamSet for $set {
            const DECLARED: &'static [dahl_core::ParamDecl] = &[$(dahl_core::ParamDecl {
                name: stringify!($name),
                about: $about,
                kind: <$type as $crate::declare::ParamValue>::KIND,
                count: <$type as $crate::declare::ParamValue>::COUNT,
            },)+];

            fn list(self) -> Vec<dahl_core::Param> {
                let mut all = Vec::new();
                $($crate::declare::ParamValue::put(self.$name, &mut all);)+
                all
            }
        }

        impl $set {
            /// A task's parameters by name.
            ///
            /// # Panics
            /// If fewer are given than declared.
            #[allow(dead_code)]
            pub fn of(mut given: &[dahl_core::Param]) -> Self {
                $set { $($name: $crate::declare::ParamValue::take(&mut given),)+ }
            }
        }
    };
}
pub(crate) use params;
