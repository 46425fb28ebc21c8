//! Where this machine's performance model and calibration profile are kept, and what a profile holds.
//!
//! The *model* gathers durations and changes with every run that times tasks; the *profile* is written
//! by `dahl calibrate` alone, because implementations are chosen by it, and what a run computes must not
//! change behind anybody's back.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use anyhow::Context;
use dahl_core::graph::Choices;
use dahl_core::hash::StableHasher;
use dahl_runtime::discover::{self, Host};
use dahl_runtime::perf_store::PerfStore;
use serde::{Deserialize, Serialize};

use super::rhythm::Rhythm;

/// The version of the format.
const VERSION: u32 = 1;

/// What calibration found out about a machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Profile {
    /// Of the format.
    pub version: u32,
    /// The processor it was measured on.
    pub processor: String,
    /// Cores used.
    pub cores: usize,
    /// Speeds of one core alone, and of one among all of them working.
    pub alone: Speeds,
    /// As `alone`, with every core working.
    pub together: Speeds,
    /// Speeds of GPUs, by the names that their durations are recorded under.
    #[serde(default)]
    pub gpus: BTreeMap<String, Speeds>,
    /// Which implementations to use.
    pub choices: Choices,
    /// What the runtime itself takes.
    #[serde(default)]
    pub rhythms: Vec<Rhythm>,
}

/// Measured speeds of one core, or of one GPU.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Speeds {
    /// Operations per second of a large matrix product, in single precision.
    pub flops_f32: f64,
    /// In double precision.
    pub flops_f64: f64,
    /// Bytes read and written per second while copying what no cache holds.
    pub bandwidth: f64,
    /// Seconds between two tasks that do not wait for each other.
    pub overhead: f64,
}

/// The folder of everything that is kept between runs.
pub fn folder() -> anyhow::Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
    let home = || variable("HOME").map(|h| PathBuf::from(h).join(".local/share"));
    variable("DAHL_HOME")
        .map(PathBuf::from)
        .or_else(|| {
            let data = variable("XDG_DATA_HOME").map(PathBuf::from);
            data.or_else(home).map(|d| d.join("dahl"))
        })
        .context("no folder to keep measurements in: set DAHL_HOME to one")
}

/// Tells machines apart that share a home directory.
fn machine_name(host: &Host) -> String {
    let mut h = StableHasher::default();
    (&host.processor, &host.features, host.cores.len()).hash(&mut h);
    format!("{:016x}", h.finish())
}

/// The file of this machine's performance model.
pub fn model_path() -> anyhow::Result<PathBuf> {
    let name = machine_name(&discover::host());
    Ok(folder()?.join(format!("times-{name}.json")))
}

/// Opens this machine's performance model; says if a damaged one was put aside.
pub fn open_model() -> anyhow::Result<PerfStore> {
    let (store, warning) = PerfStore::open(&model_path()?, 1)?;
    if let Some(warning) = warning {
        eprintln!("warning: {warning}");
    }
    Ok(store)
}

/// The file of this machine's profile.
pub fn profile_path() -> anyhow::Result<PathBuf> {
    let name = machine_name(&discover::host());
    Ok(folder()?.join(format!("profile-{name}.json")))
}

/// The profile in a file.
pub fn load(path: &Path) -> anyhow::Result<Profile> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the profile {}", path.display()))?;
    let profile: Profile = serde_json::from_str(&text).with_context(|| {
        let path = path.display();
        format!("{path} is not a profile; remove it, or make a new one with `dahl calibrate`")
    })?;
    if profile.version != VERSION {
        anyhow::bail!(
            "profile {} has version {}, this program reads {VERSION}: run `dahl calibrate` again",
            path.display(),
            profile.version
        );
    }
    Ok(profile)
}

/// This machine's profile, if it was calibrated.
pub fn here() -> anyhow::Result<Option<Profile>> {
    match profile_path() {
        Ok(path) if path.exists() => load(&path).map(Some),
        // Without a folder nothing was ever kept.
        _ => Ok(None),
    }
}

impl Profile {
    /// A profile of this machine without any figure.
    pub fn new() -> Profile {
        let host = discover::host();
        Profile {
            version: VERSION,
            processor: host.processor,
            cores: host.cores.len(),
            alone: Speeds::default(),
            together: Speeds::default(),
            gpus: BTreeMap::new(),
            choices: Choices::default(),
            rhythms: Vec::new(),
        }
    }

    /// Writes it, whole or not at all.
    pub fn save(&self, path: &Path) -> anyhow::Result<()> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        let text = serde_json::to_string_pretty(self)?;
        dahl_core::file::write_atomically(path, |out| out.write_all(text.as_bytes()))
            .with_context(|| format!("cannot write {}", path.display()))
    }
}
