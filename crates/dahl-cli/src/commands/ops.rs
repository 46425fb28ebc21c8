//! `dahl ops`: the table of operations and their implementations.

use anyhow::bail;
use dahl::core::{Call, Codelet, DType, Mode, OperandDecl, ParamDecl, ParamKind, Shape, UnitKind};
use dahl::ops::codelets;

use crate::print;

/// Arguments of `dahl ops`.
#[derive(clap::Args)]
pub struct Args {
    /// One operation; all of them if left out
    name: Option<String>,
    /// Say which implementation would be chosen for operands of these shapes, such as
    /// 32x64x16x16,64x64x3x3,64,32x64x16x16 with --params
    #[arg(long, requires = "name")]
    shapes: Option<String>,
    /// The operation's parameters, such as 3,3,1,1,1,1,0 (kernel, stride, shift, relu)
    #[arg(long, requires = "shapes", allow_hyphen_values = true)]
    params: Option<String>,
    /// Numbers to compute with: f32 or f64
    #[arg(long, default_value = "f32")]
    dtype: DType,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if let (Some(name), Some(shapes)) = (&args.name, &args.shapes) {
        return choose(args, name, shapes);
    }
    let wanted = |c: &&&codelets::Listed| args.name.as_ref().is_none_or(|n| c.name == *n);
    let found: Vec<_> = codelets::TABLE.iter().filter(wanted).collect();
    if found.is_empty() {
        bail!(codelets::unknown(args.name.as_deref().unwrap_or("")));
    }
    let kernels = dahl::tune::gpus::kernels();
    let all = |c: &Codelet| -> Vec<(&'static str, UnitKind)> {
        let own = c.implementations.iter().map(|i| (i.name, i.kind));
        let of_gpus = kernels.iter().filter(|k| k.codelet == c.name);
        own.chain(of_gpus.map(|k| (k.name, UnitKind::GPU)))
            .collect()
    };
    if args.json {
        let rows: Vec<_> = found
            .iter()
            .map(|c| {
                let names: Vec<&str> = all(c).iter().map(|i| i.0).collect();
                serde_json::json!({
                    "name": c.name, "implementations": names, "gradients": c.gradients,
                    "operands": operand_rows(c).iter().map(|o| serde_json::json!({
                        "name": o[0], "modes": o[1], "rank": o[2], "about": o[3],
                    })).collect::<Vec<_>>(),
                    "params": param_rows(c).iter().map(|p| serde_json::json!({
                        "name": p[0], "numbers": p[1], "kind": p[2], "about": p[3],
                    })).collect::<Vec<_>>(),
                })
            })
            .collect();
        return print::json(&rows);
    }
    let mut table = print::table(&["operation", "implementations"]);
    for codelet in found {
        let names: Vec<String> = all(codelet)
            .iter()
            .map(|(name, kind)| format!("{name} ({kind})"))
            .collect();
        table.add_row([codelet.name.clone(), names.join(", ")]);
    }
    println!("{table}");
    if let Some(codelet) = args.name.as_deref().and_then(codelets::by_name) {
        describe(codelet);
    }
    Ok(())
}

/// Name, modes, rank and meaning of each operand; brackets mark those that may be left out.
fn operand_rows(codelet: &Codelet) -> Vec<[String; 4]> {
    let declared = codelet.declaration.map_or(&[][..], |d| d.operands);
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
    declared.iter().map(row).collect()
}

/// Name, count of numbers, kind and meaning of each parameter.
fn param_rows(codelet: &Codelet) -> Vec<[String; 4]> {
    let declared = codelet.declaration.map_or(&[][..], |d| d.params);
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
    declared.iter().map(row).collect()
}

/// Prints what the operands and parameters of an operation are, and what computes its gradients.
fn describe(codelet: &Codelet) {
    let parts = [
        (["operand", "modes", "rank", ""], operand_rows(codelet)),
        (["parameter", "numbers", "kind", ""], param_rows(codelet)),
    ];
    for (header, rows) in parts.into_iter().filter(|(_, rows)| !rows.is_empty()) {
        let mut table = print::table(&header);
        rows.into_iter().for_each(|row| {
            table.add_row(row);
        });
        println!("\n{table}");
    }
    if !codelet.gradients.is_empty() {
        println!("\ngradients: {}", codelet.gradients.join(", "));
    }
}

fn shape(text: &str) -> anyhow::Result<Shape> {
    let extents: Result<Vec<usize>, _> =
        text.split('x').map(|e| e.trim().parse::<usize>()).collect();
    match extents {
        Ok(extents) => Ok(Shape::new(&extents)?),
        Err(_) => bail!("`{text}` is not a shape; write for example 32x64x16x16"),
    }
}

fn choose(args: &Args, name: &str, shapes: &str) -> anyhow::Result<()> {
    let Some(codelet) = codelets::by_name(name) else {
        bail!(codelets::unknown(name));
    };
    let shapes = shapes
        .split(',')
        .map(shape)
        .collect::<anyhow::Result<Vec<_>>>()?;
    let declared = codelet.declaration.iter();
    let usual = declared.flat_map(|d| d.given(shapes.len()).map(|o| o.modes[0]));
    let modes = usual.chain(std::iter::repeat(Mode::Read));
    let operands = shapes.iter().copied().zip(modes).collect();
    let number = |p: &str| match (p.trim().parse::<i64>(), p.trim().parse::<f64>()) {
        (Ok(i), _) => Ok(dahl::core::Param::Int(i)),
        (_, Ok(f)) => Ok(dahl::core::Param::Float(f)),
        _ => bail!("`{p}` is not a number"),
    };
    let params = args
        .params
        .iter()
        .flat_map(|p| p.split(','))
        .map(number)
        .collect::<anyhow::Result<_>>()?;
    let call = Call {
        operands,
        dtype: args.dtype,
        params,
    };
    if let Err(problem) = codelet.check(&call, false) {
        bail!("{name}: {problem}");
    }
    let mut able: Vec<_> = codelet
        .implementations
        .iter()
        .filter(|i| (i.supports)(&call))
        .collect();
    able.sort_by(|a, b| (a.weight)(&call).total_cmp(&(b.weight)(&call)));
    let cost = (codelet.cost)(&call);
    if args.json {
        let names: Vec<_> = able
            .iter()
            .map(|i| serde_json::json!({ "name": i.name, "weight": (i.weight)(&call) }))
            .collect();
        return print::json(&serde_json::json!({
            "name": name, "chosen": able.first().map(|i| i.name), "implementations": names,
            "flops": cost.flops, "bytes": cost.bytes,
        }));
    }
    println!(
        "{name}: {:.3} Mflop, {} touched",
        cost.flops / 1e6,
        dahl::core::Bytes(cost.bytes as u64)
    );
    let mut table = print::table(&["implementation", "static weight", "scratch", ""]);
    for (n, i) in able.iter().enumerate() {
        let chosen = if n == 0 { "chosen" } else { "" };
        let scratch = dahl::core::Bytes((i.scratch)(&call) as u64).to_string();
        table.add_row([
            i.name.to_string(),
            format!("{:.1}", (i.weight)(&call)),
            scratch,
            chosen.into(),
        ]);
    }
    println!("{table}");
    Ok(())
}
