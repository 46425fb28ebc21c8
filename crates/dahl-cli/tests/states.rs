//! Plans with frequency states on a made-up system tree: made, followed, and clocks put back however training ends.
#![cfg(target_os = "linux")]

mod common;

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::folder;
use serde_json::Value;

/// This computer, with clocks that can be set.
struct Here {
    home: PathBuf,
    sys: PathBuf,
}

const USUAL: &str = "2600000";
const SLOW: &str = "800000";

impl Here {
    fn new(name: &str) -> Here {
        let home = folder(name);
        let here = Here {
            sys: home.join("sys"),
            home,
        };
        for cpu in 0..1024 {
            let real = format!("/sys/devices/system/cpu/cpu{cpu}");
            if !PathBuf::from(real).exists() {
                continue;
            }
            let folder = here.cpufreq(cpu);
            fs::create_dir_all(&folder).expect("a folder");
            let cpus = cpu.to_string();
            for (file, text) in [
                ("affected_cpus", cpus.as_str()),
                ("cpuinfo_min_freq", SLOW),
                ("cpuinfo_max_freq", USUAL),
                ("scaling_available_frequencies", "2600000 800000"),
                ("scaling_governor", "schedutil"),
                ("scaling_max_freq", USUAL),
            ] {
                fs::write(folder.join(file), text).expect("a file");
            }
        }
        here
    }

    fn cpufreq(&self, cpu: usize) -> PathBuf {
        self.sys
            .join(format!("devices/system/cpu/cpu{cpu}/cpufreq"))
    }

    fn path(&self, name: &str) -> String {
        self.home.join(name).display().to_string()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("dahl"));
        command.args(args).env("DAHL_HOME", &self.home);
        command.env("DAHL_SYSFS", &self.sys);
        command
    }

    /// Whether it succeeds, and what `dahl` says on both ways.
    fn said(&self, args: &[&str]) -> (bool, String, String) {
        let run = self.command(args).output().expect("dahl runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (run.status.success(), text(&run.stdout), text(&run.stderr))
    }

    fn dahl(&self, args: &[&str]) -> String {
        let (ok, out, err) = self.said(args);
        assert!(ok, "dahl {args:?}: {err}");
        out
    }

    /// Describes this machine with a state that saves much, and plans for it; the plan.
    fn plan(&self, more: &[&str]) -> Value {
        let machine = self.path("here.toml");
        self.dahl(&["machine", "--describe", "--units", "cpu", "-o", &machine]);
        let text = fs::read_to_string(&machine).expect("a machine");
        let gone = ["idle_watts", "busy_watts", "flops", "bandwidth"];
        let own = |line: &&str| !gone.iter().any(|key| line.starts_with(key));
        let lines: Vec<&str> = text.lines().filter(own).collect();
        let states = "kind = \"cpu\"\nidle_watts = 0.1\nbusy_watts = 10.0\nflops = 1e10\nbandwidth = 1e10\n\
             switch_seconds = 1e-4\nstates = [{ speed = 0.5, busy_watts = 0.5, hertz = 8e8 }]";
        let text = lines.join("\n").replace("kind = \"cpu\"", states);
        fs::write(&machine, text).expect("a machine");
        let plan = self.path("plan.json");
        let args = [
            "plan",
            "--machine",
            &machine,
            "--time-limit",
            "500ms",
            "-o",
            &plan,
        ];
        self.dahl(&[&args[..], &MODEL, more].concat());
        serde_json::from_str(&fs::read_to_string(plan).expect("a plan")).expect("JSON")
    }

    /// Whether the clocks of all CPUs say this.
    fn all_say(&self, value: &str) -> bool {
        let cpus = fs::read_dir(self.sys.join("devices/system/cpu")).expect("CPUs");
        let mut files = cpus.map(|cpu| cpu.expect("a CPU").path().join("cpufreq/scaling_max_freq"));
        files.all(|file| fs::read_to_string(file).expect("a clock").trim() == value)
    }

    /// Waits until nobody holds the old values.
    fn wait_for_guard(&self) {
        let record = fs::File::open(self.sys.join("dahl-clocks.json")).expect("a record");
        record.lock().expect("a lock");
    }

    /// Training that does not end by itself, once its clocks are set.
    fn training(&self, plan: &str) -> Child {
        let args = [&TRAIN[..], &["--epochs", "100000", "--plan", plan]].concat();
        let mut command = self.command(&args);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child_ref = child.as_mut().expect("dahl runs");
        while fs::read_to_string(self.cpufreq(0).join("scaling_max_freq"))
            .is_ok_and(|text| text.trim() != SLOW)
        {
            assert!(child_ref.try_wait().expect("a child").is_none(), "it ended");
            std::thread::sleep(Duration::from_millis(10));
        }
        child.expect("dahl runs")
    }
}

