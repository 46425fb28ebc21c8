//! `dahl machine`: what this computer has, and machines as files.

pub mod gpus;

use std::path::{Path, PathBuf};

use anyhow::Context;
use dahl_core::{Bytes, Machine, Power, Rated, Seconds, UnitKind, Watts};
use dahl_energy::WattsModel;
use dahl_energy::{BUSY, IDLE};
use dahl_runtime::discover::{self, Host};

use gpus::State;

use super::units::{Cpus, Units};
use super::{gpu, profile, rhythm};
use crate::print;

/// Seconds of a task of usual length: what a machine file says of the time between tasks is for those.
const USUAL: f64 = 100e-6;

/// Arguments of `dahl machine`.
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON instead of tables
    #[arg(long, conflicts_with = "describe")]
    json: bool,
    /// Write a machine file, for simulations and plans: readable, and to be edited by hand
    #[arg(long)]
    describe: bool,
    /// Describe the machine of this file, in the other format say, and not this computer
    #[arg(long, value_name = "F", requires = "describe")]
    from: Option<PathBuf>,
    /// The units to describe, such as cpu:2,gpu:0 [default: all cores, and all GPUs that are not the
    /// processor under another name]
    #[arg(long, value_name = "U", requires = "describe", conflicts_with = "from")]
    units: Option<Units>,
    /// Where to write it [default: standard output]
    #[arg(short, long, value_name = "F", requires = "describe")]
    output: Option<PathBuf>,
    /// How to write it: our own format, or a SimGrid platform with its energy plugin's wattages
    #[arg(long, value_enum, default_value = "toml", requires = "describe")]
    format: Format,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Toml,
    Simgrid,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.describe {
        return describe(args);
    }
    let host = discover::host();
    let devices = gpu::look(&gpu::all(), false);
    if args.json {
        let mut line = serde_json::to_value(&host)?;
        line["gpus"] = serde_json::to_value(&devices)?;
        line["gpus_missing"] = serde_json::to_value(gpu::missing())?;
        return print::json(&line);
    }
    println!(
        "{} ({}, {})",
        host.processor, host.architecture, host.system
    );
    println!(
        "vector instructions: {}\n",
        or_none(&host.features.join(" "))
    );

    let mut units = print::table(&["unit", "kind", "memory", "core"]);
    for (i, core) in host.cores.iter().enumerate() {
        units.add_row([
            format!("cpu:{i}"),
            "cpu".into(),
            "host".into(),
            core.to_string(),
        ]);
    }
    println!("{units}\n");
    gpus::show(&devices, &gpu::missing());

    let mut memories = print::table(&["memory", "size", "free now"]);
    let size = |b: Option<u64>| b.map_or("unknown".into(), |b| dahl_core::Bytes(b).to_string());
    memories.add_row([
        "host".into(),
        size(host.memory_total),
        size(host.memory_available),
    ]);
    println!("{memories}\n");

    if host.caches.is_empty() {
        println!("caches: this system does not say");
    } else {
        let mut caches = print::table(&["cache", "size", "line", "shared by cores"]);
        for c in &host.caches {
            let name = format!("L{} {}", c.level, c.kind.to_lowercase());
            caches.add_row([
                name,
                dahl_core::Bytes(c.bytes).to_string(),
                format!("{} B", c.line),
                c.shared.clone(),
            ]);
        }
        println!("{caches}");
    }
    println!();

    let mut measured = print::table(&["what can be measured here", "", "how to allow it"]);
    for m in &host.measurable {
        let state = if m.available { "yes" } else { "no" };
        measured.add_row([m.what.as_str(), state, m.remedy.as_str()]);
    }
    println!("{measured}");
    Ok(())
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none known" } else { text }
}

/// The machine in a file, of either format.
pub fn load(path: &Path) -> anyhow::Result<Machine> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    let mut machine = dahl_sim::simgrid::read_machine(&text, &name.to_string())?;
    let here = is_here(&machine);
    gpu::equip(&mut machine, here);
    Ok(machine)
}

/// What cores draw, for where nothing can be measured: as a machine file says, or the stated defaults.
pub fn watts(file: Option<&Path>) -> anyhow::Result<WattsModel> {
    let Some(path) = file else {
        return Ok(WattsModel::of_this_machine());
    };
    let machine = load(path)?;
    let cores = machine.units.iter().filter(|u| u.kind == UnitKind::CPU);
    let each = cores.map(|u| u.power.map(|p| (p.busy, p.idle)));
    let each: Option<Vec<_>> = each.collect();
    let model = each.and_then(|each| WattsModel::of_units(&each, machine.base()));
    model.with_context(|| {
        let path = path.display();
        format!("{path} does not say what its cores draw: give them idle_watts and busy_watts")
    })
}

/// What GPUs draw, for where no card can be measured: as a machine file says of its own, or the stated
/// defaults. None if all of them are the processor under another name, whose CPU time is counted.
pub fn gpu_watts(numbers: &[usize], file: Option<&Path>) -> anyhow::Result<Option<WattsModel>> {
    let real = gpu::accelerators();
    let cards = numbers.iter().filter(|n| real.contains(n)).count();
    let given = file.map(load).transpose()?;
    let units = given.iter().flat_map(|m| &m.units);
    let each = units.filter(|u| u.kind == UnitKind::GPU);
    let each: Vec<_> = each
        .filter_map(|u| u.power)
        .map(|p| (p.busy, p.idle))
        .collect();
    let usual = || gpus::default_watts(1);
    let one = WattsModel::of_units(&each, Watts(0.0)).unwrap_or_else(usual);
    Ok((cards > 0).then(|| WattsModel {
        units: cards,
        unit: "gpu".into(),
        ..one
    }))
}

