//! Files good and bad, disks full and directories closed, writers at once.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use dahl_core::{DType, Shape};
use proptest::prelude::*;

use super::*;

/// A directory that goes away with the value.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Dir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("dahl-perf-{}-{n}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Dir(dir)
    }

    fn file(&self) -> PathBuf {
        self.0.join("perf.json")
    }

    /// Names in the directory, without the lock.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> = entries
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.retain(|n| n != "perf.json.lock");
        names.sort();
        names
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn key(n: u64) -> Key {
    Key {
        codelet: "conv2d \"ü\"".into(),
        implementation: "winograd".into(),
        unit: "cpu".into(),
        dtype: DType::F32,
        footprint: u64::MAX - n,
        shapes: vec![Shape::new(&[2, 3, 4, 5]).unwrap(), Shape::SCALAR],
    }
}

const COST: Cost = Cost {
    flops: 1e6,
    bytes: 0.1,
};

fn sample(n: u64) -> PerfModel {
    let mut m = PerfModel::new();
    for i in 0..n {
        m.record(
            &key(i % 3),
            COST,
            Seconds(1e-3 * (1.0 + 0.01 * (i % 5) as f64)),
        );
    }
    m
}

fn count(m: &PerfModel, k: u64) -> u64 {
    let summary = m.history(&key(k)).and_then(|h| h.summary());
    summary.map_or(0, |s| s.count)
}

#[test]
fn a_missing_file_is_an_empty_model() {
    let dir = Dir::new();
    let (m, warning) = load(&dir.file()).unwrap();
    assert!(m.is_empty() && warning.is_none());
    assert!(dir.names().is_empty());
}

#[test]
fn what_is_saved_is_loaded() {
    let dir = Dir::new();
    let path = dir.0.join("new").join("deep").join("perf.json");
    let m = sample(300);
    let (saved, warning) = save(&path, &m).unwrap();
    assert!(saved == m && warning.is_none());
    let (loaded, warning) = load(&path).unwrap();
    assert!(loaded == m && warning.is_none());
    assert_eq!(loaded.estimate(&key(0), COST), m.estimate(&key(0), COST));
    // Saving again with nothing new changes not a byte.
    let before = fs::read(&path).unwrap();
    save(&path, &PerfModel::new()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_store_saves_each_sample_once() {
    let dir = Dir::new();
    let (mut a, _) = PerfStore::open(&dir.file(), 1).unwrap();
    let (mut b, _) = PerfStore::open(&dir.file(), 0).unwrap();
    for round in 1..=5 {
        for _ in 0..10 {
            a.record(&key(0), COST, Seconds(1e-3));
            b.record(&key(0), COST, Seconds(1e-3));
        }
        a.save().unwrap();
        b.save().unwrap();
        // The first of `a` was cold, and stays the only one after each save.
        assert_eq!(count(b.model(), 0), 20 * round - 1);
    }
    a.save().unwrap();
    assert!(a.model() == b.model() && *a.model() == load(&dir.file()).unwrap().0);
    assert_eq!(dir.names(), ["perf.json"]);
}

#[test]
fn threads_lose_nothing() {
    let dir = Dir::new();
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                let (mut store, _) = PerfStore::open(&dir.file(), 0).unwrap();
                for _ in 0..10 {
                    for k in 0..3 {
                        store.record(&key(k), COST, Seconds(1e-3));
                    }
                    store.save().unwrap();
                }
            });
        }
    });
    let (m, warning) = load(&dir.file()).unwrap();
    assert!(warning.is_none());
    assert_eq!([0, 1, 2].map(|k| count(&m, k)), [40; 3]);
}

const CHILD: &str = "DAHL_PERF_STORE_TEST";

/// The other process of [`processes_lose_nothing`]; does nothing by itself.
#[test]
fn writer_process() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    let (mut store, _) = PerfStore::open(Path::new(&path), 0).unwrap();
    for _ in 0..20 {
        store.record(&key(0), COST, Seconds(1e-3));
        store.save().unwrap();
    }
}

