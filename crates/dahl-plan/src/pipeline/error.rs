//! What can be wrong with a profile or a platform.

/// Why there is no pipeline.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// A line that is neither a node nor an edge.
    #[error("line {line}: {what}; {remedy}")]
    Line {
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
        /// What to do about it.
        remedy: &'static str,
    },
    /// Nothing to cut.
    #[error(
        "the profile has no layers{0}; a layer is a line `node1 -- Name -- forward_compute_time=…, \
         backward_compute_time=…, activation_size=…, parameter_size=…`"
    )]
    Empty(&'static str),
    /// Layers that wait for each other.
    #[error(
        "line {line}: the edge {from} -- {to} closes a cycle ({}); remove one of its edges",
        path(.cycle)
    )]
    Cycle {
        /// The line of one of its edges.
        line: usize,
        /// Where that edge begins.
        from: String,
        /// Where it ends.
        to: String,
        /// The layers of the cycle.
        cycle: Vec<String>,
    },
    /// Numbers whose sum is none.
    #[error("the sum of {0} over all layers is beyond the range of numbers; use a larger unit")]
    TooLarge(&'static str),
    /// A platform that is none.
    #[error("{0}")]
    Platform(String),
    /// Nothing fits.
    #[error(
        "no pipeline fits: {why}; give more memory (--memory), more units, or cut the batch (--micro-batches)"
    )]
    Memory {
        /// What is too large for what.
        why: String,
    },
}

fn path(names: &[String]) -> String {
    const SHOWN: usize = 6;
    let mut shown: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
    if names.len() > SHOWN {
        shown.push("…");
    }
    shown.join(" -> ")
}
