//! This computer, looked at once: its name, its cores, and the folder where what was measured of it is kept.
//!
//! Two files are kept for each machine. The *performance model* gathers durations and changes with every run
//! that times tasks. The *profile* is written by calibration alone, because implementations are chosen by it,
//! and what a run computes must not change unasked. Nothing here measures or prints.

use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use dahl_core::Machine;
use dahl_core::hash::StableHasher;
use dahl_runtime::discover::{self, Host};
use dahl_runtime::perf_store::{PerfStore, Warning};
use dahl_sched::model::PerfModel;

use crate::error::TuneError;
use crate::profile::Profile;

/// This computer.
#[derive(Clone, Debug)]
pub struct ThisMachine {
    host: Host,
    folder: Option<PathBuf>,
    system: PathBuf,
}

impl ThisMachine {
    /// Looks at it. Measurements are in `$DAHL_HOME`, else in the user's data folder.
    pub fn look() -> ThisMachine {
        let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
        let home = || variable("HOME").map(|h| PathBuf::from(h).join(".local/share"));
        let folder = variable("DAHL_HOME").map(PathBuf::from).or_else(|| {
            let data = variable("XDG_DATA_HOME").map(PathBuf::from);
            data.or_else(home).map(|d| d.join("dahl"))
        });
        ThisMachine {
            host: discover::host(),
            folder,
            system: variable("DAHL_SYSFS").map_or("/sys".into(), PathBuf::from),
        }
    }

    /// The same with measurements in another folder.
    pub fn keeping_in(mut self, folder: impl Into<PathBuf>) -> ThisMachine {
        self.folder = Some(folder.into());
        self
    }

    /// Where the system's files are that set clocks: `/sys`, or a made-up tree that `$DAHL_SYSFS` names.
    pub(crate) fn system(&self) -> &Path {
        &self.system
    }

    /// What its system says.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Cores that this process may use; at least one.
    pub fn cores(&self) -> usize {
        self.host.cores.len().max(1)
    }

    /// The name of its description: the processor's, always one that a file may hold.
    pub fn name(&self) -> &str {
        let plain = self.host.processor.trim();
        match plain.is_empty() || plain.len() > 200 || plain.chars().any(char::is_control) {
            true => "unknown processor",
            false => plain,
        }
    }

    /// Whether a machine is this computer, as far as its description says: it bears the processor's name. The
    /// durations measured here then hold there, also if the file was edited to have more cores.
    pub fn is(&self, machine: &Machine) -> bool {
        machine.name == self.name()
    }

    /// The folder of everything that is kept between runs.
    pub fn folder(&self) -> Result<&Path, TuneError> {
        self.folder.as_deref().ok_or(TuneError::NoFolder)
    }

    /// Tells machines apart that share a home directory.
    fn key(&self) -> String {
        let host = &self.host;
        let mut h = StableHasher::default();
        (&host.processor, &host.features, host.cores.len()).hash(&mut h);
        format!("{:016x}", h.finish())
    }

    /// The file of the performance model.
    pub fn times_path(&self) -> Result<PathBuf, TuneError> {
        Ok(self.folder()?.join(format!("times-{}.json", self.key())))
    }

    /// The file of the profile.
    pub fn profile_path(&self) -> Result<PathBuf, TuneError> {
        Ok(self.folder()?.join(format!("profile-{}.json", self.key())))
    }

    /// Forgets what was measured: removes the performance model and the profile, and names those that were there.
    pub fn forget(&self) -> Result<Vec<PathBuf>, TuneError> {
        let mut removed = Vec::new();
        for path in [self.times_path()?, self.profile_path()?] {
            match std::fs::remove_file(&path) {
                Ok(()) => removed.push(path),
                Err(why) if why.kind() == std::io::ErrorKind::NotFound => {}
                Err(why) => {
                    let name = path.display();
                    return Err(TuneError::Option(format!("cannot remove {name}: {why}")));
                }
            }
        }
        Ok(removed)
    }

    /// Opens the performance model for adding to it; the warning says if a damaged one was put aside.
    pub(crate) fn open_times(&self) -> Result<(PerfStore, Option<Warning>), TuneError> {
        Ok(PerfStore::open(&self.times_path()?, 1)?)
    }

    /// The performance model, to look at; none if there is no folder to keep one in.
    pub(crate) fn times(&self) -> Result<Option<(PerfModel, Option<Warning>)>, TuneError> {
        match self.times_path() {
            Ok(path) => Ok(Some(dahl_runtime::perf_store::load(&path)?)),
            Err(_) => Ok(None),
        }
    }

    /// The profile, if the machine was calibrated.
    pub fn profile(&self) -> Result<Option<Profile>, TuneError> {
        match self.profile_path() {
            Ok(path) if path.exists() => Profile::load(&path).map(Some),
            // Without a folder nothing was ever kept.
            _ => Ok(None),
        }
    }
}
