//! What a device promises beside right values: memory within its limit, copies of any parts, a cache
//! that repairs itself, failures that are told and remembered, and no growth once warm.
//!
//! On OpenCL's first device; skipped where there is none.

// Lists of one range are meant.
#![allow(clippy::single_range_in_vec_init)]

mod common;

use std::ops::Range;
use std::sync::Arc;

use common::{POCL, have_device};
use dahl_core::operands::Placed;
use dahl_core::{Access, Call, DType, Merge, Mode, Region, Shape};
use dahl_gpu::Fault;
use dahl_gpu::launch::{Steps, Task};
use dahl_gpu::opencl::OpenClDevice;
use dahl_gpu::tensor::{Base, Tensor};
use dahl_gpu::{Device, GpuDriver, GpuError, GpuMemory, Settings, recipes};
use dahl_runtime::driver::{Code, Driver, Job};
use dahl_runtime::memory::{Backing, Cargo, Direction};
use dahl_test_support::skip;

fn open(settings: Settings) -> Arc<OpenClDevice> {
    OpenClDevice::open(0, settings).unwrap()
}

fn with_limit(limit: usize) -> Arc<OpenClDevice> {
    open(Settings {
        limit: Some(limit),
        ..Settings::default()
    })
}

fn send(d: &dyn Device, at: usize, bytes: &mut [u8], ranges: &[Range<usize>], way: Direction) {
    assert!(ranges.iter().all(|r| r.end <= bytes.len()));
    // SAFETY: the ranges are inside the slice, which is borrowed, and inside memory that this test
    // allocated with as many bytes.
    unsafe { d.copy(at, bytes.as_mut_ptr(), ranges, way).unwrap() };
}

