//! Tables of labels: `file,label[,split]` lines, read as a stream.
//!
//! Only what is needed stays in memory: the names of the files, one after another in one string, and
//! a number per line. Fields may be quoted as in spreadsheets' CSV; a field may not span lines.

use std::collections::HashMap;
use std::io::{BufRead, Read};
use std::path::Path;

use super::Split;
use super::error::DataError;

/// The longest line that is believed.
const MAX_LINE: u64 = 1 << 16;

/// Label texts in order of appearance.
#[derive(Default)]
pub(crate) struct Labels {
    numbers: HashMap<String, u32>,
}

impl Labels {
    pub(crate) fn number(&mut self, label: &str) -> Option<u32> {
        if let Some(&n) = self.numbers.get(label) {
            return Some(n);
        }
        let n = u32::try_from(self.numbers.len()).ok()?;
        self.numbers.insert(label.to_owned(), n);
        Some(n)
    }

    /// The classes in their final order, and the class of each number handed out.
    pub(crate) fn sort(self) -> (Vec<String>, Vec<u32>) {
        let mut labels: Vec<(String, u32)> = self.numbers.into_iter().collect();
        let integer = |s: &str| s.parse::<i64>();
        if labels.iter().all(|(s, _)| integer(s).is_ok()) {
            // By value, and `07` after `7`: they are different classes, as written.
            labels.sort_by(|(a, _), (b, _)| integer(a).ok().cmp(&integer(b).ok()).then(a.cmp(b)));
        } else {
            labels.sort();
        }
        let mut class = vec![0; labels.len()];
        for (i, &(_, number)) in labels.iter().enumerate() {
            class[number as usize] = i as u32;
        }
        (labels.into_iter().map(|(s, _)| s).collect(), class)
    }
}

/// The lines of one or more tables.
#[derive(Default)]
pub(crate) struct Table {
    names: String,
    /// Where each name ends in `names`.
    ends: Vec<u64>,
    /// Each line's label: a number of [`Labels`] until [`Table::renumber`], a class afterwards.
    labels: Vec<u32>,
}

impl Table {
    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    pub(crate) fn get(&self, line: usize) -> Option<(&str, u32)> {
        let start = if line == 0 {
            0
        } else {
            *self.ends.get(line - 1)?
        };
        let name = self
            .names
            .get(start as usize..*self.ends.get(line)? as usize)?;
        Some((name, *self.labels.get(line)?))
    }

    pub(crate) fn push(&mut self, name: &str, label: u32) {
        self.names.push_str(name);
        self.ends.push(self.names.len() as u64);
        self.labels.push(label);
    }

    /// A table of these lines only.
    pub(crate) fn keep(&self, lines: impl IntoIterator<Item = usize>) -> Table {
        let mut kept = Table::default();
        for (name, label) in lines.into_iter().filter_map(|line| self.get(line)) {
            kept.push(name, label);
        }
        kept
    }

    pub(crate) fn renumber(&mut self, class: &[u32]) {
        for label in &mut self.labels {
            *label = class[*label as usize];
        }
    }
}

/// A line, understood.
pub(crate) struct Line<'a> {
    pub(crate) file: &'a str,
    pub(crate) label: u32,
    /// What the third column says; the inner `None` is a line of neither split.
    pub(crate) split: Option<Option<Split>>,
}