/// Whether a machine is this computer, as far as its description says: it bears the processor's name. The
/// durations measured here then hold there, also if the file was edited to have more cores.
pub fn is_here(machine: &Machine) -> bool {
    machine.name == name_of_this()
}

fn describe(args: &Args) -> anyhow::Result<()> {
    let (machine, header) = match &args.from {
        Some(path) => (load(path)?, String::new()),
        None => this(args.units.as_ref())?,
    };
    let text = match args.format {
        Format::Toml => header + &machine.to_toml(),
        Format::Simgrid => dahl_sim::simgrid::write(&machine),
    };
    match &args.output {
        None => print!("{text}"),
        Some(path) => dahl_core::file::write_atomically(path, |out| out.write_all(text.as_bytes()))
            .with_context(|| format!("cannot write {}", path.display()))?,
    }
    Ok(())
}

/// This computer, and what to know about its figures, as comments.
fn this(units: Option<&Units>) -> anyhow::Result<(Machine, String)> {
    let host = discover::host();
    let profile = profile::here()?;
    let mut machine = Machine::cpus(match units.map(|u| u.cpus) {
        Some(Cpus::Count(n)) => n.into(),
        _ => host.cores.len().max(1),
    });
    machine.name = name(&host);
    machine.nodes[0].base = Some(Watts(0.0));
    machine.memories[0].capacity = host.memory_total.map(Bytes);
    let workers = machine.units.len();
    let pace = profile
        .as_ref()
        .and_then(|p| rhythm::expected(&p.rhythms, "ws", workers, USUAL));
    for unit in &mut machine.units {
        unit.power = Some(Power {
            idle: IDLE,
            busy: BUSY,
        });
        if let Some(speeds) = profile.as_ref().map(|p| p.together) {
            unit.rated = Some(Rated {
                flops: speeds.flops_f32,
                flops_f64: speeds.flops_f64,
                bandwidth: speeds.bandwidth,
            });
            unit.overhead = Seconds(speeds.overhead);
            if let Some(pace) = pace {
                (unit.overhead, unit.wake_latency) = (Seconds(pace.overhead), Seconds(pace.notice));
            }
        }
    }
    let mut devices = match units {
        Some(units) => gpu::look(&gpu::numbers(&units.gpus)?, true),
        None => gpu::look(&gpu::accelerators(), true),
    };
    for device in &devices {
        let State::Failure(why) = &device.state else {
            continue;
        };
        let (unit, name) = (&device.unit, &device.name);
        match units {
            Some(_) => anyhow::bail!("{unit} ({name}) cannot be used: {why}"),
            None => eprintln!("warning: {unit} ({name}) cannot be used, and is left out: {why}"),
        }
    }
    devices.retain(|d| matches!(d.state, State::Measured(_)));
    let between = profile.as_ref().map(|p| p.together.overhead);
    // Durations measured of a device contain the launch; what follows from its rates does not.
    let timed = timed_units();
    gpus::describe(&mut machine, &devices, |memory, launch| {
        match timed.iter().any(|t| t == memory) {
            true => Seconds(between.unwrap_or(0.0)),
            false => launch,
        }
    });
    machine.check().map_err(anyhow::Error::msg)?;
    let speeds = match &profile {
        Some(_) => {
            "flops, bandwidth, overhead and wake_latency were measured here by `dahl calibrate`, all cores busy."
        }
        None => {
            eprintln!("speeds are unknown before `dahl calibrate` has run; the file lacks them");
            "flops and bandwidth are missing: run `dahl calibrate`, then describe again."
        }
    };
    let header = format!(
        "# Described by `dahl machine --describe`. The name ties the file to the durations measured here.\n\
         # {speeds}\n\
         # Watts are not measured: they are the means of a large cloud's servers per core, with all that\n\
         # such a server draws (Cloud Carbon Footprint, \"Compute\"), hence base_watts = 0. Put in your own.\n{}",
        gpus::comment(&devices)
    );
    Ok((machine, header))
}

/// The names that durations are known of.
fn timed_units() -> Vec<String> {
    let known = profile::model_path().ok();
    let known = known.and_then(|path| dahl_runtime::perf_store::load(&path).ok());
    let mut all: Vec<String> = known.map_or(Vec::new(), |(model, _)| {
        model.iter().map(|(key, ..)| key.unit).collect()
    });
    all.sort_unstable();
    all.dedup();
    all
}

/// The name of this computer's description.
pub fn name_of_this() -> String {
    name(&discover::host())
}

/// The processor's name; always one that a file may hold.
fn name(host: &Host) -> String {
    let plain = host.processor.trim();
    match plain.is_empty() || plain.len() > 200 || plain.chars().any(char::is_control) {
        true => "unknown processor".into(),
        false => plain.into(),
    }
}
