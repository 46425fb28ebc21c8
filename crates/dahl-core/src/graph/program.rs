//! A graph's program as plain data: what was submitted, to be written down, read back and recorded
//! again. Edges are not part of it; they follow from the accesses.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::access::Mode;
use crate::array::{Handle, Home, Storage};
use crate::codelet::{Codelet, Param};
use crate::dtype::DType;
use crate::region::Region;
use crate::shape::{MAX_RANK, Shape};

use super::{Graph, Recorder, Task};

/// Arrays and tasks in program order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The arrays.
    pub arrays: Vec<ProgramArray>,
    /// The tasks.
    pub tasks: Vec<ProgramTask>,
}

/// An array of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramArray {
    /// Its name.
    pub name: String,
    /// Its extents.
    pub shape: Shape,
    /// Its element type.
    pub dtype: DType,
    /// Whether it lives only while the graph runs.
    #[serde(default)]
    pub temporary: bool,
}

/// A task of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramTask {
    /// The codelet's name.
    pub codelet: String,
    /// What it touches.
    pub accesses: Vec<ProgramAccess>,
    /// Its parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub params: Vec<Param>,
    /// Its priority.
    #[serde(default)]
    pub priority: i32,
    /// The section it belongs to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub section: String,
}

/// An access of a program's task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramAccess {
    /// Place in [`Program::arrays`].
    pub array: usize,
    /// How it is used.
    pub mode: Mode,
    /// `[start, end]` along each axis; the whole array if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<Vec<[usize; 2]>>,
    /// The shape the array is seen under, if not its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<Shape>,
}

/// Why a program cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The text is not a program.
    #[error("not a program: {0}")]
    Parse(#[from] serde_json::Error),
    /// A task is wrong.
    #[error("tasks[{task}]: {problem}")]
    Task {
        /// Its place.
        task: usize,
        /// What is wrong.
        problem: String,
    },
    /// The tasks do not make a graph.
    #[error(transparent)]
    Graph(#[from] super::GraphError),
}

impl Program {
    /// Reads a program from JSON.
    pub fn from_json(text: &str) -> Result<Self, ProgramError> {
        Ok(serde_json::from_str(text)?)
    }

    /// Records the program. Codelets are known by name only: the graph can be looked at, simulated and
    /// planned, not executed.
    pub fn record(&self) -> Result<Arc<Graph>, ProgramError> {
        let recorder = Recorder::new();
        // Persistent arrays need a place to live; one that is never executed needs no memory, so all
        // of them are recorded as temporaries that count as written.
        let arena = crate::Arena::new();
        let handles: Vec<Handle> = self
            .arrays
            .iter()
            .enumerate()
            .map(|(i, a)| self.handle(i, a, &arena, &recorder))
            .collect::<Result<_, _>>()?;
        let mut failed = recorder.locate(false, || "arrays".into());
        let mut codelets: std::collections::HashMap<&str, Arc<Codelet>> = Default::default();
        for (i, task) in self.tasks.iter().enumerate() {
            let wrong = |problem: String| ProgramError::Task { task: i, problem };
            let parts: Vec<(Handle, Mode)> = task
                .accesses
                .iter()
                .map(|a| Ok((self.part(&handles, a).map_err(wrong)?, a.mode)))
                .collect::<Result<_, ProgramError>>()?;
            let operands: Vec<_> = parts.iter().map(|(h, mode)| h.with(*mode)).collect();
            let codelet = codelets
                .entry(&task.codelet)
                .or_insert_with(|| Arc::new(Codelet::new(task.codelet.clone())));
            recorder.section(&task.section);
            recorder.submit(
                Task::new(codelet, &operands)
                    .params(&task.params)
                    .priority(task.priority),
            );
            failed = recorder.locate(failed, || format!("tasks[{i}]"));
        }
        recorder.finish().map_err(|mut error| {
            if !failed {
                error.place = "tasks".into();
            }
            error.into()
        })
    }

    fn handle(
        &self,
        i: usize,
        array: &ProgramArray,
        arena: &crate::Arena,
        recorder: &Recorder,
    ) -> Result<Handle, ProgramError> {
        if array.temporary {
            return Ok(recorder.temporary_handle(&array.name, array.shape.extents(), array.dtype));
        }
        let place = arena
            .place_nothing(&array.shape)
            .map_err(|e| ProgramError::Task {
                task: i,
                problem: format!("array {:?}: {e}", array.name),
            })?;
        let name = Some(array.name.clone());
        Ok(Handle::of(Storage::new(
            name,
            array.shape,
            array.dtype,
            Home::Arena(place),
        )))
    }

    fn part(&self, handles: &[Handle], access: &ProgramAccess) -> Result<Handle, String> {
        let mut handle = handles
            .get(access.array)
            .ok_or_else(|| {
                format!(
                    "array {} does not exist: there are {}",
                    access.array,
                    handles.len()
                )
            })?
            .clone();
        if let Some(shape) = &access.shape {
            handle = handle.reshape(shape.extents()).map_err(|e| e.to_string())?;
        }
        let Some(axes) = &access.region else {
            return Ok(handle);
        };
        if axes.len() != handle.shape.rank() {
            let (got, rank) = (axes.len(), handle.shape.rank());
            return Err(format!(
                "region has {got} axes, array {} has {rank}",
                access.array
            ));
        }
        let (mut start, mut end) = ([0; MAX_RANK], handle.shape.dims4());
        for (a, axis) in axes.iter().enumerate() {
            let at = MAX_RANK - axes.len() + a;
            (start[at], end[at]) = (axis[0], axis[1]);
        }
        let region = Region::new(start, end).filter(|r| Region::whole(&handle.shape).contains(r));
        let region = region.ok_or_else(|| {
            format!(
                "region {axes:?} is empty or leaves array {} of shape {}",
                access.array, handle.shape
            )
        })?;
        Ok(handle.part(&region))
    }
}

impl Graph {
    /// The program of this graph. Reductions appear as what they became: accumulators and merges.
    pub fn program(&self) -> Program {
        let arrays = self.storages.iter().enumerate().map(|(i, s)| ProgramArray {
            name: s.storage.name.clone().unwrap_or_else(|| format!("a{i}")),
            shape: s.storage.shape,
            dtype: s.storage.dtype,
            temporary: s.temporary.is_some(),
        });
        let tasks = (0..self.len() as u32).map(|t| ProgramTask {
            codelet: self.codelet_of(t).name.clone(),
            accesses: self
                .accesses_of(t)
                .iter()
                .map(|a| self.program_access(a))
                .collect(),
            params: self.class_of(t).call.params.clone(),
            priority: self.tasks[t as usize].priority,
            section: self.sections[self.tasks[t as usize].section as usize].clone(),
        });
        Program {
            arrays: arrays.collect(),
            tasks: tasks.collect(),
        }
    }

    fn program_access(&self, access: &crate::Access) -> ProgramAccess {
        let array = &self.arrays[access.array as usize];
        let own = self.storages[array.storage as usize].storage.shape;
        let mode = match access.mode {
            Mode::Reduce if access.fresh.is_some() => Mode::Write,
            Mode::Reduce => Mode::ReadWrite,
            mode => mode,
        };
        let (start, end) = (access.region.start(), access.region.end());
        let axes = MAX_RANK - array.shape.rank()..MAX_RANK;
        let whole = access.region == Region::whole(&array.shape);
        ProgramAccess {
            array: array.storage as usize,
            mode,
            region: (!whole).then(|| axes.map(|a| [start[a], end[a]]).collect()),
            shape: (array.shape != own).then_some(array.shape),
        }
    }
}
