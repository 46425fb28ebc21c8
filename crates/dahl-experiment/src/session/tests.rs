use super::made_up::{IDLE, MadeUp};
use super::*;
use crate::row::Source;
use dahl_core::random::Random;

const FILE: &str = r#"version = 1
name = "made-up"
question = "Is the harness right?"
seed = 5
[design]
blocks = 6
warmup = "1 s"
window = "8 s"
idle = "5 s"
[factors]
engine = ["fast", "slow"]
threads = [1, 2]
[[figure]]
x = "threads"
y = "joules_per_image"
series = "engine"
[[table]]
rows = "threads"
columns = "engine"
cell = "images_per_second"
ratio_to = { engine = "slow" }
[[table]]
rows = "threads"
columns = "engine"
cell = "joules_per_image"
"#;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("dahl-experiment-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn create(folder: &Folder, text: &str) -> Session {
    let experiment = Experiment::from_toml(text, "made-up.toml").expect("a good file");
    Session::create(
        &folder.0,
        experiment,
        &Changes::default(),
        Environment::default(),
    )
    .expect("a new folder")
}

fn near(found: f64, truth: f64) {
    assert!(
        (found - truth).abs() <= 0.005 * truth,
        "{found} instead of {truth}"
    );
}

#[test]
fn every_figure_of_the_summary_is_the_truth() {
    let folder = Folder::new("truth");
    let mut session = create(&folder, FILE);
    session
        .run_in(&mut MadeUp::new(), &mut |_| ())
        .expect("it runs");
    assert_eq!(session.runs().count(), 24);
    for (at, cell) in session.cells.iter().enumerate() {
        let (rate, watts) = MadeUp::truth(cell);
        let threads = cell["threads"].number().expect("a number");
        let is = |name: &str, truth: f64| {
            let e = summary::estimate(&session, at, name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(e.n, 6);
            [e.median, e.low, e.high]
                .iter()
                .for_each(|v| near(*v, truth));
        };
        is("images_per_second", rate);
        is("seconds_per_step", 32.0 / rate);
        is("joules_per_image", (IDLE + watts) / rate);
        is("net_joules_per_image", watts / rate);
        is("watts", IDLE + watts);
        is("cpu_seconds_per_image", threads / rate);
        is("peak_bytes", 1048576.0);
        is("faults_per_step", 1.0);
        is("loss", 0.5);
        is("tasks", 12.0);
        // What the peer says of its window is its own measure, and not the one that is divided by.
        is("own_seconds", 8.0 / 0.99);
        assert!(summary::estimate(&session, at, "modelled_joules_per_image").is_none());
    }
    let at = |name: &str| {
        session
            .cells
            .iter()
            .position(|c| crate::design::name(c) == name)
            .expect("a cell")
    };
    let ratio = summary::ratio(
        &session,
        at("engine=fast threads=1"),
        at("engine=slow threads=1"),
        "images_per_second",
    );
    near(ratio.expect("a ratio").median, 2.5);
    // Six readings a second are enough, and windows of eight seconds have 80.
    assert!(
        session.runs().all(|r| r.source == Source::Measured
            && r.readings >= 60
            && r.by.contains("package-0"))
    );
}

#[test]
fn a_peer_without_a_factor_is_the_peer_for_all_its_levels() {
    let folder = Folder::new("only");
    let text = FILE
        .replace(
            "threads = [1, 2]",
            "threads = [1, 2]\ngrain = [\"a\", \"b\"]",
        )
        .replace("rows = \"threads\"", "rows = [\"threads\", \"grain\"]");
    let only = "[[only]]\nfactor = \"grain\"\nwhen = { engine = \"fast\" }\n";
    let mut session = create(
        &folder,
        &text.replace("[[figure]]", &format!("{only}[[figure]]")),
    );
    session
        .run_in(&mut MadeUp::new(), &mut |_| ())
        .expect("it runs");
    let table = &session.experiment.tables[0];
    let filled = summary::fill(&session, table, &table.cell);
    let mut compared = 0;
    for (key, entries) in &filled.rows {
        match (&entries[..], key[1].as_str()) {
            ([summary::Entry::Value(_, ratio), summary::Entry::Empty], "a" | "b") => {
                let truth = if key[0] == "1" {
                    2.5
                } else {
                    2.5 * 2f64.sqrt()
                };
                near(ratio.expect("a ratio").median, truth);
                compared += 1;
            }
            ([summary::Entry::Empty, summary::Entry::Value(_, None)], "–") => {}
            _ => panic!("{key:?}: {entries:?}"),
        }
    }
    assert_eq!(compared, 4);
    let shown = session.shown().to_string();
    let courses = shown.trim_end().rsplit("\n\n").next().unwrap_or_default();
    assert!(
        courses.contains("fast, a") && !courses.contains('–'),
        "{courses}"
    );
}

#[test]
fn what_all_rows_have_is_said_below_and_what_no_engine_says_by_name() {
    let folder = Folder::new("constant");
    let text = FILE
        .replace("threads = [1, 2]", "threads = [1, 2]\nbatch = 32")
        .replace("rows = \"threads\"", "rows = [\"batch\", \"threads\"]");
    let mut session = create(&folder, &text);
    session
        .run_in(&mut MadeUp::new(), &mut |_| ())
        .expect("it runs");
    let table = &session.experiment.tables[0];
    let filled = summary::fill(&session, table, &table.cell);
    assert_eq!(filled.keys, ["threads"]);
    let keys: Vec<&[String]> = filled.rows.iter().map(|(key, _)| &key[..]).collect();
    assert_eq!(keys, [["1"], ["2"]]);
    assert_eq!(
        filled.notes.last().expect("a note"),
        "In all rows batch is 32."
    );
    let nobody = summary::fill(&session, table, "colour");
    let why = nobody.reasons().concat();
    assert!(
        why.starts_with("no engine says colour; there are ") && why.contains("images_per_second"),
        "{why}"
    );
}

#[test]
fn repeating_takes_the_options_of_the_session() {
    let folder = Folder::new("options");
    let changes = Changes {
        only: [("threads".into(), vec!["1".into()])].into(),
        blocks: Some(2),
        shorter: Some(10.0),
        noisy: true,
        others: Some(0.5),
        meters: vec!["file:/tmp/watts".into()],
    };
    let experiment = Experiment::from_toml(FILE, "x").expect("a file");
    let session = Session::create(&folder.0, experiment, &changes, Environment::default());
    session.expect("a session").report().expect("a page");
    let options = "again --only threads=1 --blocks 2 --shorter 10 --others 0.5 --noisy --meter file:/tmp/watts\n";
    for name in ["README.md", "report.html"] {
        let text = std::fs::read_to_string(folder.0.join(name)).expect("a file");
        assert!(text.contains(options), "{name}: {text}");
    }
}

#[test]
fn a_peer_of_scope_job_is_measured_from_its_start_to_its_end() {
    let folder = Folder::new("whole");
    let mut session = create(&folder, &FILE.replace("blocks = 6", "blocks = 1"));
    let mut world = MadeUp {
        whole: true,
        ..MadeUp::new()
    };
    session.run_in(&mut world, &mut |_| ()).expect("it runs");
    for run in session.runs() {
        let (rate, watts) = MadeUp::truth(&run.levels);
        let window = run.images as f64 / rate;
        // Starting takes 0.7 s at 3 W above idle; there is no warm-up.
        near(run.seconds, 0.7 + window);
        let joules = IDLE * run.seconds + 3.0 * 0.7 + watts * window;
        near(run.joules.expect("measured"), joules);
    }
}

#[test]
fn where_nothing_measures_joules_are_a_models_and_stand_apart() {
    let folder = Folder::new("modelled");
    let mut session = create(&folder, FILE);
    let mut world = MadeUp {
        metered: false,
        ..MadeUp::new()
    };
    session.run_in(&mut world, &mut |_| ()).expect("it runs");
    assert!(summary::estimate(&session, 0, "joules_per_image").is_none());
    assert!(summary::estimate(&session, 0, "modelled_joules_per_image").is_some());
    let page = fs::read_to_string(session.report().expect("a report")).expect("a page");
    assert!(
        page.contains("no meter here") && page.contains("CPU-s/image"),
        "{page}"
    );
}

#[test]
fn a_tenth_of_a_core_is_noticed_and_the_run_repeated_at_the_end_of_its_block() {
    let folder = Folder::new("disturbed");
    let mut session = create(&folder, FILE);
    // The third run of the first block, and its first repetition.
    let planted = |run: u32| if run == 3 || run == 5 { 0.1 } else { 0.0 };
    let mut world = MadeUp {
        planted,
        ..MadeUp::new()
    };
    session.run_in(&mut world, &mut |_| ()).expect("it runs");
    let cell = session.experiment.order(0, 4)[2];
    let mine: Vec<&Run> = session
        .runs()
        .filter(|r| r.block == 0 && r.cell == cell)
        .collect();
    let disturbed: Vec<bool> = mine.iter().map(|r| r.disturbed.is_some()).collect();
    assert_eq!(disturbed, [true, true, false]);
    assert!(
        mine[0]
            .disturbed
            .as_ref()
            .is_some_and(|why| why.contains("0.10 cores")),
        "{:?}",
        mine[0].disturbed
    );
    let places: Vec<usize> = session.runs().take(6).map(|r| r.cell).collect();
    assert_eq!(places[4..], [cell, cell], "at the end of the block");
    let (rate, _) = MadeUp::truth(&session.cells[cell]);
    near(
        summary::estimate(&session, cell, "images_per_second")
            .expect("values")
            .low,
        rate,
    );
    assert!(session.unmeasured().is_empty());
    assert_eq!(session.status().disturbed, 2);
}

#[test]
fn a_window_of_which_only_a_part_was_seen_is_repeated() {
    let folder = Folder::new("unseen");
    let mut session = create(&folder, FILE);
    let mut world = MadeUp {
        unseen: |run| if run == 2 { 0.5 } else { 0.01 },
        ..MadeUp::new()
    };
    session.run_in(&mut world, &mut |_| ()).expect("it runs");
    let disturbed: Vec<&Run> = session.runs().filter(|r| r.disturbed.is_some()).collect();
    assert_eq!(disturbed.len(), 1);
    let why = disturbed[0].disturbed.as_deref().expect("a reason");
    assert!(why.contains("were seen of a window of"), "{why}");
    assert!(session.unmeasured().is_empty());
}

#[test]
fn what_stays_disturbed_is_repeated_twice_and_left_out() {
    let folder = Folder::new("noisy");
    let mut session = create(&folder, &FILE.replace("blocks = 6", "blocks = 1"));
    let mut world = MadeUp {
        planted: |_| 0.5,
        ..MadeUp::new()
    };
    session.run_in(&mut world, &mut |_| ()).expect("it runs");
    assert_eq!(session.runs().count(), 4 * 3);
    assert_eq!(session.unmeasured().len(), 4);
    assert!(summary::estimate(&session, 0, "images_per_second").is_none());
    session.report().expect("a report says so");
}

#[test]
fn an_engine_that_fails_is_written_down_and_the_others_go_on() {
    let folder = Folder::new("failing");
    let mut session = create(&folder, FILE);
    let mut world = MadeUp {
        broken: |c| c["engine"].to_string() == "slow",
        ..MadeUp::new()
    };
    session.run_in(&mut world, &mut |_| ()).expect("it runs");
    assert_eq!(session.status().failed, 12);
    assert_eq!(session.unmeasured().len(), 12);
    let page = fs::read_to_string(session.report().expect("a report")).expect("a page");
    assert!(page.contains("failed: no such engine"));
}

#[test]
fn blocks_go_on_until_intervals_are_narrow() {
    let folder = Folder::new("until");
    let text = FILE.replace(
        "blocks = 6",
        "blocks = 2\nuntil = { interval = 0.01, of = \"images_per_second\", at_most = 9 }",
    );
    let mut session = create(&folder, &text);
    session
        .run_in(&mut MadeUp::new(), &mut |_| ())
        .expect("it runs");
    assert_eq!(
        session.blocks_begun(),
        2,
        "an exact engine is known at once"
    );
    let folder = Folder::new("until-noisy");
    let mut session = create(
        &folder,
        &text.replace("[factors]", "others = 10.0\n[factors]"),
    );
    // Every other run is slower, so that the interval stays wide.
    let mut world = MadeUp {
        planted: |run| f64::from(run % 3) / 10.0,
        ..MadeUp::new()
    };
    session.run_in(&mut world, &mut |_| ()).expect("it runs");
    assert_eq!(session.blocks_begun(), 9);
}

/// All files of a session but the raw rows' own order of keys.
fn files(session: &Session) -> Vec<(String, String)> {
    session.report().expect("a report");
    let names = [
        "runs.csv",
        "summary.csv",
        "report.html",
        "README.md",
        "order.csv",
    ];
    let read = |n: &str| {
        (
            n.to_owned(),
            fs::read_to_string(session.folder.join(n)).expect("a file"),
        )
    };
    names.map(read).to_vec()
}

#[test]
fn a_session_that_is_killed_again_and_again_loses_and_doubles_nothing() {
    let planted = |run: u32| if run % 7 == 3 { 0.2 } else { 0.0 };
    for seed in 0..20 {
        let folder = Folder::new(&format!("killed-{seed}"));
        let mut session = create(&folder, FILE);
        let random = Random::new(seed, 0);
        let mut kills = 0;
        let mut world = MadeUp {
            planted,
            ..MadeUp::new()
        };
        loop {
            world.power = random.below(kills, 60);
            match session.run_in(&mut world, &mut |_| ()) {
                Ok(()) => break,
                Err(ExperimentError::Stopped) => kills += 1,
                Err(other) => panic!("{other}"),
            }
            // Killed in the middle of a row: half a line is left.
            let rows = folder.0.join("rows.jsonl");
            let mut text = fs::read(&rows).expect("rows");
            text.extend(
                &b"{\"run\":{\"block\":1,\"cell\":0,"[..random.below(1000 + kills, 28) as usize],
            );
            fs::write(&rows, text).expect("written");
            session = Session::open(&folder.0).expect("it can be opened");
        }
        assert!(kills > 0, "seed {seed}");
        let session = Session::open(&folder.0).expect("whole");
        let mut seen = std::collections::HashSet::new();
        for run in session.runs() {
            assert!(
                seen.insert((run.block, run.cell, run.attempt)),
                "doubled: {run:?}"
            );
        }
        for block in 0..6 {
            for cell in 0..4 {
                assert!(seen.contains(&(block, cell, 0)), "lost: {block} {cell}");
            }
        }
        let idle = session
            .rows
            .iter()
            .filter(|r| matches!(r, Row::Idle(_)))
            .count();
        assert_eq!(idle, 12);
        // A report made again is the same.
        assert_eq!(
            files(&session),
            files(&Session::open(&folder.0).expect("whole"))
        );
        for cell in 0..4 {
            let (rate, _) = MadeUp::truth(&session.cells[cell]);
            near(
                summary::estimate(&session, cell, "images_per_second")
                    .expect("values")
                    .median,
                rate,
            );
        }
    }
}

#[test]
fn a_folder_is_not_begun_twice_and_rows_are_not_believed() {
    let folder = Folder::new("twice");
    let mut session = create(&folder, FILE);
    let again = Experiment::from_toml(FILE, "x").expect("a file");
    let refused = Session::create(
        &folder.0,
        again,
        &Changes::default(),
        Environment::default(),
    );
    assert!(
        refused
            .err()
            .expect("refused")
            .to_string()
            .contains("--resume")
    );
    session
        .run_in(&mut MadeUp::new(), &mut |_| ())
        .expect("it runs");
    let rows = folder.0.join("rows.jsonl");
    let text = fs::read_to_string(&rows).expect("rows");
    let last = text
        .lines()
        .find(|l| l.contains("\"run\""))
        .expect("a run")
        .to_owned();
    for (bad, says) in [
        (format!("{text}{last}\n"), "twice"),
        (format!("{text}nonsense\n"), "no row"),
        (text.replacen("\"cell\":0", "\"cell\":99", 1), "no cell 99"),
        (
            text.replacen("\"threads\":1", "\"threads\":7", 1),
            "is engine=",
        ),
    ] {
        fs::write(&rows, bad).expect("written");
        let error = Session::open(&folder.0).err().expect("refused").to_string();
        assert!(
            error.contains(says) && error.contains("rows.jsonl:"),
            "{error}"
        );
    }
}

#[test]
fn another_environment_is_refused_by_name() {
    let folder = Folder::new("environment");
    let session = create(&folder, FILE);
    let mut other = Environment::default();
    other.facts.insert("commit".into(), "abc".into());
    let error = session
        .check_environment(&other)
        .expect_err("refused")
        .to_string();
    assert!(error.contains("commit was unknown, is abc"), "{error}");
}

#[test]
fn an_archive_has_every_file_and_the_same_bytes_twice() {
    let folder = Folder::new("bundle");
    let mut session = create(&folder, FILE);
    session
        .run_in(&mut MadeUp::new(), &mut |_| ())
        .expect("it runs");
    let archive = folder.0.with_extension("tar.gz");
    session.bundle(&archive).expect("an archive");
    let first = fs::read(&archive).expect("bytes");
    session.bundle(&archive).expect("an archive");
    assert_eq!(first, fs::read(&archive).expect("bytes"));
    let mut tar = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&first[..]), &mut tar)
        .expect("gzip");
    fs::remove_file(&archive).expect("it was there");
    assert_eq!(tar.len() % 512, 0);
    for name in [
        "made-up/report.html",
        "made-up/rows.jsonl",
        "made-up/figures/1-joules_per_image.svg",
        "made-up/pgf/1-joules_per_image.tex",
    ] {
        assert!(
            tar.windows(name.len()).any(|w| w == name.as_bytes()),
            "{name}"
        );
    }
}

#[test]
fn two_sessions_are_compared_cell_by_cell() {
    let (a, b) = (Folder::new("compare-a"), Folder::new("compare-b"));
    for folder in [&a, &b] {
        create(folder, FILE)
            .run_in(&mut MadeUp::new(), &mut |_| ())
            .expect("it runs");
    }
    let found = crate::compare(&a.0, &b.0, "images_per_second").expect("a comparison");
    assert_eq!(found.cells.len(), 4);
    assert!(
        found
            .cells
            .iter()
            .all(|c| c.overlap() && (c.ratio.median - 1.0).abs() < 0.005)
    );
    let refused = crate::compare(&a.0, &b.0, "accuracy")
        .err()
        .expect("no such measure");
    assert!(refused.to_string().contains("in common"), "{refused}");
}
