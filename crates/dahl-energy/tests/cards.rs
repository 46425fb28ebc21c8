//! Clocks of cards, through a library and a program of our own in the place of NVIDIA's: found, locked, and given back to the
//! driver through every way a run can end.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use dahl_energy::Tree;
use dahl_energy::clocks::{Clock, SetClocks, card_clocks, set_clocks};

/// Two cards; what they are locked to is written into files.
const LIBRARY: &str = r#"
#include <stdio.h>
#include <stdlib.h>
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = (void *)(size_t)(i + 1); return 0; }
int nvmlDeviceGetName(void *d, char *t, unsigned n) { snprintf(t, n, "Abacus %zu", (size_t)d); return 0; }
int nvmlDeviceGetPowerUsage(void *d, unsigned *w) { *w = 1000; return 0; }
int nvmlDeviceGetSupportedMemoryClocks(void *d, unsigned *n, unsigned *all) {
    if (*n < 2) return 7;
    *n = 2; all[0] = 810; all[1] = 7001; return 0;
}
int nvmlDeviceGetSupportedGraphicsClocks(void *d, unsigned m, unsigned *n, unsigned *all) {
    if (m != 7001 || *n < 3) return 2;
    *n = 3; all[0] = 900; all[1] = 1500; all[2] = 2100; return 0;
}
int nvmlDeviceSetGpuLockedClocks(void *d, unsigned low, unsigned high) {
    char path[4096];
    snprintf(path, sizeof path, "%s/card-%zu", getenv("DAHL_MADE_CARDS"), (size_t)d - 1);
    FILE *f = fopen(path, "w");
    if (!f) return 999;
    fprintf(f, "%u %u", low, high);
    fclose(f);
    return 0;
}
"#;

const PROGRAM: &str = "#!/bin/sh\n[ \"$1 $3\" = '-i --reset-gpu-clocks' ] && printf free > \"$DAHL_MADE_CARDS/card-$2\"\n";

struct Made(PathBuf);

