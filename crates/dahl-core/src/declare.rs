//! Declarations: what a codelet's operands and parameters are called, and what may be given for them.
//!
//! Plain data beside a codelet's rule. The recorder checks counts, modes and ranks against it and takes
//! the names for its messages; tables and conformance cases read it too. A codelet without one takes
//! whatever it is given. Extents are the rule's business, not the declaration's.

use crate::access::Mode;
use crate::codelet::{Call, Codelet, Param};
use crate::report::Table;
use crate::shape::MAX_RANK;

/// One operand of a codelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperandDecl {
    /// Its name, unique within the codelet.
    pub name: &'static str,
    /// What it holds, in a few words.
    pub about: &'static str,
    /// How tasks may use it, the usual mode first.
    pub modes: &'static [Mode],
    /// The greatest rank it may have, leading extents of 1 not counted; any if there is none.
    pub rank: Option<usize>,
    /// Whether it may be left out. Who leaves out one leaves out all optional ones behind it.
    pub optional: bool,
}

/// What a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// A whole number.
    Int,
    /// A number.
    Float,
    /// 0 or 1.
    Flag,
}

/// One parameter of a codelet, or several that belong together, such as a window's six.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamDecl {
    /// Its name, unique within the codelet.
    pub name: &'static str,
    /// What it says, in a few words.
    pub about: &'static str,
    /// What it is.
    pub kind: ParamKind,
    /// How many numbers it takes, at least and at most.
    pub count: (usize, usize),
}

/// The operands and parameters of a codelet, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// Operands.
    pub operands: &'static [OperandDecl],
    /// Parameters.
    pub params: &'static [ParamDecl],
}

impl Declaration {
    /// The operands that a task of `given` operands has: optional ones are given first to last.
    pub fn given(&self, given: usize) -> impl Iterator<Item = &'static OperandDecl> {
        let required = self.operands.iter().filter(|o| !o.optional).count();
        let mut spare = given.saturating_sub(required);
        self.operands.iter().filter(move |o| {
            let taken = !o.optional || spare > 0;
            spare -= usize::from(o.optional && taken);
            taken
        })
    }

    /// Refuses a call whose operands or parameters are not those declared.
    pub(crate) fn check(&self, call: &Call) -> Result<(), String> {
        let given = call.operands.len();
        let names = |all: &[&str]| all.join(", ");
        let least = self.operands.iter().filter(|o| !o.optional).count();
        if !(least..=self.operands.len()).contains(&given) {
            let shown = |o: &OperandDecl| match o.optional {
                true => format!("[{}]", o.name),
                false => o.name.to_string(),
            };
            let shown: Vec<String> = self.operands.iter().map(shown).collect();
            return Err(format!(
                "{given} operands given, expected {}",
                shown.join(", ")
            ));
        }
        for (decl, (shape, mode)) in self.given(given).zip(&call.operands) {
            let name = decl.name;
            if !decl.modes.contains(mode) {
                let may: Vec<&str> = decl.modes.iter().map(|m| m.name()).collect();
                return Err(format!(
                    "{name} is given to {}, expected to {}",
                    mode.name(),
                    may.join(" or to ")
                ));
            }
            let rank = decl.rank.unwrap_or(MAX_RANK).min(MAX_RANK);
            if shape.dims4()[..MAX_RANK - rank].iter().any(|&d| d != 1) {
                let kind = ["a scalar", "a vector", "a matrix", "a block", "a tensor"][rank];
                return Err(format!("{name} has shape {shape}, expected {kind}"));
            }
        }
        let (least, most) = self.params.iter().fold((0usize, 0usize), |(l, m), p| {
            (l + p.count.0, m.saturating_add(p.count.1))
        });
        let given = call.params.len();
        if !(least..=most).contains(&given) {
            let all: Vec<&str> = self.params.iter().map(|p| p.name).collect();
            return Err(match all.is_empty() {
                true => format!("{given} parameters given, expected none"),
                false => format!(
                    "{given} parameters given, expected {least} for {}",
                    names(&all)
                ),
            });
        }
        self.check_kinds(&call.params)
    }

    /// Refuses fractions where whole numbers are meant, and flags that are neither 0 nor 1.
    fn check_kinds(&self, params: &[Param]) -> Result<(), String> {
        let each = self
            .params
            .iter()
            .flat_map(|p| std::iter::repeat_n(p, p.count.1.min(params.len())));
        for (decl, param) in each.zip(params) {
            let fits = match (decl.kind, param) {
                (ParamKind::Float, _) | (ParamKind::Int, Param::Int(_)) => true,
                (ParamKind::Flag, Param::Int(v)) => matches!(v, 0 | 1),
                (_, Param::Float(_)) => false,
            };
            if !fits {
                let kind = ["a whole number", "0 or 1"][usize::from(decl.kind == ParamKind::Flag)];
                let value = match param {
                    Param::Int(v) => v.to_string(),
                    Param::Float(v) => v.to_string(),
                };
                return Err(format!("{} is {value}, expected {kind}", decl.name));
            }
        }
        Ok(())
    }
}

