//! Performance models: how long a task will take on a unit, from how long others took.
//!
//! Durations are recorded per [`Key`]. An estimate is, in this order:
//!
//! 1. *measured*: the mean of that key's history, outliers set aside (`history`);
//! 2. *regression*: a law of the cost fitted to the same implementation's other shapes
//!    (`regression`), if at least three of them differ in cost;
//! 3. *scaled*: the shape nearest in cost, its duration multiplied by the ratio of the costs.
//!
//! An estimate says which of these it is, and there is none if nothing is known: a guess is never
//! passed off as a measurement.
//!
//! Models are plain values. They never read a clock, an environment variable or a file; the same
//! records in the same order give the same estimates, however often they are asked for. Writing them
//! down is `snapshot`'s and the runtime's business.

mod choices;
mod history;
mod regression;
mod snapshot;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::sync::OnceLock;

use dahl_core::{Cost, DType, DeviceKernels, Graph, Seconds, Shape, UnitKind};
use serde::{Deserialize, Serialize};

pub use self::{
    choices::fastest,
    history::{History, OUTLIER_FACTOR, Summary, Verdict},
    snapshot::Record,
};

use regression::{Fit, Point};
#[cfg(test)]
use regression::{Law, Work};

/// What a duration belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// Name of the codelet.
    pub codelet: String,
    /// Name of the implementation.
    pub implementation: String,
    /// Kind of unit or name of the device: `cpu`, `gpu:…`.
    pub unit: String,
    /// Element type.
    pub dtype: DType,
    /// Stable hash of the shapes and whole-number parameters, from the caller.
    pub footprint: u64,
    /// Shapes of the operands, for reports and against clashes of the hash.
    pub shapes: Vec<Shape>,
}

impl Key {
    /// What durations of a class are recorded under on a unit of this kind, timed under this name, of a machine with
    /// these kernels; none if it cannot run the class.
    pub fn of(
        graph: &Graph,
        class: u32,
        (unit, kind): (&str, UnitKind),
        kernels: &DeviceKernels,
    ) -> Option<Key> {
        let record = &graph.classes[class as usize];
        let codelet = &graph.codelets[record.codelet as usize];
        let implementation = kernels.name_of(graph, class, kind)?;
        Some(Key {
            codelet: codelet.name.clone(),
            implementation: implementation.into(),
            unit: unit.to_owned(),
            dtype: record.call.dtype,
            footprint: record.call.footprint(),
            shapes: record.call.operands.iter().map(|o| o.0).collect(),
        })
    }

    /// The key of the same unit working alone, if this one is among others.
    fn alone(&self) -> Option<Key> {
        let (unit, _) = self.unit.rsplit_once('/')?;
        Some(Key {
            unit: unit.into(),
            ..self.clone()
        })
    }
}

/// How an estimate was made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// From durations of this very key.
    Measured {
        /// How many.
        count: u64,
    },
    /// From a law fitted to other shapes.
    Regression {
        /// Part of the variance that the law explains.
        r2: f64,
        /// Shapes it was fitted to.
        points: usize,
    },
    /// From the nearest shape.
    Scaled,
}

/// An expected duration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// How long.
    pub seconds: Seconds,
    /// How we know.
    pub source: Source,
}

/// One key's cost and history.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    footprint: u64,
    shapes: Vec<Shape>,
    cost: Cost,
    history: History,
    /// Samples held back as cold since this value was made; not part of what is written down.
    held: u32,
}

/// The entries that one law describes, sorted by footprint and shapes.
#[derive(Clone, Debug)]
struct Group {
    codelet: String,
    implementation: String,
    unit: String,
    dtype: DType,
    entries: Vec<Entry>,
    /// The law, computed at the first question after a change.
    fit: OnceLock<Option<Fit>>,
}

impl Group {
    fn compare(&self, key: &Key) -> Ordering {
        (
            self.codelet.as_str(),
            self.implementation.as_str(),
            self.unit.as_str(),
            self.dtype,
        )
            .cmp(&(
                key.codelet.as_str(),
                key.implementation.as_str(),
                key.unit.as_str(),
                key.dtype,
            ))
    }

