//! AMD's sensors in Linux's `class/hwmon`: sockets (`amd_energy`, in kernels 5.8 to 5.12) and GPUs
//! (`amdgpu`).
//!
//! A chip has `name` and numbered sensors: `energyN_input` counts microjoules, `powerN_average` and, on
//! newer GPUs, `powerN_input` are microwatts. A GPU's counter is preferred to its power. Cores of
//! `amd_energy` are left alone: a hundred files to read, and their sockets contain them.
//!
//! Other chips (batteries, power supplies, boards) are not read: what they cover is not known.

use std::path::{Path, PathBuf};

use dahl_core::{Seconds, Watts};

use super::{
    Domain, Finding, Found, Meter, PLAUSIBLE, Quantity, Scope, Tree, Trouble, TroubleKind,
};

/// The name of this source.
pub(crate) const NAME: &str = "hwmon";

const FOLDER: &str = "class/hwmon";

/// A GPU may pass its cap for a moment.
const TURBO: f64 = 2.0;

struct Hwmon {
    tree: Tree,
    domains: Vec<Domain>,
    files: Vec<PathBuf>,
}

impl Meter for Hwmon {
    fn name(&self) -> &'static str {
        NAME
    }

    fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn read(&mut self, domain: usize, _: Seconds) -> Result<u64, Trouble> {
        number(&self.tree, &self.files[domain])
    }
}

fn number(tree: &Tree, file: &Path) -> Result<u64, Trouble> {
    let count = tree.number(file);
    count.map_err(|t| t.or_run(&format!("sudo chmod a+r {}", file.display())))
}

/// Looks for AMD's chips. `sockets` says whether to read processors, too: not where RAPL does.
pub(crate) fn discover(tree: &Tree, sockets: bool) -> Found {
    let chips = tree.names(FOLDER).unwrap_or_default();
    let mut found = Found::default();
    let mut meter = Hwmon {
        tree: tree.clone(),
        domains: Vec::new(),
        files: Vec::new(),
    };
    let mut gpus = 0;
    for chip in chips {
        let sensors = match tree.text(&tree.path(&format!("{FOLDER}/{chip}/name"))) {
            Ok(name) if name == "amd_energy" => sockets_of(tree, &chip),
            Ok(name) if name == "amdgpu" => {
                let sensor = gpu(tree, &chip, gpus);
                gpus += 1;
                sensor.into_iter().collect()
            }
            _ => continue,
        };
        for (domain, file) in sensors {
            let name = domain.name.clone();
            if domain.scope == Scope::Package && !sockets {
                let note = "not used: RAPL measures the same";
                found.findings.push(Finding::readable(NAME, &name, note));
                continue;
            }
            let note = match domain.quantity {
                Quantity::Counter { .. } => "",
                Quantity::Power { .. } => "power, integrated",
            };
            let scope = domain.scope.clone();
            let finding = match number(tree, &file) {
                Ok(_) => {
                    meter.domains.push(domain);
                    meter.files.push(file);
                    Finding::readable(NAME, &name, note)
                }
                Err(why) => Finding::not(NAME, &name, why),
            };
            found.findings.push(finding.of(scope));
        }
    }
    if found.findings.is_empty() {
        let text = "hwmon: no AMD sensors of energy or power here";
        return Found::nothing(NAME, Trouble::new(TroubleKind::Missing, text));
    }
    if !meter.domains.is_empty() {
        found.meter = Some(Box::new(meter));
    }
    found
}

/// Sockets are the sensors labelled `Esocket0`, `Esocket1`…
fn sockets_of(tree: &Tree, chip: &str) -> Vec<(Domain, PathBuf)> {
    let folder = format!("{FOLDER}/{chip}");
    let mut out = Vec::new();
    for label in tree.names(&folder).unwrap_or_default() {
        let Some(sensor) = label.strip_suffix("_label") else {
            continue;
        };
        let text = tree.text(&tree.path(&format!("{folder}/{label}")));
        let Some(socket) = text
            .ok()
            .and_then(|t| Some(t.strip_prefix("Esocket")?.to_owned()))
        else {
            continue;
        };
        let domain = Domain {
            name: format!("socket-{socket}"),
            scope: Scope::Package,
            quantity: Quantity::Counter {
                joules: 1e-6,
                range: None,
            },
            ceiling: PLAUSIBLE,
            sampled: true,
        };
        let file = tree.path(&format!("{folder}/{sensor}_input"));
        out.push((domain, file));
    }
    out
}

fn gpu(tree: &Tree, chip: &str, number: usize) -> Option<(Domain, PathBuf)> {
    let file = |name: &str| tree.path(&format!("{FOLDER}/{chip}/{name}"));
    let names = tree.names(&format!("{FOLDER}/{chip}")).ok()?;
    let has = |name: &str| names.iter().any(|n| n == name);
    let sensor = ["energy1_input", "power1_average", "power1_input"]
        .into_iter()
        .find(|s| has(s))?;
    let quantity = if sensor.starts_with("energy") {
        Quantity::Counter {
            joules: 1e-6,
            range: None,
        }
    } else {
        Quantity::Power { watts: 1e-6 }
    };
    // The driver gives a card a cap, and hides it where the graphics are part of a processor, whose
    // power it then reports as a whole.
    let card = has("power1_cap");
    let cap = tree.number(&file("power1_cap")).unwrap_or(0);
    let ceiling = match Watts(cap as f64 * 1e-6 * TURBO) {
        Watts(0.0) => PLAUSIBLE,
        limit => limit,
    };
    let domain = Domain {
        name: format!("amdgpu-{number}"),
        scope: if card { Scope::Gpu } else { Scope::Chip },
        quantity,
        ceiling,
        sampled: true,
    };
    Some((domain, file(sensor)))
}
