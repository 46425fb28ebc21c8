//! DAHL: train neural networks on the machines you have, with the least electricity.
//!
//! This crate is what users import: one module for each part of the project.
//!
//! | module | what |
//! |---|---|
//! | [`core`] | arrays, arenas, splits, tasks, graphs, machines |
//! | [`ops`] | operations over views: convolution, pooling, linear algebra, losses, optimisers |
//! | [`sched`] | what decides at run time: policies, performance models |
//! | [`sim`] | the simulator: any graph on any machine, in virtual time |
//! | [`plan`](mod@plan) | the planner: schedules made before a run |
//! | [`runtime`] | everything that executes: workers, memories, transfers |
//! | [`data`] | data sets and batches |
//! | [`nn`] | models, layers, optimisers, the training loop |
//! | [`energy`] | meters: joules, measured or modelled |
//! | [`experiment`] | experiments: one file in, raw rows, statistics, figures and a page out |
//! | [`trace`] | what ran where and when: files, summaries, exports, the viewer |
//!
//! # A first program
//!
//! Tasks are *recorded* in program order, each with the arrays it reads and writes. The graph that
//! comes out can be launched any number of times; what must wait for what follows from the accesses.
//!
//! ```
//! use std::sync::Arc;
//! use dahl::prelude::*;
//!
//! let double = Arc::new(Codelet::new("double").implement("reference", UnitKind::CPU, |operands| {
//!     let mut x = operands.write::<f32>(0);
//!     for_rows(x.dims(), |at| x.row(at).iter_mut().for_each(|x| *x *= 2.0));
//!     Ok(())
//! }));
//!
//! let arena = Arena::new();
//! let mut x = arena.from_slice([2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
//!
//! let recorder = Recorder::new();
//! recorder.submit(Task::new(&double, &[x.read_write()]));
//! for mut row in x.split_mut(&Split::new().axis(0, By::Size(1)))? {
//!     recorder.submit(Task::new(&double, &[row.read_write()])); // one task per row, side by side
//! }
//! let graph = recorder.finish()?;
//! assert_eq!(graph.edges().collect::<Vec<_>>(), [(0, 1), (0, 2)]);
//!
//! let mut runtime = Runtime::builder().workers(2).build()?;
//! runtime.launch(&graph)?;
//! assert_eq!(*runtime.read(&x)?, [4.0, 8.0, 12.0, 16.0, 20.0, 24.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The crate's `examples` go on from here: `least_squares` trains a model by replaying one graph,
//! `splits` cuts arrays in different ways and reduces into one of them.

/// The programs of the guide and of README.md compile and run.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../../../docs/guide/in-rust.md")]
    mod in_rust {}
    #[doc = include_str!("../../../docs/guide/adding.md")]
    mod adding {}
    #[doc = include_str!("../../../docs/guide/energy.md")]
    mod energy {}
    #[doc = include_str!("../../../docs/guide/from-starpu.md")]
    mod from_starpu {}
    #[doc = include_str!("../../../docs/guide/from-zeus.md")]
    mod from_zeus {}
    #[doc = include_str!("../../../README.md")]
    mod readme {}
}

mod dataset;
mod error;
mod figures;
mod forecast;
mod lost;
mod metrics;
mod run_log;
mod run_summary;
mod step_figures;
mod trainer;

pub use dahl_check as check;
pub use dahl_core as core;
pub use dahl_data as data;
pub use dahl_energy as energy;
pub use dahl_experiment as experiment;
#[cfg(feature = "gpu")]
pub use dahl_gpu as gpu;
pub use dahl_nn as nn;
pub use dahl_ops as ops;
pub use dahl_plan as plan;
pub use dahl_runtime as runtime;
pub use dahl_sched as sched;
pub use dahl_sim as sim;
#[cfg(feature = "starpu")]
pub use dahl_starpu as starpu;
pub use dahl_trace as trace;
pub use dahl_tune as tune;

pub use dahl_tune::{calibrate, plan, simulate, tune};
pub use dataset::Data;
pub use error::Error;
pub use figures::{durations_chart, energy_chart, frontier_chart};
pub use forecast::Forecast;
pub use lost::{after_loss, node_lost};
pub use metrics::Metrics;
pub use run_log::{Epoch, RunLog};
pub use run_summary::RunSummary;
pub use step_figures::StepFigures;
pub use trainer::Trainer;

/// What almost every program needs: `use dahl::prelude::*;`.
pub mod prelude {
    pub use crate::{Data, Epoch, Trainer};
    pub use dahl_core::view::for_rows;
    pub use dahl_core::{
        Arena, Array, Block, By, Codelet, Cost, DType, Element, Graph, Handle, Machine, Matrix,
        Mode, Operands, Param, Recorder, Scalar, Shape, Split, Task, TaskError, Tensor, UnitKind,
        Vector, View, ViewMut,
    };
    pub use dahl_nn::optim::{Adam, AdamW, Sgd};
    pub use dahl_nn::{Model, Step, models};
    pub use dahl_ops::api as ops;
    pub use dahl_runtime::{RunError, Runtime};
    pub use dahl_tune::{StepPlan, Units};
}
