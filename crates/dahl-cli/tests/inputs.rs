//! Bad input, item by item: options out of their range, misspelt names, files that are something else, names that a
//! terminal would obey, and `-` for standard output.

mod common;

use common::{dahl_with, folder, in_repository, refuse, succeed};

/// A short training of LeNet-5.
const TRAIN: [&str; 6] = ["train", "lenet5", "--limit", "64", "--val-limit", "0"];

fn train(more: &[&str]) -> Vec<String> {
    let all = TRAIN.iter().chain(more);
    all.map(|s| s.to_string()).collect()
}

fn refuse_training(more: &[&str], code: i32, parts: &[&str]) {
    let args = train(more);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    refuse(&args, "", code, parts);
}

#[test]
fn options_out_of_their_range_say_what_is_allowed() {
    for (options, code, parts) in [
        (
            &["--clip-norm", "0"][..],
            1,
            &["clipped to is 0", "above 0"][..],
        ),
        (&["--clip-norm", "nan"], 1, &["NaN", "above 0"]),
        (&["--clip-norm", "-2"], 1, &["-2", "above 0"]),
        (
            &["--optimizer", "sgd", "--momentum", "2"],
            1,
            &["momentum is 2", "below 1"],
        ),
        (
            &["--optimizer", "sgd", "--momentum", "1"],
            1,
            &["momentum is 1", "below 1"],
        ),
        (
            &["--optimizer", "sgd", "--momentum", "-0.5"],
            1,
            &["-0.5", "at least 0"],
        ),
        (&["--lr", "-1"], 1, &["learning rate is -1", "0 or more"]),
        (&["--lr", "nan"], 1, &["learning rate is NaN", "0 or more"]),
        (&["--lr", "inf"], 1, &["learning rate is inf", "finite"]),
        (
            &["--weight-decay", "-1"],
            1,
            &["weight decay is -1", "0 or more"],
        ),
        (&["--schedule", "cosine:5"], 1, &["cosine:5", "0 to 0.002"]),
        (&["--schedule", "step:1:2"], 1, &["by 2", "0 to 1"]),
        (&["--epochs", "0"], 2, &["--epochs", "1 or more"]),
        (&["--epochs", "-1"], 2, &["--epochs", "1 or more"]),
        (
            &["--epochs", "9223372036854775808"],
            1,
            &["9223372036854775808", "64 bits"],
        ),
        (&["--steps", "0"], 2, &["--steps", "1 or more"]),
        (
            &["--checkpoint-every", "0", "--checkpoint", "x"],
            2,
            &["1 or more"],
        ),
        (&["--batch", "-3"], 2, &["--batch", "1..=1000000"]),
        (&["--carbon", "-1"], 1, &["--carbon", "from 0 to"]),
        (&["--carbon", "1e300"], 1, &["--carbon", "from 0 to"]),
        (
            &["--save", "one", "--trace", "one"],
            1,
            &["--save and --trace both name one"],
        ),
        (
            &["--save", "one", "--metrics", "one"],
            1,
            &["--save and --metrics both name one"],
        ),
        (&["--find-lr", "--trace", "one"], 2, &["--trace"]),
        (
            &["--loss", "cross_entropy:weight=[0,0,0,0,0,0,0,0,0,0]"],
            1,
            &["0 for every class", "above 0"],
        ),
        (&["--normalise", "0.5/1e-40"], 1, &["at least 0.000001"]),
        (&["--shuffle"], 2, &["--shuffle"]),
    ] {
        if options.contains(&"9223372036854775808") {
            // Found once the data is open: the header is there.
            let args = train(&[options, &["--quiet"]].concat());
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            refuse(&args, "", code, parts);
        } else {
            refuse_training(options, code, parts);
        }
    }
}

