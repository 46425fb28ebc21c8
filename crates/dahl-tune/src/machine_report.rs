//! What this computer has, for people.

use dahl_core::Bytes;
use dahl_core::report::{Report, Table};
use dahl_energy::clocks::Clock;

use crate::gpus::{Gpu, GpuState, LinkFigures};
use crate::this_machine::ThisMachine;

impl ThisMachine {
    /// Units, memories, caches and what can be measured; with these GPUs, and what is missing for more.
    pub fn report(&self, devices: &[Gpu], missing: &[String]) -> Report {
        let (host, mut out) = (self.host(), Report::default());
        out.line(format!(
            "{} ({}, {})",
            host.processor, host.architecture, host.system
        ));
        out.line(format!(
            "vector instructions: {}\n",
            or_none(&host.features.join(" "))
        ));

        let mut units = Table::new("unit|kind|memory|core");
        for (i, core) in host.cores.iter().enumerate() {
            units.row([
                format!("cpu:{i}"),
                "cpu".into(),
                "host".into(),
                core.to_string(),
            ]);
        }
        out.paragraph(units);
        show_gpus(devices, missing, &mut out);

        show_clocks(&self.all_clocks(), &mut out);

        let mut memories = Table::new("memory|size|free now");
        let size = |b: Option<u64>| b.map_or("unknown".into(), |b| Bytes(b).to_string());
        memories.row([
            "host".into(),
            size(host.memory_total),
            size(host.memory_available),
        ]);
        out.paragraph(memories);

        if host.caches.is_empty() {
            out.line("caches: this system does not say");
        } else {
            let mut caches = Table::new("cache|size|line|shared by cores");
            for c in &host.caches {
                let name = format!("L{} {}", c.level, c.kind.to_lowercase());
                caches.row([
                    name,
                    Bytes(c.bytes).to_string(),
                    format!("{} B", c.line),
                    c.shared.clone(),
                ]);
            }
            out.table(caches);
        }
        out.line("");

        let mut measured = Table::new("what can be measured here||how to allow it");
        for m in &host.measurable {
            let state = if m.available { "yes" } else { "no" };
            measured.row([m.what.clone(), state.into(), m.remedy.clone()]);
        }
        out.table(measured);
        out
    }
}

/// Frequencies of a clock that are listed one by one.
const MOST_SHOWN: usize = 16;

/// What frequencies cores and cards can be set to, or why they cannot.
fn show_clocks(clocks: &[Clock], out: &mut Report) {
    if clocks.is_empty() {
        out.line("frequency states: this system lets nobody set its clocks (no cpufreq)\n");
        return;
    }
    let mut table = Table::new("clock|cores|GHz|can be set");
    for clock in clocks {
        let cpus: Vec<String> = clock.cpus.iter().map(usize::to_string).collect();
        let drives = match clock.cpus.is_empty() {
            true => clock.device.clone(),
            false => cpus.join(" "),
        };
        let giga = |h: &f64| format!("{:.2}", h * 1e-9);
        let giga = match &clock.hertz[..] {
            // Cards have a hundred.
            [high, .., low] if clock.hertz.len() > MOST_SHOWN => {
                format!(
                    "{} … {}, {} in all",
                    giga(high),
                    giga(low),
                    clock.hertz.len()
                )
            }
            few => few.iter().map(giga).collect::<Vec<_>>().join(" "),
        };
        let state = clock
            .trouble
            .as_ref()
            .map_or("yes".into(), |t| format!("no: {t}"));
        table.row([clock.name.clone(), drives, giga, state]);
    }
    out.paragraph(table);
}

/// Prints the devices, and what is missing for more.
fn show_gpus(gpus: &[Gpu], missing: &[String], out: &mut Report) {
    if !gpus.is_empty() {
        let mut table = Table::new("unit|device|memory|compute units|clock|f64|to it|back|launch");
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
            table.row(facts.into_iter().chain(figures));
        }
        out.table(table);
        for g in gpus {
            let kind = match g.accelerator {
                true => "",
                false => "; the processor itself, which shares its cores with the CPU workers",
            };
            out.line(format!("{}: {}, {}{kind}", g.unit, g.library, g.driver));
            if let GpuState::Failure(why) = &g.state {
                out.line(format!("{} cannot be used: {why}", g.unit));
            }
        }
        out.line("measured just now: copies of 8 MiB each way, the best of several; a launch from handing over a \
             task of one element to its end, the median");
    }
    for why in missing {
        out.line(why);
    }
    out.line("");
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none known" } else { text }
}
