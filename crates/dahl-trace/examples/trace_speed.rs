//! How long a million tasks take to write, read, sum up and export:
//! `cargo run --release -p dahl-trace --example trace_speed [TASKS]`.

use std::time::Instant;

use dahl_trace::export::{csv, paje, perfetto};

fn timed<T>(what: &str, work: impl Fn() -> T) -> T {
    let mut best = f64::INFINITY;
    let mut result = None;
    for _ in 0..3 {
        let begin = Instant::now();
        result = Some(work());
        best = best.min(begin.elapsed().as_secs_f64());
    }
    println!("{what:10} {best:.3} s");
    result.expect("three times")
}

fn main() {
    let tasks = std::env::args().nth(1).and_then(|n| n.parse().ok());
    let trace = dahl_trace::synthetic(tasks.unwrap_or(1_000_000), 8, 1);
    let mut file = vec![];
    timed("write", || {
        let mut out = vec![];
        dahl_trace::write(&trace, &mut out).expect("a proper trace");
        out
    })
    .clone_into(&mut file);
    println!("           {:.1} MB", file.len() as f64 / 1e6);
    timed("read", || dahl_trace::read(&file).expect("readable"));
    timed("summary", || dahl_trace::Summary::of(&trace));
    let sink = std::io::sink;
    timed("perfetto", || {
        perfetto::write(&trace, sink()).expect("written")
    });
    timed("paje", || paje::write(&trace, sink()).expect("written"));
    timed("csv", || csv::write(&trace, sink()).expect("written"));
}
