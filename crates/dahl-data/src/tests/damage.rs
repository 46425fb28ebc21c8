//! Parsers fed with random, shortened and altered bytes: an answer or an error, never a panic, and
//! never much memory.

use std::path::Path;

use proptest::prelude::*;

use super::{gzip, idx};
use crate::bytes::Bytes;
use crate::cifar::{CIFAR_10, Part};
use crate::idx::{IdxSet, Kind, from_memory};

/// Opens a pair of files and, if that works, reads all of it.
fn try_pair(images: Vec<u8>, labels: Vec<u8>, gz: bool, input: [usize; 3]) -> bool {
    let Ok(images) = from_memory(images, Kind::Images, gz) else {
        return false;
    };
    let Ok(labels) = from_memory(labels, Kind::Labels, gz) else {
        return false;
    };
    let Ok(set) = IdxSet::pair("test".into(), images, labels, input, None, None, 0) else {
        return false;
    };
    read_all(&set);
    true
}

fn read_all(set: &dyn crate::Dataset) {
    let mut pixels = vec![0; set.shape().iter().product()];
    for i in 0..set.len() {
        assert!(set.read(i, &mut pixels).unwrap() < set.classes());
    }
}

fn good_pair() -> (Vec<u8>, Vec<u8>) {
    let pixels: Vec<u8> = (0..60).collect();
    (idx(&[5, 3, 4], &pixels), idx(&[5], &[0, 1, 2, 1, 0]))
}

#[test]
fn every_shortened_file_is_refused() {
    let (images, labels) = good_pair();
    assert!(try_pair(images.clone(), labels.clone(), false, [1, 3, 4]));
    for n in 0..images.len() {
        assert!(!try_pair(
            images[..n].to_vec(),
            labels.clone(),
            false,
            [1, 3, 4]
        ));
    }
    for n in 0..labels.len() {
        assert!(!try_pair(
            images.clone(),
            labels[..n].to_vec(),
            false,
            [1, 3, 4]
        ));
    }
    let (images, labels) = (gzip(&images), gzip(&labels));
    assert!(try_pair(images.clone(), labels.clone(), true, [1, 3, 4]));
    for n in 0..images.len() {
        assert!(
            !try_pair(images[..n].to_vec(), labels.clone(), true, [1, 3, 4]),
            "{n}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn random_bytes_are_no_idx_file(bytes: Vec<u8>, gz: bool, kind: bool) {
        let kind = if kind { Kind::Images } else { Kind::Labels };
        let _ = from_memory(bytes, kind, gz);
    }

    #[test]
    fn random_headers_are_answered(dims in prop::array::uniform3(any::<u32>()), tail: Vec<u8>, gz: bool) {
        let bytes = idx(&dims, &tail);
        let bytes = if gz { gzip(&bytes) } else { bytes };
        let _ = from_memory(bytes, Kind::Images, gz);
    }

    #[test]
    fn altered_idx_files_are_answered(
        changes in prop::collection::vec((0usize..200, any::<u8>()), 1..4),
        gz: bool,
        which: bool,
    ) {
        let (mut images, mut labels) = good_pair();
        if gz {
            (images, labels) = (gzip(&images), gzip(&labels));
        }
        let file = if which { &mut images } else { &mut labels };
        for (at, value) in changes {
            let n = file.len();
            file[at % n] = value;
        }
        try_pair(images, labels, gz, [1, 3, 4]);
    }

    #[test]
    fn cifar_records_are_answered(bytes: Vec<u8>, records in 0usize..4, extra in 0usize..2) {
        let mut all = bytes;
        all.resize(records * 3073 + extra, 77);
        let whole = records > 0 && extra == 0;
        let part = Part::new(&CIFAR_10, Path::new("x.bin").into(), Bytes::Held(all));
        prop_assert_eq!(part.is_ok(), whole);
        if let Ok(part) = part {
            for i in 0..records {
                if let Ok((pixels, label)) = part.get(i) {
                    prop_assert!(pixels.len() == 3072 && label < 10);
                }
            }
        }
    }
}
