//! Whole data sets on disk: idx, CIFAR-10, the shipped and the named ones.

use super::{TempDir, gzip, idx};
use crate::{DataError, DataSpec, Dataset, Split, check_classes, open};

/// Three 2×2 images and their labels under the given names.
fn write_set(dir: &TempDir, images: &str, labels: &str, first: u8, classes: &[u8]) {
    let pixels: Vec<u8> = (first..first + 4 * classes.len() as u8).collect();
    let maybe = |name: &str, bytes: Vec<u8>| {
        if name.ends_with("gz") {
            gzip(&bytes)
        } else {
            bytes
        }
    };
    let n = classes.len() as u32;
    dir.write(images, &maybe(images, idx(&[n, 2, 2], &pixels)));
    dir.write(labels, &maybe(labels, idx(&[n], classes)));
}

fn open_idx(
    dir: &TempDir,
    split: Split,
    limit: Option<usize>,
) -> Result<Box<dyn Dataset>, DataError> {
    open(
        &DataSpec::Idx(dir.path().into()),
        split,
        [1, 2, 2],
        limit,
        &[],
    )
}

fn message(result: Result<Box<dyn Dataset>, DataError>) -> String {
    result.err().expect("an error").to_string()
}

#[test]
fn all_spellings_give_the_same_images() {
    for (images, labels) in [
        ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
        ("train-images-idx3-ubyte.gz", "train-labels.idx1-ubyte"),
        ("train-images.idx3-ubyte", "train-labels-idx1-ubyte.gz"),
        ("train-images.idx3-ubyte.gz", "train-labels.idx1-ubyte.gz"),
    ] {
        let dir = TempDir::new();
        write_set(&dir, images, labels, 10, &[2, 0, 1]);
        write_set(
            &dir,
            "t10k-images-idx3-ubyte",
            "t10k-labels-idx1-ubyte.gz",
            50,
            &[4],
        );
        let train = open_idx(&dir, Split::Train, None).unwrap();
        // Class 4 occurs in the other split only.
        assert_eq!(
            (train.len(), train.classes(), train.shape()),
            (3, 5, [1, 2, 2])
        );
        let mut pixels = [0; 4];
        assert_eq!(train.read(1, &mut pixels).unwrap(), 0);
        assert_eq!(pixels, [14, 15, 16, 17]);
        assert!(train.read(3, &mut pixels).is_err());
        assert!(train.read(0, &mut [0; 5]).is_err());
        assert!(train.view(3).unwrap().is_err());
        assert!(check_classes(&*train, 5).is_ok());
        let e = check_classes(&*train, 4).unwrap_err().to_string();
        assert!(e.contains("5 classes, the model only 4"), "{e}");

        let validation = open_idx(&dir, Split::Validation, None).unwrap();
        assert_eq!((validation.len(), validation.classes()), (1, 5));
        let limited = open_idx(&dir, Split::Train, Some(2)).unwrap();
        assert_eq!((limited.len(), limited.classes()), (2, 5));
        assert!(limited.read(2, &mut pixels).is_err());
        assert!(message(open_idx(&dir, Split::Train, Some(0))).contains("no images"));
    }
}

#[test]
fn idx_mistakes_are_named() {
    let dir = TempDir::new();
    let e = message(open_idx(&dir, Split::Train, None));
    assert!(e.contains("train-images-idx3-ubyte[.gz] not found"), "{e}");
    let (images, labels) = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte");
    let pair = |i: Vec<u8>, l: Vec<u8>| {
        dir.write(images, &i);
        dir.write(labels, &l);
        message(open_idx(&dir, Split::Train, None))
    };
    let good = idx(&[1, 2, 2], &[1, 2, 3, 4]);
    let e = pair(good.clone(), idx(&[2], &[1, 2]));
    assert!(e.contains("1 images") && e.contains("2 labels"), "{e}");
    let e = pair(idx(&[1, 2, 3], &[0; 6]), idx(&[1], &[1]));
    assert!(e.contains("data is 1×2×3, the model wants 1×2×2"), "{e}");
    let e = pair(good[..19].to_vec(), idx(&[1], &[1]));
    assert!(
        e.contains("20 bytes expected, 19 found") && e.contains("truncated"),
        "{e}"
    );
    let e = pair([good.clone(), vec![0]].concat(), idx(&[1], &[1]));
    assert!(e.contains("longer than its header says"), "{e}");
    let e = pair(idx(&[1], &[1]), idx(&[1], &[1]));
    assert!(e.contains("begins with 0x00000801, not 0x00000803"), "{e}");
    let e = pair(idx(&[u32::MAX, u32::MAX, u32::MAX], &[]), idx(&[1], &[1]));
    assert!(e.contains("announces"), "{e}");
    let e = pair(idx(&[0, 2, 2], &[]), idx(&[0], &[]));
    assert!(e.contains("no images"), "{e}");
    let e = pair(Vec::new(), idx(&[1], &[1]));
    assert!(e.contains("16 bytes expected, 0 found"), "{e}");
}

#[test]
fn a_small_gzip_file_cannot_announce_much() {
    let dir = TempDir::new();
    dir.write("train-labels-idx1-ubyte.gz", &gzip(&idx(&[1], &[0])));
    // Announces 60 GB: refused before anything is unpacked.
    dir.write(
        "train-images-idx3-ubyte.gz",
        &gzip(&idx(&[1 << 20, 256, 256], &[0; 100])),
    );
    let e = message(open_idx(&dir, Split::Train, None));
    assert!(e.contains("announces 68719476752 bytes"), "{e}");
    // Announces four bytes, unpacks to 10 MB: stopped after four.
    let bomb = idx(&[1, 2, 2], &vec![0; 10_000_000]);
    dir.write("train-images-idx3-ubyte.gz", &gzip(&bomb));
    let e = message(open_idx(&dir, Split::Train, None));
    assert!(e.contains("20 bytes expected, 21 found"), "{e}");
}

