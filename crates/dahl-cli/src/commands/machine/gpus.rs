//! GPUs in `dahl machine`: what each is, and how fast it is reached.

use dahl::core::Bytes;
use dahl::tune::gpus::{Gpu, GpuState, LinkFigures};

use crate::print;

/// Prints the devices, and what is missing for more.
pub fn show(gpus: &[Gpu], missing: &[String]) {
    if !gpus.is_empty() {
        let heads = [
            "unit",
            "device",
            "memory",
            "compute units",
            "clock",
            "f64",
            "to it",
            "back",
            "launch",
        ];
        let mut table = print::table(&heads);
        for g in gpus {
            let speed = |w: &LinkFigures| format!("{:.1} GB/s", w.bytes_per_second * 1e-9);
            let figures = match &g.state {
                GpuState::Measured(m) => [
                    speed(&m.to_device),
                    speed(&m.from_device),
                    m.launch_seconds.to_string(),
                ],
                GpuState::Failure(_) => ["?", "?", "?"].map(String::from),
            };
            let memory = Bytes(g.memory_bytes).to_string();
            let facts = [
                g.unit.clone(),
                g.name.clone(),
                memory + if g.shared_memory { ", the host's" } else { "" },
                g.compute_units.to_string(),
                format!("{} MHz", g.clock_mhz),
                if g.f64 { "yes" } else { "no" }.into(),
            ];
            table.add_row(facts.into_iter().chain(figures));
        }
        println!("{table}");
        for g in gpus {
            let kind = match g.accelerator {
                true => "",
                false => "; the processor itself, which shares its cores with the CPU workers",
            };
            println!("{}: {}, {}{kind}", g.unit, g.library, g.driver);
            if let GpuState::Failure(why) = &g.state {
                println!("{} cannot be used: {why}", g.unit);
            }
        }
        println!(
            "measured just now: copies of 8 MiB each way, the best of several; a launch from handing over a \
             task of one element to its end, the median"
        );
    }
    for why in missing {
        println!("{why}");
    }
    println!();
}
