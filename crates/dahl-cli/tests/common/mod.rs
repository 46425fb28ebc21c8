//! What the tests of the command line share: running `dahl` and looking at what it says.

pub mod nodes;

use std::path::PathBuf;
use std::time::Duration;

/// What a command wrote, and whether it succeeded.
pub struct Said {
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// So long that only a command that hangs is stopped.
const HANGS: Duration = Duration::from_secs(600);

/// Runs `dahl` with these arguments and this standard input.
pub fn dahl_with(args: &[&str], input: &str) -> Said {
    dahl_under(&[], args, input)
}

/// Runs `dahl` with these environment variables.
pub fn dahl_under(variables: &[(&str, &str)], args: &[&str], input: &str) -> Said {
    let output = assert_cmd::Command::new(env!("CARGO_BIN_EXE_dahl"))
        .args(args)
        // Whatever this machine's user has calibrated is none of the tests' business.
        .env("DAHL_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/home"))
        .envs(variables.iter().copied())
        .write_stdin(input)
        .timeout(HANGS)
        .output()
        .expect("dahl can be started");
    Said {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).expect("output is UTF-8"),
        err: String::from_utf8(output.stderr).expect("messages are UTF-8"),
    }
}

/// Runs `dahl`, which must succeed and not complain.
#[allow(dead_code)]
pub fn dahl(args: &[&str]) -> String {
    succeed(args, "")
}

/// Runs `dahl` with a standard input; it must succeed and not complain.
#[allow(dead_code)]
pub fn succeed(args: &[&str], input: &str) -> String {
    let said = dahl_with(args, input);
    assert_eq!(said.code, Some(0), "dahl {args:?}: {}", said.err);
    assert_eq!(said.err, "", "dahl {args:?}");
    said.out
}

/// Runs `dahl`, which must refuse with this exit code, print nothing to standard output, and say all of
/// `parts` without a panic.
#[allow(dead_code)]
pub fn refuse(args: &[&str], input: &str, code: i32, parts: &[&str]) {
    let said = dahl_with(args, input);
    assert_eq!(
        said.code,
        Some(code),
        "dahl {args:?} said {:?} and {:?}",
        said.out,
        said.err
    );
    assert_eq!(said.out, "", "dahl {args:?}");
    assert!(
        !said.err.contains("panicked"),
        "dahl {args:?}: {}",
        said.err
    );
    for part in parts {
        assert!(
            said.err.contains(part),
            "dahl {args:?} should say {part:?}: {}",
            said.err
        );
    }
}

/// A file of the repository.
#[allow(dead_code)]
pub fn in_repository(path: &str) -> String {
    let root: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "..", path]
        .iter()
        .collect();
    root.to_str()
        .expect("the checkout has a UTF-8 path")
        .to_string()
}

/// A fresh folder under the build's own, named after the test.
#[allow(dead_code)]
pub fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the build folder can be written");
    folder
}
