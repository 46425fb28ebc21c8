//! `dahl experiment` from the outside: an engine of a few lines, signals, every shipped experiment in a tiny form.

mod common;
#[path = "common/tiny.rs"]
mod tiny;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{dahl, dahl_with};
use tiny::{file, folder};

#[test]
fn experiments_ship_and_each_can_be_checked() {
    let list = dahl(&["experiment", "list"]);
    let names = [
        "pytorch",
        "granularity",
        "batch-size",
        "cores",
        "policies",
        "cpu-gpu",
        "float-types",
        "arena",
        "plans",
        "simulator",
        "overheads",
        "cluster",
    ];
    for name in names {
        assert!(list.contains(name), "{list}");
        let said = dahl(&["experiment", "check", name, "--no-engines", "--blocks", "2"]);
        assert!(
            said.contains("2 blocks") && said.contains("first: "),
            "{said}"
        );
    }
}

#[test]
fn an_experiment_runs_to_its_page_and_everything_is_made_again() {
    let here = folder("whole");
    let (file, out) = (file(&here, 2), here.join("session").display().to_string());
    let said = dahl_with(&["experiment", "check", &file], "");
    assert_eq!(said.code, Some(3), "{}", said.err);
    assert!(
        said.out.contains("engine shell: shell 1")
            && said.out.contains("engine missing: cannot run"),
        "{}",
        said.out
    );
    let run = [
        "experiment",
        "run",
        &file,
        "-o",
        &out,
        "--allow-dirty",
        "--noisy",
    ];
    let said = dahl_with(&run, "");
    assert_eq!(said.code, Some(3), "an engine is missing: {}", said.err);
    assert!(
        said.err.contains("cannot start no-such-engine"),
        "{}",
        said.err
    );
    for name in [
        "report.html",
        "README.md",
        "runs.csv",
        "summary.csv",
        "order.csv",
        "environment.json",
        "figures/1-images_per_second.svg",
        "tables/1-cpu_seconds_per_image.tex",
        "pgf/1-images_per_second.tex",
    ] {
        assert!(Path::new(&out).join(name).is_file(), "{name}");
    }
    let summary = fs::read_to_string(Path::new(&out).join("summary.csv")).expect("a summary");
    assert!(summary.contains("made_up,7,7,7,2"), "{summary}");
    assert!(
        dahl(&["experiment", "status", &out])
            .contains("8 of 8 runs done, 0 disturbed, 4 failed\ncomplete")
    );
    let page = fs::read(Path::new(&out).join("report.html")).expect("a page");
    dahl(&["experiment", "report", &out]);
    assert_eq!(
        page,
        fs::read(Path::new(&out).join("report.html")).expect("a page")
    );
    for format in ["csv", "json", "latex", "pgfplots"] {
        let other = here.join(format).display().to_string();
        assert!(
            dahl(&[
                "experiment",
                "export",
                &out,
                "--format",
                format,
                "-o",
                &other
            ])
            .contains(format.get(..3).unwrap())
        );
    }
    let archive = here.join("all.tar.gz").display().to_string();
    dahl(&["experiment", "bundle", &out, "-o", &archive]);
    let listed = Command::new("tar")
        .args(["tzf", &archive])
        .output()
        .expect("tar");
    assert!(String::from_utf8_lossy(&listed.stdout).contains("tiny/rows.jsonl"));
    assert!(
        dahl(&["experiment", "compare", &out, &out]).contains("intervals overlap in 2 of 2 cells")
    );
    let again = dahl_with(&run, "");
    assert_eq!(again.code, Some(1));
    assert!(again.err.contains("--resume"), "{}", again.err);
}

/// Starts a session of the file, or goes on with it.
fn start(file: &str, out: &Path) -> std::process::Child {
    let out = out.display().to_string();
    let args = match Path::new(&out).join("rows.jsonl").exists() {
        false => vec!["run", file, "-o", &out, "--allow-dirty", "--noisy"],
        true => vec!["run", "--resume", &out],
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_dahl"));
    command.arg("experiment").args(args);
    let command = command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::null()).spawn().expect("it starts")
}