impl Codelet {
    /// Name, modes, rank and meaning of each operand; brackets mark those that may be left out.
    pub fn operand_table(&self) -> Table {
        let mut table = Table::new("operand|modes|rank|");
        let declared = self.declaration.map_or(&[][..], |d| d.operands);
        let row = |o: &OperandDecl| {
            let modes: Vec<&str> = o.modes.iter().map(|m| m.name()).collect();
            [
                if o.optional {
                    format!("[{}]", o.name)
                } else {
                    o.name.to_string()
                },
                modes.join(", "),
                o.rank.map_or("any".into(), |r| r.to_string()),
                o.about.to_string(),
            ]
        };
        table
            .rows
            .extend(declared.iter().map(|decl| row(decl).to_vec()));
        table
    }

    /// Name, count of numbers, kind and meaning of each parameter.
    pub fn param_table(&self) -> Table {
        let mut table = Table::new("parameter|numbers|kind|");
        let declared = self.declaration.map_or(&[][..], |d| d.params);
        let row = |p: &ParamDecl| {
            let numbers = match p.count {
                (a, b) if a == b => a.to_string(),
                (a, usize::MAX) => format!("{a} or more"),
                (a, b) => format!("{a} to {b}"),
            };
            let kind = match p.kind {
                ParamKind::Int => "whole",
                ParamKind::Float => "number",
                ParamKind::Flag => "0 or 1",
            };
            [
                p.name.to_string(),
                numbers,
                kind.to_string(),
                p.about.to_string(),
            ]
        };
        table
            .rows
            .extend(declared.iter().map(|decl| row(decl).to_vec()));
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::shape::Shape;

    const fn operand(
        name: &'static str,
        modes: &'static [Mode],
        rank: Option<usize>,
        optional: bool,
    ) -> OperandDecl {
        OperandDecl {
            name,
            about: "",
            modes,
            rank,
            optional,
        }
    }

    const fn param(name: &'static str, kind: ParamKind, count: (usize, usize)) -> ParamDecl {
        ParamDecl {
            name,
            about: "",
            kind,
            count,
        }
    }

    static SCALED: Declaration = Declaration {
        operands: &[
            operand("x", &[Mode::Read], None, false),
            operand("scale", &[Mode::Read], Some(1), true),
            operand("shift", &[Mode::Read], Some(1), true),
            operand("y", &[Mode::Write, Mode::Reduce], None, false),
        ],
        params: &[
            param("group", ParamKind::Int, (2, 2)),
            param("relu", ParamKind::Flag, (1, 1)),
            param("epsilon", ParamKind::Float, (0, 1)),
        ],
    };

    fn call(operands: &[(&[usize], Mode)], params: &[Param]) -> Call {
        Call {
            operands: operands
                .iter()
                .map(|(s, m)| (Shape::new(s).unwrap(), *m))
                .collect(),
            dtype: DType::F32,
            params: params.to_vec(),
        }
    }

    #[test]
    fn optional_operands_are_given_first_to_last() {
        let names = |n| SCALED.given(n).map(|o| o.name).collect::<Vec<_>>();
        assert_eq!(names(2), ["x", "y"]);
        assert_eq!(names(3), ["x", "scale", "y"]);
        assert_eq!(names(4), ["x", "scale", "shift", "y"]);
        let plain = crate::codelet::Codelet::new("scaled");
        assert_eq!(plain.operand_name(3, 2), "operand 2");
        let scaled = plain.declare(SCALED);
        assert_eq!(scaled.operand_name(3, 2), "y");
        assert_eq!(scaled.operand_name(3, 7), "operand 7");
    }

    #[test]
    fn what_is_not_declared_is_refused_by_name() {
        use Mode::{Read, ReadWrite, Reduce, Write};
        let flags = [Param::Int(2), Param::Int(3), Param::Int(1)];
        let (m, v): (&[usize], &[usize]) = (&[4, 3], &[3]);
        let table: &[(Call, Option<&str>)] = &[
            (call(&[(m, Read), (m, Write)], &flags), None),
            (
                call(&[(m, Read), (&[1, 3], Read), (m, Reduce)], &flags),
                None,
            ),
            (
                call(&[(m, Read)], &flags),
                Some("1 operands given, expected x, [scale], [shift], y"),
            ),
            (
                call(&[(m, Read), (m, Read), (m, Write)], &flags),
                Some("scale has shape 4×3, expected a vector"),
            ),
            (
                call(&[(m, Read), (v, Read), (m, ReadWrite)], &flags),
                Some("y is given to read and write, expected to write or to reduce"),
            ),
            (
                call(&[(m, Read), (m, Write)], &flags[..1]),
                Some("1 parameters given, expected 3 for group, relu, epsilon"),
            ),
            (
                call(
                    &[(m, Read), (m, Write)],
                    &[flags[0], flags[1], Param::Int(2)],
                ),
                Some("relu is 2, expected 0 or 1"),
            ),
            (
                call(
                    &[(m, Read), (m, Write)],
                    &[flags[0], Param::Float(0.5), flags[2]],
                ),
                Some("group is 0.5, expected a whole number"),
            ),
        ];
        for (call, want) in table {
            assert_eq!(SCALED.check(call).err().as_deref(), *want, "{call:?}");
        }
    }
}
