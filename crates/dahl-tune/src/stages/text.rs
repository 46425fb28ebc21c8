//! Pipelines as they are typed: `4`, `4:zb-h1`, `pipedream:4`.

use std::fmt;
use std::str::FromStr;

use dahl_core::text::unknown;
use dahl_nn::Model;
use dahl_plan::pipeline::ScheduleKind;
use serde::{Deserialize, Serialize};

use crate::error::TuneError;

/// How batches go through a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipelineKind {
    /// Weights are updated when a whole batch is through: an order of the same tasks, with the same bits.
    Flush(ScheduleKind),
    /// Batches follow each other, and each stage keeps the weights that a batch began with (Narayanan et al., 2019).
    PipeDream {
        /// Whether all stages use the version of the first one.
        vertical: bool,
    },
    /// Batches follow each other, with two versions of the weights (Narayanan et al., 2021).
    TwoBw,
}

/// A pipeline: how many devices, and how batches go through them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PipelineText", into = "PipelineText")]
pub struct Pipeline {
    /// How many devices there are, each with one stage, or with two where the schedule says so.
    pub devices: usize,
    /// How batches go through.
    pub kind: PipelineKind,
    /// For the schedule `auto`, the activations of how many micro-batches a device may keep: one number for all, or one for
    /// each; as many as 1F1B's first if empty.
    pub kept: Vec<usize>,
    /// The first layers of all stages but the first; as even as layers allow by static costs if empty.
    pub cut: Vec<usize>,
    /// Nodes or units of each device; one for each if empty, or as even as there are.
    pub replicas: Vec<usize>,
}

/// A pipeline in files.
#[derive(Serialize, Deserialize)]
struct PipelineText {
    /// As it is typed: `4:zb-h1`.
    name: String,
    kept: Vec<usize>,
    cut: Vec<usize>,
    replicas: Vec<usize>,
}

impl From<Pipeline> for PipelineText {
    fn from(pipeline: Pipeline) -> PipelineText {
        let name = pipeline.to_string();
        let Pipeline {
            kept,
            cut,
            replicas,
            ..
        } = pipeline;
        PipelineText {
            name,
            kept,
            cut,
            replicas,
        }
    }
}

impl TryFrom<PipelineText> for Pipeline {
    type Error = String;

    fn try_from(text: PipelineText) -> Result<Pipeline, String> {
        Ok(Pipeline {
            kept: text.kept,
            cut: text.cut,
            replicas: text.replicas,
            ..text.name.parse()?
        })
    }
}

/// Names of kinds that are no schedules with a flush.
const ASYNCHRONOUS: [(&str, PipelineKind); 3] = [
    ("pipedream", PipelineKind::PipeDream { vertical: false }),
    (
        "pipedream-vertical",
        PipelineKind::PipeDream { vertical: true },
    ),
    ("2bw", PipelineKind::TwoBw),
];

/// Most devices that can be asked for.
const MOST: usize = 64;

fn kinds() -> impl Iterator<Item = (&'static str, PipelineKind)> {
    let flush = ScheduleKind::ALL.map(|(name, kind)| (name, PipelineKind::Flush(kind)));
    flush.into_iter().chain(ASYNCHRONOUS)
}

impl Pipeline {
    /// So many devices.
    pub fn new(devices: usize, kind: PipelineKind) -> Pipeline {
        Pipeline {
            devices,
            kind,
            kept: Vec::new(),
            cut: Vec::new(),
            replicas: Vec::new(),
        }
    }

    /// The same with stages that begin, behind the first, at layers of a model: their numbers or names, as in `4,9`.
    ///
    /// # Errors
    /// If the model has no such layer.
    pub fn cut_at(self, model: &Model, layers: &str) -> Result<Pipeline, TuneError> {
        let layer = |name: &str| {
            match name.parse() {
            Ok(number) => Ok(number),
            Err(_) => (0..model.layers.len()).find(|&l| model.label(l) == name).ok_or_else(|| {
                TuneError::Option(format!(
                    "--cut {name}: {} has no such layer; give its number, from 0 to {}, or its name, as `dahl models` lists \
                     them",
                    model.name,
                    model.layers.len().saturating_sub(1)
                ))
            }),
        }
        };
        let cut = layers.split(',').map(|name| layer(name.trim()));
        Ok(Pipeline {
            cut: cut.collect::<Result<_, _>>()?,
            ..self
        })
    }

    /// The options of the command line that ask for it, with so many micro-batches.
    pub(crate) fn options(&self, micro_batches: usize) -> String {
        let join = |all: &[usize], between: &str| {
            let all: Vec<String> = all.iter().map(usize::to_string).collect();
            all.join(between)
        };
        let mut text = format!("--pipeline {self} --micro-batches {micro_batches}");
        for (name, all, between) in [
            ("cut", &self.cut, ","),
            ("replicas", &self.replicas, ":"),
            ("kept", &self.kept, ":"),
        ] {
            if !all.is_empty() {
                text += &format!(" --{name} {}", join(all, between));
            }
        }
        text
    }

    /// How many stages the model is cut into.
    pub(crate) fn stages(&self) -> usize {
        match self.kind {
            PipelineKind::Flush(kind) => self.devices * kind.stages_per_device(),
            _ => self.devices,
        }
    }

    /// The device of every stage.
    pub(super) fn device_of(&self) -> Vec<usize> {
        let (p, stages) = (self.devices, self.stages());
        let device = |s: usize| match self.kind {
            PipelineKind::Flush(ScheduleKind::ZbV) => s.min(2 * p - 1 - s),
            _ => s % p,
        };
        (0..stages).map(device).collect()
    }

    /// How many updates older than the newest the weights are that each stage reads.
    pub(super) fn delays(&self) -> Vec<usize> {
        let stages = self.stages();
        let delay = |s: usize| match self.kind {
            PipelineKind::Flush(_) => 0,
            PipelineKind::PipeDream { vertical: true } => stages - 1,
            PipelineKind::PipeDream { vertical: false } => stages - 1 - s,
            PipelineKind::TwoBw => 1,
        };
        (0..stages).map(delay).collect()
    }
}

impl FromStr for Pipeline {
    type Err = String;

    fn from_str(text: &str) -> Result<Pipeline, String> {
        let names: Vec<&str> = kinds().map(|k| k.0).collect();
        let help = format!(
            "use a number of stages from 1 to {MOST}, and a schedule if you like: 4, 4:1f1b, pipedream:4; schedules \
             are {}",
            names.join(", ")
        );
        let (first, second) = match text.split_once(':') {
            Some((first, second)) => (first.trim(), Some(second.trim())),
            None => (text.trim(), None),
        };
        let (number, name) = match (first.parse::<usize>(), second) {
            (Ok(number), name) => (Ok(number), name.unwrap_or("1f1b")),
            (Err(_), Some(number)) => (number.parse::<usize>(), first),
            (Err(error), None) => (Err(error), "1f1b"),
        };
        let kind = kinds().find(|k| k.0 == name).map(|k| k.1);
        let kind = kind.ok_or_else(|| unknown("schedule", name, &names))?;
        match number {
            Ok(devices) if (1..=MOST).contains(&devices) => Ok(Pipeline::new(devices, kind)),
            _ => Err(format!("`{text}` is no pipeline: {help}")),
        }
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = kinds().find(|k| k.1 == self.kind).map_or("", |k| k.0);
        write!(f, "{}:{name}", self.devices)
    }
}