#[test]
fn processes_lose_nothing() {
    let dir = Dir::new();
    let program = std::env::current_exe().unwrap();
    let mut children: Vec<_> = (0..3)
        .map(|_| {
            Command::new(&program)
                .args(["--exact", "perf_store::tests::writer_process"])
                .env(CHILD, dir.file())
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    let (m, warning) = load(&dir.file()).unwrap();
    assert!(warning.is_none());
    assert_eq!(count(&m, 0), 60);
}

#[test]
fn a_truncated_file_is_always_noticed() {
    let dir = Dir::new();
    save(&dir.file(), &sample(12)).unwrap();
    let whole = fs::read(dir.file()).unwrap();
    // All but the last byte, the end of the line, is needed.
    for cut in 0..whole.len() - 1 {
        let reason = decode(&whole[..cut]).expect_err("a truncated file was taken for whole");
        assert!(!reason.is_empty());
    }
    assert!(decode(&whole[..whole.len() - 1]).is_ok());
    for (n, cut) in [0, 1, whole.len() / 2, whole.len() - 2]
        .into_iter()
        .enumerate()
    {
        fs::write(dir.file(), &whole[..cut]).unwrap();
        let (m, warning) = load(&dir.file()).unwrap();
        assert!(m.is_empty());
        let moved = dir
            .0
            .canonicalize()
            .unwrap()
            .join(format!("perf.json.damaged-{}", n + 1));
        assert_eq!(warning.unwrap().moved_to, Ok(moved.clone()));
        assert_eq!(fs::read(moved).unwrap(), &whole[..cut]);
        assert!(!dir.file().exists());
    }
}

#[test]
fn unusable_files_are_set_aside_with_the_reason() {
    for (content, reason) in [
        (&b"\xff\xfe{}"[..], "not UTF-8"),
        (b"", "EOF"),
        (b"[]", "invalid length"),
        (b"{\"version\":2,\"records\":[]}", "version 2"),
        (b"{\"version\":-1,\"records\":[]}", "invalid"),
        (b"{\"records\":[]}", "version"),
        (b"{\"version\":1}", "records"),
        (b"{\"version\":1,\"records\":[]} x", "trailing"),
        (b"{\"version\":1,\"records\":[{}]}", "key"),
        (b"\0\0\0\0\0\0\0\0", "expected"),
    ] {
        let dir = Dir::new();
        fs::write(dir.file(), content).unwrap();
        let (m, warning) = save(&dir.file(), &sample(9)).unwrap();
        let text = warning.expect("no warning").to_string();
        assert!(
            text.contains(reason) && text.contains("perf.json.damaged-1"),
            "{text}"
        );
        assert!(m == sample(9) && load(&dir.file()).unwrap() == (sample(9), None));
        assert_eq!(
            fs::read(dir.0.join("perf.json.damaged-1")).unwrap(),
            content
        );
    }
}

#[test]
fn a_directory_in_the_way_is_an_error() {
    let dir = Dir::new();
    fs::create_dir(dir.file()).unwrap();
    assert!(matches!(load(&dir.file()), Err(StoreError::Read { .. })));
    let error = save(&dir.file(), &sample(3)).unwrap_err();
    assert!(error.to_string().contains("perf.json"), "{error}");
    assert!(dir.file().is_dir());
    // A file where the directory should be.
    fs::write(dir.0.join("plain"), "x").unwrap();
    assert!(save(&dir.0.join("plain").join("perf.json"), &sample(3)).is_err());
}

#[cfg(target_os = "linux")]
#[test]
fn a_failed_write_leaves_the_old_file_and_the_samples() {
    use std::os::unix::fs::PermissionsExt;
    let dir = Dir::new();
    let (mut store, _) = PerfStore::open(&dir.file(), 0).unwrap();
    store.record(&key(0), COST, Seconds(1.0));
    store.save().unwrap();
    let before = fs::read(dir.file()).unwrap();
    store.record(&key(0), COST, Seconds(1.0));
    // Somebody who may take the lock, but may not write beside the file.
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(&dir.0.join("perf.json.lock"), 0o666);
    mode(&dir.0, 0o555);
    let root = as_file_user(65534);
    let saved = store.save();
    as_file_user(root);
    mode(&dir.0, 0o755);
    assert!(matches!(saved, Err(StoreError::Write { .. })));
    assert_eq!(fs::read(dir.file()).unwrap(), before);
    store.save().unwrap();
    assert_eq!(count(&load(&dir.file()).unwrap().0, 0), 2);
}

/// Accesses files as this user from now on, in this thread alone; who it was before. Nothing happens unless root
/// asks.
#[cfg(target_os = "linux")]
fn as_file_user(user: libc::uid_t) -> libc::uid_t {
    // SAFETY: no pointers; a refusal changes nothing.
    unsafe { libc::setfsuid(user) as libc::uid_t }
}

#[cfg(target_os = "linux")]
#[test]
fn a_read_only_directory_is_an_error_and_a_bad_file_there_stays() {
    use std::os::unix::fs::PermissionsExt;
    let dir = Dir::new();
    let allow = |mode| fs::set_permissions(&dir.0, fs::Permissions::from_mode(mode)).unwrap();
    fs::write(dir.file(), "rubbish").unwrap();
    allow(0o555);
    // Root may write to read-only directories: as somebody else, then.
    let root = as_file_user(65534);
    let (m, warning) = load(&dir.file()).unwrap();
    let saved = save(&dir.file(), &sample(3));
    as_file_user(root);
    allow(0o755);
    assert!(m.is_empty() && warning.unwrap().moved_to.is_err());
    assert!(matches!(saved, Err(StoreError::Write { .. })));
    assert_eq!(fs::read(dir.file()).unwrap(), b"rubbish");
}

#[cfg(unix)]
#[test]
fn a_symbolic_link_stays_one() {
    let dir = Dir::new();
    fs::create_dir(dir.0.join("real")).unwrap();
    let target = dir.0.join("real").join("perf.json");
    save(&target, &sample(3)).unwrap();
    std::os::unix::fs::symlink(&target, dir.file()).unwrap();
    save(&dir.file(), &sample(3)).unwrap();
    assert!(fs::symlink_metadata(dir.file()).unwrap().is_symlink());
    assert_eq!(count(&load(&target).unwrap().0, 0), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_bytes_make_it_panic(
        noise in prop::collection::vec(any::<u8>(), 0..60),
        at in any::<prop::sample::Index>(),
        bit in 0..8u8,
    ) {
        let _ = decode(&noise);
        let whole = encode(&sample(40)).unwrap();
        // One flipped bit: refused, or another model that is itself sound.
        let mut flipped = whole.clone();
        flipped[at.index(whole.len())] ^= 1 << bit;
        if let Ok(m) = decode(&flipped) {
            let again = decode(&encode(&m).unwrap()).unwrap();
            prop_assert!(again == m);
        }
        let mut spliced = whole.clone();
        spliced.splice(at.index(whole.len()).., noise);
        let _ = decode(&spliced);
    }
}
