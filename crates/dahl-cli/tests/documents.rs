//! The documents: every command that README.md and docs/ show is run, in their order; what is said to be exact must
//! come out so; commands in running text must exist, with their options.
//!
//! Commands are lines of `sh` blocks, and lines after `$ ` in `text` blocks; lines below a command are what it prints, and
//! those of a `text` block without a command what the last one before it prints. A block is left out if the document
//! says so below it: `*Not run by the tests: why.*` A fence may have attributes:
//!
//! - `exact`: every line must be printed, in this order;
//! - `like`: the same, but for figures that a machine decides on ([`figures::alike`]);
//! - `level="avx2"`: what is learnt is compared, too; it is run at that instruction level, where the processor has it;
//! - `free="WORD WORD"`: lines that begin with one of these words are the machine's;
//! - `file="NAME"`: the block is a file that commands below it find.

#[path = "documents/book.rs"]
mod book;
mod common;
#[path = "documents/figures.rs"]
mod figures;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{dahl_with, folder, in_repository};

/// A fenced block.
struct Block {
    line: usize,
    /// What follows the backticks: the language and attributes.
    info: String,
    text: String,
    /// Why its commands are not run.
    skip: Option<String>,
}

/// How the paragraph below a block begins whose commands are not run, so that readers see it, too.
const NOT_RUN: &str = "*Not run by the tests: ";

/// A command, and what the document says it prints.
struct Shown {
    command: String,
    prints: Vec<String>,
}

fn blocks(text: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let (mut inside, mut just_closed) = (false, false);
    for (i, line) in text.lines().enumerate() {
        match line.trim_start().strip_prefix("```") {
            Some(info) if !inside => {
                inside = true;
                found.push(Block {
                    line: i + 1,
                    info: info.to_owned(),
                    text: String::new(),
                    skip: None,
                });
            }
            Some(_) => (inside, just_closed) = (false, true),
            None if inside => {
                let block = found.last_mut().expect("a block is open");
                block.text += line;
                block.text.push('\n');
            }
            None if line.trim().is_empty() => {}
            None => {
                let why = line.trim().strip_prefix(NOT_RUN);
                assert!(why.is_none() || just_closed, "{}: of which block?", i + 1);
                if let Some(why) = why {
                    let why = why.strip_suffix(".*");
                    let why = why.unwrap_or_else(|| panic!("{}: ends with `.*`", i + 1));
                    found.last_mut().expect("a block").skip = Some(why.to_owned());
                }
                just_closed = false;
            }
        }
    }
    found
}

impl Block {
    fn commands(&self) -> Vec<Shown> {
        let language = self.info.split_whitespace().next().unwrap_or("");
        let mut all: Vec<Shown> = Vec::new();
        for line in self.text.lines() {
            let command = match language {
                "sh" => Some(line.split("  #").next().unwrap_or(line).trim()),
                "text" => line.strip_prefix("$ "),
                _ => None,
            };
            match (command, all.last_mut()) {
                (Some(command), _) if !command.is_empty() => all.push(Shown {
                    command: command.replace("cargo run --release --", "dahl"),
                    prints: Vec::new(),
                }),
                (None, Some(last)) => last.prints.push(line.trim_end().to_owned()),
                _ => {}
            }
        }
        all
    }

    fn file(&self) -> Option<&str> {
        self.info.split_once("file=\"")?.1.split('"').next()
    }

    fn has(&self, attribute: &str) -> bool {
        self.info.split_whitespace().any(|word| word == attribute)
    }

    /// What must hold between a line of the document and one that was printed, if anything.
    fn rule(&self) -> Option<fn(&str, &str) -> bool> {
        match (self.has("exact"), self.has("like")) {
            (true, _) => Some(|wanted, printed| wanted == printed),
            (_, true) => Some(figures::alike),
            _ => None,
        }
    }

