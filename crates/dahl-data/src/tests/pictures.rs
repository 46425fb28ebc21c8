//! Folders of pictures: conventions, splits, errors.

use std::io::Cursor;

use image::{GrayImage, ImageFormat, Luma};

use super::TempDir;
use crate::{Batches, DataError, DataSpec, Dataset, Prefetch, Prefetcher, Split, open};

fn picture(value: u8, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Vec::new();
    let grey = GrayImage::from_pixel(9, 7, Luma([value]));
    grey.write_to(&mut Cursor::new(&mut bytes), format).unwrap();
    bytes
}

fn go(dir: &TempDir, split: Split, input: [usize; 3]) -> Result<Box<dyn Dataset>, DataError> {
    open(
        &DataSpec::Folder(dir.path().into()),
        split,
        input,
        None,
        &[],
    )
}

/// First byte and class name of every item.
fn contents(data: &dyn Dataset) -> Vec<(u8, String)> {
    let mut pixels = vec![0; data.shape().iter().product()];
    (0..data.len())
        .map(|i| {
            let class = data.read(i, &mut pixels).unwrap();
            (pixels[0], data.class_name(class).unwrap().to_owned())
        })
        .collect()
}

#[test]
fn two_tables_share_their_classes() {
    let dir = TempDir::new();
    dir.write("a/1.png", &picture(10, ImageFormat::Png));
    dir.write("a/2.jpg", &picture(200, ImageFormat::Jpeg));
    dir.write("a/no extension", &picture(30, ImageFormat::Png));
    dir.write("train.csv", b"file,label\na/1.png,dog\na/2.jpg,cat\n");
    dir.write("val.csv", b"a/no extension,bird\n");
    let train = go(&dir, Split::Train, [3, 4, 5]).unwrap();
    assert_eq!((train.classes(), train.shape()), (3, [3, 4, 5]));
    assert_eq!(
        contents(&*train),
        [(10, "dog".to_owned()), (200, "cat".to_owned())]
    );
    let validation = go(&dir, Split::Validation, [1, 28, 28]).unwrap();
    assert_eq!(validation.classes(), 3);
    assert_eq!(contents(&*validation), [(30, "bird".to_owned())]);
    let e = go(&dir, Split::Train, [2, 4, 5]).err().unwrap().to_string();
    assert!(e.contains("the model wants 2×4×5"), "{e}");
}

#[test]
fn a_third_column_names_the_split() {
    let dir = TempDir::new();
    for i in 0..4u8 {
        dir.write(&format!("{i}.png"), &picture(i, ImageFormat::Png));
    }
    dir.write(
        "labels.csv",
        b"0.png,1\n1.png,10,val\n2.png,9,test\n3.png,2,train\n",
    );
    let train = go(&dir, Split::Train, [1, 2, 2]).unwrap();
    assert_eq!(train.classes(), 4);
    assert_eq!(
        contents(&*train),
        [(0, "1".to_owned()), (3, "2".to_owned())]
    );
    let validation = go(&dir, Split::Validation, [1, 2, 2]).unwrap();
    assert_eq!(contents(&*validation), [(1, "10".to_owned())]);
    assert_eq!(validation.read(0, &mut [0; 4]).unwrap(), 3);
}

#[test]
fn a_table_without_splits_is_divided_once_and_for_all() {
    let dir = TempDir::new();
    let mut table = String::new();
    for i in 0..50u8 {
        dir.write(&format!("{i}.png"), &picture(i, ImageFormat::Png));
        table += &format!("{i}.png,{}\n", i % 2);
    }
    dir.write("labels.csv", table.as_bytes());
    let train = contents(&*go(&dir, Split::Train, [1, 2, 2]).unwrap());
    let validation = contents(&*go(&dir, Split::Validation, [1, 2, 2]).unwrap());
    assert_eq!((train.len(), validation.len()), (45, 5));
    let mut all: Vec<u8> = train.iter().chain(&validation).map(|x| x.0).collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..50));
    assert_ne!(
        validation.iter().map(|v| v.0).collect::<Vec<_>>(),
        [0, 1, 2, 3, 4]
    );
    assert_eq!(
        contents(&*go(&dir, Split::Validation, [1, 2, 2]).unwrap()),
        validation
    );
}

#[test]
fn mistakes_are_named() {
    let dir = TempDir::new();
    let message = |split| go(&dir, split, [1, 2, 2]).err().unwrap().to_string();
    assert!(message(Split::Train).contains("train.csv and val.csv or labels.csv"));
    dir.write("labels.csv", b"file,label\n");
    assert!(message(Split::Train).contains("no images of this split"));
    dir.write("labels.csv", b"gone.png,1\nbad.png,0\n");
    assert!(
        message(Split::Train).contains("relative to the folder")
            || message(Split::Validation).contains("relative")
    );
    dir.write("labels.csv", b"gone.png,\xff\n");
    assert!(message(Split::Train).contains("labels.csv:1: not UTF-8"));
    let missing = DataSpec::Folder(dir.path().join("nowhere"));
    let e = open(&missing, Split::Train, [1, 2, 2], None, &[])
        .err()
        .unwrap()
        .to_string();
    assert!(e.contains("does not exist"), "{e}");
}

#[test]
fn a_bad_picture_is_named_through_the_prefetcher() {
    let dir = TempDir::new();
    for i in 0..20u8 {
        dir.write(&format!("{i}.png"), &picture(i, ImageFormat::Png));
    }
    dir.write("13.png", &picture(0, ImageFormat::Png)[..40]);
    let lines =
        |range: std::ops::Range<u8>| range.map(|i| format!("{i}.png,x\n")).collect::<String>();
    dir.write("train.csv", lines(0..20).as_bytes());
    dir.write("val.csv", lines(0..1).as_bytes());
    let data = go(&dir, Split::Train, [3, 8, 8]).unwrap();
    let batches = Batches::<f32>::new(data, 5).unwrap();
    let options = Prefetch {
        threads: 3,
        ..Prefetch::default()
    };
    let mut source = Prefetcher::start(&batches, options).unwrap();
    assert!(source.next().unwrap().is_ok());
    assert!(source.next().unwrap().is_ok());
    let e = source.next().unwrap().err().unwrap().to_string();
    assert!(e.contains("13.png (item 13)"), "{e}");
}
