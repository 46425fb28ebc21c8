//! How long it takes to place and cut a graph of 100,000 tasks for 64 nodes: `cargo run --release -p dahl-core
//! --example partition`. Other numbers of tasks and nodes may follow.

use std::sync::Arc;
use std::time::Instant;

use dahl_core::graph::partition::{Holders, pairwise, part, place_by_rows};
use dahl_core::{Arena, Codelet, Graph, Handle, Mode, Recorder, Region, Task};

/// Pieces that the batch is cut into.
const PIECES: usize = 256;

/// A step of layers that all read the one before by samples, reduce a gradient and update a parameter.
fn step(arena: &Arena, tasks: usize) -> Result<Arc<Graph>, Box<dyn std::error::Error>> {
    let [layer, gradient, update] =
        ["layer", "gradient", "update"].map(|name| Arc::new(Codelet::new(name)));
    let recorder = Recorder::new();
    let rows = |array: &Handle, i: usize| {
        let rows = Region::new([0, 0, i, 0], [1, 1, i + 1, 64]).expect("not empty");
        array.part(&rows)
    };
    let mut x = arena.zeros::<f32, 2>([PIECES, 64])?.handle().clone();
    recorder.by_rows(&x);
    for _ in 0..tasks / (2 * PIECES) {
        let weight = arena.zeros::<f32, 2>([64, 64])?.handle().clone();
        let y = recorder.temporary_handle("y", &[PIECES, 64], x.dtype());
        let dw = recorder.temporary_handle("dw", &[64, 64], x.dtype());
        recorder.by_rows(&y);
        for i in 0..PIECES {
            let [from, to] = [&x, &y].map(|array| rows(array, i));
            let operands = [
                from.with(Mode::Read),
                weight.with(Mode::Read),
                to.with(Mode::Write),
            ];
            recorder.submit(Task::new(&layer, &operands));
            let operands = [from.with(Mode::Read), dw.with(Mode::Reduce)];
            recorder.submit(Task::new(&gradient, &operands));
        }
        let operands = [dw.with(Mode::Read), weight.with(Mode::ReadWrite)];
        recorder.submit(Task::new(&update, &operands));
        x = y;
    }
    Ok(recorder.finish()?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let tasks = numbers.next().transpose()?.unwrap_or(100_000);
    let nodes = numbers.next().transpose()?.unwrap_or(64) as u16;
    let arena = Arena::new();
    let graph = step(&arena, tasks)?;
    let start = Instant::now();
    let graph = pairwise(&graph);
    let cut = start.elapsed();
    let placement = place_by_rows(&graph, &vec![1.0; usize::from(nodes)])?;
    let placed = start.elapsed();
    let transfers = Holders::new(nodes).exchange(&graph, &placement)?;
    let exchanged = start.elapsed();
    let own = part(&graph, &placement, &transfers, 0)?;
    println!(
        "{} tasks, {nodes} nodes: merges cut after {cut:.1?}, placed after {placed:.1?}, {} transfers found after \
         {exchanged:.1?}, node 0 has {} tasks after {:.1?}",
        graph.len(),
        transfers.len(),
        own.graph.len(),
        start.elapsed()
    );
    Ok(())
}
