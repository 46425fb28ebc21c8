//! How commands print: tables for people, JSON for programs. Everything goes through here, so that names from files
//! cannot tell the terminal what to do.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use dahl::core::report;

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

/// Writes a text in the same way.
pub fn write_text(path: &Path, text: &str) -> anyhow::Result<()> {
    write(path, |out| out.write_all(text.as_bytes()))
}

/// A table with no line but that under its heads, which are written as for [`report::Table`].
pub fn table(heads: &str) -> Table {
    laid_out(&report::Table::new(heads))
}

/// A table as it fits on the terminal.
pub fn laid_out(from: &report::Table) -> Table {
    let mut table = Table::new();
    let under_heads = LineStyle::none().fill('═').junction('═');
    table.load_style(TableStyle::new().header_separator(under_heads));
    table.set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(width) = terminal_width() {
        table.set_width(width);
    }
    table.set_header(from.heads.iter().map(|head| &head.0));
    for row in &from.rows {
        table.add_row(row);
    }
    let right = (from.heads.iter().enumerate()).filter(|(_, head)| head.1);
    for (column, _) in right {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Prints a report.
pub fn report(report: &report::Report) {
    print!("{}", report_text(report));
}

/// A report as it fits on the terminal.
pub fn report_text(report: &report::Report) -> String {
    let part = |part: &report::Part| match part {
        report::Part::Line(text) => {
            let width = terminal_width().map_or(usize::MAX, usize::from);
            let lines = text.split('\n').map(|line| fold(line, 0, width));
            lines.fold(String::new(), |all, line| all + &line + "\n")
        }
        report::Part::Table(table) => format!("{}\n", laid_out(table)),
    };
    report.parts.iter().map(part).collect()
}

/// Rows of a table under a line that is common to them.
pub type Section = (String, Vec<Vec<String>>);

/// Prints a table in sections: what is long stands in lines of its own, so that the columns fit beside each other. Those
/// of numbers are aligned to the right.
pub fn sections(heads: &str, sections: &[Section]) {
    let mut table = table(heads);
    table.set_content_arrangement(ContentArrangement::Disabled);
    for row in sections.iter().flat_map(|(_, rows)| rows) {
        table.add_row(row);
    }
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

/// Prints an answer: for programs a value as a line of JSON, for people a report.
pub fn answer(
    as_json: bool,
    value: &impl serde::Serialize,
    text: impl FnOnce() -> report::Report,
) -> anyhow::Result<()> {
    match as_json {
        true => json(value),
        false => {
            report(&text());
            Ok(())
        }
    }
}

/// Something that does not stop the command.
pub fn warning(text: &str) {
    eprintln!("warning: {text}");
}

/// Of what long work tells, the warnings.
pub fn warnings(progress: dahl::tune::Progress) {
    if let dahl::tune::Progress::Warning(text) = progress {
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
}