    fn find(&self, key: &Key) -> Result<usize, usize> {
        self.entries.binary_search_by(|e| {
            e.footprint
                .cmp(&key.footprint)
                .then_with(|| e.shapes.cmp(&key.shapes))
        })
    }

    fn key(&self, entry: &Entry) -> Key {
        Key {
            codelet: self.codelet.clone(),
            implementation: self.implementation.clone(),
            unit: self.unit.clone(),
            dtype: self.dtype,
            footprint: entry.footprint,
            shapes: entry.shapes.clone(),
        }
    }

    fn known(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|e| !e.history.is_empty())
    }

    fn fit(&self) -> Option<Fit> {
        *self.fit.get_or_init(|| {
            let points: Vec<Point> = self
                .known()
                .map(|e| {
                    // A shape measured once counts a quarter of one that is well known.
                    let n = e.history.count() as f64;
                    Point {
                        cost: e.cost,
                        seconds: e.history.typical(),
                        weight: n / (n + 3.0),
                    }
                })
                .collect();
            regression::fit(&points)
        })
    }

    /// The duration of the entry nearest in cost, times the ratio of the costs.
    fn scaled(&self, cost: Cost) -> Option<f64> {
        let distance = |e: &Entry| {
            let apart = |a: f64, b: f64| ((1.0 + a) / (1.0 + b)).ln().abs();
            apart(e.cost.flops, cost.flops) + apart(e.cost.bytes, cost.bytes)
        };
        let nearest = self
            .known()
            .min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
        // Between the ratio of flops and that of bytes when both are known: which of them binds is
        // what a single point cannot tell.
        let ratio = |a: f64, b: f64| (a > 0.0 && b > 0.0).then_some(a / b);
        let flops = ratio(cost.flops, nearest.cost.flops);
        let bytes = ratio(cost.bytes, nearest.cost.bytes);
        let factor = match (flops, bytes) {
            (Some(f), Some(b)) => f.sqrt() * b.sqrt(),
            (one, other) => one.or(other).unwrap_or(1.0),
        };
        Some(nearest.history.typical() * factor)
    }
}

/// Durations of many keys, and estimates from them. See the top of this module.
#[derive(Clone, Debug, Default)]
pub struct PerfModel {
    /// Sorted.
    groups: Vec<Group>,
    cold: u32,
}

/// Two models are equal if they hold the same records; cold samples are a setting.
impl PartialEq for PerfModel {
    fn eq(&self, other: &PerfModel) -> bool {
        self.iter().eq(other.iter())
    }
}

impl PerfModel {
    /// A model that knows nothing.
    pub fn new() -> PerfModel {
        PerfModel::default()
    }

    /// The same model, which from now on keeps the first `samples` durations of each key out: caches
    /// and clocks are cold after a start.
    pub fn with_cold(mut self, samples: u32) -> PerfModel {
        self.cold = samples;
        for entry in self.groups.iter_mut().flat_map(|g| &mut g.entries) {
            entry.held = 0;
        }
        self
    }

    /// Adds a measured duration and says what became of it. The cost is that of the key; if it
    /// changes, the latest holds.
    pub fn record(&mut self, key: &Key, cost: Cost, seconds: Seconds) -> Verdict {
        let cold = self.cold;
        let (group, at) = self.entry(key, cost);
        let entry = &mut group.entries[at];
        entry.cost = sane(cost);
        if entry.held < cold {
            entry.held += 1;
            return Verdict::Cold;
        }
        let verdict = entry.history.record(seconds.0);
        group.fit = OnceLock::new();
        verdict
    }

    /// The expected duration of a task of this key and cost, if anything is known. Of a unit among
    /// others that work at the same time, what was measured of it alone is the next best.
    pub fn estimate(&self, key: &Key, cost: Cost) -> Option<Estimate> {
        let cost = sane(cost);
        let alone = key.alone();
        let keys = || std::iter::once(key).chain(&alone);
        keys()
            .find_map(|k| self.measured(k))
            .or_else(|| keys().find_map(|k| self.inferred(k, cost)))
    }

