//! Data sets: idx and CIFAR files, tables of labels, pictures.

use std::io::{Cursor, Write};
use std::sync::LazyLock;

use dahl::data::{DataSpec, Split, open, read_picture};
use dahl_test_support::files::{npy, tar};
use flate2::Compression;
use flate2::write::GzEncoder;
use image::{ImageFormat, Rgb, RgbImage};

use super::said;
use crate::bundle;
use crate::{Answer, Target};

/// Most images that are read of a set.
const LIMIT: usize = 100;

/// Opens a split and reads what it has.
fn read(spec: &DataSpec, split: Split, input: [usize; 3]) -> Answer {
    let data = open(spec, split, input, Some(LIMIT), &[]).map_err(said)?;
    let mut pixels = vec![0; input.iter().product()];
    for index in 0..data.len() {
        if let Ok(class) = data.read(index, &mut pixels) {
            assert!(
                class < data.classes(),
                "class {class} of {}",
                data.classes()
            );
            let _ = data.class_name(class);
        }
    }
    let _ = data.content();
    Ok(())
}

/// Both splits; accepted if one is.
fn read_both(spec: &DataSpec, input: [usize; 3]) -> Answer {
    let [train, validation] = [Split::Train, Split::Validation].map(|s| read(spec, s, input));
    train.or(validation)
}

/// A bundle of plain and packed files, of which `packed` ones are packed here.
pub(super) const IDX: Target = Target {
    name: "idx",
    files: &[],
    made: idx_seeds,
    words: &[
        "=== train-images-idx3-ubyte\n",
        "=== train-labels-idx1-ubyte.gz\n",
        "=== packed\n",
    ],
    parse: |folder, bytes| {
        let Some(parts) = bundle::parts(bytes) else {
            // Bytes alone are both files.
            folder.write("train-images-idx3-ubyte", bytes);
            folder.write("train-labels-idx1-ubyte", bytes);
            return read(
                &DataSpec::Idx(folder.path().into()),
                Split::Train,
                [1, 2, 3],
            );
        };
        folder.unpack(&parts, IDX_FILES);
        if let Some((_, raw)) = parts.iter().find(|(name, _)| *name == b"packed") {
            folder.write("t10k-images-idx3-ubyte.gz", &gzip(raw));
        }
        read_both(&DataSpec::Idx(folder.path().into()), [1, 2, 3])
    },
};

const IDX_FILES: &[&str] = &[
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-labels.idx1-ubyte",
];

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(bytes).expect("a vector takes everything");
    packer.finish().expect("a vector takes everything")
}

fn idx_seeds() -> Vec<Vec<u8>> {
    let images = b"\0\0\x08\x03\0\0\0\x04\0\0\0\x02\0\0\0\x03abcdefghijklmnopqrstuvwx";
    let labels = b"\0\0\x08\x01\0\0\0\x04\x00\x01\x02\x01";
    let plain = [
        ("train-images-idx3-ubyte", &images[..]),
        ("train-labels-idx1-ubyte", labels),
        ("packed", images),
        ("t10k-labels.idx1-ubyte", labels),
    ];
    let (zipped, labelled) = (gzip(images), gzip(labels));
    let packed = [
        ("train-images-idx3-ubyte.gz", zipped.as_slice()),
        ("train-labels-idx1-ubyte.gz", &labelled),
    ];
    vec![bundle::join(&plain), bundle::join(&packed)]
}

/// A bundle of files, or all files of training alike.
pub(super) const CIFAR: Target = Target {
    name: "cifar",
    files: &[],
    made: || {
        let record = [vec![3], vec![7; 3072]].concat();
        let two = [record.clone(), vec![9; 3073]].concat();
        vec![
            record.clone(),
            two,
            bundle::join(&[("test_batch.bin", &record)]),
        ]
    },
    words: &["=== test_batch.bin\n", "=== data_batch_1.bin\n"],
    parse: |folder, bytes| {
        match bundle::parts(bytes) {
            Some(parts) => folder.unpack(&parts, CIFAR_FILES),
            None => CIFAR_FILES
                .iter()
                .for_each(|name| drop(folder.write(name, bytes))),
        }
        read_both(&DataSpec::Cifar10(folder.path().into()), [3, 32, 32])
    },
};

const CIFAR_FILES: &[&str] = &[
    "data_batch_1.bin",
    "data_batch_2.bin",
    "data_batch_3.bin",
    "data_batch_4.bin",
    "data_batch_5.bin",
    "test_batch.bin",
];

