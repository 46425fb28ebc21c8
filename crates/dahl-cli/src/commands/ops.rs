//! `dahl ops`: the table of operations and their implementations.

use std::collections::BTreeMap;

use anyhow::bail;
use dahl::core::report::Table;
use dahl::core::{Codelet, DType, UnitKind};
use dahl::ops::{Choices, codelets};

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
        let choices = Choices::of(name, shapes, args.params.as_deref(), args.dtype);
        let choices = choices.map_err(anyhow::Error::msg)?;
        return print::answer(args.json, &choices, || choices.report());
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
                    "operands": objects(c.operand_table(), ["name", "modes", "rank", "about"]),
                    "params": objects(c.param_table(), ["name", "numbers", "kind", "about"]),
                })
            })
            .collect();
        return print::json(&rows);
    }
    let mut table = print::table("operation|implementations");
    for codelet in found {
        let names: Vec<String> = all(codelet)
            .iter()
            .map(|(name, kind)| format!("{name} ({kind})"))
            .collect();
        table.add_row([codelet.name.clone(), names.join(", ")]);
    }
    println!("{table}");
    if let Some(codelet) = args.name.as_deref().and_then(codelets::by_name) {
        for table in [codelet.operand_table(), codelet.param_table()] {
            if !table.rows.is_empty() {
                println!("\n{}", print::laid_out(&table));
            }
        }
        if !codelet.gradients.is_empty() {
            println!("\ngradients: {}", codelet.gradients.join(", "));
        }
    }
    Ok(())
}

/// The rows of a table as JSON, with these names.
fn objects(table: Table, names: [&str; 4]) -> Vec<serde_json::Value> {
    let object = |row: Vec<String>| names.into_iter().zip(row).collect::<BTreeMap<_, _>>();
    let rows = table.rows.into_iter().map(object);
    rows.map(|row| serde_json::json!(row)).collect()
}
