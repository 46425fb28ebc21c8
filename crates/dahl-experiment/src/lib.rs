//! Experiments: one file describes what is varied, one call runs it, one folder holds all that another person needs to
//! repeat and to check it.
//!
//! ```no_run
//! use dahl_experiment::{Changes, Environment, Experiment, Machine, Session};
//! # fn main() -> Result<(), dahl_experiment::ExperimentError> {
//! let file = std::path::Path::new("experiments/cores.toml");
//! let experiment = Experiment::load(file)?;
//! let dahl = std::path::Path::new("target/release/dahl");
//! let environment = Environment::look(dahl, file, &experiment.text);
//! let folder = std::path::Path::new("cores-1");
//! let mut session = Session::create(folder, experiment, &Changes::default(), environment)?;
//! let meter = dahl_energy::Options::default();
//! let mut machine = Machine::new(&session.experiment, file, dahl, &meter, dahl_core::Stop::new());
//! session.run(&mut machine, &mut |_| ())?;
//! println!("{}", session.report()?.display());
//! # Ok(())
//! # }
//! ```
//!
//! | module | what |
//! |---|---|
//! | `file`, `level`, `measure` | the description; levels of factors; what is computed from a row |
//! | `design` | cells and the order of blocks |
//! | `protocol` | what harness and peers say to each other |
//! | `world`, `machine` | what a session needs of the world; this machine |
//! | `quiet`, `environment` | what else went on; where and with what |
//! | `row`, `session` | raw rows; a folder that is run, killed, gone on with |
//! | `stats`, `summary`, `compare` | medians, intervals, ratios; tables; two sessions |
//! | `figure`, `plot` | what a figure shows; the one module that draws |
//! | `report`, `bundle`, `shipped` | files for readers; one archive; the experiments that ship |
//!
//! What this refuses to do: choose the best of several runs, put measured and modelled joules into one table, go on in
//! another environment, or drop a row silently.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(unreachable_pub))]

mod bundle;
mod compare;
mod design;
mod environment;
mod error;
mod figure;
mod file;
mod level;
mod machine;
mod measure;
mod plot;
mod protocol;
mod quiet;
mod report;
mod resident;
mod row;
mod session;
mod shipped;
mod stats;
mod summary;
mod world;

pub use compare::{Compared, Comparison, compare};
pub use design::{Cell, name as cell_name};
pub use environment::Environment;
pub use error::ExperimentError;
pub use file::{Design, Experiment};
pub use level::Level;
pub use machine::Machine;
pub use plot::{Chart, Curve};
pub use protocol::{Steps, serve};
pub use quiet::peak_resident;
pub use report::Format;
pub use row::{Idle, Row, Run, Source, read_rows};
pub use session::{Changes, Session, SessionEvent, Status};
pub use shipped::shipped;
pub use stats::Estimate;