/// Runs `y = value` on `n` elements at an address.
fn fill(d: &dyn Device, at: usize, n: usize, value: f64) -> Result<(), GpuError> {
    let mut steps = Steps::new(DType::F32, d.tuning());
    let to = Tensor::contiguous(Base::At(at), [1, 1, 1, n]);
    recipes::fill(to, value, &mut steps);
    d.run(&steps)
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let (all, _) = bytes.as_chunks::<4>();
    all.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

#[test]
fn any_parts_travel_both_ways() {
    if !have_device() {
        skip!("OpenCL has no device", POCL);
    }
    let d = with_limit(64 << 20);
    const N: usize = 5 << 20;
    let at = d.allocate(N).unwrap();
    let rows = |len: usize, pitch: usize| -> Vec<Range<usize>> {
        let count = (N - len) / pitch;
        (0..count)
            .map(|i| 12 + i * pitch..12 + i * pitch + len)
            .collect()
    };
    let mixed = vec![0..1, 5..9, 100..4000, 4000..4004, 9000..3 << 20, N - 7..N];
    for ranges in [vec![0..N], rows(28, 1000), rows(100_000, 260_000), mixed] {
        let byte = |i: usize, seed: usize| (i * 31 + i / 251 + seed) as u8;
        let mut there: Vec<u8> = (0..N).map(|i| byte(i, 1)).collect();
        send(&*d, at, &mut there, &[0..N], Direction::In);
        let mut sent: Vec<u8> = (0..N).map(|i| byte(i, 99)).collect();
        send(&*d, at, &mut sent, &ranges, Direction::In);
        for r in &ranges {
            there[r.clone()].copy_from_slice(&sent[r.clone()]);
        }
        let mut back = vec![0; N];
        send(&*d, at, &mut back, &[0..N], Direction::Out);
        assert!(back == there, "to the device, {} ranges", ranges.len());
        let (mut some, mut want) = (vec![7; N], vec![7; N]);
        send(&*d, at, &mut some, &ranges, Direction::Out);
        for r in &ranges {
            want[r.clone()].copy_from_slice(&there[r.clone()]);
        }
        assert!(some == want, "to the host, {} ranges", ranges.len());
    }
    d.release(at);
    assert_eq!(d.usage().used, 0);
}

#[test]
fn memory_stays_within_the_limit_and_comes_back() {
    if !have_device() {
        skip!("OpenCL has no device", POCL);
    }
    let d = with_limit(8 << 20);
    let mut held = Vec::new();
    let full = loop {
        match d.allocate(300_000) {
            Ok(at) => held.push(at),
            Err(e) => break e,
        }
    };
    assert!(matches!(full, GpuError::OutOfMemory { .. }), "{full}");
    assert!(full.to_string().contains("300000 bytes"), "{full}");
    let usage = d.usage();
    assert!(
        usage.reserved <= 8 << 20 && usage.used <= usage.reserved,
        "{usage:?}"
    );
    assert!(held.len() >= 24, "{} pieces", held.len());
    // Two of them, written by kernels, do not touch each other.
    fill(&*d, held[0], 75_000, 1.5).unwrap();
    fill(&*d, held[1], 75_000, -2.0).unwrap();
    let mut bytes = vec![0; 300_000];
    send(&*d, held[0], &mut bytes, &[0..300_000], Direction::Out);
    assert!(floats(&bytes).iter().all(|&v| v == 1.5));
    held.iter().for_each(|&at| d.release(at));
    assert_eq!(d.usage().used, 0);
    assert!(d.allocate(300_000).is_ok());
}

#[test]
fn a_broken_cache_entry_is_rebuilt() {
    let folder = std::env::temp_dir().join(format!("dahl-gpu-test-{}", std::process::id()));
    let settings = || Settings {
        limit: Some(1 << 20),
        cache: Some(folder.clone()),
        ..Settings::default()
    };
    let entries = || -> Vec<_> {
        let all = std::fs::read_dir(&folder).unwrap();
        all.map(|e| e.unwrap().path()).collect()
    };
    let works = |d: &OpenClDevice| {
        let at = d.allocate(64).unwrap();
        fill(d, at, 16, 3.0).unwrap();
        let mut bytes = vec![0; 64];
        send(d, at, &mut bytes, &[0..64], Direction::Out);
        assert_eq!(floats(&bytes), [3.0; 16]);
    };
    if !have_device() {
        skip!("OpenCL has no device", POCL);
    }
    let first = open(settings());
    works(&first);
    assert_eq!(entries().len(), 1);
    let good = std::fs::read(&entries()[0]).unwrap();
    for broken in [&good[..good.len() / 2], b"nonsense"] {
        std::fs::write(&entries()[0], broken).unwrap();
        works(&open(settings()));
        assert_eq!(entries().len(), 1);
        let now = std::fs::read(&entries()[0]).unwrap();
        assert!(now.len() > 1000 && now[..8] == good[..8]);
    }
    works(&open(settings()));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn failures_are_told_and_remembered() {
    if !have_device() {
        skip!("OpenCL has no device", POCL);
    }
    let d = with_limit(1 << 20);
    d.inject(Fault::Allocate, 0);
    assert!(matches!(d.allocate(64), Err(GpuError::OutOfMemory { .. })));
    let at = d.allocate(64).unwrap();
    d.inject(Fault::Launch, 1);
    fill(&*d, at, 16, 1.0).unwrap();
    let error = fill(&*d, at, 16, 2.0).unwrap_err().to_string();
    assert!(
        error.contains("launching fill") && error.contains(d.name()),
        "{error}"
    );
    let error = fill(&*d, at, 16, 2.0).unwrap_err();
    assert!(matches!(error, GpuError::Lost { .. }), "{error}");
    let mut bytes = vec![0u8; 64];
    // SAFETY: nothing is copied: the device is out of use.
    let copied = unsafe { d.copy(at, bytes.as_mut_ptr(), &[0..64], Direction::Out) };
    assert!(matches!(copied, Err(GpuError::Lost { .. })));

    if !have_device() {
        skip!("OpenCL has no device", POCL);
    }
    let d = with_limit(1 << 20);
    let at = d.allocate(64).unwrap();
    d.inject(Fault::Copy, 0);
    // SAFETY: as many bytes on both sides; the copy is made to fail.
    let copied = unsafe { d.copy(at, bytes.as_mut_ptr(), &[0..64], Direction::In) };
    assert!(matches!(copied, Err(GpuError::Call { .. })));
    assert!(matches!(fill(&*d, at, 16, 1.0), Err(GpuError::Lost { .. })));
    let stray = with_limit(1 << 20);
    let error = fill(&*stray, 4096, 1, 1.0).unwrap_err().to_string();
    assert!(error.contains("not in the memory"), "{error}");
}

/// Arrays in different places travel there and back as one batch each way, one of them in rows; and when the
/// device fails at one of them, those before it have arrived.
#[test]
fn arrays_travel_together() {
    if !have_device() {
        skip!("OpenCL has no device", POCL);
    }
    let d = with_limit(32 << 20);
    const N: usize = 1 << 10;
    let places: Vec<usize> = (0..4).map(|_| d.allocate(N).unwrap()).collect();
    let rows: Vec<Range<usize>> = (0..8).map(|r| 128 * r..128 * r + 60).collect();
    let (whole, some) = ([0..N], [8..16, 100..1000]);
    let ranges: [&[Range<usize>]; 4] = [&whole, &rows, &some, &whole];
    let copy = |arrays: &mut [Vec<u8>], way: Direction| {
        let all: Vec<Cargo<'_>> = (0..4)
            .map(|i| Cargo {
                device: places[i] as *mut u8,
                host: arrays[i].as_mut_ptr(),
                ranges: ranges[i],
            })
            .collect();
        // SAFETY: the ranges are inside arrays of as many bytes on both sides, ours alone.
        unsafe { d.copy_all(&all, way) }
    };
    let sent: Vec<Vec<u8>> = (0..4).map(|i| vec![i as u8 + 1; N]).collect();
    let before = d.stats();
    copy(&mut sent.clone(), Direction::In).unwrap();
    let mut back = vec![vec![0; N]; 4];
    copy(&mut back, Direction::Out).unwrap();
    let after = d.stats();
    let did = (after.copies - before.copies, after.batches - before.batches);
    assert_eq!(did, (8, 2));
    for (i, array) in back.iter().enumerate() {
        for (at, &byte) in array.iter().enumerate() {
            let travels = ranges[i].iter().any(|r| r.contains(&at));
            assert_eq!(byte, if travels { i as u8 + 1 } else { 0 }, "{i} at {at}");
        }
    }
    d.inject(Fault::Copy, 2);
    let mut back = vec![vec![0; N]; 4];
    let (arrived, error) = copy(&mut back, Direction::Out).unwrap_err();
    assert!(error.to_string().contains("injected"), "{error}");
    assert_eq!(arrived, 2);
    assert!(back[0].iter().all(|&b| b == 1) && back[1][128..188].iter().all(|&b| b == 2));
    assert!(d.lost().is_some());
    let (arrived, error) = copy(&mut back, Direction::In).unwrap_err();
    assert!(arrived == 0 && matches!(error, GpuError::Lost { .. }));
}

#[test]
fn a_memory_says_that_its_device_is_lost() {
    if !have_device() {
        skip!("OpenCL has no device", POCL);
    }
    let d = with_limit(32 << 20);
    let device: Arc<dyn Device> = d.clone();
    let memory = GpuMemory::measured(device).unwrap();
    assert!(
        memory
            .links()
            .iter()
            .all(|l| l.bandwidth > 0.0 && l.latency.0 > 0.0)
    );
    let piece = memory.allocate(64).unwrap().unwrap();
    assert_eq!(d.usage().used, memory.footprint(64));
    d.inject(Fault::Allocate, 0);
    assert!(memory.allocate(64).unwrap().is_none(), "no room, once");
    let mut values: Vec<u8> = 1.5f32.to_le_bytes().repeat(16);
    let at = values.as_mut_ptr();
    let cargo = |ranges| Cargo {
        device: piece.base(),
        host: at,
        ranges,
    };
    // SAFETY: as many bytes on both sides, ours alone.
    unsafe { memory.copy(&cargo(&[0..64]), Direction::In).unwrap() };
    d.inject(Fault::Copy, 0);
    // SAFETY: as above.
    let lost = unsafe { memory.copy(&cargo(&[8..16, 32..64]), Direction::Out) };
    let why = lost.unwrap_err().to_string();
    assert!(why.contains("copying to the host") && why.contains("injected"));
    assert!(memory.allocate(64).is_err() && d.lost().is_some());
    assert!(floats(&values).iter().all(|v| *v == 1.5));
    drop(piece);
    assert_eq!(d.usage().used, 0);
}

#[test]
fn fresh_accumulators_start_at_their_identity() {
    if !have_device() {
        skip!("OpenCL has no device", POCL);
    }
    let d = with_limit(1 << 20);
    let device: Arc<dyn Device> = d.clone();
    let driver = GpuDriver::new(device);
    let (x, y) = (d.allocate(32).unwrap(), d.allocate(4).unwrap());
    let mut values: Vec<u8> = (0..8u8).flat_map(|i| f32::from(i).to_le_bytes()).collect();
    for (codelet, merge, want) in [
        ("sum", Merge::Add, 28.0),
        ("min", Merge::Min, 0.0),
        ("max", Merge::Max, 7.0),
    ] {
        send(&*d, x, &mut values, &[0..32], Direction::In);
        send(&*d, y, &mut 1e9f32.to_le_bytes(), &[0..4], Direction::In);
        let placed = |at: usize, n: usize| Placed {
            base: at as *mut u8,
            shape: Shape::new(&[n]).unwrap(),
            dtype: DType::F32,
        };
        let access = |array: u32, mode: Mode, n: usize, fresh: Option<Merge>| Access {
            array,
            mode,
            fresh,
            region: Region::new([0; 4], [1, 1, 1, n]).unwrap(),
        };
        let (of_x, of_y) = (placed(x, 8), placed(y, 1));
        let call = Call {
            operands: vec![(of_x.shape, Mode::Read), (of_y.shape, Mode::Reduce)],
            dtype: DType::F32,
            params: Vec::new(),
        };
        let kernels = driver.kernels().unwrap();
        let (place, _) = kernels.find(codelet, &call).unwrap();
        let job = Job {
            code: Code::Kernel(place),
            call: &call,
            accesses: &[
                access(0, Mode::Read, 8, None),
                access(1, Mode::Reduce, 1, Some(merge)),
            ],
            arrays: &[of_x, of_y],
            fresh: true,
        };
        // SAFETY: the operands are on the device and ours alone.
        unsafe { driver.execute(&job, &mut []).unwrap() };
        let mut bytes = [0; 4];
        send(&*d, y, &mut bytes, &[0..4], Direction::Out);
        assert_eq!(f32::from_le_bytes(bytes), want, "{codelet}");
    }
}

#[test]
fn nothing_grows_once_warm() {
    if !have_device() {
        skip!("OpenCL has no device", POCL);
    }
    let d = with_limit(32 << 20);
    let at: Vec<usize> = (0..3).map(|_| d.allocate(100 * 100 * 4).unwrap()).collect();
    let tensors: Vec<Tensor> = at
        .iter()
        .map(|&a| Tensor::contiguous(Base::At(a), [1, 1, 100, 100]))
        .collect();
    at.iter().for_each(|&a| fill(&*d, a, 10_000, 0.5).unwrap());
    let task = Task {
        tensors: &tensors,
        modes: &[Mode::Read, Mode::Read, Mode::Write],
        params: &[],
        first: 0,
    };
    let mut usage = None;
    for _ in 0..200 {
        let mut steps = Steps::new(DType::F32, d.tuning());
        recipes::by_name("linear_input_grad").unwrap()(&task, &mut steps);
        d.run(&steps).unwrap();
        assert_eq!(*usage.get_or_insert(d.usage()), d.usage());
    }
    let mut bytes = vec![0; 40_000];
    send(&*d, at[2], &mut bytes, &[0..40_000], Direction::Out);
    assert!(floats(&bytes).iter().all(|&v| v == 25.0));
}
