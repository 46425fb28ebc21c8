//! Clocks on a made-up system tree: found, set, and put back through every way a run can end.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use dahl_energy::clocks::{Clock, SetClocks, clocks, set_clocks};
use dahl_energy::{Tree, Trouble};

/// A tree with two policies of two CPUs each, and a third that lists no frequencies and is set by `userspace`.
struct Made(PathBuf);

impl Made {
    fn new(name: &str) -> Made {
        let root = std::env::temp_dir().join(format!("dahl-clocks-{}-{name}", std::process::id()));
        let made = Made(root);
        for cpu in 0..5 {
            let (shared, governor) = match cpu {
                0 | 1 => ("0 1", "schedutil"),
                2 | 3 => ("2 3", "performance"),
                _ => ("4", "userspace"),
            };
            made.write(cpu, "affected_cpus", shared);
            made.write(cpu, "cpuinfo_min_freq", "800000");
            made.write(cpu, "cpuinfo_max_freq", "2600000");
            made.write(cpu, "scaling_governor", governor);
            made.write(cpu, "scaling_max_freq", "2600000");
            if cpu < 4 {
                made.write(
                    cpu,
                    "scaling_available_frequencies",
                    "2600000 1700000 800000 ",
                );
            } else {
                made.write(cpu, "scaling_setspeed", "2000000");
            }
        }
        fs::create_dir_all(made.0.join("devices/system/cpu/cpuidle")).unwrap();
        made
    }

    fn file(&self, cpu: usize, name: &str) -> PathBuf {
        self.0
            .join(format!("devices/system/cpu/cpu{cpu}/cpufreq/{name}"))
    }

