//! A plan from calibration to execution: made for this machine, followed task by task, refused elsewhere.

mod common;

use std::process::Command;

use common::{folder, in_repository};

/// Runs `dahl` with measurements kept in a folder of the test's own.
fn dahl_in(home: &std::path::Path, args: &[&str]) -> (bool, String, String) {
    let run = Command::new(assert_cmd::cargo::cargo_bin!("dahl"))
        .args(args)
        .env("DAHL_HOME", home)
        .output()
        .expect("dahl runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (run.status.success(), text(&run.stdout), text(&run.stderr))
}

#[test]
fn plans_are_followed_exactly_and_refused_where_they_do_not_fit() {
    let home = folder("plan_follow");
    let path = |name: &str| home.join(name).display().to_string();
    let (machine, plan) = (path("here.toml"), path("plan.json"));
    let dahl = |args: &[&str]| {
        let (ok, out, err) = dahl_in(&home, args);
        assert!(ok, "dahl {args:?}: {err}");
        out
    };
    let model = ["small-cnn", "--batch", "16"];
    dahl(&[
        "calibrate",
        "--model",
        "small-cnn",
        "--batch",
        "16",
        "--seconds",
        "0.02",
    ]);
    dahl(&["machine", "--describe", "-o", &machine]);
    let simulated = dahl(
        &[
            &["simulate"],
            &model[..],
            &["--machine", &machine, "--json"],
        ]
        .concat(),
    );
    let simulated: serde_json::Value = serde_json::from_str(&simulated).expect("JSON");
    assert!(
        simulated["durations"]["measured"].as_u64() > Some(0),
        "{simulated}"
    );
    let plan_args = ["--machine", &machine, "--time-limit", "2", "-o", &plan];
    dahl(&[&["plan"], &model[..], &plan_args].concat());
    assert!(dahl(&["plan", "explain", &plan]).contains("small-cnn"));
    dahl(
        &[
            &["simulate"],
            &model[..],
            &["--machine", &machine, "--plan", &plan],
        ]
        .concat(),
    );

    // What is expected of a run was found with what calibration saw of runs in an order decided beforehand.
    let kept = std::fs::read_to_string(&plan).expect("a plan");
    let kept: serde_json::Value = serde_json::from_str(&kept).expect("JSON");
    for which in ["seconds", "alone", "joules"] {
        assert!(kept["expected"][which].as_f64() > Some(0.0), "{kept}");
    }
    assert_ne!(kept["expected"]["alone"], kept["seconds"]);
    let profile = std::fs::read_dir(&home).expect("a folder");
    let profile = profile.map(|f| f.expect("a file").path());
    let profile = profile.filter(|f| f.display().to_string().contains("profile-"));
    let profile = std::fs::read_to_string(profile.last().expect("a profile")).expect("text");
    let profile: serde_json::Value = serde_json::from_str(&profile).expect("JSON");
    let overheads = profile["overheads"].as_array().expect("overheads");
    assert!(overheads.iter().any(|r| r["policy"] == "plan"), "{profile}");
    let follow = ["--plan", &plan, "--seconds", "0.05", "--json"];
    let line = dahl(&[&["bench", "step"], &model[..], &follow].concat());
    let line: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(line["plan"]["fidelity"], 1.0, "{line}");
    assert_eq!(line["policy"], "plan", "{line}");
    // In a run and alone: predicted beside measured.
    for which in ["step_seconds", "rescaled_seconds", "isolated_seconds"] {
        let pair = line["plan"][which].as_array().expect("a pair");
        assert!(pair.iter().all(|v| v.as_f64() > Some(0.0)), "{line}");
    }
    let compare = ["--plan", &plan, "--seconds", "0.1", "--json"];
    let line = dahl(&[&["bench", "simulator"], &model[..], &compare].concat());
    let line: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    let run = &line["runs"][0];
    assert_eq!(run["policy"], "plan", "{line}");
    for which in ["measured_seconds", "predicted_seconds", "plan_seconds"] {
        assert!(run[which].as_f64() > Some(0.0), "{line}");
    }
    let train = ["train", "small-cnn", "--batch", "16", "--epochs", "1"];
    let data = ["--data", "synthetic:1x28x28:160", "--plan", &plan];
    let out = dahl(&[&train[..], &data].concat());
    assert!(
        out.contains("100.0 % of the recorded tasks ran on their unit"),
        "{out}"
    );

    let refused = |args: &[&str], says: &[&str]| {
        let (ok, _, err) = dahl_in(&home, args);
        assert!(!ok && !err.contains("panicked"), "{args:?}: {err}");
        assert!(says.iter().all(|s| err.contains(s)), "{args:?}: {err}");
    };
    let plan = plan.as_str();
    refused(
        &[
            "bench",
            "step",
            "small-cnn",
            "--batch",
            "32",
            "--plan",
            plan,
        ],
        &["batch 16", "32"],
    );
    refused(
        &["bench", "step", "lenet5", "--batch", "16", "--plan", plan],
        &["model", "lenet5"],
    );
    refused(
        &[
            "train",
            "small-cnn",
            "--batch",
            "16",
            "--optimizer",
            "sgd",
            "--plan",
            plan,
        ],
        &["made for optimizer", "adam", "this run has", "sgd"],
    );
    // Of what else is part of a graph the plan has only the fingerprint.
    let mut other = kept.clone();
    other["target"]["graph_fingerprint"] = "0123456789abcdef".into();
    std::fs::write(path("other.json"), other.to_string()).expect("a file");
    let follow = ["--plan", &path("other.json")];
    refused(
        &[&train[..], &follow].concat(),
        &["does not fit", "0123456789abcdef"],
    );
    let laptop = in_repository("machines/laptop.toml");
    refused(
        &[
            &["simulate"],
            &model[..],
            &["--machine", &laptop, "--plan", plan],
        ]
        .concat(),
        &["machine", "laptop"],
    );
    let old = kept
        .to_string()
        .replacen("\"version\":4", "\"version\":2", 1);
    std::fs::write(path("old.json"), old).expect("a file");
    let old = path("old.json");
    refused(
        &["plan", "explain", &old],
        &["old.json", "version 2", "plan again"],
    );
    std::fs::write(path("half.json"), "{\"version\": 1").expect("a file");
    refused(
        &[
            "bench",
            "step",
            "small-cnn",
            "--batch",
            "16",
            "--plan",
            &path("half.json"),
        ],
        &["half.json"],
    );
}

/// Transfers are part of a plan: who follows it makes them in its order, and a step takes what its equations say.
#[test]
fn a_simulated_run_follows_the_transfers_of_a_plan() {
    let home = folder("plan_transfers");
    let plan = home.join("plan.json").display().to_string();
    let machine = in_repository("machines/rammus.toml");
    let on = ["lenet5", "--machine", &machine];
    let (ok, _, err) = dahl_in(
        &home,
        &[&["plan"], &on[..], &["--time-limit", "2", "-o", &plan]].concat(),
    );
    assert!(ok, "{err}");
    let text = std::fs::read_to_string(&plan).expect("a plan");
    let mut kept: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let transfers = kept["transfers"].as_array().expect("transfers");
    assert!(!transfers.is_empty(), "the GPU is worth it: {kept}");
    for transfer in transfers {
        assert!(transfer["array"].is_string() && transfer["parts"].is_array());
    }
    let follow = |plan: &str, steps: &str| {
        let run = [
            "--plan",
            plan,
            "--in-flight",
            "1",
            "--json",
            "--steps",
            steps,
        ];
        dahl_in(&home, &[&["simulate"], &on[..], &run].concat())
    };
    let makespan = |steps: &str| {
        let (ok, out, err) = follow(&plan, steps);
        assert!(ok, "{err}");
        let out: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        out["makespan_seconds"].as_f64().expect("seconds")
    };
    let step = (makespan("6") - makespan("2")) / 4.0;
    let seconds = kept["seconds"].as_f64().expect("seconds");
    assert!((step / seconds - 1.0).abs() < 1e-6, "{step} of {seconds}");

    kept["transfers"][0]["storage"] = 9999.into();
    let other = home.join("other.json").display().to_string();
    std::fs::write(&other, kept.to_string()).expect("a file");
    let (ok, _, err) = follow(&other, "1");
    assert!(!ok && err.contains("transfer 0: array 9999"), "{err}");
    kept["transfers"][0]["from"] = "attic".into();
    std::fs::write(&other, kept.to_string()).expect("a file");
    let (ok, _, err) = follow(&other, "1");
    assert!(!ok && err.contains("no memory \"attic\""), "{err}");
}

#[test]
fn tuned_grains_can_be_given_again() {
    let home = folder("tuned");
    let args = [
        "bench",
        "step",
        "small-cnn",
        "--batch",
        "16",
        "--seconds",
        "0.02",
    ];
    let (ok, _, err) = dahl_in(&home, &[&args[..], &["--grain", "tuned"]].concat());
    assert!(ok, "{err}");
    let grain = err
        .split("--grain ")
        .nth(1)
        .map(str::trim)
        .expect("the grain that was chosen");
    let (ok, out, err) = dahl_in(&home, &[&args[..], &["--grain", grain]].concat());
    assert!(ok && out.contains("images/s"), "{grain}: {err}");
    let times = std::fs::read_dir(&home).expect("a folder").count();
    assert!(times > 0, "what was measured is kept");
}
