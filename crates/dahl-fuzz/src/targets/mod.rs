//! The targets, in one table. A target is a function from bytes to the parser's answer, in the file of its kind.

mod data;
mod descriptions;
mod experiments;
mod measured;
mod options;
mod plans;
mod trace;
mod weights;

use crate::Target;

/// All of them.
pub const TARGETS: &[Target] = &[
    descriptions::MODEL,
    descriptions::MACHINE,
    descriptions::SIMGRID,
    descriptions::PROGRAM,
    descriptions::PLACEMENT,
    descriptions::LAYERS,
    experiments::EXPERIMENT,
    experiments::ROWS,
    descriptions::FREQUENCIES,
    plans::PLAN,
    plans::NODES,
    plans::STEP,
    trace::TRACE,
    weights::CHECKPOINT,
    weights::WEIGHTS,
    measured::PROFILE,
    measured::PERF_STORE,
    measured::METRICS,
    data::IDX,
    data::CIFAR,
    data::ARRAYS,
    data::TAR,
    data::CSV,
    data::PICTURE,
    options::GRAIN,
    options::UNITS,
    options::SCHEDULE,
    options::DATA,
    options::AUGMENT,
    options::LOSS,
];

/// The text of an input; files of text are refused otherwise.
fn text(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|e| e.to_string())
}

/// The error's text: messages must not fail either.
fn said(error: impl std::error::Error + 'static) -> String {
    dahl::core::text::chain(&error)
}

/// No seeds but files.
fn none() -> Vec<Vec<u8>> {
    Vec::new()
}

/// Seeds that are texts.
fn texts(all: &[&str]) -> Vec<Vec<u8>> {
    all.iter().map(|text| text.as_bytes().to_vec()).collect()
}
