//! A made-up world: engines with known speed and watts, a meter that is exact, disturbances that are planted, and a power
//! cut after so many looks. Time is a number: nothing here depends on the machine.

use std::time::Duration;

use crate::ExperimentError;
use crate::design::Cell;
use crate::protocol::{Ended, Ready};
use crate::quiet::{Counters, Used};
use crate::world::{Look, World};

/// Watts of the idle machine.
pub(super) const IDLE: f64 = 20.0;

pub(super) struct MadeUp {
    pub(super) now: f64,
    pub(super) joules: f64,
    pub(super) counters: Counters,
    pub(super) peers: Used,
    pub(super) cell: Cell,
    pub(super) left: f64,
    /// Runs so far, and which of them somebody disturbs, with how many cores.
    pub(super) runs: u32,
    pub(super) planted: fn(u32) -> f64,
    /// The part of a run's window that is not seen.
    pub(super) unseen: fn(u32) -> f64,
    /// Cells that cannot run.
    pub(super) broken: fn(&Cell) -> bool,
    /// Looks until the power goes.
    pub(super) power: u64,
    pub(super) metered: bool,
    /// Whether peers are measured from their start to their end.
    pub(super) whole: bool,
}

impl MadeUp {
    pub(super) fn new() -> MadeUp {
        MadeUp {
            now: 5.0,
            joules: 1000.0,
            counters: Counters::default(),
            peers: Used::default(),
            cell: Cell::new(),
            left: 0.0,
            runs: 0,
            planted: |_| 0.0,
            unseen: |_| 0.01,
            broken: |_| false,
            power: u64::MAX,
            metered: true,
            whole: false,
        }
    }

    /// Images per second of a cell, and its watts above idle.
    pub(super) fn truth(cell: &Cell) -> (f64, f64) {
        let threads = cell["threads"].number().expect("a number");
        match cell["engine"].to_string().as_str() {
            "fast" => (4000.0 * threads, 7.0 * threads),
            _ => (1600.0 * threads.sqrt(), 5.0 * threads),
        }
    }

    fn pass(&mut self, seconds: f64, watts: f64, cores: f64, others: f64) {
        self.now += seconds;
        self.joules += watts * seconds;
        self.counters.busy += (cores + others) * seconds;
        self.counters.own += cores * seconds;
        self.peers.cpu += cores * seconds;
    }

    fn alive(&mut self) -> Result<(), ExperimentError> {
        match self.power {
            0 => Err(ExperimentError::Stopped),
            _ => {
                self.power -= 1;
                Ok(())
            }
        }
    }
}

impl World for MadeUp {
    fn look(&mut self) -> Look {
        let joules = self
            .metered
            .then(|| ("made-up: package-0".to_owned(), self.joules));
        Look {
            at: self.now,
            unix: 1.0e9 + self.now,
            joules: joules.into_iter().collect(),
            readings: (self.now * 10.0) as u64,
            counters: self.counters,
            peers: self.peers,
            ..Look::default()
        }
    }

    fn wait(&mut self, time: Duration) -> Result<(), ExperimentError> {
        self.alive()?;
        self.pass(time.as_secs_f64(), IDLE, 0.0, 0.0);
        Ok(())
    }

    fn start(&mut self, cell: &Cell) -> Result<Ready, ExperimentError> {
        self.alive()?;
        self.runs += 1;
        if (self.broken)(cell) {
            return Err(ExperimentError::Peer("no such engine".into()));
        }
        self.cell = cell.clone();
        self.peers.peak_bytes = 1 << 20;
        self.pass(0.7, IDLE + 3.0, 1.0, 0.0);
        Ok(Ready {
            engine: "made-up 1".into(),
        })
    }

    fn begin(&mut self, seconds: f64) -> Result<(), ExperimentError> {
        self.alive()?;
        self.left = seconds;
        Ok(())
    }

    fn end(&mut self) -> Result<Ended, ExperimentError> {
        self.alive()?;
        let (rate, watts) = MadeUp::truth(&self.cell);
        let threads = self.cell["threads"].number().expect("a number");
        let others = (self.planted)(self.runs);
        // Whole steps of 32 images; who is disturbed is slower.
        let steps = (self.left * rate / 32.0).ceil();
        let seconds = steps * 32.0 / rate * (1.0 + others);
        self.pass(seconds, IDLE + watts, threads, others);
        self.peers.faults += steps as u64;
        Ok(Ended {
            steps: steps as u64,
            images: 32 * steps as u64,
            loss: Some(0.5),
            measures: [
                ("tasks".to_owned(), Some(12.0)),
                (
                    "seconds".to_owned(),
                    Some(seconds / (1.0 - (self.unseen)(self.runs))),
                ),
            ]
            .into(),
        })
    }

    fn stop(&mut self) {}

    fn is_job(&self, _: &Cell) -> bool {
        false
    }

    fn is_whole(&self, _: &Cell) -> bool {
        self.whole
    }

    fn job(&mut self, _: &Cell) -> Result<(Look, Look, Ended), ExperimentError> {
        Err(ExperimentError::Peer("no job".into()))
    }

    fn model(&self, cpu: f64, seconds: f64) -> (f64, String) {
        (3.0 * cpu + seconds, "modelled (3 W)".into())
    }
}
