//! Batches and the prefetcher: order, content, resumption, errors, shutdown.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Batches, DataError, DataSpec, Dataset, Normalise, Prefetch, Prefetcher, Split, open};

/// Item `i` is the bytes `i, i+1` in two channels, label `i % 7`; some items fail or panic.
struct Counting {
    len: usize,
    bad: Option<usize>,
    panics: bool,
    reads: AtomicUsize,
}

fn counting(len: usize) -> Counting {
    Counting {
        len,
        bad: None,
        panics: false,
        reads: AtomicUsize::new(0),
    }
}

impl Dataset for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    fn len(&self) -> usize {
        self.len
    }

    fn classes(&self) -> usize {
        7
    }

    fn shape(&self) -> [usize; 3] {
        [2, 1, 1]
    }

    fn read(&self, index: usize, pixels: &mut [u8]) -> Result<usize, DataError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        if self.bad == Some(index) {
            assert!(!self.panics, "item {index} is cursed");
            return Err(DataError::Usage(format!("item {index} is bad")));
        }
        pixels.copy_from_slice(&[index as u8, (index + 1) as u8]);
        Ok(index % 7)
    }
}

/// Everything a prefetcher gives: epoch, batch, pixels, labels.
fn collect(batches: &Batches<f32>, options: Prefetch) -> Vec<(u64, usize, Vec<f32>, Vec<f32>)> {
    Prefetcher::start(batches, options)
        .unwrap()
        .map(|b| {
            let b = b.unwrap();
            assert_eq!(b.samples(), b.targets().len());
            (
                b.epoch(),
                b.batch(),
                b.inputs().to_vec(),
                b.targets().to_vec(),
            )
        })
        .collect()
}

#[test]
fn an_epoch_is_every_item_once_and_epochs_differ() {
    let mut batches = Batches::<f64>::new(Arc::new(counting(23)), 5)
        .unwrap()
        .shuffled(9);
    assert_eq!(batches.per_epoch(), 5);
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    let mut orders = Vec::new();
    for epoch in 0..3 {
        let mut order = Vec::new();
        for batch in 0..5 {
            let n = batches
                .fill(epoch, batch, &mut pixels, &mut labels)
                .unwrap();
            for i in 0..n {
                let item = (pixels[2 * i] * 255.0).round() as usize;
                assert_eq!(pixels[2 * i], item as f64 / 255.0);
                assert_eq!(pixels[2 * i + 1], (item + 1) as f64 / 255.0);
                assert_eq!(labels[i], (item % 7) as f64);
                order.push(item);
            }
            let expected = if batch < 4 { 5 } else { 3 };
            assert_eq!((n, pixels.len(), labels.len()), (expected, 2 * n, n));
        }
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..23));
        orders.push(order);
    }
    assert!(orders[0] != orders[1] && orders[1] != orders[2]);
}

#[test]
fn conversion_rounds_as_single_precision_does() {
    let data: Arc<dyn Dataset> = Arc::new(counting(256));
    let mut plain = Batches::<f32>::new(Arc::clone(&data), 256).unwrap();
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    plain.fill(0, 0, &mut pixels, &mut labels).unwrap();
    for i in 0..256 {
        assert_eq!(pixels[2 * i], i as f32 / 255.0);
    }
    let (mean, std) = ([0.2860, 0.5], [0.3530, 0.25]);
    let by = Normalise::new(mean.to_vec(), std.to_vec()).unwrap();
    let mut normal = plain.clone().normalised(&by).unwrap();
    normal.fill(0, 0, &mut pixels, &mut labels).unwrap();
    for i in 0..256 {
        assert_eq!(pixels[2 * i], (i as f32 / 255.0 - 0.2860f32) / 0.3530f32);
        assert_eq!(
            pixels[2 * i + 1],
            ((i as u8).wrapping_add(1) as f32 / 255.0 - 0.5) / 0.25
        );
    }
    let grey = Normalise::new(vec![0.0], vec![1.0]).unwrap();
    assert!(plain.normalised(&grey).is_err());
}

#[test]
fn misuse_is_an_error() {
    for input in [[1, 0, 28], [usize::MAX; 3]] {
        assert!(open(&DataSpec::FashionMnistSmall, Split::Train, input, None, &[]).is_err());
    }
    let data: Arc<dyn Dataset> = Arc::new(counting(4));
    assert!(Batches::<f32>::new(Arc::clone(&data), 0).is_err());
    let mut batches = Batches::<f32>::new(data, 3).unwrap();
    let mut fill = |batch| batches.fill(0, batch, &mut Vec::new(), &mut Vec::new());
    assert!(fill(2).is_err());
    assert!(fill(usize::MAX).is_err());
    assert_eq!(fill(1).unwrap(), 1);
}

#[test]
fn a_batch_that_memory_cannot_hold_is_an_error_with_its_size() {
    let spec = DataSpec::parse("synthetic:1x16384x16384:1000000000").unwrap();
    let data = open(&spec, Split::Train, [1, 16384, 16384], None, &[]).unwrap();
    let data: Arc<dyn Dataset> = Arc::from(data);
    let batches = Batches::<f64>::new(data, 1_000_000_000).unwrap();
    let mut source = Prefetcher::start(&batches, Prefetch::default()).unwrap();
    let error = source.next().unwrap().err().unwrap();
    assert!(matches!(error, DataError::Memory { .. }), "{error}");
    // 2³¹ bytes an image, a billion images.
    assert!(error.to_string().contains("PiB"), "{error}");
}

