//! The corpus run: every seed and regression through its target, and a fixed number of mutations of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dahl_fuzz::{Counting, Mutator, TARGETS, inputs, target};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Mutations for each target: about a minute for all of them on one core. `scripts/fuzz` is for more.
const MUTATIONS: u64 = 40_000;

/// Inputs take microseconds. One that takes this many seconds hangs, on however busy a machine.
const PATIENCE: u64 = 300;

/// Runs a target's inputs. What fails is kept in a file that the message names.
fn run(name: &str) {
    let target = target(name).expect("a target of the table");
    let inputs = inputs(target).expect("the seeds of the repository");
    let watch = Watch::over(name);
    let mut accepted = 0;
    for input in &inputs {
        accepted += usize::from(try_input(&watch, &input.name, &input.bytes));
    }
    // Seeds that are all refused, as those of an older format would be, lead nowhere.
    assert!(
        accepted > 0,
        "{name}: none of {} seeds is accepted",
        inputs.len()
    );
    let seeds: Vec<Vec<u8>> = inputs.iter().map(|i| i.bytes.clone()).collect();
    let mut mutator = Mutator::new(&seeds, target.words());
    for number in 0..MUTATIONS {
        let (seed, bytes) = mutator.input(number);
        let what = format!("mutation {number} of {}", inputs[seed].name);
        try_input(&watch, &what, &bytes);
    }
}

/// Whether an input is accepted.
fn try_input(watch: &Watch, what: &str, bytes: &[u8]) -> bool {
    let name = watch.target;
    let target = target(name).expect("a target of the table");
    watch.begin(what, bytes);
    match catch_unwind(AssertUnwindSafe(|| target.run(bytes))) {
        Ok(answer) => answer.is_ok(),
        Err(_) => panic!("target {name} fails with {what}: see {}", keep(name, bytes)),
    }
}

/// Keeps an input that fails; the file's name.
fn keep(name: &str, bytes: &[u8]) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{name}"));
    std::fs::write(&path, bytes).expect("a file for the input");
    path.display().to_string()
}

/// Turns a hang into a failure that names the input.
struct Watch {
    target: &'static str,
    now: Arc<Mutex<Option<Running>>>,
}

/// What runs: its name, its bytes, and since when.
type Running = (String, Vec<u8>, Instant);

impl Watch {
    fn over(name: &str) -> Watch {
        let target = target(name).expect("a target of the table").name;
        let now: Arc<Mutex<Option<Running>>> = Arc::default();
        let seen = Arc::downgrade(&now);
        std::thread::spawn(move || {
            while let Some(now) = seen.upgrade() {
                if let Some((what, bytes, since)) = &*now.lock().unwrap()
                    && since.elapsed().as_secs() > PATIENCE
                {
                    eprintln!(
                        "target {target} hangs with {what}: see {}",
                        keep(target, bytes)
                    );
                    std::process::abort();
                }
                drop(now);
                std::thread::sleep(Duration::from_secs(1));
            }
        });
        Watch { target, now }
    }

    fn begin(&self, what: &str, bytes: &[u8]) {
        *self.now.lock().unwrap() = Some((what.into(), bytes.into(), Instant::now()));
    }
}

/// A test for each target, and one that there is no other.
macro_rules! tests {
    ($($test:ident: $name:literal,)*) => {
        $(#[test]
        fn $test() {
            run($name);
        })*

        #[test]
        fn every_target_has_a_test() {
            let tested = [$($name),*];
            assert!(TARGETS.iter().map(|t| t.name).eq(tested), "tests: {tested:?}");
        }
    };
}

tests! {
    model: "model",
    machine: "machine",
    simgrid: "simgrid",
    program: "program",
    placement: "placement",
    layers: "layers",
    experiment: "experiment",
    rows: "rows",
    frequencies: "frequencies",
    plan: "plan",
    nodes: "nodes",
    step: "step",
    trace: "trace",
    checkpoint: "checkpoint",
    weights: "weights",
    profile: "profile",
    perf_store: "perf-store",
    metrics: "metrics",
    idx: "idx",
    cifar: "cifar",
    arrays: "arrays",
    tar: "tar",
    csv: "csv",
    picture: "picture",
    grain: "grain",
    units: "units",
    schedule: "schedule",
    data: "data",
    augment: "augment",
    loss: "loss",
}
