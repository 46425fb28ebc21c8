//! A plan from calibration to execution: made for this machine, followed task by task, refused elsewhere.

mod common;

use std::path::PathBuf;
use std::process::Command;

use common::{folder, in_repository};
use serde_json::Value;

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

/// This machine calibrated and described, and a plan made for it, in a folder of a test's own.
struct Here {
    home: PathBuf,
    machine: String,
    plan: String,
}

const MODEL: [&str; 3] = ["small-cnn", "--batch", "16"];
const TRAIN: [&str; 6] = ["train", "small-cnn", "--batch", "16", "--epochs", "1"];

impl Here {
    fn new(name: &str) -> Here {
        let home = folder(name);
        let path = |name: &str| home.join(name).display().to_string();
        let (machine, plan) = (path("here.toml"), path("plan.json"));
        let here = Here {
            home,
            machine,
            plan,
        };
        here.dahl(&["calibrate", "--seconds", "0.02", "--model"], &MODEL);
        here.dahl(&["machine", "--describe", "-o", &here.machine], &[]);
        let to = ["--fixed", "--time-limit", "100ms", "-o", &here.plan];
        here.dahl(
            &["plan", "--machine", &here.machine],
            &[&MODEL[..], &to].concat(),
        );
        here
    }

    /// What `dahl` says, which must succeed.
    fn dahl(&self, args: &[&str], more: &[&str]) -> String {
        let args = [args, more].concat();
        let (ok, out, err) = dahl_in(&self.home, &args);
        assert!(ok, "dahl {args:?}: {err}");
        out
    }

    fn json(&self, args: &[&str], more: &[&str]) -> Value {
        serde_json::from_str(&self.dahl(args, more)).expect("JSON")
    }

    /// Runs `dahl`, which must refuse and say all of this.
    fn refused(&self, args: &[&str], says: &[&str]) {
        let (ok, _, err) = dahl_in(&self.home, args);
        assert!(!ok && !err.contains("panicked"), "{args:?}: {err}");
        assert!(says.iter().all(|s| err.contains(s)), "{args:?}: {err}");
    }

    /// The plan's file.
    fn kept(&self) -> Value {
        let kept = std::fs::read_to_string(&self.plan).expect("a plan");
        serde_json::from_str(&kept).expect("JSON")
    }

    /// A file in the folder.
    fn file(&self, name: &str, text: &str) -> String {
        let path = self.home.join(name);
        std::fs::write(&path, text).expect("the build folder can be written");
        path.display().to_string()
    }
}

/// What is expected of a run is found with what calibration saw of runs in an order decided beforehand.
#[test]
fn predictions_and_plans_start_from_what_was_calibrated() {
    let here = Here::new("plan_calibrated");
    let simulated = here.json(&["simulate", "--machine", &here.machine, "--json"], &MODEL);
    let measured = simulated["durations"]["measured"].as_u64();
    assert!(measured > Some(0), "{simulated}");
    let kept = here.kept();
    for which in ["seconds", "alone", "joules"] {
        assert!(kept["expected"][which].as_f64() > Some(0.0), "{kept}");
    }
    assert_ne!(kept["expected"]["alone"], kept["seconds"]);
    let profile = std::fs::read_dir(&here.home).expect("a folder");
    let profile = profile.map(|f| f.expect("a file").path());
    let profile = profile.filter(|f| f.display().to_string().contains("profile-"));
    let profile = std::fs::read_to_string(profile.last().expect("a profile")).expect("text");
    let profile: Value = serde_json::from_str(&profile).expect("JSON");
    let overheads = profile["overheads"].as_array().expect("overheads");
    assert!(overheads.iter().any(|r| r["policy"] == "plan"), "{profile}");
}

#[test]
fn a_plan_is_explained_and_followed_by_simulations_and_by_the_bench() {
    let here = Here::new("plan_benched");
    let explained = here.dahl(&["plan", "explain", &here.plan], &[]);
    assert!(explained.contains("small-cnn"), "{explained}");
    let follow = ["--machine", &here.machine, "--plan", &here.plan];
    here.dahl(&["simulate"], &[&MODEL[..], &follow].concat());
    let follow = ["--plan", &here.plan, "--seconds", "0.05", "--json"];
    let line = here.json(&["bench", "step"], &[&MODEL[..], &follow].concat());
    assert_eq!(line["plan"]["placed"], 1.0, "{line}");
    assert!(line["cpu_seconds_per_step"].as_f64() > Some(0.0), "{line}");
    assert_eq!(line["graph"], here.kept()["target"]["graph_fingerprint"]);
    assert_eq!(line["policy"], "plan", "{line}");
    // In a run and alone: predicted beside measured.
    for which in ["step_seconds", "rescaled_seconds", "isolated_seconds"] {
        let pair = line["plan"][which].as_array().expect("a pair");
        assert!(pair.iter().all(|v| v.as_f64() > Some(0.0)), "{line}");
    }
    let line = here.json(&["bench", "simulator"], &[&MODEL[..], &follow].concat());
    let run = &line["runs"][0];
    assert_eq!(run["policy"], "plan", "{line}");
    for which in ["measured_seconds", "predicted_seconds", "plan_seconds"] {
        assert!(run[which].as_f64() > Some(0.0), "{line}");
    }
}

