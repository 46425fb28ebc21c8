//! Texts for people: the name that was meant by a misspelt one, an error with its causes, and nothing that a
//! terminal would obey. What a message says is its author's business.

use std::borrow::Cow;
use std::error::Error;

/// The known name that is nearest to a misspelt one, if one is near: a letter in three may be wrong, left out,
/// too many or swapped with its neighbour, or the end may be missing.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters: Vec<char> = word.to_lowercase().chars().collect();
    // Nobody misspells so long a name, and the comparison takes the square of its length.
    if letters.is_empty() || letters.len() > 100 {
        return None;
    }
    let allowed = (letters.len() / 3).max(1);
    let near = known.into_iter().filter_map(|name| {
        let other: Vec<char> = name.to_lowercase().chars().collect();
        let begun = letters.len() >= 3 && other.starts_with(&letters);
        let edits = if other.len() > letters.len() + allowed && !begun {
            return None;
        } else {
            distance(&letters, &other)
        };
        // What shares no letter with a name is no misspelling of it.
        (edits <= allowed && edits < letters.len() || begun).then_some((edits, name))
    });
    near.min_by_key(|(edits, _)| *edits).map(|(_, name)| name)
}

/// How many letters must be changed, added, removed or swapped with a neighbour to get from one to the other
/// (optimal string alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows = [vec![0; b.len() + 1], (0..=b.len()).collect(), vec![]];
    for i in 1..=a.len() {
        let mut row = vec![i];
        let [before, last, _] = &rows;
        for j in 1..=b.len() {
            let changed = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = changed.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            row.push(least);
        }
        rows.rotate_left(1);
        rows[1] = row;
    }
    rows[1][b.len()]
}

/// That a name is unknown, and what may have been meant: `unknown key "kernal": did you mean "kernel"?`, or all
/// names if none is near.
pub fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("unknown {what} {name:?}: did you mean {near:?}?"),
        None => format!("unknown {what} {name:?}; there are: {}", known.join(", ")),
    }
}

/// An error and its causes in one text. A cause that the text before it has already quoted is not said again.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}

/// A text without anything that a terminal would obey: control characters but line feeds and tabs, and marks that
/// turn the direction of writing, are written as JSON writes them, `\u001b`.
pub fn printable(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| {
        c.is_control() && !matches!(c, '\n' | '\t')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(obeyed) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match obeyed(c) {
            true => out += &format!("\\u{:04x}", u32::from(c)),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn misspelt_names_are_found_and_others_are_not() {
        let known = [
            "relu",
            "conv2d",
            "kernel",
            "lenet5",
            "fashion-mnist-small",
            "1",
        ];
        for (word, meant) in [
            ("rleu", Some("relu")),
            ("kernal", Some("kernel")),
            ("lenet", Some("lenet5")),
            ("Conv2D", Some("conv2d")),
            ("fashion", Some("fashion-mnist-small")),
            ("nope", None),
            ("7", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), meant, "{word}");
        }
        assert_eq!(nearest(&"x".repeat(1000), known), None);
        let said = unknown("key", "kernal", &known);
        assert_eq!(said, "unknown key \"kernal\": did you mean \"kernel\"?");
        assert_eq!(
            unknown("key", "q", &["a1", "b2"]),
            "unknown key \"q\"; there are: a1, b2"
        );
    }

    /// The textbook's recursion.
    fn slow(a: &[char], b: &[char]) -> usize {
        let (Some(x), Some(y)) = (a.last(), b.last()) else {
            return a.len() + b.len();
        };
        let (m, n) = (a.len() - 1, b.len() - 1);
        let mut least = slow(&a[..m], &b[..n]) + usize::from(x != y);
        least = least.min(slow(&a[..m], b) + 1).min(slow(a, &b[..n]) + 1);
        if m > 0 && n > 0 && a[m] == b[n - 1] && a[m - 1] == b[n] {
            least = least.min(slow(&a[..m - 1], &b[..n - 1]) + 1);
        }
        least
    }

    proptest! {
        #[test]
        fn distances_are_the_textbooks(a in "[abc]{0,6}", b in "[abc]{0,6}") {
            let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
            prop_assert_eq!(distance(&a, &b), slow(&a, &b));
        }

        #[test]
        fn what_is_printed_has_no_control_characters(text in any::<String>()) {
            let shown = printable(&text);
            prop_assert!(!shown.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
            if !text.contains(char::is_control) {
                prop_assert_eq!(shown.len() >= text.len(), true);
            }
        }
    }

    #[test]
    fn control_characters_are_written_as_json_does() {
        assert_eq!(
            printable("a\u{1b}[31mb\u{7f}\n\tc"),
            "a\\u001b[31mb\\u007f\n\tc"
        );
        assert_eq!(printable("\u{202e}grün"), "\\u202egrün");
        let json = serde_json::to_string("x\u{7f}\u{9b}").unwrap();
        let back: String = serde_json::from_str(&printable(&json)).unwrap();
        assert_eq!(back, "x\u{7f}\u{9b}");
    }

    #[derive(Debug, thiserror::Error)]
    enum Sample {
        #[error("cannot read {file}: {source}; try again")]
        Quoting {
            file: &'static str,
            source: std::io::Error,
        },
        #[error("not a plan")]
        Silent(#[from] std::io::Error),
    }

    #[test]
    fn causes_are_said_once() {
        let os = || std::io::Error::from_raw_os_error(2);
        let text = os().to_string();
        let quoting = Sample::Quoting {
            file: "f",
            source: os(),
        };
        assert_eq!(chain(&quoting), format!("cannot read f: {text}; try again"));
        assert_eq!(chain(&Sample::Silent(os())), format!("not a plan: {text}"));
    }
}
