//! `dahl predict`: scores of pictures and of data sets, for people and for programs, and what it refuses.

mod common;

use std::path::Path;

use common::{dahl, folder, refuse};
use serde_json::Value;

const CLASSES: usize = 10;

/// A file of a test, as an argument.
fn at(folder: &Path, name: &str) -> String {
    let path = folder.join(name);
    path.to_str().expect("a UTF-8 path").to_string()
}

/// Weights of `first` that know a little of the data that they are then tried on.
fn trained(folder: &Path) -> String {
    let weights = at(folder, "w.safetensors");
    let data = ["--limit", "200", "--val-limit", "20", "--quiet"];
    let args = ["train", "first", "--epochs", "1", "--save", &weights];
    dahl(&[&args[..], &data].concat());
    weights
}

/// A grey picture that grows brighter downwards.
fn picture(path: &str, (width, height): (u32, u32)) {
    let shade = |_, y| image::Luma([(y * 255 / height) as u8]);
    let picture = image::GrayImage::from_fn(width, height, shade);
    picture.save(path).expect("the build folder can be written");
}

fn numbers(value: &Value) -> Vec<f64> {
    let all = value.as_array().expect("numbers").iter();
    all.map(|v| v.as_f64().expect("a number")).collect()
}

/// One line of JSON per image: the class is the one with the largest score, and its probability the softmax.
fn checked(line: &str) -> Value {
    let value: Value = serde_json::from_str(line).expect("JSON");
    let scores = numbers(&value["scores"]);
    assert_eq!(scores.len(), CLASSES, "{line}");
    let class = value["class"].as_u64().expect("a class") as usize;
    assert!(scores.iter().all(|s| *s <= scores[class]), "{line}");
    let sum: f64 = scores.iter().map(|s| (s - scores[class]).exp()).sum();
    let probability = value["probability"].as_f64().expect("a probability");
    assert!((probability - 1.0 / sum).abs() < 1e-5, "{line}");
    value
}

#[test]
fn pictures_of_any_size_and_kind_are_classified() {
    let folder = folder("predict-pictures");
    let weights = trained(&folder);
    let files = ["exact.png", "large.png", "wide.jpg", "alike.jpeg"].map(|f| at(&folder, f));
    let sizes = [(28, 28), (112, 112), (60, 31), (28, 28)];
    for (file, size) in files.iter().zip(sizes) {
        picture(file, size);
    }
    let names = files.each_ref().map(String::as_str);
    let args = ["predict", "first", "--weights", &weights];
    let said = dahl(&[&args[..], &["--json"], &names].concat());
    let lines: Vec<Value> = said.lines().map(checked).collect();
    let images: Vec<_> = lines.iter().map(|l| l["image"].as_str()).collect();
    assert_eq!(images, names.map(Some), "in the order they were given");
    // The same picture, as JPEG keeps it and four times as large: nearly the same scores.
    let exact = numbers(&lines[0]["scores"]);
    for other in [&lines[1], &lines[3]] {
        let apart = exact.iter().zip(numbers(&other["scores"]));
        let apart = apart.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        let size = exact.iter().fold(0f64, |m, v| m.max(v.abs()));
        assert!(apart < 0.2 * size, "{apart} of {size}: {other}");
    }
    // Alone, in another order and in batches of one: the same scores.
    let alone = dahl(&[&args[..], &["--json", "--batch", "1", names[2]]].concat());
    assert_eq!(checked(&alone)["scores"], lines[2]["scores"]);
    let table = dahl(&[&args[..], &names].concat());
    for word in ["image", "class", "probability", "wide.jpg", " %"] {
        assert!(table.contains(word), "{word}: {table}");
    }
}

