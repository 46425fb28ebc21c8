//! How many random cases tests try: one variable scales them all.

use std::sync::LazyLock;

/// Random cases of the largest tests, unless `DAHL_TEST_PROGRAMS` says otherwise.
const DEFAULT: u64 = 1000;

static PROGRAMS: LazyLock<u64> = LazyLock::new(|| match std::env::var("DAHL_TEST_PROGRAMS") {
    Ok(text) => match text.parse() {
        Ok(programs) if programs > 0 => programs,
        _ => panic!("DAHL_TEST_PROGRAMS={text:?}: a number of random programs, such as {DEFAULT}"),
    },
    Err(_) => DEFAULT,
});

/// As many cases as a test that by default tries `cases` of them should try now; one at least.
pub fn scaled(cases: u64) -> u64 {
    (cases * *PROGRAMS / DEFAULT).max(1)
}
