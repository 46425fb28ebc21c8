//! GPUs as units of commands, on OpenCL's devices: PoCL offers the processor as one, or as two. Without any
//! device they are skipped; what must work without one is tested all the same.

mod common;

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::OnceLock;

use dahl_test_support::skip;
use serde_json::Value;

/// Measurements of these tests are their own. Kernels are compiled once, so the folder is kept.
const HOME: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/gpu-home");

/// What to do where there is no device.
const POCL: &str = "apt install pocl-opencl-icd ocl-icd-libopencl1";

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dahl"));
    command.args(args).env("DAHL_HOME", HOME);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs `dahl`, which must succeed.
fn good(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("dahl can be started");
    assert!(status.success(), "{command:?}: {}", text(&stderr));
    text(&stdout)
}

fn dahl(args: &[&str]) -> String {
    good(&mut command(args))
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&dahl(args)).expect("JSON")
}

/// Runs `dahl`, which must refuse with all of these words, and print nothing.
fn bad(command: &mut Command, words: &[&str]) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("dahl can be started");
    let (out, err) = (text(&stdout), text(&stderr));
    assert!(matches!(status.code(), Some(1 | 2)), "{command:?}: {out}");
    assert!(out.is_empty() && !err.contains("panicked"), "{out} {err}");
    for word in words {
        assert!(err.contains(word), "{command:?} should say {word:?}: {err}");
    }
}

/// Whether there is a device; compiles its kernels for later tests.
fn have() -> bool {
    static ONCE: OnceLock<bool> = OnceLock::new();
    *ONCE.get_or_init(|| {
        let machine = json(&["machine", "--json"]);
        machine["gpus"].as_array().is_some_and(|g| !g.is_empty())
    })
}

/// A place for a file of a test.
fn place(test: &str, file: &str) -> (PathBuf, String) {
    let path = common::folder(test).join(file);
    let name = path.to_str().expect("a UTF-8 path").to_string();
    (path, name)
}

const SHORT: [&str; 9] = [
    "train",
    "first",
    "--epochs",
    "1",
    "--limit",
    "48",
    "--val-limit",
    "16",
    "--batch=16",
];

/// Trains for three steps; the last line of the metrics, and what was printed.
fn trained(test: &str, more: &[&str], devices: &str) -> (Value, String) {
    let (path, name) = place(test, "metrics.jsonl");
    let mut command = command(&SHORT);
    command.args(more).args(["--metrics", &name]);
    let out = good(command.env("POCL_DEVICES", devices));
    let lines = std::fs::read_to_string(path).expect("metrics");
    let last = lines.lines().last().expect("a line");
    (serde_json::from_str(last).expect("JSON"), out)
}

#[test]
fn the_machine_lists_its_gpus_with_figures() {
    if !have() {
        skip!("no OpenCL or CUDA device here", POCL);
    }
    let machine = json(&["machine", "--json"]);
    for gpu in machine["gpus"].as_array().expect("a list") {
        for key in ["unit", "name", "library", "driver"] {
            assert!(gpu[key].as_str().is_some_and(|s| !s.is_empty()), "{gpu}");
        }
        assert!(gpu["memory_bytes"].as_u64() > Some(1 << 20), "{gpu}");
        assert!(gpu["compute_units"].as_u64() > Some(0), "{gpu}");
        let measured = &gpu["measured"];
        for way in ["to_device", "from_device"] {
            let speed = measured[way]["bytes_per_second"].as_f64();
            assert!(speed > Some(0.0), "{gpu}");
        }
        let launch = measured["launch_seconds"].as_f64();
        assert!(launch > Some(0.0), "{gpu}");
    }
    let shown = dahl(&["machine"]);
    assert!(shown.contains("gpu:0") && shown.contains("GB/s"), "{shown}");
    assert!(shown.contains("measured just now"), "{shown}");
}

