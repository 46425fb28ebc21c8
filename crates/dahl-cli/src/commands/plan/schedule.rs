//! `dahl plan schedule`: in which order the devices of a pipeline compute, drawn in letters.

use dahl::plan::pipeline::{PipelineWork, ScheduleKind, schedule};

use crate::print;

/// Arguments of `dahl plan schedule`.
#[derive(clap::Args)]
pub struct Args {
    /// How many devices the pipeline has
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u32).range(1..=1024))]
    stages: u32,
    /// Micro-batches of a batch
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    micro_batches: u32,
    /// gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v or auto
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = kind)]
    schedule: ScheduleKind,
    /// Seconds of forward, input gradient and weight gradient of each stage, such as 1,1,1:1,2,1 [default: 1 each;
    /// stages that share a device share them]
    #[arg(long, value_name = "F,B,W:…")]
    times: Option<String>,
    /// For auto, how many micro-batches' activations a device may keep; or for each device, such as 4:3:2:1 [default: as
    /// many as 1F1B's first]
    #[arg(long, value_name = "N[:N…]", value_delimiter = ':', value_parser = clap::value_parser!(u32).range(1..=100_000))]
    in_flight: Option<Vec<u32>>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn kind(name: &str) -> Result<ScheduleKind, String> {
    let found = ScheduleKind::ALL.iter().find(|k| k.0 == name);
    found.map(|k| k.1).ok_or_else(|| {
        let names: Vec<&str> = ScheduleKind::ALL.iter().map(|k| k.0).collect();
        dahl::core::text::unknown("schedule", name, &names)
    })
}

/// The three times of each device.
fn times(args: &Args) -> anyhow::Result<Vec<[f64; 3]>> {
    let devices = args.stages as usize;
    let Some(text) = &args.times else {
        return Ok(vec![[1.0; 3]; devices]);
    };
    let mut all = Vec::new();
    for stage in text.split(':') {
        let read: Result<Vec<f64>, _> = stage.split(',').map(|t| t.trim().parse()).collect();
        let three = read.ok().and_then(|t| <[f64; 3]>::try_from(t).ok());
        let Some(three) = three else {
            anyhow::bail!(
                "--times {stage:?}: give three numbers for each stage, as in 1,1,1:1,2,1"
            );
        };
        all.push(three);
    }
    anyhow::ensure!(
        all.len() == devices,
        "--times has {} stages, and --stages is {devices}; give as many",
        all.len()
    );
    Ok(all)
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let kind = args.schedule;
    let per = kind.stages_per_device();
    let devices = times(args)?;
    let own = devices.iter().cycle().take(devices.len() * per);
    let work = PipelineWork {
        stages: own.map(|t| t.map(|t| t / per as f64)).collect(),
        devices: devices.len(),
        micro_batches: args.micro_batches as usize,
        in_flight: (args.in_flight.as_ref()).map(|all| all.iter().map(|&n| n as usize).collect()),
    };
    let made = schedule(&work, kind)?;
    if args.json {
        return print::json(&made);
    }
    for line in made.drawing(&work) {
        println!("{line}");
    }
    println!(
        "makespan {:.4}, no less than {:.4}; bubble {:.2} % of a device's computing time",
        made.makespan,
        made.lower_bound,
        100.0 * made.bubble
    );
    let kept: Vec<String> = made.in_flight.iter().map(f64::to_string).collect();
    println!("micro-batches in flight, by device: {}", kept.join(", "));
    Ok(())
}