#[test]
fn a_damaged_checksum_is_noticed() {
    let dir = TempDir::new();
    write_set(
        &dir,
        "train-images-idx3-ubyte.gz",
        "train-labels-idx1-ubyte",
        1,
        &[0, 1],
    );
    let path = dir.path().join("train-images-idx3-ubyte.gz");
    let mut bytes = std::fs::read(&path).unwrap();
    let crc = bytes.len() - 8;
    bytes[crc] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert!(message(open_idx(&dir, Split::Train, None)).contains("damaged gzip"));
}

#[test]
fn the_shipped_set_is_whole() {
    let shape = [1, 28, 28];
    for (split, len, sum) in [
        (Split::Train, 10_000, 572_388_787u64),
        (Split::Validation, 2_000, 114_763_281),
    ] {
        let data = open(&DataSpec::FashionMnistSmall, split, shape, None, &[]).unwrap();
        assert_eq!((data.len(), data.classes(), data.shape()), (len, 10, shape));
        assert_eq!(data.class_name(9), Some("Ankle boot"));
        let mut pixels = [0; 784];
        let (mut total, mut seen) = (0, [0; 10]);
        for i in 0..len {
            seen[data.read(i, &mut pixels).unwrap()] += 1;
            total += pixels.iter().map(|&p| u64::from(p)).sum::<u64>();
        }
        assert!(seen.iter().all(|&n| n > len / 12), "{seen:?}");
        // The sum of the same images in the original files.
        assert_eq!(total, sum);
    }
    let ten = open(
        &DataSpec::FashionMnistSmall,
        Split::Train,
        shape,
        Some(10),
        &[],
    )
    .unwrap();
    assert_eq!(ten.len(), 10);
    let e = message(open(
        &DataSpec::FashionMnistSmall,
        Split::Train,
        [3, 32, 32],
        None,
        &[],
    ));
    assert!(
        e.contains("data is 1×28×28, the model wants 3×32×32"),
        "{e}"
    );
}

#[test]
fn the_full_set_is_looked_for_in_the_roots() {
    let dir = TempDir::new();
    let spec = DataSpec::FashionMnist;
    let roots = [dir.path().join("a"), dir.path().join("b")];
    let e = message(open(&spec, Split::Train, [1, 2, 2], None, &roots));
    for part in [
        "fashion-mnist` not found",
        "apt install",
        "DAHL_DATA",
        "b/fashion-mnist",
    ] {
        assert!(e.contains(part), "{e}");
    }
    let (i, l) = (
        "b/fashion-mnist/train-images-idx3-ubyte",
        "b/fashion-mnist/train-labels-idx1-ubyte",
    );
    write_set(&dir, i, l, 0, &[9]);
    let data = open(&spec, Split::Train, [1, 2, 2], None, &roots).unwrap();
    assert_eq!(
        (data.classes(), data.class_name(0)),
        (10, Some("T-shirt/top"))
    );
    write_set(&dir, i, l, 0, &[3, 11]);
    let e = message(open(&spec, Split::Train, [1, 2, 2], None, &roots));
    assert!(
        e.contains("item 1 has label 11, but there are 10 classes (0 to 9)"),
        "{e}"
    );
}

#[test]
fn cifar_is_read_across_its_files() {
    let dir = TempDir::new();
    let record = |label: u8, fill: u8| [vec![label], vec![fill; 3072]].concat();
    for i in 1..=5u8 {
        let two = [record(i, i), record(i + 4, 10 * i)].concat();
        dir.write(&format!("cifar-10-batches-bin/data_batch_{i}.bin"), &two);
    }
    let go = |split, limit| {
        open(
            &DataSpec::Cifar10(dir.path().into()),
            split,
            [3, 32, 32],
            limit,
            &[],
        )
    };
    let data = go(Split::Train, None).unwrap();
    assert_eq!(
        (data.len(), data.classes(), data.class_name(6)),
        (10, 10, Some("frog"))
    );
    let mut pixels = [0; 3072];
    assert_eq!(data.read(5, &mut pixels).unwrap(), 7);
    assert_eq!(pixels, [30; 3072]);
    assert!(data.read(10, &mut pixels).is_err());
    assert_eq!(go(Split::Train, Some(3)).unwrap().len(), 3);
    let e = message(go(Split::Validation, None));
    assert!(
        e.contains("test_batch.bin not found") && e.contains("binary version"),
        "{e}"
    );
    dir.write("cifar-10-batches-bin/test_batch.bin", &record(1, 1)[..3072]);
    assert!(message(go(Split::Validation, None)).contains("3073 bytes expected, 3072 found"));
    dir.write("cifar-10-batches-bin/test_batch.bin", &record(10, 1));
    let e = go(Split::Validation, None)
        .unwrap()
        .read(0, &mut pixels)
        .unwrap_err()
        .to_string();
    assert!(e.contains("test_batch.bin: item 0 has label 10"), "{e}");
    let spec = DataSpec::Cifar10(dir.path().into());
    let e = message(open(&spec, Split::Train, [1, 28, 28], None, &[]));
    assert!(
        e.contains("data is 3×32×32, the model wants 1×28×28"),
        "{e}"
    );
}
