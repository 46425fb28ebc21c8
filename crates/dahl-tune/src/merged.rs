//! The trace of a run: of this computer, or of all nodes of a cluster as one.
//!
//! Every node records by itself, with its own clock. At the end clocks are compared again, the first node gets the
//! traces of all and merges them; the others have nothing to write.

use dahl_core::trace::Trace;
use dahl_runtime::network::Member;

use crate::error::TuneError;

/// What has run since recording began, on all nodes; `complete` adds what the runtime does not know, on each. None on
/// nodes other than the first, and where nothing was recorded. All nodes must call it at the same place.
pub fn take_trace(
    member: &mut Member,
    complete: impl FnOnce(&mut Trace),
) -> Result<Option<Trace>, TuneError> {
    // What follows is no part of the run.
    let mut trace = member.runtime_mut().take_trace();
    if let Some(trace) = &mut trace {
        complete(trace);
    }
    let (Some(trace), true) = (&trace, member.nodes() > 1) else {
        return Ok(trace);
    };
    let alignments = member.alignments().map_err(TuneError::Execution)?;
    let mut own = Vec::new();
    dahl_trace::write(trace, &mut own).map_err(|e| TuneError::Cluster(format!("trace: {e}")))?;
    let all = member.collect(&own).map_err(TuneError::Execution)?;
    let Some(all) = all else {
        return Ok(None);
    };
    let read = |(node, bytes): (usize, Vec<u8>)| {
        let lost = |e| TuneError::Cluster(format!("trace of node {node}: {e}"));
        dahl_trace::read(&bytes).map_err(lost)
    };
    let traces = all.into_iter().enumerate().map(read);
    let traces = traces.collect::<Result<Vec<Trace>, _>>()?;
    let named = member.names().into_iter().zip(alignments).zip(traces);
    let nodes = named.map(|((name, clock), trace)| (name, clock, trace));
    Ok(Some(dahl_trace::merge(nodes.collect())))
}
