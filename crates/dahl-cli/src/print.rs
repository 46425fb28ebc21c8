//! How commands print: tables for people, JSON for programs. Everything goes through here, so that names from files
//! cannot tell the terminal what to do.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::Context;
use comfy_table::{ContentArrangement, LineStyle, Table, TableStyle};

/// As those of the standard library, with [`put`] in the middle.
macro_rules! print {
    ($($text:tt)*) => { $crate::print::put(&mut std::io::stdout(), format_args!($($text)*), "") };
}
macro_rules! println {
    () => { print!("\n") };
    ($($text:tt)*) => { $crate::print::put(&mut std::io::stdout(), format_args!($($text)*), "\n") };
}
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::print::put(&mut std::io::stderr(), format_args!($($text)*), "\n") };
}

/// Writes a text without anything that a terminal would obey. Where nobody can read it, there is nothing left to do.
pub fn put(out: &mut dyn Write, text: Arguments<'_>, end: &str) {
    let text = format!("{text}{end}");
    let text = dahl::core::text::printable(&text);
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        let _ = writeln!(io::stderr(), "error: cannot write standard output: {error}");
        std::process::exit(1);
    }
}

/// Whether a path means standard output.
pub fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Writes a file, whole or not at all, or with `-` standard output.
pub fn write(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    if is_stdout(path) {
        let mut out = io::BufWriter::new(io::stdout().lock());
        let written = write(&mut out).and_then(|()| out.flush());
        return written.context("cannot write standard output");
    }
    dahl::core::file::write_atomically(path, write)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// A table with these column heads, and no line but that under them.
pub fn table(heads: &[&str]) -> Table {
    let mut table = Table::new();
    let under_heads = LineStyle::none().fill('═').junction('═');
    table.load_style(TableStyle::new().header_separator(under_heads));
    table.set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(width) = terminal_width() {
        table.set_width(width);
    }
    table.set_header(heads);
    table
}

/// Rows of a table under a line that is common to them.
pub type Section = (String, Vec<Vec<String>>);

/// Prints a table in sections: what is long stands in lines of its own, so that the columns fit beside each other. Those
/// of `right` are aligned to the right.
pub fn sections(heads: &[&str], right: RangeInclusive<usize>, sections: &[Section]) {
    let mut table = table(heads);
    table.set_content_arrangement(ContentArrangement::Disabled);
    for row in sections.iter().flat_map(|(_, rows)| rows) {
        table.add_row(row);
    }
    align_right(&mut table, right);
    let text = table.to_string();
    let mut lines = text.lines().map(str::trim_end);
    for line in lines.by_ref().take(2) {
        println!("{line}");
    }
    for (name, rows) in sections {
        folded(name, 2);
        for line in lines.by_ref().take(rows.len()) {
            println!("{line}");
        }
    }
}

/// Columns of the terminal, if standard output is one.
fn terminal_width() -> Option<u16> {
    terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| width.0)
}

/// Prints a line; on a narrower terminal it goes on between words on further lines, so far to the right.
pub fn folded(line: &str, indent: usize) {
    let width = terminal_width().map_or(usize::MAX, usize::from);
    println!("{}", fold(line, indent, width));
}

fn fold(line: &str, indent: usize, width: usize) -> String {
    let (mut folded, mut column) = (String::new(), 0);
    for (i, word) in line.split(' ').enumerate() {
        let length = word.chars().count();
        if column > indent && column + 1 + length > width {
            folded += &format!("\n{:indent$}", "");
            column = indent;
        } else if i > 0 {
            folded.push(' ');
            column += 1;
        }
        folded += word;
        column += length;
    }
    folded
}

/// Prints a value as one line of JSON.
pub fn json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(value)?);
    Ok(())
}

/// Something that does not stop the command.
pub fn warning(text: &str) {
    eprintln!("warning: {text}");
}

/// Of what long work tells, the warnings.
pub fn warnings(told: dahl::tune::Progress) {
    if let dahl::tune::Progress::Warning(text) = told {
        warning(&text);
    }
}

/// Lets a closed pipe end the process silently.
pub fn die_with_the_pipe() {
    #[cfg(unix)]
    // SAFETY: restores the default action of a signal, before any thread exists.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}

/// Aligns some columns of numbers to the right.
pub fn align_right(table: &mut Table, columns: RangeInclusive<usize>) {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(comfy_table::CellAlignment::Right);
        }
    }
}

/// The most memory this process ever had resident, as far as the system says.
pub fn peak_resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmHWM:"));
    let kib = line
        .and_then(|l| l.split_whitespace().nth(1))
        .and_then(|v| v.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// A curve as tall as a letter; of many values, about forty are drawn.
pub fn curve(values: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let known = || values.iter().copied().filter(|v| v.is_finite());
    let low = known().fold(f64::INFINITY, f64::min);
    let high = known().fold(f64::NEG_INFINITY, f64::max);
    let step = values.len().div_ceil(40).max(1);
    let bar = |v: &f64| match v.is_finite() {
        true => BARS[((v - low) / (high - low).max(1e-12) * 7.0).round() as usize],
        false => '?',
    };
    values.iter().step_by(step).map(bar).collect()
}

/// An accuracy as a line about a loss goes on; nothing where the loss has no classes.
pub fn accuracy(word: &str, share: Option<f64>) -> String {
    share.map_or(String::new(), |a| format!(", {word}{:.2} %", 100.0 * a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_on_between_words() {
        let line = "  energy     2.68 J, 446 µJ per image";
        assert_eq!(fold(line, 13, usize::MAX), line);
        assert_eq!(fold(line, 13, 37), line);
        let two = "  energy     2.68 J, 446 µJ per\n             image";
        assert_eq!(fold(line, 13, 36), two);
        // A word that fits nowhere stays whole.
        assert_eq!(fold("a abcdefgh", 2, 4), "a abcdefgh");
        assert_eq!(fold("ab abcdefgh c", 2, 4), "ab abcdefgh\n  c");
    }

    #[test]
    fn curves_span_from_low_to_high_and_mark_what_is_no_number() {
        assert_eq!(curve(&[0.0, 1.0, 0.5]), "▁█▅");
        assert_eq!(curve(&[2.0, 2.0]), "▁▁");
        assert_eq!(curve(&[1.0, f64::NAN, 3.0]), "▁?█");
        assert_eq!(curve(&[]), "");
        assert!(curve(&vec![1.0; 1000]).chars().count() <= 40);
    }
}