const MODEL: [&str; 3] = ["small-cnn", "--batch", "16"];
const TRAIN: [&str; 4] = ["train", "small-cnn", "--batch", "16"];

#[test]
fn a_plan_with_states_is_followed_and_clocks_are_put_back() {
    let here = Here::new("states_followed");
    let table = here.dahl(&["machine"]);
    assert!(table.contains("2.60 0.80"), "{table}");
    let plan = here.plan(&[]);
    let tasks = plan["tasks"].as_array().expect("tasks");
    assert!(tasks.iter().all(|t| t["state"] == 1), "{plan}");
    let path = here.path("plan.json");
    here.dahl(&[&TRAIN[..], &["--epochs", "1", "--plan", &path]].concat());
    here.wait_for_guard();
    assert!(here.all_say(USUAL));
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGKILL] {
        let mut child = here.training(&path);
        // A second run would change what the first has set.
        let second = [&TRAIN[..], &["--epochs", "1", "--plan", &path]].concat();
        let (ok, _, err) = here.said(&second);
        assert!(
            !ok && err.contains("another run has set the clocks"),
            "{err}"
        );
        // SAFETY: a signal to a process that this test has started.
        unsafe { libc::kill(child.id() as i32, signal) };
        child.wait().expect("it ends");
        here.wait_for_guard();
        assert!(here.all_say(USUAL), "signal {signal}");
    }
}

#[test]
fn where_clocks_cannot_be_set_plans_have_no_states() {
    let here = Here::new("states_refused");
    let plan = here.plan(&["--states"]);
    assert_eq!(plan["units"][0]["hertz"], 8e8, "{plan}");
    let path = here.path("with-states.json");
    fs::rename(here.path("plan.json"), &path).expect("a plan");
    fs::remove_dir_all(&here.sys).expect("a made-up tree");
    let table = here.dahl(&["machine"]);
    assert!(table.contains("no cpufreq"), "{table}");
    let (ok, _, err) = here.said(&[&TRAIN[..], &["--epochs", "1", "--plan", &path]].concat());
    assert!(!ok && err.contains("no cpufreq"), "{err}");
    let plan = here.plan(&[]);
    let tasks = plan["tasks"].as_array().expect("tasks");
    assert!(tasks.iter().all(|t| t["state"] == 0), "{plan}");
}

#[test]
fn states_are_calibrated_and_described() {
    let here = Here::new("states_calibrated");
    let seconds = ["--seconds", "0.01", "--workers", "1", "--states", "--json"];
    let args = [&["calibrate", "--model"], &MODEL[..], &seconds].concat();
    let report: Value = serde_json::from_str(&here.dahl(&args)).expect("JSON");
    here.wait_for_guard();
    assert!(here.all_say(USUAL));
    let states = report["states"].as_array().expect("states");
    let hertz: Vec<f64> = states.iter().filter_map(|s| s["hertz"].as_f64()).collect();
    assert_eq!(hertz, [2.6e9, 8e8], "{report}");
    for state in states {
        let number = |key: &str| state[key].as_f64().expect("a number");
        assert!(number("flops") > 0.0 && number("switch_seconds") > 0.0);
        assert!((0.0..=1.0).contains(&number("speed")), "{state}");
    }
    let machine = here.path("described.toml");
    here.dahl(&["machine", "--describe", "--units", "cpu:1", "-o", &machine]);
    let text = fs::read_to_string(&machine).expect("a machine");
    for part in [
        "hertz = 8",
        "switch_seconds",
        "measured by `dahl calibrate --states`",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Durations at that clock are kept apart from the usual ones.
    let times = fs::read_dir(&here.home).expect("files").flatten();
    let times = times.filter(|f| f.file_name().to_string_lossy().starts_with("times-"));
    let texts: Vec<String> = times
        .map(|f| fs::read_to_string(f.path()).expect("durations"))
        .collect();
    assert!(texts.iter().any(|t| t.contains("cpu@800MHz")));
    fs::remove_dir_all(&here.sys).expect("a made-up tree");
    let (ok, _, err) = here.said(&args);
    assert!(!ok && err.contains("no cpufreq"), "{err}");
}