/// What a session has measured, without times: runs in order, and what the summary says of figures that do not vary.
fn measured(out: &Path) -> (Vec<String>, Vec<String>) {
    let read = |name: &str| fs::read_to_string(out.join(name)).expect(name);
    let row = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("a row");
    let rows: Vec<serde_json::Value> = read("rows.jsonl").lines().map(row).collect();
    let key = |r: &serde_json::Value| format!("{} {} {}", r["block"], r["cell"], r["attempt"]);
    let runs = rows.iter().filter_map(|r| r.get("run")).map(key);
    let summary = read("summary.csv");
    let constant = summary
        .lines()
        .filter(|l| l.contains(",made_up,") || l.contains(",loss,"));
    (runs.collect(), constant.map(str::to_owned).collect())
}

#[cfg(unix)]
#[test]
fn twenty_kills_lose_and_double_no_row() {
    let here = folder("killed");
    let (file, whole) = (file(&here, 12), here.join("whole"));
    assert_eq!(
        start(&file, &whole).wait().expect("it ends").code(),
        Some(3)
    );
    let want = measured(&whole);
    assert_eq!(want.0.len(), 48, "twelve blocks of four cells");
    // Sessions, one after the other, until twenty kills have hit one that ran; then the last may end.
    let (mut kills, mut sessions, mut turn, mut start_takes) = (0, 0, 0u64, 40);
    while kills < 20 {
        let out = here.join(format!("session-{sessions}"));
        sessions += 1;
        loop {
            let mut child = start(&file, &out);
            if kills < 20 {
                // Times that are spread over a start and several runs, as the hash of the turn says.
                turn += 1;
                let wait = start_takes + turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 160;
                std::thread::sleep(Duration::from_millis(wait));
                let _ = child.kill();
            }
            match child.wait().expect("it ends").code() {
                // One engine is missing.
                Some(code) => break assert_eq!(code, 3),
                None if out.join("rows.jsonl").exists() => kills += 1,
                // A folder of which only a part was made is begun again, and given longer: the machine may be busy.
                None => {
                    start_takes += 20;
                    let _ = fs::remove_dir_all(&out);
                }
            }
        }
        let mut got = measured(&out);
        // In a block, an order of its own; runs that go on are in that order too.
        assert_eq!(got, want, "after {kills} kills");
        got.0.sort();
        got.0.dedup();
        assert_eq!(got.0.len(), 48);
        assert_eq!(
            fs::read(out.join("order.csv")).expect("an order"),
            fs::read(whole.join("order.csv")).expect("an order")
        );
        let page = fs::read(out.join("report.html")).expect("a page");
        dahl(&["experiment", "report", &out.display().to_string()]);
        assert_eq!(page, fs::read(out.join("report.html")).expect("a page"));
    }
}

#[cfg(unix)]
#[test]
fn a_signal_keeps_rows_and_says_how_to_go_on() {
    let here = folder("signal");
    let (file, out) = (file(&here, 10_000), here.join("session"));
    let text = out.display().to_string();
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dahl"));
        command.arg("experiment");
        let rows = || fs::read(out.join("rows.jsonl")).map_or(0, |b| b.len());
        let before = rows();
        match before {
            0 => command.args(["run", &file, "-o", &text, "--allow-dirty", "--noisy"]),
            _ => command.args(["run", "--resume", &text]),
        };
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let child = child.expect("it starts");
        while rows() == before {
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut kill = Command::new("kill");
        kill.args(["-s", signal, &child.id().to_string()]);
        assert!(kill.status().expect("kill").success());
        let said = child.wait_with_output().expect("it ends");
        let err = String::from_utf8_lossy(&said.stderr);
        assert_eq!(said.status.code(), Some(code), "{err}");
        assert!(
            err.contains(&format!("go on with: dahl experiment run --resume {text}")),
            "{err}"
        );
        let status = dahl(&["experiment", "status", &text]);
        assert!(status.contains("of 40000 runs done"), "{status}");
    }
}

