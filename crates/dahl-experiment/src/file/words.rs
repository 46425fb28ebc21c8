//! The reader's words for what is wrong with a file, as people say them.

use dahl_core::text::unknown;

/// What to write for keys that must be there.
const EXAMPLES: &[(&str, &str)] = &[
    ("version", "version = 1"),
    ("name", "name = \"mine\""),
    ("design", "a table [design] with blocks and window"),
    ("factors", "a table [factors], such as model = [\"lenet5\"]"),
    ("blocks", "blocks = 10"),
    ("window", "window = \"10 s\""),
    (
        "until",
        "until = { interval = 0.02, of = \"images_per_second\", at_most = 30 }",
    ),
    ("when", "when = { engine = \"dahl\" }"),
];

/// A message of the reader's: names of keys in place of fields, what may have been meant, and no types of Rust.
pub(super) fn said(message: &str) -> String {
    let names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match names.split_first() {
        Some((name, _)) if message.starts_with("missing field") => {
            let example = EXAMPLES.iter().find(|(n, _)| n == name);
            let example = example.map_or(String::new(), |(_, example)| format!(": add {example}"));
            format!("key {name:?} is missing{example}")
        }
        Some((name, known)) if message.starts_with("unknown field") => unknown("key", name, known),
        Some((name, known)) if message.starts_with("unknown variant") => {
            unknown("value", name, known)
        }
        _ => typed(message),
    }
}

/// A type of Rust's at the end of a message, in words.
fn typed(message: &str) -> String {
    let Some((before, kind)) = message.rsplit_once("expected ") else {
        return message.to_owned();
    };
    let kind = match kind {
        "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "f64" => "a number",
        "a sequence" => "a list",
        "a string" => "a text in quotes",
        other => other,
    };
    format!("{before}expected {kind}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_no_fields_and_no_types() {
        for (message, says) in [
            (
                "missing field `window`",
                "key \"window\" is missing: add window = \"10 s\"",
            ),
            ("missing field `of`", "key \"of\" is missing"),
            (
                "unknown field `blcoks`, expected one of `blocks`, `until`",
                "unknown key \"blcoks\": did you mean \"blocks\"?",
            ),
            (
                "unknown variant `pie`, expected `line` or `bar`",
                "unknown value \"pie\"; there are: line, bar",
            ),
            (
                "invalid value: integer `-3`, expected u32",
                "invalid value: integer `-3`, expected a whole number, 0 or more",
            ),
            ("extra `=`, expected nothing", "extra `=`, expected nothing"),
        ] {
            assert_eq!(said(message), says);
        }
    }
}