#[test]
fn without_drivers_all_else_works_and_the_reason_is_told() {
    let hidden = |args: &[&str]| {
        let mut command = command(args);
        command.env("OCL_ICD_VENDORS", "/nonexistent");
        command.env("OCL_ICD_FILENAMES", "");
        command
    };
    let machine: Value =
        serde_json::from_str(&good(&mut hidden(&["machine", "--json"]))).expect("JSON");
    let real = |g: &&Value| g["library"] == "OpenCL";
    let gpus = machine["gpus"].as_array().expect("a list");
    if gpus.iter().any(|g| real(&g)) {
        skip!(
            "this OpenCL loader cannot be told to find nothing",
            "apt install ocl-icd-libopencl1"
        );
    }
    let shown = good(&mut hidden(&["machine"]));
    assert!(shown.contains("OpenCL is not available"), "{shown}");
    good(hidden(&SHORT).args(["--units", "cpu:1"]));
    if gpus.is_empty() {
        bad(
            hidden(&SHORT).args(["--units", "cpu,gpu:0"]),
            &[
                "gpu:0",
                "there is no GPU here",
                "OpenCL is not available",
                "install",
            ],
        );
        bad(
            hidden(&SHORT).args(["--units", "gpu"]),
            &["there is no GPU here"],
        );
        let checked = good(&mut hidden(&["check", "--codelet", "relu"]));
        assert!(
            checked.contains("cpu: ") && !checked.contains("gpu:"),
            "{checked}"
        );
    }
}

#[test]
fn bad_units_are_refused_with_what_there_is() {
    let with = |more: &[&str]| {
        let mut command = command(&SHORT);
        command.args(more);
        command
    };
    for (units, words) in [
        ("tpu:0", vec!["\"tpu\"", "cpu:2,gpu:0"]),
        ("cpu:2,,gpu:0", vec!["empty", "cpu:2,gpu:0"]),
        ("cpu:0", vec!["leave cpu out"]),
        ("gpu:0+0", vec!["gpu:0 is there twice"]),
    ] {
        bad(&mut with(&["--units", units]), &words);
    }
    bad(
        &mut with(&["--units", "cpu", "--workers", "2"]),
        &["--workers"],
    );
    bad(
        &mut with(&["--gpu-memory", "2GiB"]),
        &["no GPU is used", "--units"],
    );
    bad(
        &mut with(&["--units", "gpu:0", "--gpu-memory", "2GiX"]),
        &["GiX", "2GiB"],
    );
    bad(&mut command(&["check", "--unit", "gpu:x"]), &["\"x\""]);
    bad(
        &mut command(&["check", "--codelet", "nonsense"]),
        &["nonsense", "dahl ops"],
    );
    if have() {
        bad(
            &mut with(&["--units", "cpu,gpu:77"]),
            &["no gpu:77", "gpu:0 ("],
        );
        bad(
            &mut with(&["--units", "gpu:0", "--gpu-memory", "999TiB"]),
            &["gpu:0", "not 999.0 TiB", "ask for less of its memory"],
        );
        bad(&mut command(&["check", "--unit", "gpu:77"]), &["no gpu:77"]);
        bad(
            &mut command(&["calibrate", "--units", "gpu:77"]),
            &["no gpu:77"],
        );
    }
}

#[test]
fn all_units_train_alike() {
    if !have() {
        skip!("no OpenCL or CUDA device here", POCL);
    }
    for (dtype, tolerance) in [("f32", 1e-4), ("f64", 1e-9)] {
        let dtype = ["--dtype", dtype];
        let run = |name: &str, units: &str, devices: &str| {
            // A policy that knows no durations: those that do may leave a slow device out.
            let more = [&dtype[..], &["--units", units, "--policy", "ws"]].concat();
            trained(&format!("alike-{name}-{}", dtype[1]), &more, devices)
        };
        let (want, _) = run("cpu", "cpu:2", "pthread");
        for (name, units, devices) in [
            ("gpu", "gpu:0", "pthread"),
            ("both", "cpu:2,gpu:0", "pthread"),
            ("three", "cpu:1,gpu", "pthread pthread"),
        ] {
            let (got, out) = run(name, units, devices);
            for key in ["loss", "val_loss"] {
                let (g, w) = (got[key].as_f64(), want[key].as_f64());
                let apart = g.zip(w).map(|(g, w)| (g - w).abs() / w);
                assert!(apart < Some(tolerance), "{units}: {key} {g:?}, not {w:?}");
            }
            let units_of = |v: &Value| v["units"].as_array().cloned().unwrap_or_default();
            let named = units_of(&got).iter().any(|u| u["unit"] == "gpu:0");
            assert!(named, "{got}");
            // Beside a CPU the device may come too late for every task.
            let sent = got["bytes_to_devices"].as_u64();
            assert!(units != "gpu:0" || sent > Some(0), "{got}");
            assert!(
                out.contains("gpu:0 (") && out.contains("to devices"),
                "{out}"
            );
            assert!(units != "gpu:0" || !out.contains("worker"), "{out}");
        }
    }
}

