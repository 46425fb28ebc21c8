//! A made-up `/sys`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use dahl_core::Seconds;

use super::super::{Clock, Ledger, Meters, Tree, WattsModel};

/// A folder in the place of `/sys`, which goes away with the value.
pub struct Sys(PathBuf);

impl Sys {
    pub fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("dahl-sys-{}-{count}", std::process::id()));
        fs::create_dir_all(&path).expect("a temporary folder");
        Sys(path)
    }

    pub fn root(&self) -> &Path {
        &self.0
    }

    pub fn tree(&self) -> Tree {
        Tree::at(&self.0)
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("inside the tree")).expect("a folder");
        fs::write(path, format!("{text}\n")).expect("a file");
    }

    pub fn remove(&self, path: &str) {
        fs::remove_dir_all(self.0.join(path)).expect("it was there");
    }

    /// A powercap zone.
    pub fn zone(&self, zone: &str, name: &str, microjoules: u64) {
        self.write(&format!("class/powercap/{zone}/name"), name);
        self.write(
            &format!("class/powercap/{zone}/max_energy_range_uj"),
            "262143328850",
        );
        self.set(zone, microjoules);
    }

    pub fn set(&self, zone: &str, microjoules: u64) {
        let path = format!("class/powercap/{zone}/energy_uj");
        self.write(&path, &microjoules.to_string());
    }

    /// A ledger over this tree, without a model.
    pub fn ledger(&self) -> Ledger {
        Ledger::new(Meters::discover(&self.tree(), true), None, Seconds(0.1))
    }
}

impl Drop for Sys {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Two cores of 10 W and 1 W, one of them busy all the time.
pub fn model() -> Option<(WattsModel, Clock)> {
    let watts = WattsModel {
        busy: dahl_core::Watts(10.0),
        idle: dahl_core::Watts(1.0),
        ..WattsModel::cores(2)
    };
    let ticks = AtomicU64::new(0);
    let busy = move || Seconds(ticks.fetch_add(1, Ordering::Relaxed) as f64);
    Some((watts, Clock::Given(std::sync::Arc::new(busy))))
}