#[test]
fn threads_and_distance_change_nothing() {
    let batches = Batches::<f32>::new(Arc::new(counting(50)), 8)
        .unwrap()
        .shuffled(3);
    let alone = collect(
        &batches,
        Prefetch {
            until: Some(4),
            ahead: 1,
            ..Prefetch::default()
        },
    );
    assert_eq!(alone.len(), 28);
    for (threads, ahead) in [(1, 2), (2, 2), (3, 9), (8, 1)] {
        let options = Prefetch {
            until: Some(4),
            threads,
            ahead,
            ..Prefetch::default()
        };
        assert_eq!(collect(&batches, options), alone);
    }
    // Resuming anywhere gives what follows.
    for skip in [1, 6, 7, 15, 28] {
        let options = Prefetch {
            until: Some(4),
            batch: skip,
            threads: 2,
            ..Prefetch::default()
        };
        assert_eq!(collect(&batches, options), alone[skip..]);
        let options = Prefetch {
            epoch: skip as u64 / 7,
            batch: skip % 7,
            ..options
        };
        assert_eq!(collect(&batches, options), alone[skip..]);
    }
}

#[test]
fn a_batch_larger_than_the_set_is_the_set() {
    let batches = Batches::<f32>::new(Arc::new(counting(3)), usize::MAX).unwrap();
    let all = collect(
        &batches,
        Prefetch {
            until: Some(2),
            ..Prefetch::default()
        },
    );
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].3, [0.0, 1.0, 2.0]);
}

#[test]
fn errors_and_panics_arrive_in_their_place_and_end_it() {
    for panics in [false, true] {
        for threads in [1, 4] {
            let data = Counting {
                bad: Some(17),
                panics,
                ..counting(40)
            };
            let batches = Batches::<f32>::new(Arc::new(data), 4).unwrap();
            let options = Prefetch {
                threads,
                ..Prefetch::default()
            };
            let mut source = Prefetcher::start(&batches, options).unwrap();
            for batch in 0..4 {
                assert_eq!(source.next().unwrap().unwrap().batch(), batch);
            }
            let e = source.next().unwrap().err().unwrap().to_string();
            let wanted = if panics {
                "batch 4 of epoch 0"
            } else {
                "item 17 is bad"
            };
            assert!(e.contains(wanted) && e.contains("17"), "{e}");
            assert!(source.next().is_none());
        }
    }
}

#[test]
fn no_more_is_read_than_the_window_holds_and_memory_is_used_again() {
    let data = Arc::new(counting(1000));
    let batches = Batches::<f32>::new(Arc::clone(&data) as Arc<dyn Dataset>, 10).unwrap();
    let options = Prefetch {
        threads: 2,
        ahead: 3,
        ..Prefetch::default()
    };
    let mut source = Prefetcher::start(&batches, options).unwrap();
    let mut places = std::collections::HashSet::new();
    for taken in 1..300 {
        let batch = source.next().unwrap().unwrap();
        places.insert(batch.inputs().as_ptr() as usize);
        let reads = data.reads.load(Ordering::Relaxed);
        assert!(
            reads <= (taken + 3) * 10,
            "{reads} items read for batch {taken}"
        );
    }
    // Three in the window, one in hand.
    assert!(places.len() <= 4, "{} buffers", places.len());
}

#[test]
fn keeping_batches_does_not_stop_the_others() {
    let batches = Batches::<f32>::new(Arc::new(counting(100)), 1).unwrap();
    let source = Prefetcher::start(
        &batches,
        Prefetch {
            until: Some(1),
            ..Prefetch::default()
        },
    );
    let kept: Vec<_> = source.unwrap().map(|b| b.unwrap()).collect();
    assert!(
        kept.iter()
            .enumerate()
            .all(|(i, b)| b.inputs()[0] == i as f32 / 255.0)
    );
}

#[test]
fn dropping_early_ends_the_threads() {
    for taken in 0..20 {
        let data = Arc::new(counting(1000));
        let weak = Arc::downgrade(&data);
        let batches = Batches::<f32>::new(data, 3).unwrap();
        let options = Prefetch {
            threads: 3,
            ahead: 5,
            ..Prefetch::default()
        };
        let mut source = Prefetcher::start(&batches, options).unwrap();
        for _ in 0..taken {
            source.next().unwrap().unwrap();
        }
        drop(batches);
        drop(source);
        assert!(weak.upgrade().is_none(), "a thread still holds the data");
    }
}

#[test]
fn real_images_survive_the_whole_way() {
    let open = || {
        open(
            &DataSpec::FashionMnistSmall,
            Split::Validation,
            [1, 28, 28],
            Some(130),
            &[],
        )
    };
    let data = open().unwrap();
    let batches = Batches::<f32>::new(open().unwrap(), 64).unwrap();
    let all = collect(
        &batches,
        Prefetch {
            until: Some(1),
            threads: 2,
            ..Prefetch::default()
        },
    );
    assert_eq!(
        all.iter().map(|b| b.3.len()).collect::<Vec<_>>(),
        [64, 64, 2]
    );
    let (mut pixels, mut item) = ([0; 784], 0);
    for (_, _, values, labels) in all {
        for (values, label) in values.chunks_exact(784).zip(labels) {
            assert_eq!(data.read(item, &mut pixels).unwrap() as f32, label);
            assert!(
                values
                    .iter()
                    .zip(pixels)
                    .all(|(&v, p)| v == f32::from(p) / 255.0)
            );
            item += 1;
        }
    }
}