/// A terminal's Ctrl-C reaches the engine, too, which has nothing to say of it.
#[cfg(unix)]
#[test]
fn a_terminals_interrupt_is_answered_by_the_session_alone() {
    use std::os::unix::process::CommandExt;

    let here = folder("terminal");
    let (file, out) = (here.join("steps.toml"), here.join("session"));
    let text = "version = 1\nname = \"steps\"\nquestion = \"?\"\n[design]\nblocks = 10000\nwindow = \"50 ms\"\n\
        [factors]\nmodel = \"small-cnn\"\nthreads = 1\n";
    fs::write(&file, text).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_dahl"));
    command.args(["experiment", "run", "--allow-dirty", "--noisy", "-o"]);
    let command = command.args([&out, &file]).process_group(0);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let child = child.expect("it starts");
    while fs::read(out.join("rows.jsonl")).map_or(0, |b| b.len()) == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let group = format!("-{}", child.id());
    let mut kill = Command::new("kill");
    assert!(
        kill.args(["-s", "INT", "--", &group])
            .status()
            .expect("kill")
            .success()
    );
    let said = child.wait_with_output().expect("it ends");
    let err = String::from_utf8_lossy(&said.stderr);
    assert_eq!(said.status.code(), Some(130), "{err}");
    let lines: Vec<&str> = err.lines().collect();
    assert!(
        matches!(lines[..], [line] if line.contains("go on with: dahl experiment run --resume")),
        "{err}"
    );
}

/// The shipped experiments that need nothing but DAHL, as small as they get.
#[test]
fn shipped_experiments_run_in_a_tiny_form() {
    let engines = match cfg!(feature = "starpu") {
        true => "engine=dahl,starpu",
        false => "engine=dahl",
    };
    for (name, only) in [
        (
            "granularity",
            &["model=small-cnn", "grain=auto,sample=4"][..],
        ),
        ("batch-size", &["model=small-cnn", "batch=8,16"]),
        ("cores", &["model=small-cnn", "threads=1"]),
        ("policies", &["model=small-cnn", "threads=1", engines]),
        (
            "float-types",
            &["model=small-cnn", "threads=1", "engine=dahl"],
        ),
        ("pytorch", &["model=small-cnn", "threads=1", "engine=dahl"]),
    ] {
        let only: Vec<&str> = only.iter().flat_map(|o| ["--only", o]).collect();
        tiny_form(name, &only);
    }
}

/// Plans and predictions need durations, which the experiment measures before it begins.
#[test]
fn plans_and_the_simulator_calibrate_first() {
    for name in ["plans", "simulator"] {
        let only = ["--only", "model=small-cnn", "--only", "threads=1"];
        let out = tiny_form(name, &only);
        let summary = fs::read_to_string(out.join("summary.csv")).expect("a summary");
        assert!(
            summary.contains("predicted_seconds_per_step"),
            "{name}: {summary}"
        );
    }
}

#[test]
fn the_gpu_experiment_runs_where_there_is_a_device() {
    let devices = dahl(&["machine"]);
    if !devices.contains("gpu") {
        dahl_test_support::skip!("no OpenCL device", "apt install pocl-opencl-icd");
    }
    let only = ["--only", "model=small-cnn", "--only", "batch=32"];
    let out = tiny_form("cpu-gpu", &only);
    let runs = fs::read_to_string(out.join("runs.csv")).expect("rows");
    assert_eq!(
        runs.lines().count(),
        4,
        "a head and three kinds of units: {runs}"
    );
}