#[test]
fn training_follows_a_plan_exactly() {
    let here = Here::new("plan_trained");
    let data = ["--data", "synthetic:1x28x28:160", "--plan", &here.plan];
    let out = here.dahl(&TRAIN, &data);
    let says = "100.0 % on it or one that is alike";
    assert!(out.contains(says), "{out}");
    let out = here.dahl(&[&TRAIN[..], &["--exact"]].concat(), &data);
    let says = "100.0 % of the recorded tasks ran on their unit in their order";
    assert!(out.contains(says), "{out}");
}

/// The plan with order and unit left to `ws` on the first core: trained, timed, simulated and told; nothing to the letter.
#[test]
fn a_policy_of_a_plan_decides_on_its_units() {
    let here = Here::new("plan_left");
    let mut plan = here.kept();
    let tasks = plan["tasks"].as_array_mut().expect("tasks");
    tasks.iter_mut().for_each(|task| task["unit"] = 0.into());
    let all: Vec<usize> = (0..tasks.len()).collect();
    for (u, unit) in plan["units"]
        .as_array_mut()
        .expect("units")
        .iter_mut()
        .enumerate()
    {
        let own: &[usize] = if u == 0 { &all } else { &[] };
        unit["order"] = own.into();
    }
    plan["policy"] = serde_json::json!({"name": "ws", "units": [{"name": "cpu:0", "state": 0}]});
    let left = here.file("left.json", &plan.to_string());
    let data = ["--data", "synthetic:1x28x28:160", "--plan", &left];
    let out = here.dahl(&TRAIN, &data);
    assert!(out.contains(", plan: ws"), "{out}");
    let says = "ws decided order and unit: 100.0 % of the recorded tasks ran on units that the plan lets take part";
    assert!(out.contains(says), "{out}");
    let exact = [&TRAIN[..], &data, &["--exact"]].concat();
    here.refused(&exact, &["--exact", "left.json", "ws", "--fixed"]);
    let follow = ["--plan", &left, "--seconds", "0.05", "--json"];
    let line = here.json(&["bench", "step"], &[&MODEL[..], &follow].concat());
    assert_eq!(
        (&line["plan"]["placed"], &line["plan"]["fidelity"]),
        (&1.0.into(), &Value::Null)
    );
    let line = here.json(&["bench", "simulator"], &[&MODEL[..], &follow].concat());
    assert!(
        line["runs"][0]["predicted_seconds"].as_f64() > Some(0.0),
        "{line}"
    );
    let simulate = ["simulate", "--machine", &here.machine, "--plan", &left];
    let out = here.dahl(&simulate, &MODEL);
    assert!(out.contains("f32, ws:"), "{out}");
    let out = here.dahl(&["plan", "explain", &left], &[]);
    assert!(
        out.contains("ws decides order and unit of every task at run time, on cpu:0"),
        "{out}"
    );
    for (key, value, says) in [
        (
            "name",
            "wss",
            "policy.name: unknown policy \"wss\": did you mean \"ws\"?",
        ),
        ("units", "", "policy.units: none takes part"),
    ] {
        let mut wrong = plan.clone();
        wrong["policy"][key] = match value {
            "" => serde_json::json!([]),
            name => name.into(),
        };
        let wrong = here.file("wrong.json", &wrong.to_string());
        here.refused(
            &[&TRAIN[..], &["--plan", &wrong]].concat(),
            &["wrong.json", says],
        );
    }
}

#[test]
fn a_plan_is_refused_where_it_does_not_fit() {
    let here = Here::new("plan_unfit");
    let plan = here.plan.as_str();
    let bench = |model, batch, says: &[&str]| {
        let args = ["bench", "step", model, "--batch", batch, "--plan", plan];
        here.refused(&args, says);
    };
    bench("small-cnn", "32", &["batch 16", "32"]);
    bench("lenet5", "16", &["model", "lenet5"]);
    let other = ["--optimizer", "sgd", "--plan", plan];
    here.refused(
        &[&TRAIN[..], &other].concat(),
        &["made for optimizer", "adam", "this run has", "sgd"],
    );
    let laptop = in_repository("machines/laptop.toml");
    let other = ["simulate", "--machine", &laptop, "--plan", plan];
    here.refused(&[&other, &MODEL[..]].concat(), &["machine", "laptop"]);
    // Of what else is part of a graph the plan has only the fingerprint.
    let mut other = here.kept();
    other["target"]["graph_fingerprint"] = "0123456789abcdef".into();
    let other = here.file("other.json", &other.to_string());
    here.refused(
        &[&TRAIN[..], &["--plan", &other]].concat(),
        &["does not fit", "0123456789abcdef"],
    );
}