    /// The instruction level of the figures, if this processor has it.
    fn level(&self) -> Option<&str> {
        let level = self.info.split_once("level=\"")?.1.split('"').next()?;
        assert_eq!(level, "avx2", "line {}", self.line);
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            return Some(level);
        }
        None
    }

    /// Compares lines of the document with what was printed.
    fn compare(&self, at: &str, wanted: &[String], printed: &str) {
        let Some(same) = self.rule() else { return };
        let free = self.info.split_once("free=\"").map_or("", |(_, rest)| rest);
        let free = free.split('"').next().unwrap_or_default();
        let is_learnt = |wanted: &str, line: &str| match self.level() {
            Some(_) => figures::learnt(wanted) == figures::learnt(line),
            None => true,
        };
        let mut lines = printed.lines().map(str::trim_end);
        for wanted in wanted.iter().filter(|line| !line.is_empty()) {
            let first = wanted.split_whitespace().next();
            let free = free.split(' ').any(|word| Some(word) == first);
            assert!(
                free || lines.any(|line| same(wanted, line) && is_learnt(wanted, line)),
                "{at} should print\n{wanted}\nand prints\n{printed}"
            );
        }
    }
}

/// Runs the commands of a document in a folder that has the repository's files but is not it.
fn run(document: &str) {
    let text = std::fs::read_to_string(in_repository(document)).expect("a document");
    let here = folder(&format!("document-{}", document.replace('/', "-")));
    for name in ["machines", "examples", "docs", "scripts", "crates"] {
        std::os::unix::fs::symlink(in_repository(name), here.join(name)).expect("a link");
    }
    let binary = Path::new(env!("CARGO_BIN_EXE_dahl"));
    let mut path = vec![binary.parent().expect("a folder").to_path_buf()];
    path.extend(std::env::split_paths(
        &std::env::var_os("PATH").unwrap_or_default(),
    ));
    let path = std::env::join_paths(path).expect("folders without colons");
    let (mut ran, mut last) = (0, String::new());
    for block in blocks(&text) {
        if block.commands().is_empty() && !last.is_empty() {
            let lines: Vec<String> = block.text.lines().map(str::to_owned).collect();
            block.compare(&format!("{document}:{}", block.line), &lines, &last);
        }
        if block.skip.is_some() {
            continue;
        }
        if let Some(name) = block.file() {
            std::fs::write(here.join(name), &block.text).expect("a file");
        }
        for shown in block.commands() {
            let at = format!("{document}:{}: {}", block.line, shown.command);
            if !shown.command.starts_with("dahl ") {
                // A script of the repository: it must be there.
                let script = shown.command.split_whitespace().next().unwrap_or("");
                assert!(here.join(script).exists(), "{at}: no such file");
                continue;
            }
            let output = Command::new("sh")
                .args(["-c", &shown.command])
                .current_dir(&here)
                .env("PATH", &path)
                .env("DAHL_HOME", here.join("home"))
                .envs(block.level().map(|level| ("DAHL_SIMD", level)))
                .output()
                .expect("a shell");
            let err = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{at}: {err}");
            last = format!("{}{err}", String::from_utf8_lossy(&output.stdout));
            block.compare(&at, &shown.prints, &last);
            ran += 1;
        }
    }
    println!("{document}: {ran} commands");
}

#[test]
fn readme() {
    run("README.md");
}

/// Chapters whose commands take longest have tests of their own, so that they run side by side.
const LONG: [&str; 9] = [
    "data.md",
    "experiments.md",
    "first-training.md",
    "performance.md",
    "pipelines.md",
    "plan.md",
    "runs.md",
    "several-machines.md",
    "traces.md",
];

#[test]
fn guide_data() {
    run("docs/guide/data.md");
}

#[test]
fn guide_experiments() {
    run("docs/guide/experiments.md");
}

#[test]
fn guide_first_training() {
    run("docs/guide/first-training.md");
}

#[test]
fn guide_performance() {
    run("docs/guide/performance.md");
}

#[test]
fn guide_pipelines() {
    run("docs/guide/pipelines.md");
}

#[test]
fn guide_plan() {
    run("docs/guide/plan.md");
}

#[test]
fn guide_runs() {
    run("docs/guide/runs.md");
}

#[test]
fn guide_several_machines() {
    run("docs/guide/several-machines.md");
}

