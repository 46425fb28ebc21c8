//! Sub-folders per class, CIFAR-100, arrays of NumPy, tar archives, splits by seed, decoded images on disk.

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use dahl_test_support::files::{npy, tar};
use image::{ImageFormat, Rgb, RgbImage};

use super::TempDir;
use crate::describe::class_counts;
use crate::{
    Batches, DataError, DataSpec, Dataset, Expects, Source, Split, cached, open, open_drawn,
    spare_outputs,
};

const RGB: [usize; 3] = [3, 2, 2];

fn picture(grey: u8) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    let image = RgbImage::from_pixel(2, 2, Rgb([grey, grey, grey]));
    image.write_to(&mut bytes, ImageFormat::Png).unwrap();
    bytes.into_inner()
}

fn get(text: &str, split: Split, input: [usize; 3]) -> Result<Box<dyn Dataset>, DataError> {
    open(&DataSpec::parse(text).unwrap(), split, input, None, &[])
}

fn spec(kind: &str, path: &Path) -> String {
    format!("{kind}:{}", path.display())
}

fn refused(text: &str, split: Split, input: [usize; 3], part: &str) {
    let error = get(text, split, input).err().expect(text).to_string();
    assert!(error.contains(part), "{error}");
}

fn greys(data: &dyn Dataset) -> Vec<(u8, usize)> {
    let mut pixels = vec![0; data.shape().iter().product()];
    (0..data.len())
        .map(|i| {
            let class = data.read(i, &mut pixels).unwrap();
            assert_eq!(data.label(i).unwrap(), class);
            (pixels[0], class)
        })
        .collect()
}

#[test]
fn sub_folders_are_classes() {
    let dir = TempDir::new();
    dir.write("train/cat/1.png", &picture(10));
    dir.write("train/cat/deep/2.PNG", &picture(20));
    dir.write("train/dog/1.png", &picture(30));
    dir.write("train/dog/notes.txt", b"no picture");
    dir.write("train/.hidden/1.png", &picture(99));
    dir.write("val/emu/1.png", &picture(40));
    dir.write("val/cat/1.png", &picture(50));
    let text = spec("folder", dir.path());
    let train = get(&text, Split::Train, RGB).unwrap();
    assert_eq!(train.classes(), 3);
    assert_eq!(train.class_name(2), Some("emu"));
    assert_eq!(greys(&*train), [(10, 0), (20, 0), (30, 1)]);
    let validation = get(&text, Split::Validation, RGB).unwrap();
    assert_eq!(greys(&*validation), [(50, 0), (40, 2)]);
    assert_eq!(class_counts(&*train).unwrap(), [2, 1, 0]);
    refused(&text, Split::Train, [2, 2, 2], "the model wants 2×2×2");
    let empty = TempDir::new();
    refused(
        &spec("folder", empty.path()),
        Split::Train,
        RGB,
        "a sub-folder per class",
    );
}

#[test]
fn a_split_is_drawn_by_seed_where_there_is_none() {
    let dir = TempDir::new();
    for i in 0..40 {
        dir.write(&format!("{}/{i}.png", ["a", "b"][i % 2]), &picture(i as u8));
    }
    let spec = DataSpec::parse(&spec("folder", dir.path())).unwrap();
    let part = |split, seed| greys(&*open_drawn(&spec, split, RGB, None, &[], seed).unwrap());
    let validation = part(Split::Validation, 1);
    assert_eq!(validation.len(), 4);
    assert_eq!(validation, part(Split::Validation, 1));
    assert!((2..9).any(|seed| part(Split::Validation, seed) != validation));
    let mut all = part(Split::Train, 1);
    all.extend(validation);
    all.sort_unstable();
    assert!(all.iter().map(|p| p.0).eq(0..40));
}

#[test]
fn cifar_100_has_two_labels_and_the_second_counts() {
    let dir = TempDir::new();
    let record = |coarse: u8, fine: u8, grey: u8| [vec![coarse, fine], vec![grey; 3072]].concat();
    let train = [record(1, 99, 7), record(19, 0, 8)].concat();
    dir.write("cifar-100-binary/train.bin", &train);
    dir.write("cifar-100-binary/test.bin", &record(0, 100, 1));
    let names: String = (0..100).map(|i| format!("class-{i}\n")).collect();
    dir.write("cifar-100-binary/fine_label_names.txt", names.as_bytes());
    let text = spec("cifar-100", dir.path());
    let train = get(&text, Split::Train, [3, 32, 32]).unwrap();
    assert_eq!(
        (train.classes(), train.class_name(99)),
        (100, Some("class-99"))
    );
    assert_eq!(greys(&*train), [(7, 99), (8, 0)]);
    let wrong = get(&text, Split::Validation, [3, 32, 32]).unwrap();
    let error = wrong.read(0, &mut vec![0; 3072]).unwrap_err().to_string();
    assert!(
        error.contains("label 100, but there are 100 classes"),
        "{error}"
    );
    dir.write("cifar-100-binary/test.bin", &[1; 3073]);
    refused(&text, Split::Validation, [3, 32, 32], "truncated");
}

