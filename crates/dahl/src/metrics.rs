//! A metrics file: one JSON object a line, an `epoch` each, `step`s if asked for, and a last one, `done`.
//!
//! One process writes a file at a time. A run that goes on from a checkpoint keeps the epochs before it and drops what
//! came after: they are told again. Nothing is changed before the first line, so that a run which is refused leaves
//! the old file as it was. Lines that could not be written are kept and tried again with the next one.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use dahl_energy::Energy;
use dahl_nn::train::{Event, Totals};
use serde_json::{Value, json};

use crate::{Epoch, Error};

/// An open metrics file.
pub struct Metrics {
    path: PathBuf,
    /// None for standard output.
    file: Option<File>,
    /// Bytes of the file that stay; none for what cannot be cut, such as a pipe.
    length: Option<u64>,
    /// What could not be written yet.
    pending: String,
    /// Epoch and sums of the last line of a step.
    told: (u64, Totals),
}

impl Metrics {
    /// Begins a file, `-` for standard output. What is there is replaced by the first line.
    pub fn create(path: &Path) -> Result<Metrics, Error> {
        Metrics::open(path, |_| Ok(0))
    }

    /// Goes on with a file after so many epochs.
    pub fn resume(path: &Path, epochs: u64) -> Result<Metrics, Error> {
        Metrics::open(path, |file| kept(file, epochs))
    }

    fn open(
        path: &Path,
        keep: impl FnOnce(&File) -> Result<u64, Option<io::Error>>,
    ) -> Result<Metrics, Error> {
        let path = path.to_path_buf();
        let pending = String::new();
        if path.as_os_str() == "-" {
            let (file, length) = (None, None);
            return Ok(Metrics {
                path,
                file,
                length,
                pending,
                told: Default::default(),
            });
        }
        let cannot = |why| Error::File {
            path: path.clone(),
            why,
        };
        let refuse = |problem| Error::Metrics {
            path: path.clone(),
            problem,
        };
        let mut options = OpenOptions::new();
        let regular = !std::fs::metadata(&path).is_ok_and(|m| !m.is_file());
        let options = options.write(true).read(regular).create(true);
        let file = options.truncate(false).open(&path).map_err(cannot)?;
        let mut length = None;
        if regular {
            if let Err(TryLockError::WouldBlock) = file.try_lock() {
                return Err(refuse(
                    "another process writes metrics there; wait for it, or choose another file",
                ));
            }
            length = Some(keep(&file).map_err(|why| match why {
                Some(why) => cannot(why),
                None => refuse("it is no file of metrics to go on with; choose another file"),
            })?);
        }
        Ok(Metrics {
            path,
            file: Some(file),
            length,
            pending,
            told: Default::default(),
        })
    }

    /// Adds a line. What cannot be written now is tried again with the next one.
    pub fn line(&mut self, value: &Value) -> Result<(), Error> {
        self.pending.push_str(&format!("{value}\n"));
        let written = self.write();
        written.map_err(|why| Error::File {
            path: self.path.clone(),
            why,
        })
    }

    fn write(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.file else {
            let mut out = io::stdout().lock();
            out.write_all(self.pending.as_bytes())?;
            self.pending.clear();
            return out.flush();
        };
        if let Some(length) = self.length {
            // Also cuts off the part of a line that was written before the disk was full.
            file.set_len(length)?;
            file.seek(SeekFrom::Start(length))?;
        }
        let result = file.write_all(self.pending.as_bytes());
        match (result, &mut self.length) {
            (Ok(()), length) => {
                if let Some(length) = length {
                    *length += self.pending.len() as u64;
                }
                self.pending.clear();
                Ok(())
            }
            (Err(why), Some(length)) => {
                let _ = file.set_len(*length);
                Err(why)
            }
            (Err(why), None) => Err(why),
        }
    }

    /// Whether every line has been written.
    pub fn is_complete(&self) -> bool {
        self.pending.is_empty()
    }

    /// A step has been launched: its number in the run, its learning rate, and the mean loss of what has been collected
    /// since the line before, if anything was. Other events are not steps, and no line.
    pub fn step(&mut self, event: Event) -> Result<(), Error> {
        let Event::Step {
            epoch,
            step,
            steps,
            rate,
            totals,
            ..
        } = event
        else {
            return Ok(());
        };
        let (of, before) = self.told;
        let before = if of == epoch {
            before
        } else {
            Totals::default()
        };
        let samples = totals.samples.saturating_sub(before.samples);
        let loss = (totals.loss - before.loss) / samples.max(1) as f64;
        self.told = (epoch, totals);
        self.line(&json!({
            "event": "step",
            "epoch": epoch,
            "step": (epoch - 1) * steps + step,
            "lr": rate,
            "loss": (samples > 0).then_some(loss),
            "samples": samples,
        }))
    }

    /// An epoch has ended.
    pub fn epoch(&mut self, epoch: &Epoch) -> Result<(), Error> {
        let mut line = scores("epoch", Some(epoch));
        line["epoch"] = json!(epoch.epoch);
        line["seconds"] = json!(epoch.seconds);
        line["images_per_second"] = json!(epoch.samples_per_second());
        energy(&mut line, &epoch.energy);
        self.line(&line)
    }

