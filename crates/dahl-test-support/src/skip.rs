//! Tests that cannot run here: said where nobody can overlook it, or a failure.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;

/// Ends the test that it stands in, for a reason and with what to do about it: `skip!("no Chromium", "apt install
/// chromium")`.
///
/// The line goes past what the harness captures, and into the file that `DAHL_TEST_SKIPPED` names, which
/// `scripts/test` sums up. With `DAHL_TEST_STRICT=1` it is a failure.
///
/// `skip!(optional: reason, remedy)` is for what is neither part of the repository nor to be had from a package, such as
/// other people's files: it is said as loudly, and never a failure.
#[macro_export]
macro_rules! skip {
    (optional: $reason:expr, $remedy:expr $(,)?) => {
        $crate::skip!(@ false, $reason, $remedy)
    };
    ($reason:expr, $remedy:expr $(,)?) => {
        $crate::skip!(@ true, $reason, $remedy)
    };
    (@ $required:expr, $reason:expr, $remedy:expr) => {{
        fn here() {}
        $crate::skip::report(::std::any::type_name_of_val(&here), $required, &$reason, &$remedy);
        return;
    }};
}

/// For [`skip!`]: `here` is the path of a function inside the test.
///
/// # Panics
///
/// With `DAHL_TEST_STRICT=1`, if what lacks is `required`.
pub fn report(here: &str, required: bool, reason: &dyn Display, remedy: &dyn Display) {
    let test = here.strip_suffix("::here").unwrap_or(here);
    let line = format!("SKIPPED: {test}: {reason}; {remedy}\n");
    let strict = std::env::var("DAHL_TEST_STRICT").is_ok_and(|v| !matches!(&v[..], "" | "0"));
    assert!(
        !(strict && required),
        "{line}DAHL_TEST_STRICT is set: nothing may be skipped"
    );
    // Not `eprint!`, which the harness keeps to itself. Nothing can be done about a line that cannot be written.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(file) = std::env::var_os("DAHL_TEST_SKIPPED") {
        let file = OpenOptions::new().create(true).append(true).open(file);
        let _ = file.and_then(|mut f| f.write_all(line.as_bytes()));
    }
}
