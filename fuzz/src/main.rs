//! libFuzzer around a target of `dahl-fuzz`, the one that `DAHL_FUZZ_TARGET` names. With `DAHL_FUZZ_SEEDS` it writes the
//! seeds of all targets into that folder instead and ends.

#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use dahl_fuzz::{Counting, TARGETS, Target};
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static CHOSEN: OnceLock<&'static Target> = OnceLock::new();

fuzz_target!(init: begin(), |bytes: &[u8]| {
    if let Some(target) = CHOSEN.get() {
        let _ = target.run(bytes);
    }
});

fn begin() {
    if let Ok(folder) = std::env::var("DAHL_FUZZ_SEEDS") {
        let done = dahl_fuzz::write_seeds(Path::new(&folder));
        let done = done.map(|()| TARGETS.iter().for_each(|t| println!("{}", t.name)));
        end(done.map_err(|e| format!("cannot write seeds: {e}")));
    }
    let name = std::env::var("DAHL_FUZZ_TARGET").unwrap_or_default();
    match dahl_fuzz::target(&name) {
        Some(target) => {
            let _ = CHOSEN.set(target);
        }
        None => end(Err(format!(
            "DAHL_FUZZ_TARGET={name:?} is no target: scripts/fuzz knows them"
        ))),
    }
    // libfuzzer-sys ends the process at every panic, also at those that a parser catches: decoders of pictures.
    // Those that nobody catches still end it, when they reach libFuzzer.
    let _ = std::panic::take_hook();
}

fn end(result: Result<(), String>) {
    if let Err(message) = &result {
        eprintln!("{message}");
    }
    std::process::exit(i32::from(result.is_err()));
}