/// The same device gives the same bits again; weights move between units.
#[test]
fn a_gpu_repeats_itself_and_evaluates() {
    if !have() {
        skip!("no OpenCL or CUDA device here", POCL);
    }
    let weights = |name: &str| {
        let (path, file) = place(name, "w.safetensors");
        good(command(&SHORT).args(["--units", "gpu:0", "--save", &file]));
        (std::fs::read(path).expect("weights"), file)
    };
    let (one, file) = weights("bits-one");
    let (two, _) = weights("bits-two");
    assert!(one == two, "other bits when run again");
    let loss = |units: &str| {
        let args = ["eval", "first", "--weights", &file, "--val-limit", "64"];
        let args = [&args[..], &["--json", "--units", units]].concat();
        json(&args)["loss"].as_f64().expect("a loss")
    };
    let (cpu, gpu) = (loss("cpu:1"), loss("gpu:0"));
    assert!((cpu - gpu).abs() < 1e-4 * cpu, "{cpu} and {gpu}");
}

#[test]
fn a_small_limit_evicts_and_changes_nothing() {
    if !have() {
        skip!("no OpenCL or CUDA device here", POCL);
    }
    let run = |limit: &str| {
        let (path, file) = place(&format!("limit-{limit}"), "w.safetensors");
        let args = ["train", "lenet5", "--steps", "2", "--batch", "64"];
        let mut command = command(&args);
        command.args(["--limit", "128", "--val-limit", "0", "--units", "gpu:0"]);
        let out = good(command.args(["--gpu-memory", limit, "--save", &file]));
        let line = out.lines().find(|l| l.contains("evictions"));
        let line = line.expect("a line about transfers").to_string();
        (line, std::fs::read(path).expect("weights"))
    };
    let (roomy, want) = run("512MiB");
    let (tight, got) = run(LIMIT);
    assert!(roomy.contains(" 0 evictions"), "{roomy}");
    assert!(!tight.contains(" 0 evictions"), "{tight}");
    assert!(want == got, "other bits with less memory");
}

/// Less than LeNet-5 needs for 64 images.
const LIMIT: &str = "2MiB";

#[test]
fn tasks_without_room_are_reported_as_run_by_the_cpu() {
    if !have() {
        return;
    }
    let (_, trace) = place("fallback", "run.trace");
    let options = "train lenet5 --units gpu:0 --limit 64 --batch 32 --val-limit 0 --epochs 1";
    let mut args: Vec<&str> = options.split(' ').collect();
    args.extend(["--gpu-memory", "100KiB", "--trace", &trace]);
    let ran = command(&args).output().expect("dahl can be started");
    let (out, err) = (text(&ran.stdout), text(&ran.stderr));
    assert!(ran.status.success(), "{err}");
    assert_eq!(
        err.matches("warning: gpu:0 holds 100.0 KiB").count(),
        1,
        "{err}"
    );
    assert!(err.contains("use --gpu-memory"), "{err}");
    assert!(
        out.contains("found no room on the device and ran on the CPU"),
        "{out}"
    );
    let summary = json(&["trace", "summary", &trace, "--json"]);
    let fell_back = summary["units"][0]["fell_back"].as_u64().expect("a count");
    let tasks = summary["units"][0]["tasks"].as_u64().expect("a count");
    assert!(0 < fell_back && fell_back < tasks, "{fell_back} of {tasks}");
    let shown = dahl(&["trace", "summary", &trace]);
    assert!(
        shown.contains(&format!("{fell_back} tasks of gpu:0 ran on the CPU")),
        "{shown}"
    );
    // Those that the CPU ran bear the name of its implementation.
    assert!(
        summary["codelets"]
            .as_array()
            .expect("rows")
            .iter()
            .any(|c| c["implementation"] != "gpu")
    );
}

