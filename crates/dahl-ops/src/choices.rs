//! Which implementation of an operation a call would get by static weights, for those who ask before they program.

use dahl_core::report::{Report, Table};
use dahl_core::{Bytes, Call, DType, Mode, Param, Shape};
use serde::Serialize;

use crate::codelets;

/// The implementations of a codelet that can execute a call.
#[derive(Clone, Debug, Serialize)]
pub struct Choices {
    /// Bytes that the call touches.
    bytes: f64,
    /// The implementation with the lowest weight.
    chosen: Option<&'static str>,
    flops: f64,
    /// The lightest first.
    implementations: Vec<Choice>,
    name: String,
}

#[derive(Clone, Debug, Serialize)]
struct Choice {
    name: &'static str,
    #[serde(skip)]
    scratch: u64,
    weight: f64,
}

impl Choices {
    /// Those for operands of shapes such as `32x64x16x16,64x64x3x3` and parameters such as `3,3,1,1`.
    pub fn of(
        name: &str,
        shapes: &str,
        params: Option<&str>,
        dtype: DType,
    ) -> Result<Choices, String> {
        let codelet = codelets::by_name(name).ok_or_else(|| codelets::unknown(name))?;
        let shapes = shapes
            .split(',')
            .map(shape)
            .collect::<Result<Vec<_>, _>>()?;
        let (declared, count) = (codelet.declaration.iter(), shapes.len());
        let usual = declared.flat_map(|d| d.given(count).map(|o| o.modes[0]));
        let modes = usual.chain(std::iter::repeat(Mode::Read));
        let params = params.iter().flat_map(|p| p.split(',')).map(param);
        let call = Call {
            operands: shapes.into_iter().zip(modes).collect(),
            dtype,
            params: params.collect::<Result<_, _>>()?,
        };
        codelet
            .check(&call, false)
            .map_err(|problem| format!("{name}: {problem}"))?;
        let able = codelet.implementations.iter();
        let mut able: Vec<Choice> = able
            .filter(|i| (i.supports)(&call))
            .map(|i| Choice {
                name: i.name,
                scratch: (i.scratch)(&call) as u64,
                weight: (i.weight)(&call),
            })
            .collect();
        able.sort_by(|a, b| a.weight.total_cmp(&b.weight));
        let cost = (codelet.cost)(&call);
        Ok(Choices {
            bytes: cost.bytes,
            chosen: able.first().map(|i| i.name),
            flops: cost.flops,
            implementations: able,
            name: name.into(),
        })
    }

    /// For people.
    pub fn report(&self) -> Report {
        let mut report = Report::default();
        report.line(format!(
            "{}: {:.3} Mflop, {} touched",
            self.name,
            self.flops / 1e6,
            Bytes(self.bytes as u64)
        ));
        let mut table = Table::new("implementation|static weight|scratch|");
        for (n, i) in self.implementations.iter().enumerate() {
            let chosen = if n == 0 { "chosen" } else { "" };
            let (weight, scratch) = (format!("{:.1}", i.weight), Bytes(i.scratch).to_string());
            table.row([i.name.into(), weight, scratch, chosen.into()]);
        }
        report.table(table);
        report
    }
}

fn shape(text: &str) -> Result<Shape, String> {
    let extents: Result<Vec<usize>, _> = text.split('x').map(|e| e.trim().parse()).collect();
    let extents =
        extents.map_err(|_| format!("`{text}` is not a shape; write for example 32x64x16x16"))?;
    Shape::new(&extents).map_err(|e| e.to_string())
}

fn param(text: &str) -> Result<Param, String> {
    let text = text.trim();
    let float = |_| text.parse().map(Param::Float);
    let number = text.parse().map(Param::Int).or_else(float);
    number.map_err(|_| format!("`{text}` is not a number"))
}
