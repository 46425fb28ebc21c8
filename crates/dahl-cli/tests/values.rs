//! Models that give values, not scores of classes: no command speaks of classes then.

mod common;

use std::fs;

use common::{dahl, folder, in_repository, refuse};

/// Rows of four numbers, two values each.
const MODEL: &str = "name = \"values\"\ninput = [4, 1, 1]\n[[layers]]\ntype = \"flatten\"\n\
                     [[layers]]\ntype = \"linear\"\nout_features = 2\n";

#[test]
fn values_are_not_classes() {
    let folder = folder("values");
    let [model, weights, table] =
        ["m.toml", "w.safetensors", "v.csv"].map(|name| folder.join(name).display().to_string());
    fs::write(&model, MODEL).unwrap();
    let file = in_repository("crates/dahl-data/src/tests/fixtures/packed.npz");
    let data = format!("npz:{file}");
    let train = [
        "train", &model, "--data", &data, "--loss", "mse", "--batch", "4",
    ];
    dahl(
        &[
            &train[..],
            &["--epochs", "1", "--save", &weights, "--quiet"],
        ]
        .concat(),
    );

    let on = [
        &model[..],
        "--weights",
        &weights,
        "--data",
        &data,
        "--loss",
        "mse",
    ];
    let said = dahl(&[&["eval"], &on[..]].concat());
    assert!(said.contains("loss") && !said.contains("class"), "{said}");
    let json = dahl(&[&["eval"], &on[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(
        json["classes"].is_null() && json["accuracy"].is_null(),
        "{json}"
    );
    let confusion = [&["eval"], &on[..], &["--confusion"]].concat();
    refuse(&confusion, "", 1, &["--confusion", "leave it out"]);

    let said = dahl(&[&["predict"], &on[..]].concat());
    assert!(said.contains("values") && !said.contains('%'), "{said}");
    dahl(&[&["predict"], &on[..], &["--out", &table]].concat());
    let csv = fs::read_to_string(&table).unwrap();
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("sample,0,1"));
    assert!(lines.all(|line| line.split(',').count() == 3), "{csv}");

    // Rows of numbers have no left and right.
    let flip = [
        &train[..],
        &["--epochs", "1", "--augment", "flip", "--quiet"],
    ]
    .concat();
    refuse(&flip, "", 1, &["flip", "rows of numbers"]);
}
