//! Whether a training step fits into the memories it would use.

use std::sync::Arc;

use dahl_core::Bytes;
use dahl_core::report::{Report, Table};
use dahl_nn::Step;
use serde_json::{Value, json};

use crate::error::TuneError;
use crate::footprint::Footprint;
use crate::stages::{StageMemory, Staging};
use crate::this_machine::ThisMachine;
use crate::units::Units;

/// A memory, and what a step needs of it.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryFit {
    /// Its name.
    pub memory: String,
    /// What has to lie there at once.
    pub needed: Bytes,
    /// What there is, where that is known.
    pub available: Option<Bytes>,
}

impl MemoryFit {
    /// Whether there is no less than is needed, or nobody knows.
    pub fn fits(&self) -> bool {
        self.available.is_none_or(|there| self.needed.0 <= there.0)
    }
}

/// What a step needs beside what there is.
#[derive(Clone, Debug)]
pub struct Fit {
    model: String,
    batch: usize,
    optimizer: &'static str,
    /// What the step needs.
    pub footprint: Footprint,
    /// The host's memory and those of devices.
    pub memories: Vec<MemoryFit>,
    /// What each device of a pipeline would hold.
    pub stages: Option<Vec<StageMemory>>,
}

impl Fit {
    /// Of this computer, with its free memory, and of these units where devices are among them.
    pub fn of(
        step: &Step,
        footprint: Footprint,
        this: &ThisMachine,
        units: Option<&Units>,
        staging: Option<&Arc<Staging>>,
    ) -> Result<Fit, TuneError> {
        let mut memories = vec![MemoryFit {
            memory: "host".into(),
            needed: footprint.on_host(),
            available: this.host().memory_available.map(Bytes),
        }];
        if let Some(units) = units {
            let machine = this.describe(Some(units))?.machine;
            memories.extend(machine.memories.iter().skip(1).map(|m| MemoryFit {
                memory: m.name.clone(),
                needed: footprint.on_device(),
                available: m.capacity,
            }));
        }
        Ok(Fit {
            model: step.model.name.clone(),
            batch: step.batch,
            optimizer: step.optimizer.name(),
            footprint,
            memories,
            stages: staging.map(|staging| staging.memory()).transpose()?,
        })
    }

    /// Whether all memories suffice.
    pub fn fits(&self) -> bool {
        self.memories.iter().all(MemoryFit::fits)
    }

    /// As one object.
    pub fn to_json(&self) -> Value {
        let f = &self.footprint;
        let row = |m: &MemoryFit| json!({ "memory": m.memory, "needed": m.needed, "available": m.available, "fits": m.fits() });
        let mut answer = json!({
            "model": self.model, "batch": self.batch, "weights": f.weights, "optimizer": f.optimizer,
            "temporaries": f.temporaries, "in_flight": f.in_flight, "io": f.io, "batches": f.batches,
            "memories": self.memories.iter().map(row).collect::<Vec<_>>(), "fits": self.fits(),
        });
        if let Some(stages) = &self.stages {
            answer["stages"] = json!(stages);
        }
        answer
    }

    /// For people.
    pub fn report(&self) -> Report {
        let (mut out, f) = (Report::default(), &self.footprint);
        out.line(format!(
            "{}, batch {}: {} parameters",
            self.model, self.batch, f.parameters
        ));
        let mut line = |what: &str, text: String| out.line(format!("  {what:<11} {text}"));
        line("weights", f.weights.to_string());
        line("optimizer", format!("{} ({})", f.optimizer, self.optimizer));
        line(
            "temporaries",
            format!("{} × {} in flight", f.temporaries, f.in_flight),
        );
        line(
            "inputs",
            format!("{} and {} of batches ahead", f.io, f.batches),
        );
        for m in &self.memories {
            let there = m.available;
            let there = there.map_or("its size is not known".into(), |t| format!("{t} available"));
            let verdict = if m.fits() { "fits" } else { "does not fit" };
            line(
                &m.memory,
                format!("{} needed, {there}: {verdict}", m.needed),
            );
        }
        if let Some(stages) = &self.stages {
            let mut table = Table::new("device|layers|>weights and inputs|>temporaries");
            for (device, stage) in stages.iter().enumerate() {
                let layers: Vec<String> = (stage.layers.iter())
                    .map(|[first, last]| format!("{first}–{last}"))
                    .collect();
                table.row([
                    device.to_string(),
                    layers.join(", "),
                    stage.lasting.to_string(),
                    stage.temporaries.to_string(),
                ]);
            }
            out.table(table);
        }
        out
    }
}