/// Libraries that a training process has loaded once its first epoch has ended.
#[cfg(target_os = "linux")]
fn loaded_while_training(units: &str) -> String {
    use std::io::BufRead;
    let options =
        format!("train small-cnn --units {units} --limit 64 --val-limit 0 --epochs 100000");
    let args: Vec<&str> = options.split(' ').collect();
    let mut child = command(&args)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("dahl can be started");
    let mut lines = std::io::BufReader::new(child.stdout.take().expect("piped")).lines();
    let ended = lines.any(|l| l.expect("text").starts_with("epoch"));
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", child.id()));
    child.kill().expect("still running");
    child.wait().expect("ended");
    assert!(ended, "no epoch ended");
    maps.expect("the kernel says what is mapped")
}

#[test]
#[cfg(target_os = "linux")]
fn cpus_alone_load_no_library_of_gpus() {
    const LIBRARIES: [&str; 4] = ["libOpenCL", "libcuda", "libpocl", "libnvidia-ml"];
    let maps = loaded_while_training("cpu:1");
    // StarPU is linked and brings OpenCL's loader with it, but opens no device by that.
    let linked = usize::from(cfg!(feature = "starpu"));
    for library in &LIBRARIES[linked..] {
        assert!(!maps.contains(library), "{library} was loaded:\n{maps}");
    }
    if have() {
        let maps = loaded_while_training("gpu:0");
        assert!(LIBRARIES.iter().any(|l| maps.contains(l)), "{maps}");
    }
}

#[test]
fn checks_pass_and_report() {
    if !have() {
        skip!("no OpenCL or CUDA device here", POCL);
    }
    let report = json(&["check", "--unit", "gpu:0", "--codelet", "linear", "--json"]);
    assert_eq!(report["passed"], true, "{report}");
    let unit = &report["units"][0];
    assert_eq!(unit["unit"], "gpu:0");
    assert!(unit["device"]["driver"].is_string(), "{report}");
    for row in unit["rows"].as_array().expect("rows") {
        assert_eq!(
            (&row["codelet"], &row["failure"]),
            (&"linear".into(), &Value::Null)
        );
        assert!(row["cases"].as_u64() > Some(3), "{row}");
        assert!(
            row["worst_ulps"].as_f64().is_some_and(|w| w < 100.0),
            "{row}"
        );
        assert!(row["seconds"].as_f64() > Some(0.0), "{row}");
    }
    let shown = dahl(&["check", "--codelet", "matmul"]);
    for word in [
        env!("CARGO_PKG_VERSION"),
        "cpu: ",
        "gpu:0: ",
        "ulp",
        " ok",
        "seed 1",
    ] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    assert!(
        !shown.contains("FAILED to") && !shown.contains("0 of"),
        "{shown}"
    );
}

