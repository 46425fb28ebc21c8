//! Folders of pictures, in a sub-folder per class or with tables of labels; the conventions are in the [module above](super).
//!
//! Only the tables are read when the set is opened. Pictures are read and decoded each time they are
//! asked for, by the thread that asks, so the set may be larger than any memory.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use dahl_core::hash::Checksum;

use super::class_folders;
use super::error::DataError;
use super::picture::read_file;
use super::random::mix;
use super::table::{self, Labels, Table};
use super::{Dataset, Split};

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
        seed: u64,
    ) -> Result<Folder, DataError> {
        super::picture_shape(&name, input)?;
        let mut labels = Labels::default();
        let mut table = load(dir, split, &mut labels, seed)?;
        let (classes, class) = labels.sort();
        table.renumber(&class);
        let len = table.len().min(limit.unwrap_or(usize::MAX));
        let Some((first, _)) = table.get(0).filter(|_| len > 0) else {
            let hint = match limit {
                Some(0) => "",
                _ => " of this split in its sub-folders or tables of labels",
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

/// Reads the tables or sub-folders of both splits, for both tell which classes there are, and keeps one split.
fn load(dir: &Path, split: Split, labels: &mut Labels, seed: u64) -> Result<Table, DataError> {
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
    if !single.is_file() && dir.is_dir() && class_folders::found(dir)? {
        let (all, is_drawn) = class_folders::load(dir, split, labels)?;
        return Ok(match is_drawn {
            true => all.keep(draw(&all, split, seed)),
            false => all,
        });
    }
    if !single.is_file() {
        return Err(DataError::NotFound {
            what: format!("labels of {}", dir.display()),
            remedy: if dir.is_dir() {
                "put pictures into a sub-folder per class (train/cat/1.jpg), or train.csv and val.csv or labels.csv \
                 with lines `file,label`"
                    .into()
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
        return Ok(all.keep(draw(&all, split, seed)));
    }
    let ours = |&line: &usize| marks[line].unwrap_or(Some(Split::Train)) == Some(split);
    Ok(all.keep((0..all.len()).filter(ours)))
}

/// Draws the lines of one split by their names, so that it stays when others are added.
fn draw(all: &Table, split: Split, seed: u64) -> Vec<usize> {
    super::split::draw(all.len(), split, |line| {
        let name = all.get(line).map_or("", |(name, _)| name);
        name.bytes().fold(seed, |h, b| mix(h, u64::from(b)))
    })
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
