//! The layer that took the most time, in a line.

use std::collections::BTreeMap;
use std::fmt;

use dahl_core::several;
use dahl_core::trace::Trace;

use super::Summary;

/// The layer that took the most time of the tasks recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Slowest {
    /// Its name.
    pub layer: String,
    /// Its part of the time of all tasks.
    pub share: f64,
    /// The codelet that took most of it.
    pub codelet: String,
    /// Tasks recorded.
    pub of: u64,
}

impl Slowest {
    /// Finds it; none if nothing was recorded.
    pub fn of(trace: &Trace) -> Option<Slowest> {
        let summary = Summary::of(trace);
        let layer = summary.layers.iter().max_by_key(|l| l.total_ns)?;
        let tasks = trace.tasks.iter();
        let mut codelets = BTreeMap::<&str, u64>::new();
        for run in tasks.filter(|t| trace.section_of(t.id) == layer.layer) {
            *codelets.entry(&trace.class_of(run.id).codelet).or_default() += run.end - run.start;
        }
        let (codelet, _) = codelets.into_iter().max_by_key(|c| c.1)?;
        Some(Slowest {
            layer: layer.layer.clone(),
            share: layer.share,
            codelet: codelet.to_string(),
            of: trace.tasks.len() as u64,
        })
    }
}

impl fmt::Display for Slowest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (share, of) = (100.0 * self.share, several(self.of, "task"));
        let Slowest { layer, codelet, .. } = self;
        write!(
            f,
            "{layer}, {share:.0} % of the time of the last {of}, mostly {codelet}"
        )
    }
}
