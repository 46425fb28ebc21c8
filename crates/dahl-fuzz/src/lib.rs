//! Fuzzing: one target for every parser that meets bytes from outside, with its seeds.
//!
//! A target takes any bytes and hands them to a parser, where need be through a file. What is accepted is used a
//! little further: written and read again, summed up. An input is answered or refused; a panic, an answer that does
//! not come back the same, and more than [`MEMORY`] bytes are failures.
//!
//! Two things drive the targets. `tests/corpus.rs` feeds all seeds, regressions and a fixed number of mutations of
//! them, in the ordinary build. `scripts/fuzz` builds the folder `fuzz/` with instrumentation, and libFuzzer looks for
//! inputs that reach new code. Nothing here looks at a clock.

#![cfg_attr(not(test), warn(unreachable_pub))]

mod bundle;
mod folder;
mod inputs;
mod memory;
mod mutate;
mod targets;

pub use inputs::{Input, corpus_folders, inputs, write_seeds};
pub use memory::{Counting, MEMORY};
pub use mutate::Mutator;
pub use targets::TARGETS;

use folder::Folder;

/// What a parser said: the text of its error, if it refused.
type Answer = Result<(), String>;

/// A parser, and how to reach it.
pub struct Target {
    /// What it is called: on the command line, and as the folder of its corpus.
    pub name: &'static str,
    /// Files of the repository that are seeds, or folders of such files.
    files: &'static [&'static str],
    /// Seeds that the library writes itself, so that they are never of an older format.
    made: fn() -> Vec<Vec<u8>>,
    /// Words of its language, beside the common ones.
    words: &'static [&'static str],
    parse: fn(&Folder, &[u8]) -> Answer,
}

impl Target {
    /// Feeds one input.
    ///
    /// # Panics
    /// If the parser does, or takes more than [`MEMORY`] bytes where [`Counting`] counts them.
    pub fn run(&self, bytes: &[u8]) -> Result<(), String> {
        let answer;
        let most = {
            let counted = memory::Counted::begin();
            answer = Folder::with(|folder| (self.parse)(folder, bytes));
            counted.most()
        };
        assert!(
            most <= MEMORY,
            "an input of {} bytes made the parser take {} MiB at once",
            bytes.len(),
            most >> 20
        );
        answer
    }

    /// Words to put into inputs: extremes that every parser meets, and the target's own.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        mutate::EXTREMES.iter().chain(self.words).copied()
    }
}

/// The target of a name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|t| t.name == name)
}
