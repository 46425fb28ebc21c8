//! Traces survive being written and read; damaged and hostile files are errors.

use std::io::Cursor;

use dahl_core::trace::{Launch, Trace};
use dahl_trace::{TraceError, load, read, save, synthetic, write};
use proptest::prelude::*;

fn bytes(trace: &Trace) -> Vec<u8> {
    let mut out = Cursor::new(vec![]);
    write(trace, &mut out).expect("written");
    out.into_inner()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn traces_come_back(tasks in 0usize..600, units in 1u16..6, seed: u64, dropped: u64, name: String) {
        let mut trace = synthetic(tasks, units, seed);
        trace.dropped = dropped;
        trace.simulated = seed % 2 == 0;
        trace.about.push((name.clone(), name));
        for g in &mut trace.graphs {
            for (i, t) in g.tasks.iter_mut().enumerate() {
                t.priority = i32::MIN.wrapping_add((seed as i32).wrapping_mul(i as i32));
            }
        }
        prop_assert_eq!(read(&bytes(&trace)).expect("readable"), trace);
    }

    #[test]
    fn noise_is_refused(mut noise in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(read(&noise).is_err());
        noise.splice(0..0, *b"DAHLTRC\n\x01\0\0\0\x08\0\0\0");
        prop_assert!(read(&noise).is_err());
    }
}

#[test]
fn an_empty_trace_is_a_trace() {
    assert_eq!(
        read(&bytes(&Trace::default())).expect("readable"),
        Trace::default()
    );
}

#[test]
fn truncation_anywhere_is_an_error_that_says_where() {
    let whole = bytes(&synthetic(60, 3, 5));
    for length in 0..whole.len() {
        match read(&whole[..length]) {
            Err(TraceError::NotATrace) => assert!(length < 8),
            Err(TraceError::Damaged { at, problem, .. }) => {
                assert!(
                    at <= length && problem.contains("too early"),
                    "{length}: {problem}"
                );
            }
            other => panic!("cut at {length}: {other:?}"),
        }
    }
    let mut longer = whole.clone();
    longer.push(0);
    assert!(matches!(read(&longer), Err(TraceError::Damaged { .. })));
}

#[test]
fn every_flipped_bit_is_noticed() {
    let mut file = bytes(&synthetic(60, 3, 5));
    for bit in 0..8 * file.len() {
        file[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&file).is_err(), "bit {bit}");
        file[bit / 8] ^= 1 << (bit % 8);
    }
    assert!(read(&file).is_ok());
}

#[test]
fn another_version_says_so() {
    let mut file = bytes(&synthetic(10, 1, 5));
    file[8] = 3;
    let problem = read(&file).expect_err("refused").to_string();
    assert!(
        problem.contains("version 6") && problem.contains("version 3"),
        "{problem}"
    );
    assert!(matches!(read(b"PK\x03\x04"), Err(TraceError::NotATrace)));
}

#[test]
fn impossible_traces_are_not_written() {
    let mut trace = synthetic(10, 1, 5);
    trace.launches.push(Launch {
        step: 9,
        graph: 77,
        at: 0,
        node: 0,
    });
    let path = std::env::temp_dir().join(format!("dahl-impossible-{}.trace", std::process::id()));
    let problem = save(&trace, &path).expect_err("refused").to_string();
    assert!(problem.contains("graph 77"), "{problem}");
    assert!(!path.exists());
    trace.launches.pop();
    save(&trace, &path).expect("saved");
    assert_eq!(load(&path).expect("loaded"), trace);
    std::fs::remove_file(&path).expect("removable");
    assert!(matches!(load(&path), Err(TraceError::Io(_))));
}
