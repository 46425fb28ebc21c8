//! Small copies of one task over one link pay its latency once, computed by hand. Links move a byte per
//! second and take ten seconds to start.

use dahl_core::{Mode, Rated};

use super::super::TransferSpan;
use super::memory::fixed;
use super::*;

fn far_device() -> Machine {
    let mut machine = with_device(1000);
    let links = machine.links.iter_mut();
    links.for_each(|l| l.latency = Seconds(10.0));
    machine
}

/// A task of so many seconds that reads arrays of these sizes; `written` by another before, if so.
fn reader(seconds: i64, sizes: &[usize], written: bool) -> Arc<Graph> {
    let arena = Arena::new();
    let arrays: Vec<Handle> = sizes.iter().map(|&n| array(&arena, "a", n)).collect();
    let all = |mode| -> Vec<Operand<'_>> { arrays.iter().map(|a| a.with(mode)).collect() };
    let r = Recorder::new();
    if written {
        task(&r, 1, &all(Mode::Write));
    }
    task(&r, seconds, &all(Mode::Read));
    r.finish().unwrap()
}

fn copies(prediction: &Prediction) -> Vec<(u64, u32, f64, f64)> {
    let one = |t: &TransferSpan| (t.bytes.0, t.batch, t.start.0, t.end.0);
    prediction.transfers.iter().map(one).collect()
}

#[test]
fn small_copies_of_a_task_start_together_and_large_ones_follow_alone() {
    // 12 bytes take longer than a start: they wait until the batch is there.
    let graph = reader(1, &[4, 12, 8], false);
    let prediction = fixed(&graph, &far_device(), vec![vec![], vec![0]]).unwrap();
    let expected = [(4, 2, 0.0, 14.0), (8, 2, 14.0, 22.0), (12, 1, 22.0, 44.0)];
    assert_eq!(copies(&prediction), expected);
    assert_eq!(when(&prediction), [(1, 44.0, 45.0)]);
    assert_eq!(prediction.links[0].transfers, 3);
    assert_eq!(prediction.links[0].bytes, Bytes(24));
    assert_eq!(prediction.links[0].busy, Seconds(44.0));
}

#[test]
fn results_come_home_together() {
    let graph = reader(1, &[4, 8], true);
    let prediction = fixed(&graph, &far_device(), vec![vec![1], vec![0]]).unwrap();
    assert_eq!(copies(&prediction), [(4, 2, 1.0, 15.0), (8, 2, 15.0, 23.0)]);
    assert_eq!(when(&prediction), [(1, 0.0, 1.0), (0, 23.0, 24.0)]);
}

#[test]
fn dmda_knows_that_they_start_together() {
    // On the device: a start, 12 bytes and a tenth of the time; with a start for each array it would be
    // 45.5 s, more than the CPU's 35 s.
    let graph = reader(35, &[4, 4, 4], false);
    let mut machine = far_device();
    machine.units[1].rated = Some(Rated {
        flops: 10.0,
        flops_f64: 10.0,
        bandwidth: 1.0,
    });
    let prediction = run(&graph, &machine, "dmda", 1);
    assert_eq!(when(&prediction), [(1, 22.0, 25.5)]);
}
