//! What a target is fed with: files of the repository, seeds that the library writes, the corpus that fuzzing found,
//! and the regressions, each once a failure.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::{TARGETS, Target};

/// An input, and where it is from.
pub struct Input {
    /// For messages.
    pub name: String,
    /// What is fed.
    pub bytes: Vec<u8>,
}

/// The folders of a target's corpus and of its regressions; they need not exist.
pub fn corpus_folders(target: &Target) -> [PathBuf; 2] {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    ["corpus", "regressions"].map(|kind| here.join(kind).join(target.name))
}

/// All inputs of a target, always in the same order: those that its parser should accept first.
///
/// # Errors
/// If a file that is named as a seed cannot be read.
pub fn inputs(target: &Target) -> io::Result<Vec<Input>> {
    let mut all = seeds(target)?;
    for folder in corpus_folders(target) {
        if folder.is_dir() {
            all.extend(files(&folder)?);
        }
    }
    Ok(all)
}

/// Files of the repository, and what the library writes.
fn seeds(target: &Target) -> io::Result<Vec<Input>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = Vec::new();
    for file in target.files {
        all.extend(files(&root.join(file))?);
    }
    let made = (target.made)().into_iter().enumerate();
    all.extend(made.map(|(i, bytes)| Input {
        name: format!("made-{i}"),
        bytes,
    }));
    Ok(all)
}

/// A file, or the files of a folder by their names.
fn files(path: &Path) -> io::Result<Vec<Input>> {
    let said = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    let mut paths = vec![path.to_owned()];
    if path.is_dir() {
        let entries: Result<Vec<_>, _> = fs::read_dir(path).map_err(said)?.collect();
        paths = entries.map_err(said)?.iter().map(|e| e.path()).collect();
        paths.retain(|p| p.is_file());
        paths.sort();
    }
    let read = |path: PathBuf| {
        Ok(Input {
            name: path.display().to_string(),
            bytes: fs::read(&path).map_err(said)?,
        })
    };
    paths.into_iter().map(read).collect()
}

/// Writes the seeds of every target below a folder, `NAME/…`, and a dictionary of its words, `NAME.dict`: what
/// libFuzzer begins with.
///
/// # Errors
/// If a file cannot be read or written.
pub fn write_seeds(folder: &Path) -> io::Result<()> {
    for target in TARGETS {
        let own = folder.join(target.name);
        fs::create_dir_all(&own)?;
        for (i, seed) in seeds(target)?.iter().enumerate() {
            fs::write(own.join(format!("seed-{i}")), &seed.bytes)?;
        }
        let quoted = |word: &str| {
            let bytes = word.bytes().map(|b| match b {
                b' '..=b'~' if b != b'"' && b != b'\\' => char::from(b).to_string(),
                _ => format!("\\x{b:02X}"),
            });
            format!("\"{}\"\n", bytes.collect::<String>())
        };
        let words: String = target.words().map(quoted).collect();
        fs::write(folder.join(format!("{}.dict", target.name)), words)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_the_same_every_time() {
        for target in TARGETS {
            let [first, again] = [(); 2].map(|()| inputs(target).unwrap());
            assert!(!first.is_empty(), "{} has no seeds", target.name);
            assert_eq!(first.len(), again.len(), "{}", target.name);
            for (a, b) in first.iter().zip(&again) {
                assert!(
                    a.name == b.name && a.bytes == b.bytes,
                    "{}: {}",
                    target.name,
                    a.name
                );
            }
        }
    }

    #[test]
    fn every_corpus_and_regression_has_a_target() {
        for kind in ["corpus", "regressions"] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(kind);
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let name = entry.file_name().into_string().unwrap();
                assert!(
                    crate::target(&name).is_some(),
                    "{kind}/{name}: no such target"
                );
            }
        }
    }
}