    fn write(&self, cpu: usize, name: &str, text: &str) {
        let path = self.file(cpu, name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    fn read(&self, cpu: usize, name: &str) -> String {
        let text = fs::read_to_string(self.file(cpu, name)).unwrap();
        text.trim().to_owned()
    }

    fn record(&self) -> PathBuf {
        self.0.join("record.json")
    }

    /// What policies are set to: the first two, and the one of `userspace`.
    fn values(&self) -> [String; 3] {
        [
            self.read(0, "scaling_max_freq"),
            self.read(2, "scaling_max_freq"),
            self.read(4, "scaling_setspeed"),
        ]
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const USUAL: [&str; 3] = ["2600000", "2600000", "2000000"];
const SET: [&str; 3] = ["1700000", "800000", "800000"];

fn set(root: &Path) -> Result<SetClocks, Trouble> {
    let tree = Tree::at(root);
    let all = clocks(&tree);
    let wanted: Vec<(&Clock, f64)> = all.iter().zip([1.7e9, 0.8e9, 0.8e9]).collect();
    set_clocks(&tree, &wanted, &root.join("record.json"))
}

/// The run that is ended: this test's own program, told how to end.
#[test]
fn run() {
    let Some(end) = std::env::var_os("DAHL_CLOCKS_END") else {
        return;
    };
    let root = PathBuf::from(std::env::var_os("DAHL_CLOCKS_ROOT").unwrap());
    let clocks = set(&root).unwrap();
    println!("\nset");
    match end.to_str().unwrap() {
        "normal" => clocks.restore().unwrap(),
        "dropped" => drop(clocks),
        "panic" => panic!("as told"),
        "exit" => std::process::exit(3),
        "abort" => std::process::abort(),
        // Until somebody ends it.
        _ => loop {
            std::thread::park();
        },
    }
}

/// Starts a run in a process group of its own, and waits until its clocks are set.
fn start(made: &Made, end: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "run", "--nocapture"])
        .env("DAHL_CLOCKS_END", end)
        .env("DAHL_CLOCKS_ROOT", &made.0)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let set = out.lines().any(|line| line.unwrap() == "set");
    assert!(set, "the clocks were not set");
    child
}

/// Waits until run and guard are gone: nobody holds the record.
fn wait_for_guard(made: &Made) {
    let record = fs::File::open(made.record()).unwrap();
    record.lock().unwrap();
}

#[test]
fn policies_are_found_with_their_frequencies() {
    let made = Made::new("found");
    let all = clocks(&Tree::at(&made.0));
    let names: Vec<&str> = all.iter().map(|c| &*c.name).collect();
    assert_eq!(names, ["policy0", "policy2", "policy4"]);
    assert_eq!(all[1].cpus, [2, 3]);
    assert_eq!(all[0].hertz, [2.6e9, 1.7e9, 0.8e9]);
    assert_eq!(all[2].hertz, [2.6e9, 2.0e9, 1.4e9, 0.8e9]);
    assert!(all.iter().all(|c| c.trouble.is_none()));
    // A policy that makes no sense is none, and a tree without any has none.
    made.write(4, "cpuinfo_min_freq", "many");
    assert_eq!(clocks(&Tree::at(&made.0)).len(), 2);
    assert!(clocks(&Tree::at(made.0.join("nothing"))).is_empty());
}

#[test]
fn a_run_that_ends_by_itself_puts_them_back() {
    for end in ["normal", "dropped", "panic", "exit", "abort"] {
        let made = Made::new(end);
        start(&made, end).wait().unwrap();
        wait_for_guard(&made);
        assert_eq!(made.values(), USUAL, "{end}");
        assert_eq!(fs::read_to_string(made.record()).unwrap(), "", "{end}");
    }
}

#[test]
fn a_run_that_a_signal_ends_puts_them_back() {
    let signals = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGKILL];
    for (signal, group) in signals.into_iter().flat_map(|s| [(s, false), (s, true)]) {
        let made = Made::new(&format!("signal-{signal}-{group}"));
        let mut child = start(&made, "wait");
        assert_eq!(made.values(), SET);
        let process = child.id() as i32;
        // SAFETY: a signal to a process, or a group of processes, that this test has started.
        unsafe { libc::kill(if group { -process } else { process }, signal) };
        assert_eq!(child.wait().unwrap().signal(), Some(signal));
        wait_for_guard(&made);
        assert_eq!(made.values(), USUAL, "signal {signal}, group {group}");
    }
}

#[test]
fn two_runs_at_once_are_refused() {
    let made = Made::new("two");
    let mut child = start(&made, "wait");
    let refusal = set(&made.0).unwrap_err().to_string();
    assert!(
        refusal.contains("another run has set the clocks"),
        "{refusal}"
    );
    assert_eq!(made.values(), SET, "the first run's clocks stay");
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for_guard(&made);
    set(&made.0).unwrap().restore().unwrap();
    assert_eq!(made.values(), USUAL);
}

#[test]
fn what_was_left_behind_is_put_back_first() {
    let made = Made::new("left");
    // Run and guard were killed together: values set, the record full, nobody holds it.
    made.write(0, "scaling_max_freq", "800000");
    let old = [(made.file(0, "scaling_max_freq"), "2600000")];
    fs::write(made.record(), serde_json::to_string(&old).unwrap()).unwrap();
    let clocks = set(&made.0).unwrap();
    assert_eq!(made.values(), SET);
    drop(clocks);
    assert_eq!(made.values(), USUAL);
    fs::write(made.record(), "no JSON").unwrap();
    let refusal = set(&made.0).unwrap_err().to_string();
    assert!(refusal.contains("is damaged"), "{refusal}");
    assert_eq!(made.values(), USUAL);
}

#[test]
fn a_clock_that_cannot_be_written_is_an_error_and_all_are_put_back() {
    let made = Made::new("refused");
    let tree = Tree::at(&made.0);
    let all = clocks(&tree);
    let wanted: Vec<(&Clock, f64)> = all.iter().map(|c| (c, 0.8e9)).collect();
    // The second file has become a folder.
    let file = made.file(2, "scaling_max_freq");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(set_clocks(&tree, &wanted, &made.record()).is_err());
    wait_for_guard(&made);
    assert_eq!(made.read(0, "scaling_max_freq"), USUAL[0]);
    // What may not be written is said before anything is set.
    let again = clocks(&tree);
    let trouble = again[1].trouble.as_ref().unwrap();
    assert!(
        trouble.to_string().contains("scaling_max_freq"),
        "{trouble}"
    );
}
