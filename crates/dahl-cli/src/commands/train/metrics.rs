//! The metrics file: one JSON object a line.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use dahl::energy::Energy;
use serde_json::{Value, json};

use super::report::{Epoch, Report};
use super::summary::Work;

/// An open metrics file.
pub struct Metrics {
    file: std::fs::File,
    path: PathBuf,
}

impl Metrics {
    /// Begins one; a file that is there is replaced.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        let file = std::fs::File::create(path)
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Metrics {
            file,
            path: path.to_path_buf(),
        })
    }

    fn line(&mut self, value: &Value) -> anyhow::Result<()> {
        let text = format!("{value}\n");
        let written = self
            .file
            .write_all(text.as_bytes())
            .and_then(|()| self.file.flush());
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// An epoch has ended.
    pub fn epoch(&mut self, epoch: &Epoch) -> anyhow::Result<()> {
        let mut line = scores("epoch", Some(epoch));
        line["epoch"] = json!(epoch.number);
        line["seconds"] = json!(epoch.seconds);
        line["images_per_second"] = json!(epoch.rate());
        energy(&mut line, &epoch.energy);
        self.line(&line)
    }

    /// The run has ended.
    pub fn done(&mut self, report: &Report, work: &Work) -> anyhow::Result<()> {
        let last = report.epochs.last();
        let mut line = scores("done", last);
        let (images, seconds) = (report.images(), report.seconds());
        line["epochs"] = json!(last.map_or(0, |e| e.number));
        line["grain"] = json!(report.grain);
        line["images"] = json!(images);
        line["seconds"] = json!(seconds);
        line["images_per_second"] = json!(images as f64 / seconds.max(1e-9));
        let units = work.units.iter();
        line["units"] = units
            .map(|(unit, busy)| json!({ "unit": unit, "busy_seconds": busy }))
            .collect();
        line["bytes_to_devices"] = json!(work.traffic.bytes_in);
        line["bytes_from_devices"] = json!(work.traffic.bytes_out);
        line["evictions"] = json!(work.traffic.evictions);
        line["peak_rss_bytes"] = json!(crate::print::peak_resident());
        energy(&mut line, &report.energy);
        self.line(&line)
    }
}

/// Losses and accuracies of an epoch; zeros if there was none.
fn scores(event: &str, epoch: Option<&Epoch>) -> Value {
    let train = epoch.map(|e| e.train).unwrap_or_default();
    let validation = epoch.and_then(|e| e.validation);
    json!({
        "event": event,
        "loss": train.mean_loss(),
        "accuracy": train.accuracy(),
        "val_loss": validation.map(|v| v.mean_loss()),
        "val_accuracy": validation.map(|v| v.accuracy()),
    })
}

fn energy(line: &mut Value, energy: &Energy) {
    line["joules"] = json!(energy.joules().map(|j| j.0));
    line["joules_source"] = json!(energy.source());
    line["watts"] = json!(energy.watts().map(|w| w.0));
}