fn fixture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/fixtures");
    folder.join(name).display().to_string()
}

#[test]
fn numpys_archives_are_read() {
    let text = format!("npz:{}", fixture("arrays.npz"));
    let train = get(&text, Split::Train, [2, 3, 3]).unwrap();
    let expected: Vec<(u8, usize)> = (0..6).map(|i| ((i * 18 * 7) as u8, i % 3)).collect();
    assert_eq!(greys(&*train), expected);
    // The same bytes with channels last are other images.
    let last = get(&text, Split::Validation, [3, 2, 3]);
    let mut pixels = vec![0; 18];
    last.unwrap().read(0, &mut pixels).unwrap();
    assert_eq!(pixels[..3], [0, 21, 42]);
    refused(&text, Split::Train, [1, 28, 28], "data is 2×3×3");
    // Floats with values, of which a tenth is drawn.
    let text = format!("npz:{}", fixture("packed.npz"));
    let train = get(&text, Split::Train, [4, 1, 1]).unwrap();
    assert_eq!((train.len(), train.classes()), (9, 0));
    let source = Source::from(train);
    let batches = Batches::<f32>::new(source, 9).unwrap();
    let mut batches = batches.expecting(Expects::Values(2)).unwrap();
    let (mut inputs, mut targets) = (Vec::new(), Vec::new());
    batches.fill(0, 0, &mut inputs, &mut targets).unwrap();
    assert_eq!((inputs.len(), targets.len()), (36, 18));
    for (row, target) in inputs.chunks(4).zip(targets.chunks(2)) {
        let first = target[0] / 2.0 * 4.0;
        assert!((row[0] - (-1.0 + first * 2.0 / 39.0)).abs() < 1e-6);
    }
    refused("npz:/nowhere.npz", Split::Train, RGB, "cannot open it");
}

#[test]
fn folders_of_arrays_are_read_and_their_mistakes_named() {
    let dir = TempDir::new();
    let text = spec("npy", dir.path());
    refused(&text, Split::Train, RGB, "x_train and y_train, or x and y");
    dir.write("x.npy", &npy("|u1", "(4, 1, 2)", &[1, 2, 3, 4, 5, 6, 7, 8]));
    dir.write("y.npy", &npy("<i2", "(4,)", &[0, 0, 1, 0, 2, 0, 1, 0]));
    let train = get(&text, Split::Train, [1, 1, 2]).unwrap();
    assert_eq!((train.len(), train.classes()), (3, 3));
    for (x, y, part) in [
        (
            npy("<f2", "(4, 2)", &[0; 16]),
            None,
            "its elements are \"<f2\"",
        ),
        (npy("|u1", "(4, 1, 3)", &[0; 8]), None, "8 bytes follow"),
        (
            npy("|u1", "(4, 99999999999999999999)", &[]),
            None,
            "no tuple",
        ),
        (b"PK\x03\x04".to_vec(), None, "as .npy files do"),
        (
            npy("|u1", "(4, 1, 2)", &[0; 8]),
            Some(npy("|u1", "(3,)", &[0; 3])),
            "3 labels for 4 samples",
        ),
        (
            npy("|u1", "(4, 1, 2)", &[0; 8]),
            Some(npy("|i1", "(4,)", &[255; 4])),
            "label 0 is -1",
        ),
    ] {
        dir.write("x.npy", &x);
        if let Some(y) = y {
            dir.write("y.npy", &y);
        }
        refused(&text, Split::Train, [1, 1, 2], part);
    }
}

#[test]
fn shards_are_read_by_class_files_and_folders() {
    let dir = TempDir::new();
    let (a, b) = (picture(10), picture(20));
    dir.write(
        "train-0.tar",
        &tar(&[
            ("1.png", &a),
            ("1.cls", b"7\n"),
            ("2.png", &b),
            ("2.cls", b"11"),
        ]),
    );
    dir.write("train-1.tar", &tar(&[("7/x.png", &b)]));
    dir.write("val-0.tar", &tar(&[("3.png", &a), ("3.cls", b"11")]));
    let text = spec("tar", dir.path());
    let train = get(&text, Split::Train, RGB).unwrap();
    assert_eq!(greys(&*train), [(10, 0), (20, 1), (20, 0)]);
    assert_eq!(train.class_name(1), Some("11"));
    let validation = get(&text, Split::Validation, RGB).unwrap();
    assert_eq!(greys(&*validation), [(10, 1)]);
    // What Python's tarfile writes: long names and others than ASCII.
    let bytes = std::fs::read(fixture("shards.tar")).unwrap();
    let names: Vec<String> = crate::tar::members(&bytes)
        .unwrap()
        .into_iter()
        .map(|m| m.path)
        .collect();
    assert_eq!(
        names,
        [
            "a/one.cls".to_owned(),
            format!("a/{}.cls", "long".repeat(40)),
            "é.cls".into()
        ]
    );
    let mut damaged = tar(&[("1.png", &a)]);
    damaged[0] ^= 1;
    dir.write("train-1.tar", &damaged);
    refused(
        &text,
        Split::Train,
        RGB,
        "does not begin as a tar archive does, or is damaged",
    );
    dir.write("train-1.tar", &tar(&[("1.png", &a)]));
    refused(&text, Split::Train, RGB, "neither a .cls file nor a folder");
    let whole = tar(&[("a/1.png", &a)]);
    // Within a member, between two of them, within a header.
    for end in [520, whole.len() - 1024, whole.len() - 1000] {
        dir.write("train-1.tar", &whole[..end]);
        refused(&text, Split::Train, RGB, "cut off");
    }
    dir.write("train-1.tar", b"\x1f\x8b\x08 packed");
    refused(&text, Split::Train, RGB, "packed by gzip: unpack it");
}