#[test]
fn misspelt_names_are_recognised() {
    for (options, code, part) in [
        (&["--policy", "dmad"][..], 1, "did you mean \"dmda\"?"),
        (&["--optimizer", "admw"], 2, "did you mean \"adamw\"?"),
        (
            &["--data", "fashion-mnits"],
            1,
            "did you mean \"fashion-mnist\"?",
        ),
        (&["--grain", "sampl=3"], 2, "did you mean \"sample\"?"),
        (&["--schedule", "cosin"], 2, "did you mean \"cosine\"?"),
    ] {
        refuse_training(options, code, &[part]);
    }
    refuse(
        &["train", "lenet"],
        "",
        1,
        &["unknown model \"lenet\": did you mean \"lenet5\"?"],
    );
    refuse(
        &["train", "zzz"],
        "",
        1,
        &["unknown model \"zzz\"; there are: first, small-cnn"],
    );
    refuse(&["ops", "conv2"], "", 1, &["did you mean \"conv2d\"?"]);
    refuse(
        &["check", "--codelet", "rleu"],
        "",
        1,
        &["did you mean \"relu\"?"],
    );
    let rammus = in_repository("machines/rammus.toml");
    refuse(
        &[
            "simulate",
            "lenet5",
            "--machine",
            &rammus,
            "--policy",
            "esager",
        ],
        "",
        1,
        &["did you mean \"eager\"?"],
    );
    let here = folder("inputs_names");
    let model = here.join("m.toml").display().to_string();
    let text = "name = \"m\"\ninput = [1, 28, 28]\n[[layers]]\ntype = \"max_pool2d\"\nkernal = 2\n";
    std::fs::write(&model, text).expect("a file");
    let said = dahl_with(&["train", &model], "").err;
    assert_eq!(
        said,
        format!(
            "error: max_pool2d \"layers[0]\": unknown key \"kernal\": did you mean \"kernel\"? ({model}:5)\n"
        )
    );
}

/// Every command, for every file that it reads.
#[test]
fn what_the_system_says_is_said_once_with_the_files_name() {
    let rammus = in_repository("machines/rammus.toml");
    let none = "no/such/file.toml";
    for command in [
        &["train", none][..],
        &["train", "lenet5", "--init", none],
        &["train", "lenet5", "--init-partial", none],
        &["train", "lenet5", "--plan", none],
        &["train", "lenet5", "--profile", none],
        &["train", "lenet5", "--quiet", "--machine", none],
        &["train", "lenet5", "--save", "no/such/file.toml"],
        &["train", "lenet5", "--metrics", none],
        &["train", "lenet5", "--trace", none],
        &["eval", "lenet5", "--weights", none],
        &["predict", "lenet5", "--weights", none],
        &["graph", none],
        &["simulate", "lenet5", "--machine", none],
        &["simulate", "lenet5", "--machine", &rammus, "--plan", none],
        &["plan", "lenet5", "--machine", none],
        &["plan", "explain", none],
        &["plan", "placement", none],
        &["machine", "--describe", "--from", none],
        &["trace", "summary", none],
        &["trace", "view", none],
        &["bench", "step", none],
        &["calibrate", "--model", none],
    ] {
        let said = dahl_with(command, "");
        assert_eq!(said.code, Some(1), "{command:?}: {}", said.err);
        // Where a file is to be written, what to do about it is said instead.
        let causes = ["os error", "create no/such first"].map(|c| said.err.matches(c).count());
        assert_eq!(causes.iter().sum::<usize>(), 1, "{command:?}: {}", said.err);
        assert!(said.err.contains("no/such"), "{command:?}: {}", said.err);
        assert_eq!(said.err.lines().count(), 1, "{command:?}: {}", said.err);
    }
}

/// A device has no end: reading one would end with memory.
#[cfg(target_os = "linux")]
#[test]
fn devices_are_no_files() {
    let rammus = in_repository("machines/rammus.toml");
    let zero = "/dev/zero";
    for command in [
        &["train", zero][..],
        &["train", "lenet5", "--plan", zero],
        &["train", "lenet5", "--init", zero],
        &["train", "lenet5", "--profile", zero],
        &["train", "lenet5", "--quiet", "--machine", zero],
        &["eval", "lenet5", "--weights", zero],
        &["graph", zero],
        &["simulate", "lenet5", "--machine", zero],
        &["simulate", "lenet5", "--machine", &rammus, "--plan", zero],
        &["plan", "explain", zero],
        &["plan", "placement", zero],
        &["trace", "summary", zero],
    ] {
        let said = dahl_with(command, "").err;
        let why = ["a device", "not a regular file", "too large"];
        assert!(why.iter().any(|w| said.contains(w)), "{command:?}: {said}");
        assert!(said.contains(zero), "{command:?}: {said}");
    }
}

