//! What happens to images on their way to a model: `--normalise`, `--augment`, `dahl data show`.

mod common;

use common::{dahl, dahl_with, folder, refuse};

const DATA: [&str; 2] = ["--data", "synthetic:1x28x28:64"];

#[test]
fn normalisation_is_kept_with_the_weights() {
    let folder = folder("normalised");
    let file = folder.join("w.safetensors");
    let file = file.to_str().unwrap();
    let train = [
        "train",
        "first",
        "--epochs",
        "2",
        "--val-limit",
        "16",
        "--quiet",
    ];
    let more = ["--normalise", "measured", "--save", file];
    dahl(&[&train[..], &DATA, &more].concat());
    let eval = ["eval", "first", "--weights", file, "--json"];
    let kept = dahl(&[&eval[..], &DATA].concat());
    // The last epoch's validation of another run with the same numbers says the same.
    let metrics = ["--normalise", "measured", "--metrics", "-"];
    let train = ["train", "first", "--epochs", "2"];
    let printed = dahl(&[&train[..], &DATA, &metrics].concat());
    let printed: serde_json::Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(printed["val_loss"], kept["loss"]);
}

#[test]
fn augmented_training_learns_and_goes_on() {
    let folder = folder("augmented");
    let points = folder.join("points");
    let points = points.to_str().unwrap();
    let line = [
        "train",
        "first",
        "--epochs",
        "2",
        "--val-limit",
        "0",
        "--quiet",
        "--augment",
        "flip,crop:2,rotate:5,brightness:0.2,contrast:0.2,erase:0.3,mixup:0.2",
        "--loss",
        "soft_cross_entropy",
    ];
    let line = [&line[..], &DATA].concat();
    let metrics = |more: &[&str]| {
        let out = dahl(&[&line[..], &["--metrics", "-"], more].concat());
        let last: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
        last["loss"].as_f64().unwrap()
    };
    let whole = metrics(&[]);
    dahl(&[&line[..], &["--steps", "3", "--checkpoint", points]].concat());
    assert_eq!(metrics(&["--resume", points]), whole);
    let other: Vec<&str> = line
        .iter()
        .map(|a| {
            if a.starts_with("flip") {
                "flip,mixup:0.2"
            } else {
                a
            }
        })
        .collect();
    refuse(
        &[&other[..], &["--resume", points]].concat(),
        "",
        1,
        &["what differs: the augmentation"],
    );
    refuse(
        &["train", "--quiet", "--augment", "flop"],
        "",
        1,
        &["unknown transform", "did you mean \"flip\""],
    );
    refuse(
        &["train", "--quiet", "--augment", "mixup:1"],
        "",
        1,
        &["soft_cross_entropy"],
    );
    refuse(
        &["train", "--quiet", "--normalise", "0.5"],
        "",
        1,
        &["no normalisation"],
    );
}

#[test]
fn a_batch_is_shown_as_a_picture() {
    let folder = folder("shown");
    let file = folder.join("batch.png");
    let file = file.to_str().unwrap();
    let show = [
        "data",
        "show",
        "--augment",
        "flip,crop:4,rotate:15,erase",
        "--batch",
        "12",
    ];
    let said = dahl(&[&show[..], &["--out", file]].concat());
    assert!(
        said.contains("10000 images of 1×28×28 for train, 10 classes"),
        "{said}"
    );
    assert!(said.contains("Ankle boot"), "{said}");
    assert!(said.contains("measured: --normalise 0.28"), "{said}");
    let picture = image::open(file).unwrap();
    assert_eq!(
        (picture.width(), picture.height()),
        (2 * (6 * 30 + 2), 2 * (2 * 30 + 2)),
        "each pixel is four"
    );
    assert!(dahl_with(&["data", "show", "--data", "nothing"], "").code == Some(1));
    // Without a model images are as large as they are; transforms are read with or without a picture.
    let own = ["data", "show", "--data", "synthetic:3x8x6:30:12"];
    assert!(dahl(&own).contains("30 images of 3×8×6 for train, 12 classes"));
    let row = folder.join("row");
    std::fs::create_dir_all(&row).unwrap();
    let header = |text: &str| format!("\u{1}\0v\0{text:<117}\n");
    let array =
        |text: &str, bytes: &[u8]| [&b"\x93NUMPY"[..], header(text).as_bytes(), bytes].concat();
    let x = "{'descr': '|u1', 'fortran_order': False, 'shape': (20, 5, 4), }";
    let y = "{'descr': '|u1', 'fortran_order': False, 'shape': (20,), }";
    std::fs::write(row.join("x.npy"), array(x, &[7; 400])).unwrap();
    std::fs::write(row.join("y.npy"), array(y, &[1; 20])).unwrap();
    let rows = format!("npy:{}", row.display());
    assert!(dahl(&["data", "show", "--data", &rows]).contains("18 images of 1×5×4 for train"));
    // Values to be predicted have no classes, and floats are not normalised here.
    let values = "{'descr': '<f4', 'fortran_order': False, 'shape': (20,), }";
    std::fs::write(row.join("y.npy"), array(values, &[0; 80])).unwrap();
    let said = dahl(&["data", "show", "--data", &rows]);
    assert!(said.contains("for train, labelled with values\n"), "{said}");
    refuse(
        &["data", "show", "--out", "batch.jpg"],
        "",
        1,
        &["must end with .png"],
    );
    refuse(
        &[&own[..], &["--augment", "spin"]].concat(),
        "",
        1,
        &["spin"],
    );
}