#[test]
fn plans_of_other_versions_and_half_files_are_refused() {
    let here = Here::new("plan_damaged");
    let kept = here.kept().to_string();
    let old = kept.replacen("\"version\":6", "\"version\":2", 1);
    let old = here.file("old.json", &old);
    let says = ["old.json", "version 2", "plan again"];
    here.refused(&["plan", "explain", &old], &says);
    let half = here.file("half.json", &kept[..kept.len() / 2]);
    let args = ["bench", "step", "--plan", &half];
    here.refused(&[&args, &MODEL[..]].concat(), &["half.json"]);
}

/// Orders that contradict the dependencies, figures and names that no plan can have: nothing is begun.
#[test]
fn plans_that_cannot_be_executed_are_refused() {
    let here = Here::new("plan_impossible");
    let changed = |name: &str, change: &dyn Fn(&mut serde_json::Value)| {
        let mut other = here.kept();
        change(&mut other);
        here.file(name, &other.to_string())
    };
    let reversed = changed("reversed.json", &|plan| {
        for unit in plan["units"].as_array_mut().expect("units") {
            unit["order"].as_array_mut().expect("an order").reverse();
        }
    });
    let nonsense = changed("nonsense.json", &|plan| {
        plan["tasks"][0]["implementation"] = "nonsense".into();
    });
    let negative = changed("negative.json", &|plan| plan["seconds"] = (-1.0).into());
    let state = changed("state.json", &|plan| plan["tasks"][0]["state"] = 1.into());
    let step = [&["bench", "step"], &MODEL[..]].concat();
    let simulate = [&["simulate"], &MODEL[..], &["--machine", &here.machine]].concat();
    for command in [&TRAIN[..], &step, &simulate] {
        for (file, says) in [
            (&reversed, ["cannot be executed", "waits for task"]),
            (&nonsense, ["\"nonsense\"", "task 0"]),
            (&negative, ["negative.json", "seconds is -1e0"]),
        ] {
            here.refused(&[command, &["--plan", file]].concat(), &says);
        }
    }
    here.refused(
        &[&TRAIN[..], &["--plan", &state]].concat(),
        &["frequency state", "plan again"],
    );
}

/// Who follows a plan takes for a step alone what the plan says; transfers that are none of its graph are refused.
#[test]
fn a_simulated_run_follows_the_transfers_of_a_plan() {
    let home = folder("plan_transfers");
    let plan = home.join("plan.json").display().to_string();
    let machine = in_repository("machines/rammus.toml");
    let on = ["lenet5", "--machine", &machine];
    let (ok, _, err) = dahl_in(
        &home,
        // The first plan there is: the same on every machine, however busy.
        &[
            &["plan"],
            &on[..],
            &["--fixed", "--time-limit", "1us", "-o", &plan],
        ]
        .concat(),
    );
    assert!(ok, "{err}");
    let text = std::fs::read_to_string(&plan).expect("a plan");
    let mut kept: serde_json::Value = serde_json::from_str(&text).expect("JSON");
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

    kept["transfers"] = serde_json::json!([{
        "from": "host", "to": "rtx4060", "array": "none", "storage": 9999, "parts": [[[0, 0, 0, 0], [1, 1, 1, 1]]],
        "producer": "before", "readers": [0], "bytes": 4, "start": 0.0, "end": 0.0,
    }]);
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

/// A plan that sets frequencies is offered for simulations only; `-` is standard output.
#[test]
fn plans_with_states_are_not_offered_to_training() {
    let home = folder("plan_states");
    let plan = home.join("plan.json").display().to_string();
    let machine = in_repository("machines/laptop.toml");
    let on = ["plan", "lenet5", "--machine", &machine, "--time-limit", "2"];
    let (ok, out, err) = dahl_in(&home, &[&on[..], &["-o", &plan]].concat());
    assert!(ok, "{err}");
    assert!(out.contains("can be simulated, not followed"), "{out}");
    assert!(!out.contains("dahl train"), "{out}");
    // Bounds have units.
    let bound = out.split("lower bound ").nth(1).expect("a bound");
    assert!(bound.starts_with(|c: char| c.is_ascii_digit()), "{out}");
    let unit = bound.split(',').next().expect("text").rsplit(' ').next();
    assert!(matches!(unit, Some("J" | "mJ" | "µJ")), "{out}");
    let (ok, out, err) = dahl_in(&home, &[&on[..], &["-o", "-"]].concat());
    assert!(ok, "{err}");
    let printed: serde_json::Value = serde_json::from_str(&out).expect("nothing but the plan");
    assert!(printed["tasks"].is_array());
}
