//! Traces of pipelines say which units are a device, so that [`dahl_trace::summary::bubble`] finds how long they waited.

use dahl_core::trace::{Trace, TraceUnit};
use dahl_trace::summary::bubble::{DEVICES, bubble};

use super::Staging;

impl Staging {
    /// Makes a trace of this pipeline what readers of traces expect: tasks come after those they wait for. Writes into it what it
    /// was, and which device each unit belongs to; nothing for a pipeline without a flush, whose steps are never alone.
    pub fn mark(&self, trace: &mut Trace) {
        dahl_trace::renumber(trace);
        let devices: Option<Vec<u16>> = match trace.nodes.len() {
            _ if !self.is_strict() => None,
            0 | 1 => self.groups(trace.units.len()),
            nodes => {
                let node = |u: &TraceUnit| trace.memories[usize::from(u.memory)].node as usize;
                let device = |u: &TraceUnit| self.device_of_node(node(u), nodes) as u16;
                Some(trace.units.iter().map(device).collect())
            }
        };
        let devices = devices.into_iter().flatten().map(|d| d.to_string());
        let devices: Vec<String> = devices.collect();
        if !devices.is_empty() {
            let facts = [("pipeline", self.summary()), (DEVICES, devices.join(" "))];
            let facts = facts.map(|(name, text)| (name.to_string(), text));
            trace.about.extend(facts);
        }
    }

    /// The bubble that a trace of this pipeline shows.
    pub fn bubble(&self, mut trace: Trace) -> Option<f64> {
        self.mark(&mut trace);
        bubble(&trace)
    }
}
