//! GPUs in `dahl machine`: what each is, how fast it is reached, and its part of a machine file.

use dahl_core::{
    Bytes, Link, Machine, Memory, MemoryId, Power, Rated, Seconds, Unit, UnitKind, Watts,
};
use dahl_energy::WattsModel;
use dahl_energy::{BUSY, IDLE};
use dahl_runtime::memory_name;
use serde::Serialize;

use crate::print;

/// Watts of a GPU that computes, and that waits: a card of the middle class, NVIDIA's figure for the RTX
/// 4060 and what reviews measure of an idle one. The same as in `machines/rammus.toml`.
const CARD: Power = Power {
    idle: Watts(12.0),
    busy: Watts(115.0),
};

/// Joules to move a byte over PCIe: about 5 pJ per bit, doubled for both memories.
const PER_BYTE: f64 = 1e-10;

/// What so many cards draw, where nobody says better.
pub fn default_watts(cards: usize) -> WattsModel {
    WattsModel {
        busy: CARD.busy,
        idle: CARD.idle,
        units: cards,
        unit: "gpu".into(),
        base: Watts(0.0),
    }
}

/// A device as `dahl machine` shows it.
#[derive(Clone, Debug, Serialize)]
pub struct Gpu {
    /// `gpu:0`.
    pub unit: String,
    /// The device's own name.
    pub name: String,
    /// `OpenCL` or `CUDA`.
    pub library: String,
    /// Platform and driver.
    pub driver: String,
    /// Whether it is a GPU or another accelerator, and not the processor under another name.
    pub accelerator: bool,
    /// Its memory.
    pub memory_bytes: u64,
    /// Whether that is the host's.
    pub shared_memory: bool,
    /// Compute units, or multiprocessors.
    pub compute_units: usize,
    /// Highest clock.
    pub clock_mhz: usize,
    /// Whether it computes in double precision.
    pub f64: bool,
    /// What was measured just now, or why nothing could be.
    #[serde(flatten)]
    pub state: State,
}

/// Whether a device works.
#[cfg_attr(not(feature = "gpu"), expect(dead_code))] // Nobody finds devices then.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It does.
    Measured(Box<Measured>),
    /// It does not.
    Failure(String),
}

/// Quick figures.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// From the host.
    pub to_device: Way,
    /// To the host.
    pub from_device: Way,
    /// From handing over a task of one element to its end.
    pub launch_seconds: Seconds,
    /// Most bytes of arrays that a run would keep there.
    pub capacity_bytes: Bytes,
    /// Highest rates, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rated: Option<Rated>,
}

/// One way of a link.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Way {
    /// Of large copies.
    pub bytes_per_second: f64,
    /// Of small ones.
    pub latency_seconds: Seconds,
}

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
            let speed = |w: &Way| format!("{:.1} GB/s", w.bytes_per_second * 1e-9);
            let figures = match &g.state {
                State::Measured(m) => [
                    speed(&m.to_device),
                    speed(&m.from_device),
                    m.launch_seconds.to_string(),
                ],
                State::Failure(_) => ["?", "?", "?"].map(String::from),
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
            if let State::Failure(why) = &g.state {
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

/// Adds devices to a machine, with what was measured of them. Watts are not.
pub fn describe(machine: &mut Machine, gpus: &[Gpu], overhead: impl Fn(&str, Seconds) -> Seconds) {
    for g in gpus {
        let State::Measured(m) = &g.state else {
            continue;
        };
        let memory = MemoryId(machine.memories.len() as u16);
        let name = memory_name(&g.unit, &g.name);
        let mut unit = Unit::new(&g.unit, UnitKind::GPU, memory);
        unit.power = Some(match g.accelerator {
            true => CARD,
            // Its cores are counted as idle already.
            false => Power {
                idle: Watts(0.0),
                busy: Watts((BUSY.0 - IDLE.0) * g.compute_units as f64),
            },
        });
        unit.rated = m.rated;
        unit.overhead = overhead(&name, m.launch_seconds);
        machine.units.push(unit);
        machine
            .memories
            .push(Memory::new(name, Some(m.capacity_bytes)));
        let ways = [
            (MemoryId::HOST, memory, m.to_device),
            (memory, MemoryId::HOST, m.from_device),
        ];
        for (from, to, way) in ways {
            let mut link = Link::new(from, to, way.bytes_per_second, way.latency_seconds);
            link.joules_per_byte = Some(if g.shared_memory { 0.0 } else { PER_BYTE });
            machine.links.push(link);
        }
    }
}

/// What to know about the devices' figures, as comments of a machine file.
pub fn comment(gpus: &[Gpu]) -> String {
    let mut text = String::new();
    for g in gpus {
        let watts = match g.accelerator {
            true => "watts are those of a GeForce RTX 4060 (data sheet; idle by reviews)",
            false => "it is the processor: watts are those of its cores above idle",
        };
        let State::Measured(_) = &g.state else {
            continue;
        };
        text += &format!(
            "# {}: {}, {}. Links, speeds and overhead were measured just now;\n\
             # {watts}, and {} J per byte moved is an estimate. Put in your own.\n",
            g.unit,
            g.name,
            g.driver,
            if g.shared_memory { 0.0 } else { PER_BYTE }
        );
    }
    text
}
