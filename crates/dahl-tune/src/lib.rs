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
//! | [`Footprint`] | bytes and operations of a step, before anything runs |
//! | [`StepPlan`], [`Followed`] | plans as files; a run beside its plan |
//! | [`validate`](validate()) | how well the simulator predicts this computer |
//! | [`check_units`] | every implementation on its units against the reference |
//! | [`perf_rows`] | what the performance model knows |
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
mod follow;
mod footprint;
pub mod gpus;
mod grains;
mod machine_model;
mod merged;
mod overheads;
mod perf;
mod pipeline;
mod plan;
mod plot;
mod profile;
mod progress;
mod run;
mod simulate;
mod simulate_cluster;
mod stages;
mod step_bench;
mod this_machine;
mod tune;
mod units;
mod validate;
mod watts;
mod windows;

pub use calibrate::{CalibrateOptions, Calibration, calibrate};
pub use check_units::{CheckReport, Checked, UnitReport, check_units};
pub use cluster::{
    Bits, ClusterConfig, ClusterReport, MpiKind, Mpirun, NODE_LOST, NodeFacts, OnLevel, OnShares,
    Supervised, Supervision, Unreachable, arithmetic_of, check_alone, check_cluster, check_hosts,
    describe_cluster, parse_hosts, refuse_cluster,
};
pub use describe::Described;
pub use engine::Engine;
pub use error::TuneError;
pub use expect::{Expectation, NodeForecast, expect, expected, facts, joined};
pub use follow::{Followed, MeasuredRun, StepPlan};
pub use footprint::Footprint;
pub use machine_model::{MachineModel, TimesFrom, load_machine};
pub use merged::take_trace;
pub use overheads::{RunOverheads, Variation};
pub use perf::{PerfRow, perf_rows, variations};
pub use pipeline::profile_layers;
pub use plan::{ClusterPlan, FrontierPoint, NodeShare, PlanOptions, Planned, plan, plan_cluster};
pub use plot::draw_durations;
pub use profile::{Profile, Speeds, StateFigures};
pub use progress::{Progress, Tell};
pub use run::{OnDeviceLost, OnNoRoom, ResolvedRun, RunConfig};
pub use simulate::{NoiseFrom, Prediction, SimulateOptions, simulate};
pub use simulate_cluster::{ClusterForecast, simulate_cluster};
pub use stages::{Pipeline, PipelineKind, StageMemory, Staging, cut_of};
pub use step_bench::StepBench;
pub use this_machine::ThisMachine;
pub use tune::{Tuned, tune};
pub use units::{Cpus, Gpus, Units, UnitsError, size, units_text};
pub use validate::{Measurement, TIE, Validation, validate};
pub use watts::core_watts;
pub use windows::{WINDOW_SECONDS, mean_without_outliers};
