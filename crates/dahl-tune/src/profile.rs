//! A calibration profile: what is known of a machine beside durations, as a file.
//!
//! It holds speeds, the implementations to use and what runs add to durations. It decides nothing and
//! measures nothing; where the file of this machine is, [`ThisMachine`](crate::ThisMachine) knows.

use std::collections::BTreeMap;
use std::path::Path;

use dahl_core::file::read_text;
use dahl_core::graph::Choices;
use serde::{Deserialize, Serialize};

use crate::error::TuneError;
use crate::overheads::RunOverheads;
use crate::this_machine::ThisMachine;

/// The version of the format.
const VERSION: u32 = 2;

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
    /// What runs add to durations.
    #[serde(default)]
    pub overheads: Vec<RunOverheads>,
    /// The frequency states of the cores, the highest first; none unless they were measured.
    #[serde(default)]
    pub states: Vec<StateFigures>,
    /// Watts of a core while nothing runs, where a counter measured them.
    #[serde(default)]
    pub idle_watts: Option<f64>,
}

/// What was measured at one frequency of the cores.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateFigures {
    /// The frequency.
    pub hertz: f64,
    /// Operations per second of a core in a large matrix product, in single precision.
    pub flops: f64,
    /// Compared with the highest frequency.
    pub speed: f64,
    /// Watts of a core that computes, where a counter measured them.
    pub busy_watts: Option<f64>,
    /// Seconds that changing a clock to it takes.
    pub switch_seconds: f64,
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

impl Profile {
    /// A profile of a machine without any figure.
    pub fn new(this: &ThisMachine) -> Profile {
        Profile {
            version: VERSION,
            processor: this.host().processor.clone(),
            cores: this.host().cores.len(),
            alone: Speeds::default(),
            together: Speeds::default(),
            gpus: BTreeMap::new(),
            choices: Choices::default(),
            overheads: Vec::new(),
            states: Vec::new(),
            idle_watts: None,
        }
    }

    /// The profile in a file.
    pub fn load(path: &Path) -> Result<Profile, TuneError> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let wrong = |why: String| TuneError::Profile {
            path: path.into(),
            why,
        };
        let text = read_text(path).map_err(TuneError::reading(path))?;
        let form = |e: serde_json::Error| wrong(e.to_string());
        let Versioned { version } = serde_json::from_str(&text).map_err(form)?;
        if version != VERSION {
            return Err(wrong(format!(
                "it has version {version}, this program reads {VERSION}"
            )));
        }
        serde_json::from_str(&text).map_err(form)
    }

    /// Writes it, whole or not at all.
    pub fn save(&self, path: &Path) -> Result<(), TuneError> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(TuneError::writing(folder))?;
        }
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| TuneError::writing(path)(std::io::Error::other(e)))?;
        dahl_core::file::write_atomically(path, |out| out.write_all(text.as_bytes()))
            .map_err(TuneError::writing(path))
    }
}