#[test]
fn tasks_and_traces_have_overheads() {
    let only = [
        "--only",
        "engine=dahl,tracing",
        "--only",
        "threads=1",
        "--only",
        "pattern=pairs",
    ];
    let out = tiny_form("overheads", &only);
    let summary = fs::read_to_string(out.join("summary.csv")).expect("a summary");
    assert!(
        summary.contains(",replay_ns,") && summary.contains(",overhead,"),
        "{summary}"
    );
}

#[test]
fn the_cluster_experiment_runs_on_one_node_and_on_two() {
    let there = |program: &str, arg: &str| Command::new(program).arg(arg).output().is_ok();
    if !there("mpirun", "--version") || !there("python3", "--version") {
        dahl_test_support::skip!("no MPI or no Python", "apt install openmpi-bin python3");
    }
    let only = [
        "--only",
        "engine=dahl,dahl-even",
        "--only",
        "model=small-cnn",
    ];
    let out = tiny_form("cluster", &only);
    let runs = fs::read_to_string(out.join("runs.csv")).expect("rows");
    assert!(
        runs.contains("DAHL on 1 node,") && runs.contains("DAHL on 2 nodes"),
        "{runs}"
    );
}

/// PyTorch is no part of the tests' environment: where somebody has it, its peers are tried.
#[test]
fn pytorch_and_ddp_answer_where_they_are() {
    let python = std::env::var("DAHL_TORCH_PYTHON").unwrap_or_default();
    if python.is_empty() {
        dahl_test_support::skip!(optional: "no PyTorch", "name a Python that has it in DAHL_TORCH_PYTHON");
    }
    let only = [
        "--only",
        "model=small-cnn",
        "--only",
        "threads=1",
        "--only",
        "engine=dahl,pytorch,pytorch-tuned",
    ];
    let out = tiny_form("pytorch", &only);
    let runs = fs::read_to_string(out.join("runs.csv")).expect("rows");
    assert!(runs.contains("PyTorch"), "{runs}");
    let only = ["--only", "model=small-cnn", "--only", "engine=ddp"];
    let out = tiny_form("cluster", &only);
    let runs = fs::read_to_string(out.join("runs.csv")).expect("rows");
    assert!(runs.contains("DDP on 2 nodes"), "{runs}");
}

/// Runs a shipped experiment as small as it gets, and gives its folder.
fn tiny_form(name: &str, only: &[&str]) -> std::path::PathBuf {
    let here = folder(&format!("tiny-{name}"));
    let out = here.join("session");
    let text = out.display().to_string();
    let trial = [
        "--allow-dirty",
        "--noisy",
        "--blocks",
        "1",
        "--shorter",
        "2000",
    ];
    // By its path, so that the peers of the repository are found.
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/");
    let file = format!("{file}{name}.toml");
    let mut args = vec!["experiment", "run", &file, "-o", &text];
    args.extend(trial.iter().chain(only));
    // What is calibrated for it is none of the other tests' business.
    let home = here.join("home").display().to_string();
    let said = common::dahl_under(&[("DAHL_HOME", &home)], &args, "");
    assert_eq!(said.code, Some(0), "{name}: {}{}", said.out, said.err);
    assert!(out.join("report.html").is_file());
    out
}

/// A peer that says why it cannot and ends, while the harness still speaks to it.
#[test]
fn a_peer_that_ends_early_fails_its_cell_and_nothing_else() {
    let here = folder("early");
    let file = here.join("early.toml");
    let text = "version = 1\nname = \"early\"\nquestion = \"Who goes?\"\n[design]\nblocks = 3\nwindow = \"1 ms\"\n\
        [factors]\nengine = [\"gone\", \"silent\"]\nmodel = [\"none\"]\n[engine.gone]\ncommand = [\"sh\", \"-c\", \"echo '{\\\"error\\\":\\\"no room\\\"}'\"]\n\
        [engine.silent]\ncommand = [\"true\"]\n[[table]]\nrows = \"engine\"\ncolumns = \"model\"\ncell = \"seconds\"\n";
    fs::write(&file, text).expect("a file");
    let (file, out) = (
        file.display().to_string(),
        here.join("session").display().to_string(),
    );
    let said = dahl_with(
        &[
            "experiment",
            "run",
            &file,
            "-o",
            &out,
            "--allow-dirty",
            "--noisy",
        ],
        "",
    );
    assert_eq!(said.code, Some(3), "{}", said.err);
    assert!(
        said.err.contains("no room") && said.err.contains("ended without an answer"),
        "{}",
        said.err
    );
    assert!(
        dahl(&["experiment", "status", &out]).contains("6 of 6 runs done, 0 disturbed, 6 failed")
    );
}