/// Reads a table and hands each line to `each`.
pub(crate) fn read(
    path: &Path,
    mut stream: impl BufRead,
    labels: &mut Labels,
    mut each: impl FnMut(Line<'_>),
) -> Result<(), DataError> {
    let mut bytes = Vec::new();
    let mut fields = Vec::new();
    for number in 1.. {
        let wrong = |reason: String| DataError::Table {
            path: path.to_owned(),
            line: number,
            reason,
        };
        bytes.clear();
        let got = (&mut stream).take(MAX_LINE).read_until(b'\n', &mut bytes);
        if got.map_err(DataError::io(path, "read it"))? == 0 {
            break;
        }
        if bytes.len() as u64 == MAX_LINE && !bytes.ends_with(b"\n") {
            return Err(wrong(format!(
                "longer than {MAX_LINE} bytes: this is not a table of labels"
            )));
        }
        let text = std::str::from_utf8(&bytes)
            .map_err(|_| wrong("not UTF-8: save the table as UTF-8 text".into()))?;
        let text = if number == 1 {
            text.trim_start_matches('\u{feff}')
        } else {
            text
        };
        let text = text.trim_end_matches(['\n', '\r']);
        if text.trim().is_empty() {
            continue;
        }
        split_fields(text, &mut fields).map_err(|reason| wrong(reason.into()))?;
        if number == 1 && is_heading(&fields) {
            continue;
        }
        if !(2..=3).contains(&fields.len()) {
            let fields = dahl_core::several(fields.len(), "field");
            return Err(wrong(format!(
                "{fields}; `file,label` or `file,label,split` wanted"
            )));
        }
        let (file, label) = (fields[0].trim(), fields[1].trim());
        if file.is_empty() || label.is_empty() {
            return Err(wrong("the file or the label is empty".into()));
        }
        if file.contains('\0') {
            return Err(wrong("a file name cannot hold a null character".into()));
        }
        let split = match fields
            .get(2)
            .map(|s| s.trim().to_ascii_lowercase())
            .as_deref()
        {
            None => None,
            Some("" | "train" | "training") => Some(Some(Split::Train)),
            Some("val" | "valid" | "validation") => Some(Some(Split::Validation)),
            Some("test") => Some(None),
            Some(other) => {
                return Err(wrong(format!("split `{other}`: use train, val or test")));
            }
        };
        let label = labels
            .number(label)
            .ok_or_else(|| wrong("too many classes".into()))?;
        each(Line { file, label, split });
    }
    Ok(())
}

fn is_heading(fields: &[String]) -> bool {
    let is = |i: usize, words: &[&str]| {
        fields
            .get(i)
            .is_some_and(|f| words.contains(&f.trim().to_ascii_lowercase().as_str()))
    };
    is(0, &["file", "filename", "file_name", "image", "path"]) && is(1, &["label", "class"])
}

/// Splits a line at commas outside quotes; in quotes, `""` is a quote.
fn split_fields(text: &str, fields: &mut Vec<String>) -> Result<(), &'static str> {
    fields.clear();
    let mut rest = text;
    loop {
        let mut field = String::new();
        if let Some(mut quoted) = rest.trim_start_matches(' ').strip_prefix('"') {
            loop {
                let (part, after) = quoted
                    .split_once('"')
                    .ok_or("a quote is opened and not closed")?;
                field.push_str(part);
                match after.strip_prefix('"') {
                    Some(more) => {
                        field.push('"');
                        quoted = more;
                    }
                    None => {
                        rest = after.trim_start_matches(' ');
                        break;
                    }
                }
            }
            if !rest.is_empty() && !rest.starts_with(',') {
                return Err("text follows a closing quote");
            }
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            field.push_str(&rest[..end]);
            rest = &rest[end..];
        }
        fields.push(field);
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(bytes: &[u8]) -> Result<(Table, Vec<String>), DataError> {
        let (mut labels, mut table) = (Labels::default(), Table::default());
        read(Path::new("labels.csv"), bytes, &mut labels, |l| {
            table.push(l.file, l.label)
        })?;
        let (classes, class) = labels.sort();
        table.renumber(&class);
        Ok((table, classes))
    }

    #[test]
    fn names_and_integers_sort_each_in_their_way() {
        let (table, classes) = parse(b"file,label\r\na.png,10\r\nb.png,9\n\nc.png,10").unwrap();
        assert_eq!(classes, ["9", "10"]);
        assert_eq!(table.len(), 3);
        assert_eq!(table.get(0), Some(("a.png", 1)));
        assert_eq!(table.get(1), Some(("b.png", 0)));
        assert_eq!(table.get(2), Some(("c.png", 1)));
        assert_eq!(table.get(3), None);
        let (_, classes) = parse("\u{feff}x.png,10\ny.png,9\nz.png,cat".as_bytes()).unwrap();
        assert_eq!(classes, ["10", "9", "cat"]);
    }

    #[test]
    fn quotes_protect_commas_and_quotes() {
        let (table, classes) = parse(b"\"a, \"\"b\"\".png\" , \"big cat\"\n").unwrap();
        assert_eq!(table.get(0), Some(("a, \"b\".png", 0)));
        assert_eq!(classes, ["big cat"]);
    }

    #[test]
    fn bad_lines_are_named() {
        for (bytes, part) in [
            (&b"a.png,1\nb.png"[..], "labels.csv:2: 1 field;"),
            (b"a.png,1,train,x", "4 fields"),
            (b"a.png,", "is empty"),
            (b",3", "is empty"),
            (b"a.png,1\n\xff\xfe,2", "labels.csv:2: not UTF-8"),
            (b"\"a.png,1", "not closed"),
            (b"\"a\"b.png,1", "follows a closing"),
            (b"a.png,1,sometimes", "use train, val or test"),
            (b"a\0.png,1", "null"),
        ] {
            let message = parse(bytes).err().unwrap().to_string();
            assert!(message.contains(part), "{message}");
        }
        let message = parse(&vec![b'x'; 100_000]).err().unwrap().to_string();
        assert!(message.contains("longer than"), "{message}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = parse(&bytes);
        }

        #[test]
        fn any_near_table_is_read_or_refused(text in "([ab,\" 1\r\n\u{e9}-]|file|label|train){0,40}") {
            if let Ok((table, classes)) = parse(text.as_bytes()) {
                for i in 0..table.len() {
                    let (name, class) = table.get(i).unwrap();
                    prop_assert!(!name.is_empty());
                    prop_assert!((class as usize) < classes.len());
                }
            }
        }

        #[test]
        fn written_tables_come_back(rows in prop::collection::vec(("[a-z\",]{1,8}x", "[a-z\", ]{0,4}y"), 1..20)) {
            let quote = |s: &str| format!("\"{}\"", s.replace('"', "\"\""));
            let text: String =
                rows.iter().map(|(f, l)| format!("{},{}\n", quote(f), quote(l))).collect();
            let (table, classes) = parse(text.as_bytes()).unwrap();
            prop_assert_eq!(table.len(), rows.len());
            for (i, (file, label)) in rows.iter().enumerate() {
                let (name, class) = table.get(i).unwrap();
                prop_assert_eq!(name, file);
                prop_assert_eq!(&classes[class as usize], label.trim());
            }
        }
    }
}
