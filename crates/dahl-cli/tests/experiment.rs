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
        "tables/1-joules_per_image.tex",
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

#[cfg(unix)]
#[test]
fn twenty_kills_lose_and_double_no_row() {
    let here = folder("killed");
    let (file, out) = (file(&here, 12), here.join("session").display().to_string());
    let mut kills = 0;
    for turn in 0u64.. {
        let begun = Path::new(&out).join("rows.jsonl").exists();
        let args: Vec<&str> = match begun {
            false => vec![
                "experiment",
                "run",
                &file,
                "-o",
                &out,
                "--allow-dirty",
                "--noisy",
            ],
            true => vec!["experiment", "run", "--resume", &out],
        };
        let mut child = Command::new(env!("CARGO_BIN_EXE_dahl"))
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("dahl can be started");
        // Times that are spread over a start and several runs, as the hash of the turn says.
        let wait = Duration::from_millis(40 + turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 160);
        if kills < 20 {
            std::thread::sleep(wait);
            let _ = child.kill();
            let status = child.wait().expect("it ends");
            kills += u32::from(status.code().is_none());
            if begun && status.code().is_some_and(|c| c == 3) {
                break;
            }
            // A folder of which only a part was made is begun again.
            if !Path::new(&out).join("rows.jsonl").exists() {
                let _ = fs::remove_dir_all(&out);
            }
        } else {
            assert_eq!(
                child.wait().expect("it ends").code(),
                Some(3),
                "one engine is missing"
            );
            break;
        }
    }
    assert!(kills > 0);
    let rows = fs::read_to_string(Path::new(&out).join("rows.jsonl")).expect("rows");
    let runs: Vec<serde_json::Value> = rows
        .lines()
        .map(|l| serde_json::from_str::<serde_json::Value>(l).expect("a row"))
        .filter_map(|r| r.get("run").cloned())
        .collect();
    let mut keys: Vec<String> = runs
        .iter()
        .map(|r| format!("{} {} {}", r["block"], r["cell"], r["attempt"]))
        .collect();
    keys.sort();
    keys.dedup();
    assert_eq!(
        (keys.len(), runs.len()),
        (48, 48),
        "twelve blocks of four cells"
    );
    let page = fs::read(Path::new(&out).join("report.html")).expect("a page");
    dahl(&["experiment", "report", &out]);
    assert_eq!(
        page,
        fs::read(Path::new(&out).join("report.html")).expect("a page")
    );
}

/// The shipped experiments that need nothing but DAHL, as small as they get.
#[test]
fn shipped_experiments_run_in_a_tiny_form() {
    for (name, only) in [
        (
            "granularity",
            &["model=small-cnn", "grain=auto,sample=4"][..],
        ),
        ("batch-size", &["model=small-cnn", "batch=8,16"]),
        ("cores", &["model=small-cnn", "threads=1"]),
        ("policies", &["model=small-cnn", "threads=1"]),
        (
            "float-types",
            &["model=small-cnn", "threads=1", "engine=dahl"],
        ),
        ("pytorch", &["model=small-cnn", "threads=1", "engine=dahl"]),
    ] {
        let out = folder(&format!("tiny-{name}"))
            .join("session")
            .display()
            .to_string();
        let mut args = vec![
            "experiment",
            "run",
            name,
            "-o",
            &out,
            "--allow-dirty",
            "--noisy",
            "--blocks",
            "1",
            "--shorter",
            "2000",
        ];
        only.iter().for_each(|o| args.extend(["--only", o]));
        let said = dahl_with(&args, "");
        assert_eq!(said.code, Some(0), "{name}: {}{}", said.out, said.err);
        assert!(Path::new(&out).join("report.html").is_file());
    }
}