#[test]
fn other_files_are_named_for_what_they_are() {
    let torch = in_repository("crates/dahl-nn/tests/fixtures/foreign/saved.pt");
    refuse(
        &["eval", "lenet5", "--weights", &torch],
        "",
        1,
        &["torch.save", "save_file"],
    );
    refuse_training(
        &["--profile", "/etc/passwd"],
        1,
        &["not a calibration profile", "dahl calibrate"],
    );
    let said = dahl_with(&["train", "lenet5", "--profile", "/etc/passwd"], "").err;
    assert!(!said.contains("remove"), "{said}");
    refuse(
        &["train", "vgg-small"],
        "",
        1,
        &[
            "3×32×32",
            "--data",
            "cifar-10:DIR",
            "synthetic:3x32x32:10000",
        ],
    );
    // A mistake in one's own file is not a question of which models are shipped.
    let here = folder("inputs_files");
    let file = here.join("m.toml").display().to_string();
    std::fs::write(&file, "name = 3").expect("a file");
    let said = dahl_with(&["train", &file], "").err;
    assert!(
        !said.contains("resnet18") && said.contains("m.toml:1"),
        "{said}"
    );
    let program = r#"{"arrays": [{"name": "x", "shape": [8], "dtype": "f32", "temporary": true}], "tasks": [
        {"codelet": "fill", "accesses": [{"array": 0, "mode": "write", "region": [[0, 4]]}]},
        {"codelet": "copy", "accesses": [{"array": 0, "mode": "read"}]}]}"#;
    let said = dahl_with(&["graph", "-"], program).err;
    assert!(
        said.contains("(tasks[1])") && !said.contains(".rs"),
        "{said}"
    );
    // Deeper than any stack.
    let deep = here.join("deep.xml").display().to_string();
    let zones = "<zone id=\"z\">".repeat(200_000);
    std::fs::write(&deep, format!("<platform>{zones}")).expect("a file");
    refuse(
        &["simulate", "lenet5", "--machine", &deep],
        "",
        1,
        &["deep.xml:1", "nested"],
    );
    // Figures that no machine has.
    let rammus = std::fs::read_to_string(in_repository("machines/rammus.toml")).expect("a file");
    let absurd = here.join("absurd.toml").display().to_string();
    let text = rammus.replacen("overhead = 1e-6", "overhead = 1e300", 1);
    std::fs::write(&absurd, text).expect("a file");
    refuse(
        &["simulate", "lenet5", "--machine", &absurd],
        "",
        1,
        &["1e300", "at most 1e9"],
    );
}

#[test]
fn half_precision_prefixes_and_other_heads_are_loaded() {
    let here = folder("inputs_weights");
    let path = |name: &str| here.join(name).display().to_string();
    let (saved, wrapped) = (path("w.safetensors"), path("wrapped.safetensors"));
    let args = train(&["--epochs", "1", "--quiet", "--save", &saved]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    succeed(&args, "");
    rename(&saved, &wrapped);
    let eval = |file: &str| {
        let said = dahl_with(
            &["eval", "lenet5", "--weights", file, "--val-limit", "64"],
            "",
        );
        assert_eq!(said.code, Some(0), "{}", said.err);
        (said.out, said.err)
    };
    let ((plain, silent), (same, note)) = (eval(&saved), eval(&wrapped));
    assert_eq!((plain, silent), (same, String::new()));
    assert_eq!(note.lines().count(), 1, "{note}");
    assert!(
        note.contains("\"module.\"") && note.contains("DataParallel"),
        "{note}"
    );
    // Another head: refused as it is, taken where asked for, and named.
    let lenet = std::fs::read_to_string(in_repository("crates/dahl-nn/models/lenet5.toml"));
    let three = path("three.toml");
    let text = lenet
        .expect("a model")
        .replace("out_features = 10", "out_features = 3");
    assert!(text.contains("out_features = 3"), "{text}");
    std::fs::write(&three, text).expect("a file");
    let data = [
        "--data",
        "synthetic:1x28x28:64:3",
        "--val-limit",
        "0",
        "--epochs",
        "1",
        "--quiet",
    ];
    let with = |option: &str| {
        let args = [&["train", &three, option, &wrapped], &data[..]].concat();
        dahl_with(&args, "")
    };
    let strict = with("--init");
    assert_eq!(strict.code, Some(1), "{}", strict.err);
    assert!(
        strict.err.contains("[10, 84], the model expects [3, 84]"),
        "{}",
        strict.err
    );
    let partial = with("--init-partial");
    assert_eq!(partial.code, Some(0), "{}", partial.err);
    let left: Vec<&str> = partial
        .err
        .lines()
        .filter(|l| l.contains("left out"))
        .collect();
    assert_eq!(left.len(), 2, "{}", partial.err);
    assert!(
        left[0].contains(".weight") && left[1].contains(".bias"),
        "{}",
        partial.err
    );
}

/// The same weights with `module.` before every name.
fn rename(from: &str, to: &str) {
    let bytes = std::fs::read(from).expect("weights");
    let (length, rest) = bytes.split_at(8);
    let length = u64::from_le_bytes(length.try_into().expect("8 bytes")) as usize;
    let mut header: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(&rest[..length]).expect("JSON");
    let keys: Vec<String> = header
        .keys()
        .filter(|k| *k != "__metadata__")
        .cloned()
        .collect();
    for key in keys {
        let value = header.remove(&key).expect("a key");
        header.insert(format!("module.{key}"), value);
    }
    let header = serde_json::to_string(&header).expect("JSON");
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header.as_bytes());
    out.extend(&rest[length..]);
    std::fs::write(to, out).expect("a file");
}

