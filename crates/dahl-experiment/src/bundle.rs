//! One archive of a session: `tar.gz` in the POSIX `ustar` format, the same bytes for the same files.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use dahl_core::file::write_atomically;
use flate2::{Compression, GzBuilder};

use crate::ExperimentError;
use crate::session::Session;

const BLOCK: usize = 512;

impl Session {
    /// Writes the report and puts the folder into an archive.
    pub fn bundle(&self, archive: &Path) -> Result<(), ExperimentError> {
        self.report()?;
        let mut files = Vec::new();
        collect(&self.folder, &mut files)?;
        files.sort();
        let inside = archive.canonicalize().ok();
        files.retain(|f| f.canonicalize().ok() != inside || inside.is_none());
        write_atomically(archive, |out| self.archive(&files, out))
            .map_err(ExperimentError::io(archive))
    }

    fn archive(&self, files: &[PathBuf], out: &mut dyn Write) -> io::Result<()> {
        let mut out = GzBuilder::new().mtime(0).write(out, Compression::default());
        for path in files {
            let bytes = fs::read(path)?;
            let inside = path.strip_prefix(&self.folder).map_err(io::Error::other)?;
            let name = format!("{}/{}", self.experiment.name, inside.display());
            out.write_all(&header(&name, bytes.len())?)?;
            out.write_all(&bytes)?;
            out.write_all(&vec![0; bytes.len().next_multiple_of(BLOCK) - bytes.len()])?;
        }
        out.write_all(&[0; 2 * BLOCK])?;
        out.finish()?;
        Ok(())
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), ExperimentError> {
    for entry in fs::read_dir(folder)
        .map_err(ExperimentError::io(folder))?
        .flatten()
    {
        let path = entry.path();
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        match path.is_dir() {
            _ if hidden => {}
            true => collect(&path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}

/// The header of a regular file: name, mode 644, nobody, 1970.
fn header(name: &str, length: usize) -> io::Result<[u8; BLOCK]> {
    if name.len() > 100 {
        return Err(io::Error::other(format!(
            "{name} is longer than 100 bytes, which is all that an archive holds"
        )));
    }
    let mut block = [0; BLOCK];
    let mut put =
        |at: usize, text: &str| block[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000644\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{length:011o}\0"));
    put(136, "00000000000\0");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\0");
    put(263, "00");
    let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(block)
}
