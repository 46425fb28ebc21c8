//! `dahl ops`: the table of operations and their implementations.

use anyhow::bail;
use dahl::core::{Call, Codelet, DType, Mode, Shape, UnitKind};
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
        bail!(
            "there is no operation `{}`; `dahl ops` lists them",
            args.name.as_deref().unwrap_or("")
        );
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
                serde_json::json!({ "name": c.name, "implementations": names })
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
    Ok(())
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
        bail!("there is no operation `{name}`; `dahl ops` lists them");
    };
    let operands = shapes
        .split(',')
        .map(|s| Ok((shape(s)?, Mode::Read)))
        .collect::<anyhow::Result<_>>()?;
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
    if let Err(problem) = (codelet.rule)(&call) {
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