    fn measured(&self, key: &Key) -> Option<Estimate> {
        let history = self.history(key).filter(|h| !h.is_empty())?;
        Some(Estimate {
            seconds: Seconds(history.typical()),
            source: Source::Measured {
                count: history.count(),
            },
        })
    }

    /// From other shapes of the same implementation on the same unit.
    fn inferred(&self, key: &Key, cost: Cost) -> Option<Estimate> {
        let at = self.groups.binary_search_by(|g| g.compare(key)).ok()?;
        let group = &self.groups[at];
        if let Some(fit) = group.fit()
            && let Some(seconds) = fit.law.predict(cost)
        {
            let source = Source::Regression {
                r2: fit.r2,
                points: fit.points,
            };
            return Some(Estimate {
                seconds: Seconds(seconds),
                source,
            });
        }
        group.scaled(cost).map(|seconds| Estimate {
            seconds: Seconds(seconds),
            source: Source::Scaled,
        })
    }

    /// The law of this key's group in words, if there are enough shapes.
    pub fn law(&self, key: &Key) -> Option<String> {
        let at = self.groups.binary_search_by(|g| g.compare(key)).ok()?;
        self.groups[at].fit().map(|fit| fit.law.to_string())
    }

    /// The history of a key.
    pub fn history(&self, key: &Key) -> Option<&History> {
        let at = self.groups.binary_search_by(|g| g.compare(key)).ok()?;
        let group = &self.groups[at];
        group.find(key).ok().map(|i| &group.entries[i].history)
    }

    /// Adds the records of another model, taken as the newer one. The other must hold only what this
    /// one has not seen, or it counts twice.
    pub fn merge(&mut self, newer: &PerfModel) {
        for (key, cost, history) in newer.iter() {
            let (group, at) = self.entry(&key, cost);
            group.entries[at].cost = cost;
            group.entries[at].history.merge(history);
            group.fit = OnceLock::new();
        }
    }

    /// Takes the records of another model in place of its own, and keeps its settings and which keys
    /// are warm: for a model that was merged with others' outside.
    pub fn adopt(&mut self, mut records: PerfModel) {
        for group in &self.groups {
            for mine in group.entries.iter().filter(|e| e.held > 0) {
                let (theirs, at) = records.entry(&group.key(mine), mine.cost);
                theirs.entries[at].held = mine.held;
            }
        }
        self.groups = records.groups;
    }

    /// Every key that has a history, with its cost, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (Key, Cost, &History)> {
        // What was only ever held back as cold is not a record yet.
        let recorded = |e: &&Entry| e.history != History::default();
        self.groups.iter().flat_map(move |g| {
            g.entries
                .iter()
                .filter(recorded)
                .map(move |e| (g.key(e), e.cost, &e.history))
        })
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// The group of a key and the place of its entry there, made if missing.
    fn entry(&mut self, key: &Key, cost: Cost) -> (&mut Group, usize) {
        let at = self
            .groups
            .binary_search_by(|g| g.compare(key))
            .unwrap_or_else(|at| {
                let group = Group {
                    codelet: key.codelet.clone(),
                    implementation: key.implementation.clone(),
                    unit: key.unit.clone(),
                    dtype: key.dtype,
                    entries: Vec::new(),
                    fit: OnceLock::new(),
                };
                self.groups.insert(at, group);
                at
            });
        let group = &mut self.groups[at];
        let place = group.find(key).unwrap_or_else(|place| {
            let entry = Entry {
                footprint: key.footprint,
                shapes: key.shapes.clone(),
                cost: sane(cost),
                history: History::default(),
                held: 0,
            };
            group.entries.insert(place, entry);
            place
        });
        (group, place)
    }
}

/// A cost that arithmetic survives: what is negative or no number counts as nothing.
fn sane(cost: Cost) -> Cost {
    let amount = |v: f64| if v > 0.0 { v.min(1e30) } else { 0.0 };
    Cost {
        flops: amount(cost.flops),
        bytes: amount(cost.bytes),
    }
}
