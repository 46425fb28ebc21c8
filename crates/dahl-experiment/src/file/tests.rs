use super::*;

const GOOD: &str = r#"version = 1
name = "granularity"
question = "Why?"
seed = 1
[design]
blocks = 10
until = { interval = 0.02, of = "joules_per_image", at_most = 30 }
warmup = "3 s"
window = "20 s"
idle = "30 s"
[factors]
model = ["small-cnn", "lenet5"]
engine = ["dahl", "pytorch", "pytorch-tuned"]
threads = [1, 2]
grain = ["auto", "sample=1"]
[[only]]
factor = "grain"
when = { engine = "dahl" }
[engine.pytorch]
command = ["python3", "bench/peers/torch_peer.py"]
[[figure]]
kind = "line"
x = "grain"
y = "joules_per_image"
series = "threads"
panels = "model"
[[table]]
rows = "model"
columns = "engine"
cell = "images_per_second"
ratio_to = { engine = "pytorch*" }
"#;

#[test]
fn the_documented_file_is_read() {
    let e = Experiment::from_toml(GOOD, "g.toml").expect("a good file");
    assert_eq!(e.design.window, Duration::from_secs(20));
    assert_eq!(e.factors.len(), 4);
    assert_eq!(e.factors[0].0, "model", "the file's order");
    assert_eq!(e.cells().len(), 2 * 2 * (2 + 1 + 1));
    // Every engine with every number of threads is tried beforehand, and with the first model.
    let probes = e.probes();
    assert_eq!(probes.len(), 3 * 2);
    assert!(probes.iter().all(|c| c["model"].to_string() == "small-cnn"));
    assert_eq!(e.most_blocks(), 30);
    assert_eq!(e.tables[0].rows, ["model"]);
}

#[test]
fn mistakes_are_told_with_their_line_and_what_to_write() {
    for (from, to, line, says) in [
        ("version = 1", "version = 2", 1, "write version = 1"),
        (
            "name = \"granularity\"",
            "name = \"a/b\"",
            2,
            "name of a folder",
        ),
        ("blocks = 10", "blocks = 0", 5, "1 to 10000"),
        ("window = \"20 s\"", "window = \"20\"", 9, "\"3 s\""),
        (
            "window = \"20 s\"",
            "windw = \"20 s\"",
            9,
            "did you mean \"window\"?",
        ),
        ("threads = [1, 2]", "threads = []", 11, "has no levels"),
        ("threads = [1, 2]", "threads = [1, 1]", 11, "twice"),
        ("threads = [1, 2]", "threads = [nan]", 11, "no level"),
        ("threads = [1, 2]", "block = [1, 2]", 11, "runs.csv"),
        (
            "factor = \"grain\"",
            "factor = \"grian\"",
            16,
            "did you mean \"grain\"",
        ),
        (
            "when = { engine = \"dahl\" }",
            "when = { engine = \"dhal\" }",
            16,
            "did you mean \"dahl\"",
        ),
        (
            "command = [\"python3\", \"bench/peers/torch_peer.py\"]",
            "images = 3",
            19,
            "needs a command",
        ),
        (
            "command = [\"python3\", \"bench/peers/torch_peer.py\"]",
            "job = [\"python3\", \"{modle}\"]",
            19,
            "did you mean {model}",
        ),
        ("seed = 1", "sed = 1", 4, "did you mean \"seed\"?"),
        ("blocks = 10", "", 5, "add blocks = 10"),
        (
            "y = \"joules_per_image\"",
            "y = \"joule_per_image\"",
            21,
            "did you mean \"joules_per_image\"",
        ),
        (
            "series = \"threads\"",
            "series = \"thread\"",
            21,
            "did you mean \"threads\"",
        ),
        (
            "rows = \"model\"",
            "rows = \"engine\"",
            27,
            "both in rows and in columns",
        ),
        (
            "ratio_to = { engine = \"pytorch*\" }",
            "ratio_to = { engine = \"tf*\" }",
            27,
            "no level tf*",
        ),
        ("at_most = 30", "at_most = 3", 5, "at least blocks"),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let error = Experiment::from_toml(&GOOD.replace(from, to), "g.toml").expect_err(to);
        let text = error.to_string();
        assert!(text.contains(says), "{to}: {text}");
        let ExperimentError::File { line: found, .. } = error else {
            panic!("{text}");
        };
        assert!(
            found.abs_diff(line) <= 2,
            "{to}: line {found} instead of {line}: {text}"
        );
    }
}

#[test]
fn designs_too_large_to_mean_it_are_refused() {
    let levels: Vec<String> = (0..200).map(|i| i.to_string()).collect();
    let many = format!("threads = [{0}]\nbatch = [{0}]", levels.join(","));
    let error = Experiment::from_toml(&GOOD.replace("threads = [1, 2]", &many), "g.toml")
        .expect_err("too many");
    assert!(error.to_string().contains("vary less"), "{error}");
}
