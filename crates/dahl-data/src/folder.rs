//! Folders of pictures, in a sub-folder per class or with tables of labels; the conventions are in the [module above](super).
//!
//! Only the tables are read when the set is opened.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use dahl_core::hash::Checksum;

use super::Split;
use super::class_folders;
use super::error::DataError;
use super::picture::read_file;
use super::pictures::{Pictures, Store, Wanted};
use super::random::mix;
use super::table::{self, Labels, Table};

/// The pictures of a folder, by their names.
pub(crate) struct Files {
    dir: PathBuf,
    table: Table,
}

/// Opens one split of a folder.
pub(crate) fn open(dir: &Path, wanted: Wanted) -> Result<Pictures<Files>, DataError> {
    super::picture_shape(&wanted.name, wanted.input)?;
    let mut labels = Labels::default();
    let table = load(dir, wanted.split, &mut labels, wanted.seed)?;
    // Looking for all of them could take hours; the first shows a wrong folder at once.
    let first = table.get(0).map(|(file, _)| dir.join(file));
    if let Some(first) = first.filter(|f| !f.is_file()) {
        return Err(DataError::NotFound {
            what: first.display().to_string(),
            remedy: "file names in the table are relative to the folder; check both".into(),
        });
    }
    let store = Files {
        dir: dir.to_owned(),
        table,
    };
    let hint = " of this split in its sub-folders or tables of labels";
    Pictures::new(wanted, labels, store, hint)
}

/// Reads the tables or sub-folders of both splits, for both tell which classes there are, and keeps one split.
fn load(dir: &Path, split: Split, labels: &mut Labels, seed: u64) -> Result<Table, DataError> {
    let mut kept = Table::default();
    let [train, val, single] = ["train.csv", "val.csv", "labels.csv"].map(|f| dir.join(f));
    if train.is_file() && val.is_file() {
        for (path, holds) in [(train, Split::Train), (val, Split::Validation)] {
            table::read(&path, stream(&path)?, labels, |line| {
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
    table::read(&single, stream(&single)?, labels, |line| {
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

fn stream(path: &Path) -> Result<BufReader<File>, DataError> {
    File::open(path)
        .map(BufReader::new)
        .map_err(DataError::io(path, "open it"))
}

impl Store for Files {
    fn len(&self) -> usize {
        self.table.len()
    }

    fn class(&self, index: usize) -> u32 {
        self.table.get(index).map_or(0, |(_, class)| class)
    }

    fn renumber(&mut self, class: &[u32]) {
        self.table.renumber(class);
    }

    fn decode(
        &self,
        index: usize,
        shape: [usize; 3],
        pixels: &mut [u8],
    ) -> Result<(), (PathBuf, String)> {
        let path = self
            .dir
            .join(self.table.get(index).map_or("", |(file, _)| file));
        read_file(&path, shape, pixels).map_err(|reason| (path, reason))
    }

    fn tell(&self, index: usize, sum: &mut Checksum) {
        sum.add(
            self.table
                .get(index)
                .map_or("", |(file, _)| file)
                .as_bytes(),
        );
    }
}
