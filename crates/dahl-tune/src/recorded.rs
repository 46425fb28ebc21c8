//! The end of a run: what policies have learnt is kept, and what was recorded says what it is of.

use dahl_core::trace::Trace;
use dahl_nn::Step;
use dahl_runtime::Runtime;
use dahl_runtime::network::Member;

use crate::error::TuneError;
use crate::merged::take_trace;
use crate::progress::{Progress, Tell};
use crate::run::ResolvedRun;
use crate::units::units_text;

impl ResolvedRun {
    /// Ends a run of a step on one runtime. Gives what was recorded, with what `complete` adds.
    pub fn finish(
        &self,
        step: &Step,
        runtime: &mut Runtime,
        tell: &mut Tell<'_>,
        complete: impl FnOnce(&mut Trace),
    ) -> Option<Trace> {
        self.keep_times(runtime, tell);
        let mut trace = runtime.take_trace()?;
        self.describe(step, &mut trace, units_text(runtime.machine()));
        complete(&mut trace);
        Some(self.marked(trace))
    }

    /// The same on all nodes, whose traces become one if `together` says so. None on nodes that write no files.
    pub fn finish_member(
        &self,
        step: &Step,
        member: &mut Member,
        together: bool,
        tell: &mut Tell<'_>,
        complete: impl FnOnce(&mut Trace),
    ) -> Result<Option<Trace>, TuneError> {
        if !together || member.nodes() == 1 {
            return Ok(self.finish(step, member.runtime_mut(), tell, complete));
        }
        self.keep_times(member.runtime_mut(), tell);
        let units = units_text(member.runtime().machine());
        let units = format!("{} nodes, {units} on the first", member.nodes());
        let trace = take_trace(member, |trace| {
            self.describe(step, trace, units);
            complete(trace);
        });
        Ok(trace?.map(|trace| self.marked(trace)))
    }

    /// The trace, with what pipeline it is of.
    fn marked(&self, mut trace: Trace) -> Trace {
        if let Some(staging) = self.pipeline() {
            staging.mark(&mut trace);
        }
        trace
    }

    fn keep_times(&self, runtime: &mut Runtime, tell: &mut Tell<'_>) {
        if self.needs_times()
            && let Err(error) = runtime.save_perf_model()
        {
            tell(Progress::Warning(error.to_string()));
        }
    }

    fn describe(&self, step: &Step, trace: &mut Trace, units: String) {
        let facts = [
            ("model", step.model.name.clone()),
            ("policy", self.decides()),
            ("dtype", step.dtype.to_string()),
            ("units", units),
        ];
        say_what_made(trace, facts);
        // Nodes send each other what readers of traces accept.
        dahl_trace::renumber(trace);
    }
}

/// Says in a trace what made it: the program's command, these facts, the version.
pub fn say_what_made<const N: usize>(trace: &mut Trace, facts: [(&str, String); N]) {
    let command: Vec<String> = std::env::args().collect();
    let version = env!("CARGO_PKG_VERSION").to_string();
    let all = std::iter::once(("command", command.join(" ")))
        .chain(facts)
        .chain([("version", version)]);
    trace
        .about
        .extend(all.map(|(name, text)| (name.into(), text)));
}