    /// The run has ended, with an object of further figures.
    pub fn done(&mut self, last: Option<&Epoch>, used: &Energy, more: Value) -> Result<(), Error> {
        let mut line = scores("done", last);
        line["epochs"] = json!(last.map_or(0, |e| e.epoch));
        energy(&mut line, used);
        if let (Value::Object(line), Value::Object(more)) = (&mut line, more) {
            line.extend(more);
        }
        self.line(&line)
    }
}

/// How many bytes of a file are rows of the first so many epochs; an error without a cause if it is something else.
fn kept(file: &File, epochs: u64) -> Result<u64, Option<io::Error>> {
    let (mut length, mut keep) = (0, true);
    let mut rows = BufReader::new(file);
    let mut line = String::new();
    loop {
        line.clear();
        let bytes = rows.read_line(&mut line).map_err(|e| match e.kind() {
            io::ErrorKind::InvalidData => None,
            _ => Some(e),
        })?;
        // A process that was killed may leave a part of a line.
        if bytes == 0 || !line.ends_with('\n') {
            return Ok(length);
        }
        let row: Value = serde_json::from_str(&line).map_err(|_| None)?;
        keep &= match (row["event"].as_str(), row["epoch"].as_u64()) {
            (Some("epoch" | "step"), Some(epoch)) => epoch <= epochs,
            (Some("done"), _) => false,
            _ => return Err(None),
        };
        if keep {
            length += bytes as u64;
        }
    }
}

/// Losses and accuracies of an epoch, these where the loss has classes; zeros if there was none.
fn scores(event: &str, epoch: Option<&Epoch>) -> Value {
    let train = epoch.map(|e| e.train).unwrap_or_default();
    let validation = epoch.and_then(|e| e.validation);
    json!({
        "event": event,
        "loss": train.mean_loss(),
        "accuracy": train.accuracy(),
        "val_loss": validation.map(|v| v.mean_loss()),
        "val_accuracy": validation.and_then(|v| v.accuracy()),
    })
}

fn energy(line: &mut Value, energy: &Energy) {
    line["joules"] = json!(energy.joules().map(|j| j.0));
    line["joules_source"] = json!(energy.source());
    line["watts"] = json!(energy.watts().map(|w| w.0));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> PathBuf {
        let name = format!("dahl-metrics-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        path
    }

    fn row(epoch: u64) -> Value {
        json!({ "event": "epoch", "epoch": epoch })
    }

    fn rows(path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect()
    }

    #[test]
    fn going_on_keeps_what_came_before_and_tells_the_rest_again() {
        let path = file("rows");
        let mut metrics = Metrics::create(&path).unwrap();
        (1..=4).for_each(|epoch| metrics.line(&row(epoch)).unwrap());
        metrics.line(&json!({ "event": "done" })).unwrap();
        drop(metrics);
        let whole = std::fs::read(&path).unwrap();
        // A run that writes nothing changes nothing.
        drop(Metrics::resume(&path, 2).unwrap());
        drop(Metrics::create(&path).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), whole);
        Metrics::resume(&path, 2).unwrap().line(&row(3)).unwrap();
        assert_eq!(rows(&path), [row(1), row(2), row(3)]);
        // A torn line goes, too.
        let mut torn = OpenOptions::new().append(true).open(&path).unwrap();
        torn.write_all(b"{\"event\":\"epo").unwrap();
        drop(torn);
        Metrics::resume(&path, 3).unwrap().line(&row(4)).unwrap();
        assert_eq!(rows(&path), [row(1), row(2), row(3), row(4)]);
        Metrics::create(&path).unwrap().line(&row(1)).unwrap();
        assert_eq!(rows(&path), [row(1)]);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn other_files_and_other_processes_are_left_alone() {
        let path = file("other");
        for text in ["a letter\n", "{\"event\":\"party\"}\n", "[]\n"] {
            std::fs::write(&path, text).unwrap();
            let error = Metrics::resume(&path, 1).err().unwrap().to_string();
            assert!(error.contains("no file of metrics"), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        let first = Metrics::create(&path).unwrap();
        let error = Metrics::create(&path).err().unwrap().to_string();
        assert!(error.contains("another process"), "{error}");
        drop(first);
        Metrics::create(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let gone = path.join("none");
        assert!(Metrics::create(&gone).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_cannot_be_written_is_kept() {
        let mut metrics = Metrics::create(Path::new("/dev/full")).unwrap();
        let error = metrics.line(&row(1)).unwrap_err().to_string();
        assert!(error.contains("cannot write /dev/full"), "{error}");
        assert!(!metrics.is_complete());
        let path = file("freed");
        metrics.file = Some(File::create(&path).unwrap());
        metrics.line(&row(2)).unwrap();
        assert!(metrics.is_complete());
        assert_eq!(rows(&path), [row(1), row(2)]);
        std::fs::remove_file(&path).unwrap();
    }
}