#[test]
fn a_data_set_is_predicted_into_a_table() {
    let folder = folder("predict-data");
    let (weights, out) = (trained(&folder), at(&folder, "scores.csv"));
    let args = [
        "predict",
        "first",
        "--weights",
        &weights,
        "--val-limit",
        "50",
    ];
    let said = dahl(&[&args[..], &["--out", &out]].concat());
    assert!(said.contains("50 images"), "{said}");
    let csv = std::fs::read_to_string(&out).expect("a table");
    let rows: Vec<Vec<&str>> = csv.lines().map(|l| l.split(',').collect()).collect();
    assert_eq!(rows.len(), 51);
    assert!(rows.iter().all(|r| r.len() == 2 + CLASSES), "{csv}");
    assert_eq!(rows[0][..3], ["image", "class", "T-shirt/top"]);

    // The same as JSON, to the last digit; and the accuracy that `eval` finds is that of these classes.
    let said = dahl(&[&args[..], &["--json"]].concat());
    let lines: Vec<Value> = said.lines().map(checked).collect();
    assert_eq!(lines.len(), 50);
    for (row, line) in rows[1..].iter().zip(&lines) {
        assert_eq!(line["image"], row[0]);
        assert_eq!(line["class_name"], row[1]);
        let scores: Vec<f64> = row[2..].iter().map(|v| v.parse().expect(v)).collect();
        let close = |(a, b): (&f64, f64)| (a - b).abs() <= 1e-6 * b.abs();
        assert!(scores.iter().zip(numbers(&line["scores"])).all(close));
    }
    let eval = ["eval", "first", "--weights", &weights, "--val-limit", "50"];
    let eval: Value =
        serde_json::from_str(&dahl(&[&eval[..], &["--json"]].concat())).expect("JSON");
    let data = dahl::data::open(
        &dahl::data::DataSpec::FashionMnistSmall,
        dahl::data::Split::Validation,
        [1, 28, 28],
        Some(50),
        &[],
    );
    let data = data.expect("shipped data");
    let mut pixels = vec![0; 28 * 28];
    let right = lines.iter().enumerate().filter(|(i, line)| {
        let class = data.read(*i, &mut pixels).expect("an image");
        line["class"] == class
    });
    assert_eq!(eval["accuracy"].as_f64(), Some(right.count() as f64 / 50.0));

    let train = dahl(&[&args[..4], &["--train", "--limit", "3", "--json"]].concat());
    assert_eq!(train.lines().count(), 3);
    // Without --train the validation images are meant.
    let first = dahl(&[&args[..4], &["--limit", "3", "--json"]].concat());
    assert_eq!(
        first.lines().collect::<Vec<_>>(),
        said.lines().take(3).collect::<Vec<_>>()
    );
}

#[test]
fn missing_and_damaged_files_are_named() {
    let folder = folder("predict-missing");
    let weights = trained(&folder);
    let (good, gone) = (at(&folder, "good.png"), at(&folder, "gone.png"));
    picture(&good, (28, 28));
    let text = at(&folder, "text.png");
    std::fs::write(&text, "no picture").expect("a file");
    let half = at(&folder, "half.png");
    let bytes = std::fs::read(&good).expect("a picture");
    std::fs::write(&half, &bytes[..bytes.len() / 2]).expect("a file");
    let args = ["predict", "first", "--weights", &weights];
    for bad in [&gone, &text, &half] {
        refuse(&[&args[..], &[&good, bad]].concat(), "", 1, &[bad]);
    }
    let lost = at(&folder, "lost.safetensors");
    let args = ["predict", "first", "--weights", &lost, &good];
    refuse(&args, "", 1, &["lost.safetensors"]);
    let args = [
        "predict",
        "first",
        "--weights",
        &weights,
        "--data",
        "idx:/no/where",
    ];
    refuse(&args, "", 1, &["/no/where"]);
    let nowhere = at(&folder, "no/scores.csv");
    let args = ["predict", "first", "--weights", &weights, "--out", &nowhere];
    refuse(&args, "", 1, &["no/scores.csv"]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let folder = folder("predict-unfit");
    let (weights, good) = (trained(&folder), at(&folder, "good.png"));
    picture(&good, (28, 28));
    // Weights of another model, data of another shape.
    let args = ["predict", "lenet5", "--weights", &weights, &good];
    refuse(&args, "", 1, &["0.weight"]);
    let args = ["predict", "first", "--weights", &weights];
    let data = ["--data", "synthetic:3x32x32:20"];
    refuse(&[&args[..], &data].concat(), "", 1, &["3", "32"]);
    refuse(
        &[&args[..], &["--data", "nonsense"]].concat(),
        "",
        1,
        &["nonsense"],
    );
    // Pictures or a data set, JSON or a file.
    refuse(&[&args[..], &data, &[&good]].concat(), "", 2, &["--data"]);
    let both = ["--json", "--out", "scores.csv"];
    refuse(&[&args[..], &both].concat(), "", 2, &["--out"]);
    refuse(&["predict", "first", &good], "", 2, &["--weights"]);
}