#[test]
fn a_meter_at_the_wall_is_used_and_kept_for_the_rest_of_a_session() {
    let here = folder("wall");
    let path = here.join("watts");
    fs::write(&path, "time,watts\n0,50\n").expect("a file");
    let meter = format!("file:{}", path.display());
    let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writer = std::thread::spawn({
        let done = std::sync::Arc::clone(&done);
        move || {
            let mut file = fs::OpenOptions::new()
                .append(true)
                .open(path)
                .expect("a file");
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                std::io::Write::write_all(&mut file, b"1,50\n").expect("written");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    });
    let file = file(&here, 1);
    let out = here.join("session").display().to_string();
    let run = [
        "experiment",
        "run",
        &file,
        "-o",
        &out,
        "--allow-dirty",
        "--noisy",
        "--meter",
        &meter,
    ];
    dahl_with(&run, "");
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    writer.join().expect("the writer ends");
    let kept = fs::read_to_string(Path::new(&out).join("session.json")).expect("a file");
    assert!(kept.contains(&meter), "{kept}");
    let runs = fs::read_to_string(Path::new(&out).join("runs.csv")).expect("rows");
    assert!(runs.contains("measured (wall: file:"), "{runs}");
    let refused = dahl_with(
        &["energy", "--meter", "file:/nowhere/at/all", "--", "true"],
        "",
    );
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("gives no reading"), "{}", refused.err);
}

/// LaTeX compiles what is exported, as it is.
#[test]
fn the_paper_compiles() {
    let Ok(there) = Command::new("pdflatex").arg("--version").output() else {
        dahl_test_support::skip!(
            "no LaTeX",
            "apt install texlive-latex-base texlive-latex-recommended texlive-pictures"
        );
    };
    assert!(there.status.success());
    let here = folder("paper");
    let (file, out) = (file(&here, 2), here.join("session"));
    let text = out.display().to_string();
    dahl_with(
        &[
            "experiment",
            "run",
            &file,
            "-o",
            &text,
            "--allow-dirty",
            "--noisy",
        ],
        "",
    );
    let paper = here.join("paper").display().to_string();
    for format in ["latex", "pgfplots"] {
        dahl(&[
            "experiment",
            "export",
            &text,
            "--format",
            format,
            "-o",
            &paper,
        ]);
    }
    let made = Command::new("pdflatex")
        .args(["-interaction=nonstopmode", "-halt-on-error", "paper.tex"])
        .current_dir(&paper)
        .output()
        .expect("pdflatex");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stdout)
    );
    let pdf = fs::read(Path::new(&paper).join("paper.pdf")).expect("a document");
    assert!(
        pdf.starts_with(b"%PDF") && pdf.len() > 10_000,
        "{}",
        pdf.len()
    );
}

/// The page of results says what its sessions say.
#[test]
fn the_page_of_results_is_made_of_its_sessions() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let made = folder("results").join("results.md");
    let done = Command::new(root.join("scripts/results"))
        .arg(env!("CARGO_BIN_EXE_dahl"))
        .env("OUT", &made)
        .output()
        .expect("a script");
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let (made, kept) = (
        fs::read_to_string(made),
        fs::read_to_string(root.join("docs/results.md")),
    );
    assert_eq!(
        made.expect("a page"),
        kept.expect("a page"),
        "run scripts/results"
    );
}
