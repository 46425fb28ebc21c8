//! This computer as a machine that can be simulated and planned for.
//!
//! Speeds and overheads are those of its calibration profile; links and rates of GPUs are measured on the spot.
//! Watts are those that `dahl calibrate --states` measured, or stated defaults, and the header of the file says whose.

use dahl_core::machine::FrequencyState;
use dahl_core::{
    Bytes, Link, Machine, Memory, MemoryId, Power, Rated, Seconds, Unit, UnitKind, Watts,
};
use dahl_energy::{BUSY, IDLE};
use dahl_runtime::memory_name;

use crate::error::TuneError;
use crate::gpus::{self, Gpu, GpuState};
use crate::overheads;
use crate::profile::{Profile, StateFigures};
use crate::this_machine::ThisMachine;
use crate::units::{Cpus, Units};
use crate::watts::CARD;

/// Seconds of a task of usual length: what a machine file says of the time between tasks is for those.
const USUAL: f64 = 100e-6;

/// Joules to move a byte over PCIe: about 5 pJ per bit, doubled for both memories.
const PER_BYTE: f64 = 1e-10;

/// A machine, and what to know about its figures.
pub struct Described {
    /// The machine.
    pub machine: Machine,
    /// Where its figures come from, as comments of a machine file.
    pub header: String,
    /// What is missing, and devices that were left out.
    pub warnings: Vec<String>,
}

impl ThisMachine {
    /// Describes this computer with these units; unless given all cores, and all GPUs that are not the processor
    /// under another name. A device that was asked for and does not work is an error, others are left out.
    pub fn describe(&self, units: Option<&Units>) -> Result<Described, TuneError> {
        let mut warnings = Vec::new();
        let profile = self.profile()?;
        let mut machine = Machine::cpus(match units.map(|u| u.cpus) {
            Some(Cpus::Count(n)) => n.into(),
            _ => self.cores(),
        });
        machine.name = self.name().into();
        machine.nodes[0].base = Some(Watts(0.0));
        machine.memories[0].capacity = self.host().memory_total.map(Bytes);
        let workers = machine.units.len();
        let expected = profile
            .as_ref()
            .and_then(|p| overheads::expected(&p.overheads, "ws", workers, USUAL));
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
                if let Some(e) = expected {
                    (unit.overhead, unit.wake_latency) =
                        (Seconds(e.dispatch), Seconds(e.wake_latency));
                }
            }
        }
        let states = profile.as_ref().map_or(String::new(), |p| {
            machine.units.iter_mut().for_each(|u| in_states(u, p));
            described_states(p)
        });
        let devices = self.devices(units, &mut warnings)?;
        let between = profile.as_ref().map_or(0.0, |p| p.together.overhead);
        // Durations measured of a device contain the launch; what follows from its rates does not.
        let timed = self.timed_units();
        add(&mut machine, &devices, |memory, launch| {
            match timed.iter().any(|t| t == memory) {
                true => Seconds(between),
                false => launch,
            }
        });
        machine.check().map_err(TuneError::Machine)?;
        let speeds = match &profile {
            Some(_) => {
                "flops, bandwidth, overhead and wake_latency were measured here by `dahl calibrate`, all cores busy."
            }
            None => {
                let text =
                    "speeds are unknown before `dahl calibrate` has run; the file lacks them";
                warnings.push(text.into());
                "flops and bandwidth are missing: run `dahl calibrate`, then describe again."
            }
        };
        let header = format!(
            "# Described by `dahl machine --describe`. The name ties the file to the durations measured here.\n\
             # {speeds}\n\
             # Watts are not measured: they are the means of a large cloud's servers per core, with all that\n\
             # such a server draws (Cloud Carbon Footprint, \"Compute\"), hence base_watts = 0. Put in your own.\n{states}{}",
            comment(&devices)
        );
        Ok(Described {
            machine,
            header,
            warnings,
        })
    }

    /// The devices that work.
    fn devices(
        &self,
        units: Option<&Units>,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<Gpu>, TuneError> {
        let numbers = match units {
            Some(units) => gpus::numbers(&units.gpus)?,
            None => gpus::accelerators(),
        };
        let mut devices = gpus::look(&numbers, true, self);
        for device in &devices {
            if let GpuState::Failure(why) = &device.state {
                let which = format!("{} ({}) cannot be used", device.unit, device.name);
                match units {
                    Some(_) => return Err(TuneError::Gpu(format!("{which}: {why}"))),
                    None => warnings.push(format!("{which}, and is left out: {why}")),
                }
            }
        }
        devices.retain(|d| matches!(d.state, GpuState::Measured(_)));
        Ok(devices)
    }

    /// The names that durations are known of.
    fn timed_units(&self) -> Vec<String> {
        let known = self.times().ok().flatten();
        let mut all: Vec<String> = known.map_or(Vec::new(), |(model, _)| {
            model.iter().map(|(key, ..)| key.unit).collect()
        });
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Gives a core the frequency states that were measured. Watts that no counter measured follow the cube of the clock above
/// idle, since the voltage goes with it.
fn in_states(unit: &mut Unit, profile: &Profile) {
    let Some((usual, others)) = profile.states.split_first() else {
        return;
    };
    let Some(power) = &mut unit.power else { return };
    if let Some(busy) = usual.busy_watts {
        power.busy = Watts(busy);
        let idle = profile.idle_watts.unwrap_or(power.idle.0);
        power.idle = Watts(idle.min(busy));
    }
    let (idle, busy) = (power.idle.0, power.busy.0);
    let watts = |s: &StateFigures| match s.busy_watts {
        Some(watts) => watts.max(idle),
        None => idle + (busy - idle) * (s.hertz / usual.hertz).powi(3),
    };
    let state = |s: &StateFigures| FrequencyState {
        speed: s.speed,
        busy: Watts(watts(s)),
        hertz: Some(s.hertz),
    };
    unit.states = others.iter().map(state).collect();
    let switch = profile.states.iter().map(|s| s.switch_seconds);
    unit.switch_seconds = Some(Seconds(switch.fold(0.0, f64::max)));
}

/// Where the figures of states come from, as comments of a machine file.
fn described_states(profile: &Profile) -> String {
    let Some(usual) = profile.states.first() else {
        return String::new();
    };
    let watts = match usual.busy_watts {
        Some(_) => "and so were the watts of cores, by the processor's counters",
        None => {
            "but no counter measures watts here: those of states follow the cube of the clock above idle"
        }
    };
    format!(
        "# States: speeds, clocks and switch_seconds were measured by `dahl calibrate --states`, {watts}.\n"
    )
}

/// Adds devices to a machine, with what was measured of them. Watts are not.
fn add(machine: &mut Machine, gpus: &[Gpu], overhead: impl Fn(&str, Seconds) -> Seconds) {
    for g in gpus {
        let GpuState::Measured(m) = &g.state else {
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
        let directions = [
            (MemoryId::HOST, memory, m.to_device),
            (memory, MemoryId::HOST, m.from_device),
        ];
        for (from, to, link) in directions {
            let mut link = Link::new(from, to, link.bytes_per_second, link.latency_seconds);
            link.joules_per_byte = Some(if g.shared_memory { 0.0 } else { PER_BYTE });
            machine.links.push(link);
        }
    }
}

/// What to know about the devices' figures, as comments of a machine file.
fn comment(gpus: &[Gpu]) -> String {
    let mut text = String::new();
    for g in gpus {
        let watts = match g.accelerator {
            true => "watts are those of a GeForce RTX 4060 (data sheet; idle by reviews)",
            false => "it is the processor: watts are those of its cores above idle",
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
