//! The thread that reads the meters while a program runs.
//!
//! ```no_run
//! let sampler = dahl_energy::Options::default().start();
//! // … an epoch …
//! let so_far = sampler.snapshot();
//! // … another …
//! println!("{}", sampler.snapshot().since(&so_far));
//! println!("{}", sampler.finish().energy);
//! ```
//!
//! Counters are also read at the start, at each snapshot and at the end, in the caller's thread, so the
//! thread is only there for wraps, for power and for its curve. If it cannot be started, figures from
//! counters are the same.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dahl_core::Seconds;

use super::Tree;
use super::energy::{DomainEnergy, Energy, PowerSample, Report};
use super::ledger::{Ledger, Meters};
use super::model::{Clock, ModelMeter, WattsModel};
use super::wall::WallMeter;

/// How to measure.
#[derive(Clone)]
pub struct Options {
    /// The folder in the place of `/sys`.
    pub sysfs: PathBuf,
    /// Time between two samples.
    pub interval: Duration,
    /// What samples' times are counted from; the start if not given.
    pub epoch: Option<Instant>,
    /// Watts for where no processor can be measured; `None` leaves such a figure unavailable.
    pub model: Option<WattsModel>,
    /// How long units were busy, for the model.
    pub clock: Clock,
    /// Whether to look for meters of graphics cards, which loads their vendor's library.
    pub cards: bool,
    /// Watts of graphics cards, and how long they were busy, for where no card can be measured.
    pub gpus: Option<(WattsModel, Clock)>,
    /// Meters at the wall.
    pub wall: Vec<WallMeter>,
}

impl Default for Options {
    /// This machine ten times a second; the model is of all its cores and this process's CPU time.
    fn default() -> Self {
        Options {
            sysfs: "/sys".into(),
            interval: Duration::from_millis(100),
            epoch: None,
            model: Some(WattsModel::of_this_machine()),
            clock: Clock::Process,
            cards: true,
            gpus: None,
            wall: Vec::new(),
        }
    }
}

impl Options {
    /// Looks for meters, reads them for the first time and starts the thread.
    pub fn start(&self) -> Sampler {
        let meters = Meters::discover(&Tree::at(&self.sysfs), self.cards);
        self.start_with(meters)
    }

    /// The same with these meters.
    pub(crate) fn start_with(&self, mut meters: Meters) -> Sampler {
        for wall in &self.wall {
            let (meter, finding) = wall.attach();
            meters.meters.push(meter);
            meters.findings.push(finding);
        }
        if let Some((watts, clock)) = self.gpus.clone() {
            let model = ModelMeter::of_gpus(watts, clock);
            meters.meters.push(Box::new(model));
        }
        let interval = self.interval.max(Duration::from_millis(1));
        let model = self.model.clone().map(|m| (m, self.clock.clone()));
        let ledger = Ledger::new(meters, model, Seconds(interval.as_secs_f64()));
        let worth = ledger.is_worth_sampling();
        let shared = Arc::new(Shared {
            ledger: Mutex::new(ledger),
            stopped: Mutex::new(false),
            stop: Condvar::new(),
            epoch: self.epoch.unwrap_or_else(Instant::now),
        });
        drop(shared.sample());
        let theirs = Arc::clone(&shared);
        let spawn = || {
            std::thread::Builder::new()
                .name("dahl-meter".into())
                .spawn(move || theirs.run(interval))
                .ok()
        };
        let thread = worth.then(spawn).flatten();
        Sampler { shared, thread }
    }
}

struct Shared {
    ledger: Mutex<Ledger>,
    stopped: Mutex<bool>,
    stop: Condvar,
    epoch: Instant,
}

impl Shared {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads all meters; the time is taken under the lock, so that it never goes back.
    fn sample(&self) -> MutexGuard<'_, Ledger> {
        let mut ledger = self.ledger();
        ledger.sample(Seconds(self.epoch.elapsed().as_secs_f64()));
        ledger
    }

    fn run(&self, interval: Duration) {
        let mut next = Instant::now() + interval;
        let mut stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        while !*stopped {
            let now = Instant::now();
            if now < next {
                let wait = self.stop.wait_timeout(stopped, next - now);
                stopped = wait.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            drop(self.sample());
            // Ticks that were missed (a stopped process) are not made up for.
            next = (next + interval).max(Instant::now());
        }
    }
}

/// Runs `work` and says what this machine used meanwhile, all of its processes included where that is
/// measured, this process alone where it is modelled.
///
/// ```
/// let (sum, energy) = dahl_energy::measure(|| (0..1_000_000u64).sum::<u64>());
/// assert_eq!(sum, 499_999_500_000);
/// println!("{energy}"); // 12.3 mJ modelled (3.5 W busy, 0.74 W idle per core)
/// ```
pub fn measure<R>(work: impl FnOnce() -> R) -> (R, Energy) {
    let sampler = Options::default().start();
    let result = work();
    (result, sampler.finish().energy)
}

/// Meters that are being read. Dropping it ends the thread.
pub struct Sampler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Reads the meters: energy from the start until now.
    pub fn snapshot(&self) -> Energy {
        self.shared.sample().energy()
    }

    /// Reads the meters: every domain from the start until now, and how often all of them had something new to say.
    pub fn domains(&self) -> (Vec<DomainEnergy>, u64) {
        let ledger = self.shared.sample();
        (ledger.domains(), ledger.readings())
    }

    /// Power over time until the last sample, in seconds since [`Options::epoch`].
    pub fn samples(&self) -> Vec<PowerSample> {
        self.shared.ledger().samples()
    }

    /// Reads the meters for the last time.
    pub fn finish(mut self) -> Report {
        self.halt();
        self.shared.sample().report()
    }

    fn halt(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        let stopped = self.shared.stopped.lock();
        *stopped.unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.stop.notify_all();
        // A thread that panicked has nothing more to say, and the accounts are still there.
        let _ = thread.join();
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.halt();
    }
}
