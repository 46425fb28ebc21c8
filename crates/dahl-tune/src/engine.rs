//! Who runs the tasks of a run: the runtime's own workers, or StarPU where this was built with it.

use std::fmt;
use std::str::FromStr;

use dahl_runtime::Builder;

use crate::error::TuneError;
use crate::run::RunConfig;

/// Who runs tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// The runtime's own workers, under a policy or a plan.
    #[default]
    Dahl,
    /// StarPU's CPU workers, under a policy of StarPU's.
    StarPu,
    /// The same, and StarPU sees the data of tasks as data handles.
    StarPuData,
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "dahl" => Ok(Engine::Dahl),
            "starpu" => Ok(Engine::StarPu),
            "starpu-data" => Ok(Engine::StarPuData),
            _ => Err("use dahl, starpu or starpu-data".into()),
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Engine::Dahl => "dahl",
            Engine::StarPu => "starpu",
            Engine::StarPuData => "starpu-data",
        })
    }
}

impl Engine {
    /// The policy where none is named.
    pub(crate) fn usual_policy(self, gpus: bool) -> &'static str {
        match (self, gpus) {
            (Engine::StarPu | Engine::StarPuData, _) => "lws",
            (Engine::Dahl, true) => "dmda",
            (Engine::Dahl, false) => "ws",
        }
    }

    /// Refuses what an engine cannot do in a run.
    pub(crate) fn check(self, config: &RunConfig) -> Result<(), TuneError> {
        if self == Engine::Dahl {
            return Ok(());
        }
        let refused = |why: &str| Err(TuneError::Option(format!("--engine {self}: {why}")));
        if !cfg!(feature = "starpu") {
            return refused(
                "this program was built without StarPU; install StarPU (Debian: apt install libstarpu-dev pkg-config) \
                 and build again with cargo build --release --features starpu",
            );
        }
        if config.follow.is_some() || config.pipeline.is_some() {
            return refused(
                "StarPU decides itself which worker runs what, and cannot follow a plan or a pipeline; leave out one of \
                 the two",
            );
        }
        if config.units.has_gpus() {
            return refused(
                "only CPUs: the kernels for GPUs are run by DAHL's own drivers; leave GPUs out of --units",
            );
        }
        if dahl_runtime::network::launched().is_some() {
            return refused(
                "one computer only: messages between nodes are sent by DAHL's own engine",
            );
        }
        Ok(())
    }

    /// Makes a runtime in the making use it, under a policy.
    pub(crate) fn attach(self, builder: Builder, policy: &str) -> Result<Builder, TuneError> {
        match self {
            Engine::Dahl => Ok(builder.policy(policy)),
            #[cfg(feature = "starpu")]
            Engine::StarPu => Ok(builder.engine(dahl_starpu::StarPu::new(policy)?)),
            #[cfg(feature = "starpu")]
            Engine::StarPuData => Ok(builder.engine(dahl_starpu::StarPu::new(policy)?.with_data())),
            #[cfg(not(feature = "starpu"))]
            Engine::StarPu | Engine::StarPuData => Ok(builder), // Refused before.
        }
    }

    /// Who decides, for people.
    pub(crate) fn decides(self, policy: &str) -> String {
        match self {
            Engine::Dahl => policy.into(),
            #[cfg(feature = "starpu")]
            Engine::StarPu => format!("{policy} of StarPU {}", dahl_starpu::StarPu::version()),
            #[cfg(feature = "starpu")]
            Engine::StarPuData => {
                let version = dahl_starpu::StarPu::version();
                format!("{policy} of StarPU {version} with data handles")
            }
            #[cfg(not(feature = "starpu"))]
            Engine::StarPu | Engine::StarPuData => format!("{policy} of StarPU"),
        }
    }
}
