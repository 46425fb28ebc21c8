//! What makes training comfortable: early stopping, the best checkpoint, metrics per step, learning rates, pictures in
//! sub-folders; and the tools beside it: `dahl models`, `dahl memory`, `dahl diff`.

mod common;

use common::{dahl, dahl_with, folder, refuse};
use serde_json::Value;

const DATA: [&str; 2] = ["--data", "synthetic:1x28x28:64"];

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

#[test]
fn a_run_stops_early_and_keeps_its_best_checkpoint() {
    let folder = folder("patience");
    let points = folder.join("points");
    let points = points.to_str().unwrap();
    let line = [
        "train",
        "first",
        "--epochs",
        "60",
        "--lr",
        "0.05",
        "--patience",
        "2",
        "--val-limit",
        "12",
    ];
    let more = [
        "--checkpoint",
        points,
        "--keep-best",
        "--metrics",
        "-",
        "--metrics-every",
        "1",
    ];
    let printed = dahl(&[&line[..], &DATA, &more].concat());
    let rows: Vec<Value> = printed.lines().map(json).collect();
    let epochs: Vec<&Value> = rows.iter().filter(|r| r["event"] == "epoch").collect();
    let done = rows.last().unwrap();
    assert_eq!(
        (&done["event"], &done["stopped_early"]),
        (&"done".into(), &true.into())
    );
    let best = done["best_epoch"].as_u64().unwrap();
    assert_eq!(epochs.len() as u64, best + 2);
    // Two steps an epoch, each with its learning rate; losses are a step or two behind.
    let steps: Vec<&Value> = rows.iter().filter(|r| r["event"] == "step").collect();
    assert_eq!(steps.len(), 2 * epochs.len());
    assert!(
        steps
            .iter()
            .all(|s| s["lr"] == 0.05 && s["epoch"].as_u64() >= Some(1))
    );
    // Going on with the same patience has nothing to do, and says why.
    let again = dahl(&[&line[..], &DATA, &["--resume", points]].concat());
    assert!(
        again.contains("better for as many as --patience"),
        "{again}"
    );
    let eval = ["eval", "first", "--val-limit", "12", "--json", "--weights"];
    let kept = json(&dahl(
        &[&eval[..], &[&format!("{points}/best")], &DATA].concat(),
    ));
    assert_eq!(kept["loss"], epochs[best as usize - 1]["val_loss"]);
    assert_eq!(
        kept["classes"][0]["taken_for"].as_array().unwrap().len(),
        10
    );
    let last = json(&dahl(&[&eval[..], &[points], &DATA].concat()));
    assert_ne!(kept["loss"], last["loss"]);
    refuse(
        &["train", "--keep-best"],
        "",
        1,
        &["--keep-best needs a folder"],
    );
    let matrix = dahl(&[&eval[..4], &["--confusion", "--weights", points], &DATA].concat());
    assert!(matrix.contains("taken for"), "{matrix}");
}

#[test]
fn learning_rates_are_tried_and_scheduled() {
    let found = dahl(&[&["train", "first", "--find-lr"], &DATA[..]].concat());
    assert!(found.contains("learning rate"), "{found}");
    let line = [
        "train",
        "first",
        "--epochs",
        "3",
        "--quiet",
        "--metrics",
        "-",
        "--metrics-every",
        "1",
    ];
    let more = [
        "--schedule",
        "restarts:1:2",
        "--lr",
        "0.01",
        "--optimizer",
        "adamw",
        "--no-bias-decay",
    ];
    let printed = dahl(&[&line[..], &DATA, &more].concat());
    let rates: Vec<f64> = printed
        .lines()
        .map(json)
        .filter_map(|r| r["lr"].as_f64())
        .collect();
    assert_eq!(rates.len(), 6);
    // Every third of six steps, though epochs have two.
    let printed = dahl(&[&line[..8], &["3"], &DATA, &more].concat());
    let rows = printed.lines().map(json).filter(|r| r["event"] == "step");
    let at: Vec<_> = rows
        .map(|r| (r["epoch"].as_u64(), r["step"].as_u64()))
        .collect();
    assert_eq!(at, [(Some(2), Some(3)), (Some(3), Some(6))]);
    assert!(rates[0] == 0.01 && rates[1] == 0.005 && rates[2] == 0.01 && rates[3] > rates[4]);
}