#[test]
fn guide_traces() {
    run("docs/guide/traces.md");
}

/// The other chapters of the guide, each in a folder of its own.
#[test]
fn guide() {
    let others = chapters()
        .into_iter()
        .filter(|c| !LONG.contains(&c.as_str()));
    others.for_each(|chapter| run(&format!("docs/guide/{chapter}")));
}

/// The files of the guide's chapters.
fn chapters() -> Vec<String> {
    let listed = std::fs::read_dir(in_repository("docs/guide")).expect("a folder");
    let names = listed.map(|e| e.expect("a file").file_name().into_string().expect("UTF-8"));
    let mut names: Vec<String> = names.filter(|n| n.ends_with(".md")).collect();
    names.sort();
    names
}

/// The table of layers names every type that there is.
#[test]
fn every_layer_is_documented() {
    let text = std::fs::read_to_string(in_repository("docs/guide/model-files.md")).unwrap();
    for layer in dahl::nn::layers::LAYERS {
        let name = layer.name;
        assert!(text.contains(&format!("`{name}`")), "{name} is missing");
    }
}

/// A file with every kind of table.
const TABLES: &str = r#"version = 1
[[node]]
name = "n"
port = { bandwidth = 1.0 }
[[memory]]
name = "m"
[[memory]]
name = "o"
[[unit]]
kind = "cpu"
name = "u"
idle_watts = 0.0
busy_watts = 1.0
states = [{ speed = 1.0, busy_watts = 1.0 }]
[[switch]]
name = "s"
[[link]]
from = "m"
to = "o"
bandwidth = 1.0
"#;

/// The reader lists what it knows of a table that has an unknown key: all of it is documented.
#[test]
fn every_key_of_machine_files_is_documented() {
    let text =
        std::fs::read_to_string(in_repository("docs/guide/machine-files.md")).expect("a document");
    let path = folder("document-keys").join("m.toml");
    let tables = [
        "version = 1\n",
        "name = \"n\"\n",
        "port = { ",
        "name = \"m\"\n",
        "kind = \"cpu\"\n",
        "states = [{ ",
        "name = \"s\"\n",
        "to = \"o\"\n",
    ];
    for begins in tables {
        assert!(TABLES.contains(begins), "{begins}");
        let end = if begins.ends_with('\n') { '\n' } else { ',' };
        let odd = format!("{begins}zzz = 1{end}");
        std::fs::write(&path, TABLES.replacen(begins, &odd, 1)).expect("a file");
        let path = path.to_str().expect("UTF-8");
        let said = dahl_with(&["machine", "--describe", "--from", path], "");
        let (_, listed) = said.err.split_once("; there are: ").expect(&said.err);
        let (listed, _) = listed.split_once(" (").expect(&said.err);
        for key in listed.split(", ") {
            let known = [format!("`{key}`"), format!("[[{key}]]")];
            let is_known = known.iter().any(|k| text.contains(k));
            assert!(is_known, "{key}: {}", said.err);
        }
    }
}

/// Figures in running text, from what they are figures of.
#[test]
fn figures_in_running_text_are_so() {
    let read = |name: &str| std::fs::read_to_string(in_repository(name)).expect("a file");
    let cargo = read("Cargo.toml");
    let rust = cargo.split_once("rust-version = \"").expect("a version").1;
    let rust = rust.split('"').next().expect("a version");
    let examples = std::fs::read_dir(in_repository("crates/dahl/examples")).expect("a folder");
    let lines = examples.map(|e| {
        let text = std::fs::read_to_string(e.expect("a file").path()).expect("a program");
        text.lines().count()
    });
    let lines: Vec<usize> = lines.collect();
    // To the next ten lines.
    let (least, most) = (
        lines.iter().min().unwrap() / 10 * 10,
        lines.iter().max().unwrap().div_ceil(10) * 10,
    );
    let core = dahl::energy::WattsModel::of_this_machine();
    let core = format!("{} W busy, {} W idle", core.busy.0, core.idle.0);
    for (document, text) in [
        (
            "README.md",
            format!("[Rust](https://rustup.rs) {rust} or newer"),
        ),
        (
            "docs/guide/in-rust.md",
            format!("programs of {least} to {most} lines"),
        ),
        ("README.md", format!("({core} per core)")),
        ("docs/guide/energy.md", format!("all cores: {core} each")),
        ("docs/guide/performance.md", format!("({core} per core)")),
    ] {
        assert!(read(document).contains(&text), "{document}: {text}");
    }
}

