//! `--engine` and `--memory`: who runs tasks and where temporaries lie change no bit, and what cannot be is said.

mod common;

use std::path::PathBuf;

use common::{dahl, refuse};

/// The weights after a few steps with these options, as the bytes of their file.
fn weights(name: &str, options: &[&str]) -> Vec<u8> {
    let path: PathBuf = [env!("CARGO_TARGET_TMPDIR"), name].iter().collect();
    let path_text = path.to_str().expect("a path of text");
    let short = [
        "--data",
        "fashion-mnist-small",
        "--steps",
        "6",
        "--val-limit",
        "0",
    ];
    let args = ["train", "small-cnn", "--quiet", "--save", path_text];
    dahl(&[&args[..], &short[..], options].concat());
    std::fs::read(&path).expect("weights")
}

#[test]
fn temporaries_by_malloc_give_the_same_weights() {
    let planned = weights("planned.safetensors", &["--workers", "2"]);
    for workers in ["1", "2"] {
        let malloc = ["--memory", "malloc", "--workers", workers];
        assert!(weights("malloc.safetensors", &malloc) == planned);
    }
    let bench = ["bench", "step", "first", "--seconds", "0.05", "--json"];
    let line = dahl(&[&bench[..], &["--memory", "malloc"]].concat());
    assert!(line.contains("\"memory\":\"malloc\""), "{line}");
    refuse(
        &["train", "--memory", "arena"],
        "",
        2,
        &["--memory", "use planned or malloc"],
    );
}

#[test]
#[cfg(not(feature = "starpu"))]
fn a_program_without_starpu_says_how_to_get_it() {
    for command in [
        &["train"][..],
        &["bench", "step", "first"],
        &["bench", "tasks"],
    ] {
        let args = [command, &["--engine", "starpu"]].concat();
        refuse(
            &args,
            "",
            1,
            &["built without StarPU", "libstarpu-dev", "--features starpu"],
        );
    }
}

#[cfg(feature = "starpu")]
mod starpu {
    use super::*;
    use common::dahl_under;

    /// Where StarPU keeps what it learns, for tests.
    const HOME: (&str, &str) = ("STARPU_HOME", env!("CARGO_TARGET_TMPDIR"));

    #[test]
    fn training_gives_the_same_weights() {
        let ours = weights("ours.safetensors", &["--workers", "2"]);
        for (engine, workers, policy) in [
            ("starpu", "1", "eager"),
            ("starpu", "2", "dmdas"),
            ("starpu-data", "2", "dmda"),
        ] {
            let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/theirs.safetensors");
            let args = [
                "train",
                "small-cnn",
                "--steps",
                "6",
                "--val-limit",
                "0",
                "--data",
                "fashion-mnist-small",
                "--engine",
                engine,
                "--policy",
                policy,
                "--workers",
                workers,
                "--save",
                path,
            ];
            let said = dahl_under(&[HOME, ("STARPU_SILENT", "1")], &args, "");
            assert_eq!(said.code, Some(0), "{}", said.err);
            assert!(
                said.out.contains(&format!("{policy} of StarPU 1.")),
                "{}",
                said.out
            );
            assert!(std::fs::read(path).expect("weights") == ours, "{policy}");
        }
    }

    #[test]
    fn empty_tasks_and_steps_are_timed() {
        for command in [
            &["bench", "tasks", "--tasks", "500", "--replays", "2"][..],
            &[
                "bench",
                "step",
                "first",
                "--seconds",
                "0.05",
                "--workers",
                "2",
            ],
        ] {
            let args = [command, &["--engine", "starpu", "--policy", "ws", "--json"]].concat();
            let said = dahl_under(&[HOME, ("STARPU_SILENT", "1")], &args, "");
            assert_eq!(said.code, Some(0), "{}", said.err);
            let report: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
            assert_eq!(
                (&report["engine"], &report["policy"]),
                (&"starpu".into(), &"ws".into())
            );
        }
    }

    #[test]
    fn what_starpu_cannot_do_is_refused() {
        let starpu = ["train", "first", "--engine", "starpu"];
        for (option, says) in [
            (&["--policy", "best"][..], &["\"best\"", "dmdas"][..]),
            (&["--workers", "5000"], &["at most", "--enable-maxcpus"]),
            (&["--units", "cpu:1,gpu:0"], &["only CPUs"]),
            (
                &["--grain", "tuned"],
                &["--grain tuned", "without --engine"],
            ),
        ] {
            refuse(&[&starpu[..], option].concat(), "", 1, says);
        }
    }
}