#[test]
fn pictures_in_sub_folders_are_trained_on_and_kept_decoded() {
    let folder = folder("sub-folders");
    for i in 0..12u8 {
        let class = ["cat", "dog"][usize::from(i % 2)];
        let path = folder.join(format!("pictures/{class}/{i}.png"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        image::GrayImage::from_pixel(9, 7, image::Luma([i * 20]))
            .save(path)
            .unwrap();
    }
    let (data, cache) = (
        format!("folder:{}/pictures", folder.display()),
        folder.join("cache"),
    );
    let line = [
        "train",
        "first",
        "--epochs",
        "1",
        "--metrics",
        "-",
        "--batch",
        "4",
        "--data",
        &data,
    ];
    let loss = |more: &[&str]| {
        let said = dahl_with(&[&line[..], more].concat(), "");
        assert_eq!(said.code, Some(0), "{}", said.err);
        json(said.out.lines().last().unwrap())["loss"]
            .as_f64()
            .unwrap()
    };
    let plain = loss(&[]);
    let cache = cache.to_str().unwrap();
    assert_eq!(loss(&["--cache", cache]), plain);
    assert_eq!(loss(&["--cache", cache]), plain);
    assert_eq!(std::fs::read_dir(cache).unwrap().count(), 2);
    let shown = dahl_with(&["data", "show", "--data", &data], "");
    assert!(shown.out.contains("dog"), "{}", shown.out);
    let rate = dahl_with(
        &[
            "bench", "loading", "first", "--data", &data, "--rounds", "1", "--json",
        ],
        "",
    );
    assert!(json(&rate.out)["images_per_second"].as_f64() > Some(0.0));
}

#[test]
fn models_are_listed_with_what_they_cost() {
    let rows = json(&dahl(&["models", "--json"]));
    let rows = rows.as_array().unwrap();
    let of = |name: &str| rows.iter().find(|r| r["model"] == name).unwrap();
    assert_eq!(of("resnet50")["parameters"], 25_557_032);
    // He et al. and torchvision count 4.1 G multiply-adds forward; a training step has three times as many, each of two
    // operations. Winograd's 3×3 convolutions, about half of all, need less than half of theirs.
    let plain = 2.0 * 3.0 * 4.1e9;
    let flops = of("resnet50")["train_flops_per_image"].as_f64().unwrap();
    assert!((0.6 * plain..plain).contains(&flops), "{flops}");
    let text = dahl(&["models", "lenet5", "--toml"]);
    assert!(text.starts_with("name = \"lenet5\""), "{text}");
}

#[test]
fn memory_is_known_before_anything_runs() {
    let small = json(&dahl(&["memory", "lenet5", "--batch", "8", "--json"]));
    assert_eq!(small["weights"], 61_706 * 4);
    assert_eq!(small["optimizer"], 2 * 61_706 * 4);
    assert_eq!(small["fits"], true);
    let large = json(&dahl(&["memory", "lenet5", "--batch", "64", "--json"]));
    assert!(large["temporaries"].as_u64() > small["temporaries"].as_u64());
    let said = dahl_with(&["memory", "resnet50", "--batch", "100000"], "");
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.out.contains("does not fit"), "{}", said.out);
}

#[test]
fn weights_are_compared_to_the_last_digit() {
    let folder = folder("diff");
    let files = ["a", "b", "c"].map(|n| {
        folder
            .join(n)
            .with_extension("safetensors")
            .display()
            .to_string()
    });
    let [a, b, c] = files.each_ref().map(String::as_str);
    for (file, seed, workers) in [(a, "1", "1"), (b, "1", "2"), (c, "2", "1")] {
        let line = [
            "train",
            "first",
            "--epochs",
            "1",
            "--val-limit",
            "0",
            "--quiet",
            "--save",
            file,
        ];
        dahl(&[&line[..], &DATA, &["--seed", seed, "--workers", workers]].concat());
    }
    assert_eq!(dahl(&["diff", a, b]), "4 tensors, 0 differ\n");
    let said = dahl_with(&["diff", a, c], "");
    assert_eq!(said.code, Some(1));
    assert!(
        said.out.contains("4 tensors, 4 differ") && said.out.contains("digits differ from here"),
        "{}",
        said.out
    );
    let said = dahl_with(&["diff", a, c, "--json"], "");
    let worst = json(&said.out)["different"][0]["ulps"].as_u64().unwrap();
    let enough = u64::MAX.to_string();
    assert!(worst > 1000 && dahl(&["diff", a, c, "--ulps", &enough]).contains("0 differ"));
    refuse(
        &["diff", a, "/nowhere.safetensors"],
        "",
        1,
        &["/nowhere.safetensors"],
    );
}