/// All documents, those without commands too.
fn documents() -> Vec<PathBuf> {
    let mut all = vec![
        in_repository("README.md").into(),
        in_repository("CONTRIBUTING.md").into(),
    ];
    let docs = std::fs::read_dir(in_repository("docs")).expect("a folder");
    let docs = docs.map(|entry| entry.expect("a file").path());
    all.extend(docs.filter(|path| path.extension().is_some_and(|e| e == "md")));
    let chapters = chapters()
        .into_iter()
        .map(|name| format!("docs/guide/{name}"));
    all.extend(chapters.map(|name| PathBuf::from(in_repository(&name))));
    all
}

#[test]
fn every_document_with_commands_or_programs_is_run() {
    let programs =
        std::fs::read_to_string(in_repository("crates/dahl/src/lib.rs")).expect("a file");
    for path in documents() {
        let text = std::fs::read_to_string(&path).expect("a document");
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let has = blocks(&text).iter().any(|b| {
            let mut commands = b.commands().into_iter();
            commands.any(|c| c.command.starts_with("dahl "))
        });
        let known = name == "README.md" || path.parent().is_some_and(|p| p.ends_with("guide"));
        assert!(
            !has || known,
            "{name} has commands: add a test that runs it"
        );
        let has = blocks(&text).iter().any(|b| b.info.starts_with("rust"));
        assert!(
            !(has && known) || programs.contains(&format!("/{name}\")]")),
            "{name} has programs: name it in crates/dahl/src/lib.rs, whose documentation tests run them"
        );
    }
}

/// `dahl train --plan F` in running text: the command and the options must be there.
#[test]
fn commands_in_running_text_exist() {
    let mut helps: BTreeMap<Vec<String>, String> = BTreeMap::new();
    let mut checked = 0;
    for path in documents() {
        let text = std::fs::read_to_string(&path).expect("a document");
        let prose: String = text.split("```").step_by(2).collect();
        let spans = prose.split('`').skip(1).step_by(2);
        let spans = spans.map(|span| span.replace("cargo run --release -- ", "dahl "));
        for span in spans.filter(|span| span.starts_with("dahl ")) {
            let words = span
                .split_whitespace()
                .skip(1)
                .take_while(|w| *w != "--" && *w != "\\|");
            let words: Vec<&str> = words.collect();
            let is_name = |w: &&&str| w.chars().all(|c| c.is_ascii_lowercase());
            let Some(first) = words.first().filter(is_name) else {
                continue;
            };
            let mut command = vec![first.to_string()];
            let with_parts = [
                "bench",
                "cluster",
                "data",
                "experiment",
                "perf",
                "plan",
                "trace",
            ];
            if with_parts.contains(first) {
                let second = words.get(1).filter(is_name);
                command.extend(second.map(|w| w.to_string()));
            }
            let help = helps.entry(command.clone()).or_insert_with(|| {
                let args: Vec<&str> = command.iter().map(String::as_str).collect();
                let mut said = dahl_with(&[&args[..], &["--help"]].concat(), "");
                if said.code != Some(0) {
                    said = dahl_with(&[args[0], "--help"], "");
                }
                assert_eq!(
                    said.code,
                    Some(0),
                    "{}: {span}: {}",
                    path.display(),
                    said.err
                );
                said.out
            });
            for option in words.iter().filter(|w| w.starts_with("--")) {
                let option = option.split('=').next().expect("the first part");
                assert!(
                    help.contains(option),
                    "{}: `{span}`: {option}",
                    path.display()
                );
            }
            checked += 1;
        }
    }
    assert!(checked > 20, "{checked} commands in the documents' text");
}