#[test]
fn a_tenth_is_drawn_where_only_training_pictures_are_named_so() {
    let dir = TempDir::new();
    let picture = picture(7);
    let names: Vec<String> = (0..20).map(|i| format!("c{}/{i}.png", i % 2)).collect();
    let files: Vec<(&str, &[u8])> = names.iter().map(|n| (&n[..], &picture[..])).collect();
    dir.write("shards/train-0.tar", &tar(&files));
    names.iter().for_each(|name| {
        dir.write(&format!("folders/train/{name}"), &picture);
        dir.write(
            &format!("vehicles/{}", name.replace("c0", "train")),
            &picture,
        );
    });
    for (kind, path, classes) in [
        ("tar", "shards", ["c0", "c1"]),
        ("tar", "shards/train-0.tar", ["c0", "c1"]),
        ("folder", "folders", ["c0", "c1"]),
        ("folder", "vehicles", ["c1", "train"]),
    ] {
        let text = spec(kind, &dir.path().join(path));
        let [train, validation] =
            [Split::Train, Split::Validation].map(|split| get(&text, split, RGB).unwrap());
        assert_eq!((train.len(), validation.len()), (18, 2), "{text}");
        assert_eq!([0, 1].map(|c| train.class_name(c).unwrap()), classes);
    }
}

#[test]
fn a_picture_that_cannot_be_decoded_is_named_in_one_line() {
    let dir = TempDir::new();
    let whole = picture(1);
    dir.write("a/1.png", &whole);
    dir.write("a/2.png", &whole[..whole.len() / 2]);
    dir.write(
        "train.tar",
        &tar(&[("a/1.png", &whole), ("a/2.png", b"none")]),
    );
    for (text, file) in [
        (spec("folder", dir.path()), "a/2.png (item"),
        (spec("tar", dir.path()), "train.tar (item"),
    ] {
        let sets = [Split::Train, Split::Validation].map(|s| get(&text, s, RGB).unwrap());
        let errors = sets
            .iter()
            .filter_map(|set| set.read(0, &mut [0; 12]).err());
        let errors: Vec<String> = errors.map(|e| e.to_string()).collect();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains(file) && errors[0].contains("leave it out"));
        assert_eq!(errors[0].lines().count(), 1, "{}", errors[0]);
    }
}

#[test]
fn values_have_no_classes_to_spare_outputs_for() {
    let values = get(
        &format!("npz:{}", fixture("packed.npz")),
        Split::Train,
        [4, 1, 1],
    )
    .unwrap();
    assert_eq!(spare_outputs(&*values, 2), None);
    let images = get(
        &format!("npz:{}", fixture("arrays.npz")),
        Split::Train,
        [2, 3, 3],
    )
    .unwrap();
    assert!(
        spare_outputs(&*images, 4)
            .unwrap()
            .contains("1 of them are never right")
    );
}

#[test]
fn decoded_images_are_kept_on_disk() {
    let (dir, store) = (TempDir::new(), TempDir::new());
    for i in 0..300u32 {
        dir.write(&format!("train/c{}/{i:03}.png", i % 3), &picture(i as u8));
    }
    dir.write("val/c0/1.png", &picture(0));
    let text = spec("folder", dir.path());
    let plain: Arc<dyn Dataset> = get(&text, Split::Train, RGB).unwrap().into();
    let decoded = cached(plain.clone(), store.path(), 3).unwrap();
    assert!(decoded.view(0).is_some());
    assert_eq!(greys(&*decoded), greys(&*plain));
    assert_eq!(decoded.content(), plain.content());
    // From now on the pictures are not looked at, but for the few that tell which set it is.
    let file = store
        .path()
        .read_dir()
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let again = cached(plain.clone(), store.path(), 1).unwrap();
    assert_eq!(greys(&*again), greys(&*plain));
    std::fs::write(&file, b"short").unwrap();
    let error = cached(plain.clone(), store.path(), 1)
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("delete it"), "{error}");
    std::fs::remove_file(&file).unwrap();
    dir.write("train/c0/000.png", b"no picture");
    let error = cached(plain, store.path(), 2).err().unwrap().to_string();
    assert!(
        error.contains("neither JPEG nor PNG") && !error.contains("cannot write"),
        "{error}"
    );
    assert_eq!(store.path().read_dir().unwrap().count(), 0);
}