/// Arrays in a folder as a bundle of `.npy` files, or an archive of them.
pub(super) const ARRAYS: Target = Target {
    name: "arrays",
    files: &[
        "crates/dahl-data/src/tests/fixtures/arrays.npz",
        "crates/dahl-data/src/tests/fixtures/packed.npz",
    ],
    made: || {
        let x = npy("|u1", "(4, 1, 2)", &[1, 2, 3, 4, 5, 6, 7, 8]);
        let y = npy("<i2", "(4,)", &[0, 0, 1, 0, 2, 0, 1, 0]);
        let floats = npy("<f4", "(4, 2)", &[0; 32]);
        vec![
            bundle::join(&[("x.npy", &x), ("y.npy", &y)]),
            bundle::join(&[("x_train.npy", &floats), ("y_train.npy", &y)]),
        ]
    },
    words: &[
        "'descr': '<f8'",
        "'fortran_order': True",
        "'shape': (4, 2)",
        "=== x.npy\n",
        "PK\u{5}\u{6}",
        "PK\u{1}\u{2}",
    ],
    parse: |folder, bytes| match bundle::parts(bytes) {
        Some(parts) => {
            folder.unpack(&parts, ARRAY_FILES);
            read_both(&DataSpec::Npy(folder.path().into()), [1, 1, 2])
        }
        None => {
            folder.write("a.npz", bytes);
            let spec = DataSpec::Npz(folder.path().join("a.npz"));
            read_both(&spec, [2, 3, 3]).or_else(|_| read_both(&spec, [4, 1, 1]))
        }
    },
};

const ARRAY_FILES: &[&str] = &[
    "x.npy",
    "y.npy",
    "x_train.npy",
    "y_train.npy",
    "x_test.npy",
    "y_test.npy",
];

/// A tar archive with pictures and classes.
pub(super) const TAR: Target = Target {
    name: "tar",
    files: &["crates/dahl-data/src/tests/fixtures/shards.tar"],
    made: || {
        let picture = PNG.clone();
        vec![
            tar(&[("1.png", &picture), ("1.cls", b"cat")]),
            tar(&[
                ("dog/1.png", &picture),
                ("cat/2.png", &picture),
                ("cat/3.png", b"none"),
            ]),
        ]
    },
    words: &[".cls", "ustar", "path=", "00000000010"],
    parse: |folder, bytes| {
        folder.write("train.tar", bytes);
        read(
            &DataSpec::Tar(folder.path().into()),
            Split::Train,
            [1, 2, 3],
        )
    },
};

/// A bundle of tables, or one alone, in a folder with pictures.
pub(super) const CSV: Target = Target {
    name: "csv",
    files: &[],
    made: || {
        let single = b"file,label,split\na.png,cat,train\n\"b.png\",\"big \"\"dog\"\"\",val\na.png,cat,test\nb.png,cat,\n";
        let train = b"\xef\xbb\xbfa.png,10\r\nb.png,9\r\n\r\na.png,-3";
        let two = bundle::join(&[("train.csv", train), ("val.csv", b"b.png,10\n")]);
        vec![single.to_vec(), train.to_vec(), two]
    },
    words: &[
        "file,label",
        "a.png,",
        "b.png,",
        ",train",
        ",val",
        ",test",
        "\"\"",
        "../",
        "=== val.csv\n",
        "=== labels.csv\n",
    ],
    parse: |folder, bytes| {
        for name in ["a.png", "b.png"] {
            folder.write(name, &PNG);
        }
        match bundle::parts(bytes) {
            Some(parts) => folder.unpack(&parts, &["train.csv", "val.csv", "labels.csv"]),
            None => drop(folder.write("labels.csv", bytes)),
        }
        read_both(&DataSpec::Folder(folder.path().into()), [1, 1, 1])
    },
};

/// Pictures, in the shapes of two models. Decoders are other people's; what we add is bounds.
pub(super) const PICTURE: Target = Target {
    name: "picture",
    files: &[],
    made: || vec![PNG.clone(), picture(ImageFormat::Jpeg)],
    words: &[
        "IHDR", "IDAT", "PLTE", "tRNS", "IEND", "acTL", "fdAT", "iCCP", "eXIf", "JFIF", "Exif",
    ],
    parse: |folder, bytes| {
        let path = folder.write("picture", bytes);
        let grey = read_picture(&path, [1, 5, 3]).map_err(said);
        let colour = read_picture(&path, [3, 2, 4]).map_err(said);
        assert_eq!(grey.is_ok(), colour.is_ok(), "one picture, two answers");
        colour.map(drop)
    },
};

/// A small picture of two colours.
fn picture(format: ImageFormat) -> Vec<u8> {
    let colour = |x: u32| if x < 8 { [250, 10, 20] } else { [10, 20, 240] };
    let picture = RgbImage::from_fn(16, 9, |x, _| Rgb(colour(x)));
    let mut bytes = Cursor::new(Vec::new());
    picture
        .write_to(&mut bytes, format)
        .expect("a vector takes everything");
    bytes.into_inner()
}

static PNG: LazyLock<Vec<u8>> = LazyLock::new(|| picture(ImageFormat::Png));