/// Measured, described, simulated, planned, followed: each step understands the one before.
#[test]
fn from_calibration_to_a_followed_plan() {
    if !have() {
        skip!("no OpenCL or CUDA device here", POCL);
    }
    let report = json(&[
        "calibrate",
        "--model",
        "first",
        "--batch",
        "16",
        "--units",
        "cpu:2,gpu:0",
        "--seconds",
        "0.05",
        "--json",
    ]);
    assert_eq!(
        report["gpus"].as_object().map(|g| g.len()),
        Some(1),
        "{report}"
    );
    let rows = json(&["perf", "--json"]);
    let rows = rows.as_array().expect("rows");
    let on_gpu: Vec<&Value> = rows
        .iter()
        .filter(|r| r["unit"].as_str().is_some_and(|u| u.starts_with("gpu:0 ")))
        .collect();
    assert!(!on_gpu.is_empty(), "{rows:?}");
    for row in on_gpu {
        assert_eq!(row["implementation"], "gpu");
        assert!(row["of_roof"].as_f64() > Some(0.0), "{row}");
    }
    let (path, machine) = place("chain", "machine.toml");
    dahl(&[
        "machine",
        "--describe",
        "--units",
        "cpu:2,gpu:0",
        "-o",
        &machine,
    ]);
    let described = std::fs::read_to_string(&path).expect("a machine file");
    for word in [
        "kind = \"gpu\"",
        "busy_watts",
        "Put in your own",
        "[[link]]",
    ] {
        assert!(described.contains(word), "{word}: {described}");
    }
    let on = ["--machine", &machine, "--batch", "16"];
    let simulated = json(
        &[
            &["simulate", "first", "--policy", "dmda", "--json"],
            &on[..],
        ]
        .concat(),
    );
    assert_eq!(simulated["durations"]["assumed"], 0, "{simulated}");
    assert!(
        simulated["durations"]["measured"].as_u64() > Some(0),
        "{simulated}"
    );
    // Everything on the GPU: CPUs that draw a thousand times as much.
    let hungry = described.replacen("busy_watts = 3.5", "busy_watts = 3500.0", 1);
    std::fs::write(&path, hungry).expect("the build folder can be written");
    let plan = path.with_file_name("plan.json");
    let plan = plan.to_str().expect("a UTF-8 path");
    dahl(&[&["plan", "first", "--fixed", "-o", plan], &on[..]].concat());
    let (_, trace) = place("chain-trace", "run.trace");
    let args = [
        "bench",
        "step",
        "first",
        "--batch",
        "16",
        "--seconds",
        "0.2",
    ];
    let followed = json(&[&args[..], &["--plan", plan, "--trace", &trace, "--json"]].concat());
    assert_eq!(followed["plan"]["fidelity"], 1.0, "{followed}");
    assert_eq!(
        followed["units"].as_array().map(Vec::len),
        Some(3),
        "{followed}"
    );
    let kept = dahl(&["trace", "summary", &trace]);
    assert!(
        !kept.contains("no task ran"),
        "the run is in its trace: {kept}"
    );
    let busy = followed["plan"]["busy_seconds"].as_array().expect("units");
    assert!(busy[2][1].as_f64() > Some(0.0), "the GPU works: {followed}");
}

#[test]
fn traces_show_transfers() {
    if !have() {
        skip!("no OpenCL or CUDA device here", POCL);
    }
    let (_, trace) = place("transfers", "run.trace");
    good(command(&SHORT).args([
        // The device alone: with a CPU beside it nobody knows who runs what.
        "--units", "gpu:0", "--trace", &trace,
    ]));
    let shown = dahl(&["trace", "summary", &trace]);
    let transfers: Vec<&str> = shown
        .lines()
        .filter(|l| l.starts_with("transfers"))
        .collect();
    assert!(
        transfers
            .iter()
            .any(|l| l.contains("host → gpu:0 ") && l.contains("copies")),
        "{shown}"
    );
    assert!(transfers.iter().any(|l| l.contains("→ host")), "{shown}");
    let page = dahl(&["trace", "view", &trace, "-o", "-"]);
    assert!(
        page.contains("gpu:0 "),
        "the page knows the device's memory"
    );
}

#[test]
fn every_bench_takes_units() {
    if !have() {
        skip!("no OpenCL or CUDA device here", POCL);
    }
    let both = ["--units", "cpu:1,gpu:0", "--json"];
    let tasks = ["bench", "tasks", "--tasks", "200", "--replays", "2"];
    let report = json(&[&tasks[..], &both[..]].concat());
    assert_eq!(report["workers"], 2, "{report}");
    let units = report["units"].as_str().expect("a text");
    assert!(units.starts_with("1 worker and gpu:0"), "{report}");
    let trace = ["bench", "trace", "--batch", "4", "--seconds", "0.1"];
    let report = json(&[&trace[..], &both[..]].concat());
    assert_eq!(report["workers"], 2, "{report}");
}