#[test]
fn names_cannot_tell_the_terminal_what_to_do() {
    let here = folder("inputs_terminal");
    let file = here.join("m.toml").display().to_string();
    let text = "name = \"a\\u001b]0;owned\\u0007b\"\ninput = [1, 28, 28]\n[[layers]]\ntype = \"flatten\"\n\
                [[layers]]\ntype = \"linear\"\nout_features = 10\n";
    std::fs::write(&file, text).expect("a file");
    let said = dahl_with(
        &[
            "train",
            &file,
            "--limit",
            "64",
            "--val-limit",
            "0",
            "--epochs",
            "1",
        ],
        "",
    );
    let graph = r#"{"arrays": [], "tasks": [{"codelet": "\u001b[2J", "accesses": []}]}"#;
    let drawn = dahl_with(&["graph", "-"], graph);
    let refused = dahl_with(&["train", "\u{1b}[31m.toml"], "");
    for text in [&said.out, &said.err, &drawn.out, &refused.err] {
        let obeyed = text
            .chars()
            .find(|c| c.is_control() && !matches!(c, '\n' | '\t'));
        assert_eq!(obeyed, None, "{text:?}");
    }
    assert!(
        said.out.contains("a\\u001b]0;owned\\u0007b: "),
        "{}",
        said.out
    );
    assert!(refused.err.contains("\\u001b[31m.toml"), "{}", refused.err);
}

#[test]
fn a_dash_is_standard_output_or_refused() {
    let here = folder("inputs_dash");
    let args = train(&["--epochs", "2", "--metrics", "-"]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let lines = succeed(&args, "");
    let events = lines.lines().map(|line| {
        let value: serde_json::Value = serde_json::from_str(line).expect("JSON lines alone");
        value["event"].as_str().expect("an event").to_owned()
    });
    assert_eq!(events.collect::<Vec<_>>(), ["epoch", "epoch", "done"]);
    for option in ["--save", "--trace"] {
        refuse_training(&[option, "-"], 1, &["standard output", "name one"]);
    }
    assert!(
        !std::path::Path::new("-").exists(),
        "nobody makes a file of that name"
    );
    let trace = here.join("t.trace").display().to_string();
    let args = train(&["--epochs", "1", "--quiet", "--trace", &trace]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    succeed(&args, "");
    let csv = succeed(
        &["trace", "export", &trace, "--format", "csv", "-o", "-"],
        "",
    );
    assert!(csv.lines().count() > 10, "{csv}");
    assert!(succeed(&["trace", "view", &trace, "-o", "-"], "").ends_with("</html>\n"));
    let rammus = in_repository("machines/rammus.toml");
    let describe = ["machine", "--describe", "--from", &rammus];
    let toml = succeed(&[&describe[..], &["-o", "-"]].concat(), "");
    assert_eq!(toml, succeed(&describe, ""));
}

#[test]
fn more_outputs_than_classes_are_worth_a_warning() {
    let args = train(&[
        "--epochs",
        "1",
        "--quiet",
        "--data",
        "synthetic:1x28x28:64:3",
    ]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let said = dahl_with(&args, "");
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(
        said.err.contains("3 classes, the model 10 outputs"),
        "{}",
        said.err
    );
    refuse_training(
        &["--data", "synthetic:1x28x28:64:12"],
        1,
        &["12 classes", "only 10 outputs"],
    );
}

#[cfg(target_os = "linux")]
#[test]
fn running_out_of_memory_is_an_error_with_what_was_needed() {
    let command = format!(
        "ulimit -v 3000000; exec {} train lenet5 --batch 1000000 --data synthetic:1x28x28:1000000:10 --quiet --units cpu:1",
        env!("CARGO_BIN_EXE_dahl")
    );
    let run = std::process::Command::new("sh")
        .args(["-c", &command])
        .env("DAHL_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/home"))
        .output()
        .expect("a shell");
    let said = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{said}");
    assert!(
        said.contains("out of memory") && said.contains("GiB"),
        "{said}"
    );
}
