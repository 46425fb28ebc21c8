//! What needs a model, a runtime and a prediction at once: calibration, profiles, tuning, planning, following plans.
//!
//! | entry | what |
//! |---|---|
//! | [`ThisMachine`] | this computer, looked at once; where its measurements are kept; its description |
//! | [`calibrate`](calibrate()) | measures it: a [`Profile`] and a performance model |
//! | [`RunConfig`] | units, policy or plan of a run; gives runtimes |
//! | [`ClusterConfig`] | how several computers share a run |
//! | [`StepBench`] | training steps on random data, timed |
//! | [`tune`](tune()) | a grain for a step on this computer, measured and simulated |
//! | [`MachineModel`] | a machine and all that is known of it |
//! | [`simulate`](simulate()) | what a step takes there, under a policy or a plan |
//! | [`plan`](plan()) | where every task of a step runs there, with the fewest joules, say |
//! | [`Pipeline`], [`Staging`] | a model cut into stages, a batch into micro-batches: who computes what, in which order |
//! | [`Footprint`], [`Fit`] | bytes and operations of a step, before anything runs; whether it fits |
//! | [`StepPlan`], [`Followed`] | plans as files; a run beside its plan |
//! | [`validate`](validate()) | how well the simulator predicts this computer |
//! | [`check_units`] | every implementation on its units against the reference |
//! | [`perf_rows`], [`perf_overview`], [`perf_shapes`] | what the performance model knows |
//! | [`measure_tasks`], [`trace_cost`] | what an empty task costs, and recording one |
//! | [`Units`], [`gpus`] | `cpu:2,gpu:0` as a value; the GPUs of this computer |
//!
//! Everything here takes a [`Step`](dahl_nn::Step), so what is measured, predicted and planned is what will run.
//! Nothing prints: long work tells through [`Progress`], and errors are [`TuneError`]s.

#![cfg_attr(not(test), warn(unreachable_pub))]

mod calibrate;
mod check_units;
mod clocks;
mod cluster;
mod describe;
mod engine;
mod error;
mod expect;
mod fit;
mod follow;
mod footprint;
pub mod gpus;
mod grains;
mod machine_model;
mod machine_report;
mod merged;
mod overheads;
mod perf;
mod perf_report;
mod pipeline;
mod plan;
mod plot;
mod profile;
mod progress;
mod recorded;
mod run;
mod simulate;
mod simulate_cluster;
mod simulate_report;
mod stages;
mod step_bench;
mod task_bench;
mod this_machine;
mod trace_cost;
mod tune;
mod units;
mod validate;
mod watts;
mod windows;

pub use calibrate::{CalibrateOptions, Calibration, CalibrationReport, calibrate};
pub use check_units::{CheckReport, Checked, UnitReport, check_units};
pub use cluster::{
    Bits, ClusterConfig, ClusterReport, MpiKind, Mpirun, NODE_LOST, NodeFacts, Supervised,
    Supervision, Unreachable, arithmetic_of, check_alone, check_cluster, check_hosts,
    describe_cluster, energy_of_nodes, parse_hosts, refuse_cluster,
};
pub use describe::Described;
pub use engine::Engine;
pub use error::TuneError;
pub use expect::{Expectation, FirstSteps, expect};
pub use fit::{Fit, MemoryFit};
pub use follow::{AnyPlan, Followed, MeasuredRun, NodesPlan, StepPlan};
pub use footprint::Footprint;
pub use machine_model::{MachineModel, TimesFrom, load_machine};
pub use merged::take_trace;
pub use overheads::{RunOverheads, Variation};
pub use perf::{PerfRow, perf_rows};
pub use perf_report::{PerfReport, perf_overview, perf_shapes};
pub use pipeline::profile_layers;
pub use plan::{
    ClusterPlan, FrontierPoint, NodeShare, PlanOptions, Planned, plan, plan_cluster, quick_plan,
};
pub use profile::{Profile, Speeds, StateFigures};
pub use progress::Progress;
pub use recorded::say_what_made;
pub use run::{ResolvedRun, RunConfig};
pub use simulate::{NoiseFrom, Prediction, SimulateOptions, predicted_seconds, simulate};
pub use simulate_cluster::{ClusterForecast, simulate_cluster};
pub use simulate_report::{ForecastReport, SimulationReport};
pub use stages::{Pipeline, PipelineKind, StageMemory, Staging, training_options};
pub use step_bench::{StepBench, StepTimes};
pub use task_bench::{TaskCosts, TaskPattern, measure_tasks};
pub use this_machine::ThisMachine;
pub use trace_cost::{TraceCost, trace_cost};
pub use tune::{Tuned, tune};
pub use units::{Cpus, Gpus, Units, UnitsError, size, time, units_text};
pub use validate::{Measurement, Validation, validate};
pub use watts::core_watts;
pub use windows::{WINDOW_SECONDS, mean_without_outliers};
