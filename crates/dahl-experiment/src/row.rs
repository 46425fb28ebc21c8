//! Raw rows: one line of JSON each, appended and synced. What is computed from them is computed again at every report.
//!
//! A process that is killed may leave half a line at the end: it never counted, and is cut off before the next row. Any
//! other line that cannot be read is an error that names it: rows are not dropped silently.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::ExperimentError;
use crate::level::Level;

/// Where joules come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A meter.
    Measured,
    /// Watts of a model × CPU time.
    Modelled,
    /// Nowhere.
    #[default]
    Unavailable,
}

/// A run of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Block, from 0.
    pub block: u32,
    /// The cell's place in the list of cells.
    pub cell: usize,
    /// 0, or the number of the repetition.
    pub attempt: u32,
    /// Levels of the factors that the cell has.
    pub levels: BTreeMap<String, Level>,
    /// Seconds of Unix time at which the window began.
    pub at: f64,
    /// Length of the window.
    pub seconds: f64,
    /// Steps in it.
    pub steps: u64,
    /// Images in it.
    pub images: u64,
    /// The last loss.
    pub loss: Option<f64>,
    /// Gross joules of all domains.
    pub joules: Option<f64>,
    /// Where they come from.
    pub source: Source,
    /// The same in words: meter and domains, or watts of the model.
    pub by: String,
    /// Gross joules by domain.
    #[serde(default)]
    pub domains: BTreeMap<String, f64>,
    /// How often the meter was read in the window.
    pub readings: u64,
    /// CPU time of the peer in the window.
    pub cpu_seconds: f64,
    /// Most memory that the peer had resident.
    pub peak_bytes: Option<u64>,
    /// Page faults of the peer in the window.
    pub faults: Option<u64>,
    /// What the peer had resident, from its start on: seconds and bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resident: Vec<(f64, u64)>,
    /// What else went on.
    pub surroundings: crate::quiet::Surroundings,
    /// What the peer reports beside.
    #[serde(default)]
    pub measures: BTreeMap<String, f64>,
    /// What the peer says of itself.
    #[serde(default)]
    pub engine: String,
    /// Why the run is left out of summaries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbed: Option<String>,
    /// Why there is no measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl Run {
    /// Whether summaries use it.
    pub fn counts(&self) -> bool {
        self.disturbed.is_none() && self.failed.is_none()
    }
}

/// The machine without any run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Idle {
    /// Block, from 0.
    pub block: u32,
    /// Whether at its end.
    pub end: bool,
    /// How long.
    pub seconds: f64,
    /// Joules, where a meter says.
    pub joules: Option<f64>,
    /// What else went on.
    pub surroundings: crate::quiet::Surroundings,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Row {
    /// A run.
    Run(Box<Run>),
    /// Idle time.
    Idle(Idle),
}

/// The file of rows, open for appending.
pub(crate) struct Rows {
    path: PathBuf,
    file: File,
}

impl Rows {
    /// Opens the file, cuts off half a line at its end, and reads what is there.
    pub(crate) fn open(path: &Path) -> Result<(Rows, Vec<Row>), ExperimentError> {
        let options = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path);
        let mut file = options.map_err(ExperimentError::io(path))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)
            .map_err(ExperimentError::io(path))?;
        let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
        if whole < bytes.len() {
            file.set_len(whole as u64)
                .map_err(ExperimentError::io(path))?;
            file.seek(SeekFrom::End(0))
                .map_err(ExperimentError::io(path))?;
        }
        let rows = parse(path, &bytes[..whole])?;
        let path = path.to_owned();
        Ok((Rows { path, file }, rows))
    }

    /// Adds a row, and returns when the disk has it.
    pub(crate) fn append(&mut self, row: &Row) -> Result<(), ExperimentError> {
        let mut line =
            serde_json::to_vec(row).map_err(|e| ExperimentError::refused(e.to_string()))?;
        line.push(b'\n');
        let written = self
            .file
            .write_all(&line)
            .and_then(|()| self.file.sync_data());
        written.map_err(ExperimentError::io(&self.path))
    }
}

/// Reads the rows of a file that nobody writes.
pub(crate) fn load(path: &Path) -> Result<Vec<Row>, ExperimentError> {
    let bytes = std::fs::read(path).map_err(ExperimentError::io(path))?;
    let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
    parse(path, &bytes[..whole])
}

/// Reads the rows in some bytes, each on a line.
pub fn read_rows(bytes: &[u8]) -> Result<Vec<Row>, ExperimentError> {
    parse(Path::new("rows.jsonl"), bytes)
}

/// Reads the rows in some bytes; `path` is for errors.
pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<Vec<Row>, ExperimentError> {
    let lines = bytes.split(|b| *b == b'\n').enumerate();
    let row = |(i, line): (usize, &[u8])| {
        serde_json::from_slice(line).map_err(|e| ExperimentError::Rows {
            path: path.to_owned(),
            line: i + 1,
            message: format!("no row of an experiment: {e}"),
        })
    };
    lines
        .filter(|(_, line)| !line.is_empty())
        .map(row)
        .collect()
}