impl Made {
    /// None where no C compiler is at hand.
    fn new(name: &str) -> Option<Made> {
        let root = std::env::temp_dir().join(format!("dahl-cards-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).unwrap();
        let made = Made(root);
        let source = made.0.join("nvml.c");
        fs::write(&source, LIBRARY).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-w", "-o"]);
        cc.arg(made.0.join("libnvidia-ml.so.1")).arg(source);
        if !cc.status().is_ok_and(|s| s.success()) {
            return None;
        }
        let program = made.0.join("nvidia-smi");
        fs::write(&program, PROGRAM).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Some(made)
    }

    fn card(&self, n: usize) -> String {
        fs::read_to_string(self.0.join(format!("card-{n}"))).unwrap_or_default()
    }

    /// This test's own program, with our library and our program, told what to do.
    fn command(&self, what: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .args(["--exact", "run", "--nocapture"])
            .env("DAHL_CARDS_DO", what)
            .env("DAHL_MADE_CARDS", &self.0)
            .env("LD_LIBRARY_PATH", &self.0)
            .env("PATH", format!("{}:{path}", self.0.display()))
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        command
    }

    /// Starts a run, and waits until its clocks are set.
    fn start(&self, end: &str) -> Child {
        let mut child = self.command(end).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let set = out.lines().any(|line| line.unwrap() == "set");
        assert!(set, "the clocks were not set");
        child
    }

    fn wait_for_guard(&self) {
        let record = fs::File::open(self.0.join("record.json")).unwrap();
        record.lock().unwrap();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn set(all: &[Clock], root: &std::path::Path) -> SetClocks {
    let wanted: Vec<(&Clock, f64)> = all.iter().zip([1.5e9, 0.9e9]).collect();
    set_clocks(&Tree::at(root), &wanted, &root.join("record.json")).unwrap()
}

/// What the made-up computer's process does.
#[test]
fn run() {
    let Ok(what) = std::env::var("DAHL_CARDS_DO") else {
        return;
    };
    let root = PathBuf::from(std::env::var_os("DAHL_MADE_CARDS").unwrap());
    let all = card_clocks();
    if what == "list" {
        for clock in &all {
            let trouble = clock.trouble.as_ref().map(ToString::to_string);
            println!(
                "\n{}|{}|{:?}|{}",
                clock.name,
                clock.device,
                clock.hertz,
                trouble.unwrap_or_default()
            );
        }
        return;
    }
    let clocks = set(&all, &root);
    println!("\nset");
    match &*what {
        "normal" => clocks.restore().unwrap(),
        "change" => {
            clocks.change(&Tree::at(&root), &all[0], 2.1e9).unwrap();
            assert_eq!(
                fs::read_to_string(root.join("card-0")).unwrap(),
                "2100 2100"
            );
        }
        "panic" => panic!("as told"),
        "exit" => std::process::exit(3),
        _ => loop {
            std::thread::park();
        },
    }
}

macro_rules! made {
    ($name:expr) => {
        match Made::new($name) {
            Some(made) => made,
            None => dahl_test_support::skip!("no C compiler", "apt install gcc"),
        }
    };
}

fn is_root() -> bool {
    // SAFETY: asks for a number.
    unsafe { libc::geteuid() == 0 }
}

#[test]
fn cards_are_found_with_their_frequencies() {
    let made = made!("found");
    let list = |command: &mut Command| -> Vec<String> {
        let out = command.output().unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        let lines = text.lines().filter(|l| l.starts_with("gpu-"));
        lines.map(String::from).collect()
    };
    let found = list(&mut made.command("list"));
    let known = |n: usize| {
        let card = n + 1;
        format!("gpu-{n}|Abacus {card}|[2100000000.0, 1500000000.0, 900000000.0]|")
    };
    assert_eq!(found.len(), 2);
    for (n, line) in found.iter().enumerate() {
        let trouble = line.strip_prefix(&known(n)).expect("a card");
        assert_eq!(trouble.is_empty(), is_root(), "{line}");
        assert!(is_root() || trouble.contains("as root"), "{line}");
    }
    // Without the program that gives them back, they are not touched.
    let without = list(made.command("list").env("PATH", "/nothing"));
    assert!(
        without
            .iter()
            .all(|l| l.contains("nvidia-smi is not in the PATH"))
    );
    // Without the library there are none.
    assert!(list(made.command("list").env("LD_LIBRARY_PATH", "/nothing")).is_empty());
}

#[test]
fn cards_are_given_back_however_a_run_ends() {
    if !is_root() {
        dahl_test_support::skip!(optional: "locking the clocks of cards is for root", "run the tests as root");
    }
    for end in ["normal", "change", "panic", "exit", "kill"] {
        let made = made!(end);
        let mut child = made.start(end);
        if end == "kill" {
            assert_eq!([made.card(0), made.card(1)], ["1500 1500", "900 900"]);
            // `kill -9`.
            child.kill().unwrap();
        }
        child.wait().unwrap();
        made.wait_for_guard();
        assert_eq!([made.card(0), made.card(1)], ["free", "free"], "{end}");
        let record = fs::read_to_string(made.0.join("record.json")).unwrap();
        assert_eq!(record, "", "{end}");
    }
}

#[test]
fn a_card_that_was_left_behind_is_given_back_first() {
    if !is_root() {
        dahl_test_support::skip!(optional: "locking the clocks of cards is for root", "run the tests as root");
    }
    let made = made!("left");
    // Run and guard were killed together.
    fs::write(made.0.join("card-7"), "900 900").unwrap();
    let program = made.0.join("nvidia-smi");
    let run = [program.to_str().unwrap(), "-i", "7", "--reset-gpu-clocks"];
    let record = format!("[{{\"run\":{}}}]", serde_json::to_string(&run).unwrap());
    fs::write(made.0.join("record.json"), record).unwrap();
    let mut child = made.start("exit");
    assert_eq!(made.card(7), "free");
    child.wait().unwrap();
    made.wait_for_guard();
}
