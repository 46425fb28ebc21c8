//! Folders of pictures with tables of labels; the conventions are in the [module above](super).
//!
//! Only the tables are read when the set is opened. Pictures are read and decoded each time they are
//! asked for, by the thread that asks, so the set may be larger than any memory.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use dahl_core::hash::Checksum;

use super::error::DataError;
use super::picture::read_file;
use super::random::mix;
use super::table::{self, Labels, Table};
use super::{Dataset, Split};

/// One line in so many is for validation when no split is named.
const VALIDATION_PART: usize = 10;

/// A split of a folder of pictures.
pub(crate) struct Folder {
    name: String,
    dir: PathBuf,
    table: Table,
    len: usize,
    classes: Vec<String>,
    shape: [usize; 3],
}

impl Folder {
    pub(crate) fn open(
        dir: &Path,
        name: String,
        split: Split,
        input: [usize; 3],
        limit: Option<usize>,
    ) -> Result<Folder, DataError> {
        if !matches!(input[0], 1 | 3) || input.contains(&0) {
            // Said as a shape: pictures can be brought to one or three channels, not to this.
            let data = [3, input[1], input[2]];
            return Err(DataError::Shape {
                what: name,
                data,
                model: input,
            });
        }
        let mut labels = Labels::default();
        let mut table = load(dir, split, &mut labels)?;
        let (classes, class) = labels.sort();
        table.renumber(&class);
        let len = table.len().min(limit.unwrap_or(usize::MAX));
        let Some((first, _)) = table.get(0).filter(|_| len > 0) else {
            let hint = match limit {
                Some(0) => "",
                _ => " of this split in its tables of labels",
            };
            return Err(DataError::Empty {
                what: format!("{name} ({split})"),
                hint,
            });
        };
        // Looking for all of them could take hours; the first shows a wrong folder at once.
        let first = dir.join(first);
        if !first.is_file() {
            return Err(DataError::NotFound {
                what: first.display().to_string(),
                remedy: "file names in the table are relative to the folder; check both".into(),
            });
        }
        Ok(Folder {
            name,
            dir: dir.to_owned(),
            table,
            len,
            classes,
            shape: input,
        })
    }
}

/// Reads the tables of both splits, for both tell which classes there are, and keeps one split.
fn load(dir: &Path, split: Split, labels: &mut Labels) -> Result<Table, DataError> {
    let mut kept = Table::default();
    let [train, val, single] = ["train.csv", "val.csv", "labels.csv"].map(|f| dir.join(f));
    if train.is_file() && val.is_file() {
        for (path, holds) in [(train, Split::Train), (val, Split::Validation)] {
            table::read(&path, open(&path)?, labels, |line| {
                if holds == split {
                    kept.push(line.file, line.label);
                }
            })?;
        }
        return Ok(kept);
    }
    if !single.is_file() {
        return Err(DataError::NotFound {
            what: format!("labels of {}", dir.display()),
            remedy: if dir.is_dir() {
                "put train.csv and val.csv, or labels.csv, in the folder: lines `file,label`".into()
            } else {
                "the folder does not exist; check its name".into()
            },
        });
    }
    let mut all = Table::default();
    let mut marks = Vec::new();
    table::read(&single, open(&single)?, labels, |line| {
        all.push(line.file, line.label);
        marks.push(line.split);
    })?;
    if marks.iter().all(Option::is_none) {
        return Ok(all.keep(draw(&all, split)));
    }
    let ours = |&line: &usize| marks[line].unwrap_or(Some(Split::Train)) == Some(split);
    Ok(all.keep((0..all.len()).filter(ours)))
}

/// Draws the lines of one split: those whose names hash lowest are for validation, a tenth of all.
fn draw(all: &Table, split: Split) -> Vec<usize> {
    let hash = |line: usize| {
        let name = all.get(line).map_or("", |(name, _)| name);
        (name.bytes().fold(0, |h, b| mix(h, u64::from(b))), line)
    };
    let mut hashes: Vec<(u64, usize)> = (0..all.len()).map(hash).collect();
    let count = all.len().div_ceil(VALIDATION_PART).min(all.len() / 2);
    if count > 0 {
        hashes.select_nth_unstable(count - 1);
    }
    let chosen = match split {
        Split::Validation => &hashes[..count],
        Split::Train => &hashes[count..],
    };
    let mut chosen: Vec<usize> = chosen.iter().map(|h| h.1).collect();
    chosen.sort_unstable();
    chosen
}

fn open(path: &Path) -> Result<BufReader<File>, DataError> {
    File::open(path)
        .map(BufReader::new)
        .map_err(DataError::io(path, "open it"))
}

impl Dataset for Folder {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> usize {
        self.len
    }

    fn classes(&self) -> usize {
        self.classes.len()
    }

    fn shape(&self) -> [usize; 3] {
        self.shape
    }

    // Pictures are decoded.
    fn loaders(&self) -> usize {
        2
    }

    fn read(&self, index: usize, pixels: &mut [u8]) -> Result<usize, DataError> {
        super::check_read(self, index, pixels)?;
        let Some((file, class)) = self.table.get(index) else {
            return Err(super::no_such_item(self, index));
        };
        let path = self.dir.join(file);
        let wrong = |reason: String| DataError::Picture {
            path: path.clone(),
            index,
            reason,
        };
        read_file(&path, self.shape, pixels).map_err(wrong)?;
        Ok(class as usize)
    }

    fn label(&self, index: usize) -> Result<usize, DataError> {
        match self.table.get(index) {
            Some((_, class)) if index < self.len => Ok(class as usize),
            _ => Err(super::no_such_item(self, index)),
        }
    }

    fn class_name(&self, class: usize) -> Option<&str> {
        self.classes.get(class).map(String::as_str)
    }

    // Reading all pictures could take hours: every name and label, and some of them.
    fn content(&self) -> u64 {
        let mut sum = Checksum::default();
        for (file, class) in (0..self.len).filter_map(|i| self.table.get(i)) {
            sum.add(file.as_bytes());
            sum.add(&class.to_le_bytes());
        }
        sum.add(&super::identity::content(self).to_le_bytes());
        sum.finish()
    }
}
