//! Cells cover each access exactly.

use std::sync::Arc;

use dahl_core::graph::cells::Cells;
use dahl_core::{Arena, Codelet, DType, Mode, Operand, Recorder, Region, Task, UnitKind};

/// A task that does nothing with what it touches.
fn task(r: &Recorder, operand: Operand<'_>) {
    let any = Codelet::new("any").implement("reference", UnitKind::CPU, |_| Ok(()));
    r.submit(Task::new(&Arc::new(any), &[operand]));
}

#[test]
fn cells_of_an_access_hold_its_bytes_under_every_shape() {
    let arena = Arena::new();
    let x = arena.alloc("x", &[6, 4], DType::F32).unwrap();
    let flat = x.reshape(&[24]).unwrap();
    let block = |r0, r1, c0, c1| Region::new([0, 0, r0, c0], [1, 1, r1, c1]).unwrap();
    let parts = [
        x.part(&block(0, 3, 0, 4)),
        x.part(&block(2, 5, 1, 3)),
        x.part(&block(4, 6, 0, 2)),
        flat.part(&Region::new([0, 0, 0, 5], [1, 1, 1, 19]).unwrap()),
    ];
    let r = Recorder::new();
    for part in &parts {
        task(&r, part.with(Mode::Read));
    }
    let graph = r.finish().unwrap();
    let cells = Cells::new(&graph);
    assert_eq!(cells.coarse, 0);
    assert_eq!(cells.bytes.iter().sum::<u64>(), 96);
    for (i, part) in parts.iter().enumerate() {
        let own = cells.of(i);
        let bytes: u64 = own.iter().map(|&c| cells.bytes[c as usize]).sum();
        assert_eq!(bytes, 4 * part.region.len() as u64, "access {i}");
        let mut distinct = own.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), own.len());
    }
    // Every cell is its box, and nothing else lies in that.
    for cell in 0..cells.bytes.len() as u32 {
        let region = cells.region(0, cell).unwrap();
        assert_eq!(4 * region.len() as u64, cells.bytes[cell as usize]);
        let mut inside = Vec::new();
        cells.inside(0, &region, |c| inside.push(c));
        assert_eq!(inside, [cell]);
    }
    let mut all = Vec::new();
    cells.inside(0, &Region::whole(&x.whole), |c| all.push(c));
    assert_eq!(all.len(), cells.bytes.len());
    // The flat part from element 5 to 19 and the first three rows share elements 5 to 12.
    let shared = cells.of(0).iter().filter(|c| cells.of(3).contains(c));
    assert_eq!(shared.map(|&c| cells.bytes[c as usize]).sum::<u64>(), 4 * 7);
}

#[test]
fn too_many_cells_become_one() {
    let arena = Arena::new();
    let x = arena.alloc("x", &[300, 300], DType::F32).unwrap();
    let r = Recorder::new();
    for i in 0..300 {
        let row = Region::new([0, 0, i, 0], [1, 1, i + 1, 300]).unwrap();
        let column = Region::new([0, 0, 0, i], [1, 1, 300, i + 1]).unwrap();
        task(&r, x.part(&row).with(Mode::Read));
        task(&r, x.part(&column).with(Mode::Read));
    }
    let graph = r.finish().unwrap();
    let cells = Cells::new(&graph);
    assert_eq!((cells.coarse, cells.bytes.as_slice()), (1, &[360_000][..]));
    assert!((0..600).all(|i| cells.of(i) == [0]));
}
