//! What long work tells while it goes on: this crate prints nothing.

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// The work has so many parts.
    Parts(u64),
    /// What is being measured now.
    Now(String),
    /// So many more parts are done.
    Done(u64),
    /// The work goes on, but the user should know.
    Warning(String),
}

/// Who is told.
pub(crate) type Tell<'a> = dyn FnMut(Progress) + 'a;
