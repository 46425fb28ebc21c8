//! Pictures in one sub-folder per class: `train/cat/1.jpg`, `val/dog/2.png`.
//!
//! Without `train` and `val` (or `valid`, `validation`, `test`), the sub-folders are the classes and a tenth of the
//! pictures is drawn for validation; so it is from `train`, where that is all there is. Pictures may lie deeper below a class. Names are sorted, so that the order is the
//! same on every file system; links to folders are followed up to a depth.

use std::path::{Path, PathBuf};

use super::Split;
use super::error::DataError;
use super::table::{Labels, Table};

/// Folders deeper than this are not looked into: a link may lead in a circle.
const DEPTH: usize = 8;

/// What the folder of training pictures is called.
const TRAIN: &str = "train";

/// What folders of validation pictures are called, the first that exists.
const VALIDATION: [&str; 4] = ["val", "valid", "validation", "test"];

/// Whether a folder has its classes as sub-folders, in two splits or one.
pub(super) fn found(dir: &Path) -> Result<bool, DataError> {
    Ok(!folders(dir)?.is_empty())
}

/// The pictures of one split and, if both lie together, whether it must be drawn. Classes of both splits count.
pub(super) fn load(
    dir: &Path,
    split: Split,
    labels: &mut Labels,
) -> Result<(Table, bool), DataError> {
    let mut kept = Table::default();
    let validation = VALIDATION.iter().find(|name| dir.join(name).is_dir());
    let Some(validation) = validation.filter(|_| dir.join(TRAIN).is_dir()) else {
        // Among others, `train` is a class: a vehicle.
        let is_alone = folders(dir)? == [TRAIN] && found(&dir.join(TRAIN))?;
        let part = if is_alone { TRAIN } else { "" };
        walk_classes(dir, part, labels, |file, label| kept.push(file, label))?;
        return Ok((kept, true));
    };
    for (part, holds) in [(TRAIN, Split::Train), (*validation, Split::Validation)] {
        walk_classes(dir, part, labels, |file, label| {
            if holds == split {
                kept.push(file, label);
            }
        })?;
    }
    Ok((kept, false))
}

/// Every picture below `dir/part`, with the number of its class; files are told relative to `dir`.
fn walk_classes(
    dir: &Path,
    part: &str,
    labels: &mut Labels,
    mut each: impl FnMut(&str, u32),
) -> Result<(), DataError> {
    for class in folders(&dir.join(part))? {
        let number = labels.number(&class).ok_or_else(|| {
            DataError::Usage(format!(
                "{}: more classes than can be counted",
                dir.display()
            ))
        })?;
        let below = Path::new(part).join(&class);
        walk(dir, &below, DEPTH, &mut |file| each(file, number))?;
    }
    Ok(())
}

fn walk(
    dir: &Path,
    below: &Path,
    depth: usize,
    each: &mut impl FnMut(&str),
) -> Result<(), DataError> {
    for (name, is_folder) in entries(&dir.join(below))? {
        let path = below.join(&name);
        match (is_folder, path.to_str()) {
            (true, _) if depth > 0 => walk(dir, &path, depth - 1, each)?,
            (false, Some(text)) if is_picture(&name) => each(text),
            _ => {}
        }
    }
    Ok(())
}

/// Whether a name ends as pictures' names do.
pub(super) fn is_picture(name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, e)| e.to_ascii_lowercase());
    matches!(ending.as_deref(), Some("jpg" | "jpeg" | "png"))
}

/// Names of sub-folders, sorted; hidden ones are left out.
fn folders(dir: &Path) -> Result<Vec<String>, DataError> {
    let all = entries(dir)?.into_iter();
    Ok(all
        .filter(|(_, is_folder)| *is_folder)
        .map(|(name, _)| name)
        .collect())
}

/// Names in a folder, sorted, and which are folders themselves; hidden ones and those that are no text are left out.
fn entries(dir: &Path) -> Result<Vec<(String, bool)>, DataError> {
    let wrong = || DataError::io(dir, "list it");
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(wrong())? {
        let entry = entry.map_err(wrong())?;
        let path: PathBuf = entry.path();
        if let Ok(name) = entry.file_name().into_string()
            && !name.starts_with('.')
        {
            all.push((name, path.is_dir()));
        }
    }
    all.sort();
    Ok(all)
}
