//! `dahl machine`: what this computer has, and machines as files.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use dahl::runtime::network::launched;
use dahl::tune::{
    Described, MachineModel, ThisMachine, TimesFrom, Units, describe_cluster, load_machine,
};

use crate::print;

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
    /// Describe all nodes that mpirun or srun has started, and the network between them, as measured
    #[arg(long, requires = "describe", conflicts_with = "from")]
    cluster: bool,
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
    let this = ThisMachine::look();
    let host = this.host();
    let (all, missing) = (dahl::tune::gpus::all(), dahl::tune::gpus::missing());
    let devices = dahl::tune::gpus::look(&all, false, &this);
    if args.json {
        let mut line = serde_json::to_value(host)?;
        line["clocks"] = serde_json::to_value(this.all_clocks())?;
        line["gpus"] = serde_json::to_value(&devices)?;
        line["gpus_missing"] = serde_json::to_value(missing)?;
        return print::json(&line);
    }
    print::report(&this.report(&devices, &missing));
    Ok(())
}

/// A machine to predict for.
#[derive(clap::Args, Clone, Debug)]
pub struct MachineArgs {
    /// The machine: a `machine.toml` (docs/guide/machine-files.md) or a SimGrid platform; `dahl machine --describe`
    /// writes one
    // A sub-command of `dahl plan` needs none.
    #[arg(long, value_name = "F", required = true)]
    machine: Option<PathBuf>,
    /// Measured durations: a performance model's file, or `none` to go by cost and rated speeds [default:
    /// this machine's, if the machine file was described here]
    #[arg(long, value_name = "F|none")]
    times: Option<PathBuf>,
    /// Give units only what they have implementations for; otherwise those without are assumed to have
    /// one that reaches their rated speed
    #[arg(long)]
    strict: bool,
}

impl MachineArgs {
    /// The machine, with all that is known of it.
    pub fn load(&self, this: &ThisMachine) -> anyhow::Result<MachineModel> {
        let path = self.machine.as_deref();
        let machine = load_machine(path.context("name a machine: --machine F")?)?;
        let from = match &self.times {
            None => TimesFrom::Here,
            Some(path) if path.as_os_str() == "none" => TimesFrom::Rates,
            Some(path) => TimesFrom::File(path.clone()),
        };
        let (model, damaged) = MachineModel::new(machine, &from, this)?;
        if let Some(damaged) = damaged {
            print::warning(&damaged.to_string());
        }
        Ok(if self.strict { model.strict() } else { model })
    }
}

/// Seconds for measuring the links of a cluster, about.
const LINKS: f64 = 5.0;

/// How long a node may be silent while a cluster is described: it may be measuring its GPUs.
const PATIENCE: Duration = Duration::from_secs(60);

impl Args {
    /// Whether it is for all nodes together.
    pub fn is_of_cluster(&self) -> bool {
        self.cluster
    }
}

fn describe(args: &Args) -> anyhow::Result<()> {
    let this = ThisMachine::look();
    let described = match (&args.from, args.cluster) {
        (Some(path), _) => Described {
            machine: load_machine(path)?,
            header: String::new(),
            warnings: Vec::new(),
        },
        (None, false) => this.describe(args.units.as_ref())?,
        (None, true) => {
            let launched = launched().context(
                "one process is no cluster: mpirun -n N dahl machine --describe --cluster -o F",
            )?;
            let units = args.units.as_ref();
            let described = describe_cluster(&launched, &this, units, LINKS, PATIENCE)?;
            match described {
                Some(described) => described,
                // The first node writes it.
                None => return Ok(()),
            }
        }
    };
    described.warnings.iter().for_each(|w| print::warning(w));
    let Described {
        machine, header, ..
    } = described;
    let text = match args.format {
        Format::Toml => header + &machine.to_toml(),
        Format::Simgrid => dahl::sim::simgrid::write(&machine),
    };
    let output = args.output.as_deref().unwrap_or("-".as_ref());
    print::write_text(output, &text)
}
