//! RAPL through Linux's powercap files, on Intel's and AMD's processors.
//!
//! Zones lie flat in `class/powercap`: `intel-rapl:0` is a package or the platform (`psys`),
//! `intel-rapl:0:1` a part of it, or the memory beside it: `dram` stands under its package and is not
//! counted in it. Each has `name`, `energy_uj` (microjoules, up to `max_energy_range_uj`, then from zero
//! again) and power limits. Since 2020 only root may read `energy_uj`, against spying through power
//! (CVE-2020-8694). `intel-rapl-mmio` is a second way to the same package and is left alone.
//!
//! See the kernel's `Documentation/power/powercap/powercap.rst`.

use std::path::PathBuf;

use dahl_core::{Seconds, Watts};

use super::{
    Domain, Finding, Found, Meter, PLAUSIBLE, Quantity, Scope, Tree, Trouble, TroubleKind,
};

/// The name of this source.
pub(crate) const NAME: &str = "rapl";

const FOLDER: &str = "class/powercap";

/// The command that opens the counters until the next boot.
pub(crate) const REMEDY: &str = "sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj";

/// How far above its limits a package may go for a moment.
const TURBO: f64 = 2.0;

/// Limits above this are the registers' largest number, not a limit.
const LARGEST: Watts = Watts(10_000.0);

struct Rapl {
    tree: Tree,
    domains: Vec<Domain>,
    counters: Vec<PathBuf>,
}

impl Meter for Rapl {
    fn name(&self) -> &'static str {
        NAME
    }

    fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn read(&mut self, domain: usize, _: Seconds) -> Result<u64, Trouble> {
        let count = self.tree.number(&self.counters[domain]);
        count.map_err(|t| t.or_run(REMEDY))
    }
}

/// Looks for zones.
pub(crate) fn discover(tree: &Tree) -> Found {
    let names = match tree.names(FOLDER) {
        Ok(names) => names,
        Err(t) if t.kind == TroubleKind::Missing => return Found::nothing(NAME, absent()),
        Err(t) => return Found::nothing(NAME, t),
    };
    let mut found = Found::default();
    let mut rapl = Rapl {
        tree: tree.clone(),
        domains: Vec::new(),
        counters: Vec::new(),
    };
    for zone in names.iter().filter(|n| n.starts_with("intel-rapl:")) {
        let domain = match domain(tree, zone) {
            Ok(domain) => domain,
            Err(why) => {
                found.findings.push(Finding::not(NAME, zone, why));
                continue;
            }
        };
        let (name, scope) = (domain.name.clone(), domain.scope.clone());
        let counter = tree.path(FOLDER).join(zone).join("energy_uj");
        let finding = match tree.number(&counter).map_err(|t| t.or_run(REMEDY)) {
            Ok(_) => {
                rapl.domains.push(domain);
                rapl.counters.push(counter);
                Finding::readable(NAME, &name, "")
            }
            Err(why) => Finding::not(NAME, &name, why),
        };
        found.findings.push(finding.of(scope));
    }
    if found.findings.is_empty() {
        return Found::nothing(NAME, absent());
    }
    if !rapl.domains.is_empty() {
        found.meter = Some(Box::new(rapl));
    }
    found
}

fn absent() -> Trouble {
    Trouble {
        kind: TroubleKind::Missing,
        text: "powercap: no RAPL zones here (a virtual machine, another processor, or the driver \
               is not loaded)"
            .into(),
        remedy: Some("sudo modprobe intel_rapl_msr (on real hardware)".into()),
    }
}

/// What a zone's files say of it, but for the counter itself.
fn domain(tree: &Tree, zone: &str) -> Result<Domain, Trouble> {
    let file = |zone: &str, name: &str| tree.path(FOLDER).join(zone).join(name);
    let name = tree.text(&file(zone, "name"))?;
    // `intel-rapl:0:1` lies in `intel-rapl:0`.
    let outer = zone.rsplit_once(':').map(|(outer, _)| outer);
    let parent = match outer.filter(|o| o.contains(':')) {
        Some(outer) => Some(tree.text(&file(outer, "name"))?),
        None => None,
    };
    let (name, scope) = match (parent, name.as_str()) {
        (_, "psys") => (name, Scope::Platform),
        (Some(package), "dram") => (format!("{package}/dram"), Scope::Dram),
        (None, "dram") => (name, Scope::Dram),
        (Some(package), part) => (format!("{package}/{part}"), Scope::Inside(package)),
        (None, _) => (name, Scope::Package),
    };
    // A range that is missing or nonsense leaves a counter whose wraps are steps backwards: doubtful,
    // never wrong in silence.
    let range = tree.number(&file(zone, "max_energy_range_uj")).ok();
    Ok(Domain {
        name,
        scope,
        quantity: Quantity::Counter {
            joules: 1e-6,
            range: range.filter(|&r| r > 0),
        },
        ceiling: ceiling(tree, zone),
        sampled: true,
    })
}

/// The highest of a zone's limits with room for turbo.
fn ceiling(tree: &Tree, zone: &str) -> Watts {
    let mut most = 0;
    for i in 0..4 {
        for kind in ["power_limit_uw", "max_power_uw"] {
            let path = format!("{FOLDER}/{zone}/constraint_{i}_{kind}");
            most = most.max(tree.number(&tree.path(&path)).unwrap_or(0));
        }
    }
    match Watts(most as f64 * 1e-6 * TURBO) {
        Watts(0.0) => PLAUSIBLE,
        limit if limit > LARGEST => LARGEST,
        limit => limit,
    }
}
