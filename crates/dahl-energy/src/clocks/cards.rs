//! Clocks of NVIDIA's cards through NVML: `nvmlDeviceSetGpuLockedClocks`, and back to what the driver decides.
//!
//! A card's frequencies are those that it supports beside its highest memory clock. NVML does not say whether somebody has
//! locked a card before, so what is put back is the driver's own decision, not an older lock. The guard cannot call
//! NVML, which is no library for the moment after a fork: it runs `nvidia-smi`, which comes with the driver. Without that
//! program no clock is touched. Locking is for root.

use std::ffi::c_uint;
use std::path::PathBuf;

use super::{Clock, Knob, Undo, failed};
use crate::nvml::api::{self, Api, SUCCESS, check};
use crate::{Trouble, TroubleKind};

/// The library, initialised until this is dropped: without anybody who uses it the driver may forget what it was set to.
pub(super) struct Cards(Api);

impl std::fmt::Debug for Cards {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cards")
    }
}

impl Cards {
    pub(super) fn open() -> Result<Cards, Trouble> {
        let api = api::load()?;
        // SAFETY: takes nothing, and may be called at any time, several times too.
        let code = unsafe { (api.init)() };
        check(code, "nvmlInit").map(|()| Cards(api))
    }

    /// Locks a card to a frequency.
    pub(super) fn set(&self, card: u32, hertz: f64) -> Result<(), Trouble> {
        let Some(clocks) = self.0.clocks else {
            return Err(failed("this driver's NVML has no locked clocks: update it"));
        };
        let (device, mega) = (self.0.device(card)?, (hertz * 1e-6).round() as c_uint);
        // SAFETY: the device is the library's, which is initialised.
        let code = unsafe { (clocks.lock)(device, mega, mega) };
        check(code, "nvmlDeviceSetGpuLockedClocks").map_err(|e| e.or_run(&remedy()))
    }

    /// The frequencies of a card in hertz, the highest first; none if it does not tell.
    fn hertz(&self, card: u32) -> Option<Vec<f64>> {
        let (clocks, device) = (self.0.clocks?, self.0.device(card).ok()?);
        // SAFETY: the device is the library's; no more numbers are written than there is room for.
        let memory = list(|n, all| unsafe { (clocks.memory)(device, n, all) })?;
        let highest = memory.into_iter().max()?;
        // SAFETY: as above.
        let mut all = list(|n, all| unsafe { (clocks.graphics)(device, highest, n, all) })?;
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.dedup();
        Some(all.into_iter().map(|m| f64::from(m) * 1e6).collect())
    }
}

impl Drop for Cards {
    fn drop(&mut self) {
        // SAFETY: the library was initialised once for this value.
        unsafe { (self.0.shutdown)() };
    }
}

/// Most frequencies that a card is asked for.
const MOST: usize = 1024;

fn list(ask: impl Fn(*mut c_uint, *mut c_uint) -> i32) -> Option<Vec<c_uint>> {
    let (mut count, mut all) = (MOST as c_uint, vec![0; MOST]);
    let code = ask(&mut count, all.as_mut_ptr());
    all.truncate(count as usize);
    (code == SUCCESS && !all.is_empty()).then_some(all)
}

fn remedy() -> String {
    "the same as root (sudo -E …): NVIDIA's driver lets nobody else lock clocks".into()
}

/// How a card is given back to its driver.
pub(super) fn undo(card: u32) -> Result<Undo, Trouble> {
    let program = smi()?.to_string_lossy().into_owned();
    let args = ["-i", &card.to_string(), "--reset-gpu-clocks"].map(String::from);
    Ok(Undo::Run {
        run: std::iter::once(program).chain(args).collect(),
    })
}

fn smi() -> Result<PathBuf, Trouble> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut all = std::env::split_paths(&path).map(|folder| folder.join("nvidia-smi"));
    all.find(|file| file.is_file()).ok_or_else(|| {
        let text = "nvidia-smi is not in the PATH, and nothing else could give a card back to its driver if a run is killed";
        Trouble::new(TroubleKind::Missing, text)
    })
}

/// The cards of this computer that say which frequencies they have; none without NVIDIA's driver.
pub(super) fn discover() -> Vec<Clock> {
    let Ok(cards) = Cards::open() else {
        return Vec::new();
    };
    let count = cards.0.count().unwrap_or(0);
    let clock = |card: u32| {
        let device = cards.0.device(card).ok()?;
        Some(Clock {
            name: format!("gpu-{card}"),
            device: cards.0.name(device),
            cpus: Vec::new(),
            hertz: cards.hertz(card)?,
            latency: 0.0,
            trouble: undo(card).err().or_else(refused),
            knob: Knob::Card(card),
        })
    };
    (0..count).filter_map(clock).collect()
}

/// Why this process may not lock clocks.
fn refused() -> Option<Trouble> {
    // SAFETY: asks for a number.
    let root = unsafe { libc::geteuid() } == 0;
    let denied = || {
        let text = "locking a card's clocks: permission denied";
        Trouble::new(TroubleKind::Denied, text).or_run(&remedy())
    };
    (!root).then(denied)
}
