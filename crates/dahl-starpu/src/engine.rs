//! Starting and ending StarPU, its policies, and the kinds of tasks that it knows.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_int};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use dahl_core::Graph;
use dahl_runtime::RunError;
use dahl_runtime::engine::{Engine, Hands, Submit};

use crate::data::Handles;
use crate::shim::{self, Codelet};
use crate::tasks::Tasks;

/// Whether StarPU runs in this process.
static RUNNING: Mutex<bool> = Mutex::new(false);

/// StarPU's workers under one of its policies.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dahl_runtime::Runtime;
/// use dahl_starpu::StarPu;
///
/// let runtime = Runtime::builder().workers(2).engine(StarPu::new("dmdas")?).build()?;
/// # Ok(())
/// # }
/// ```
pub struct StarPu {
    policy: CString,
    /// Whether its policy looks at durations.
    estimates: bool,
    /// Whether it sees the data of tasks.
    sees_data: bool,
    running: Mutex<Option<Running>>,
}

/// What there is from start to stop.
struct Running {
    hands: Arc<Hands>,
    /// Kinds of tasks by the codelet's name.
    codelets: HashMap<String, Kind>,
    /// What it knows of graphs' data.
    handles: Vec<Weak<Handles>>,
}

/// A kind of task, owned.
struct Kind(*mut Codelet);

// SAFETY: a kind is filled when it is made and only read from then on, by StarPU's threads too.
unsafe impl Send for Kind {}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StarPu {
    /// The policy that is used where none is named: StarPU's own default, work stealing by locality.
    pub const DEFAULT_POLICY: &str = "lws";

    /// StarPU under the policy of this name.
    ///
    /// # Errors
    /// If it has none of this name; the error lists those it has.
    pub fn new(policy: &str) -> Result<StarPu, RunError> {
        let known = StarPu::policies();
        let name = CString::new(policy)
            .ok()
            .filter(|_| known.iter().any(|k| k == policy));
        let Some(name) = name else {
            let (version, known) = (StarPu::version(), known.join(", "));
            return Err(RunError::Start(format!(
                "StarPU {version} has no policy {policy:?}: it has {known}"
            )));
        };
        let models = ["heft", "heteroprio", "gemm"];
        Ok(StarPu {
            policy: name,
            estimates: policy.starts_with("dm") || models.iter().any(|m| policy.contains(m)),
            sees_data: false,
            running: Mutex::default(),
        })
    }

    /// Tells it what data tasks touch, as data handles beside the edges. With CPU workers, which share one memory, its
    /// decisions stay what they are, and every task costs more: this is for those who look at what it costs.
    pub fn with_data(mut self) -> StarPu {
        self.sees_data = true;
        self
    }

    /// The version that runs.
    pub fn version() -> String {
        let mut version: [c_int; 3] = [0; 3];
        // SAFETY: three numbers are written.
        unsafe { shim::dahl_starpu_version(version.as_mut_ptr()) };
        let [major, minor, release] = version;
        format!("{major}.{minor}.{release}")
    }

    /// The names of its policies that run tasks as they become ready.
    pub fn policies() -> Vec<String> {
        let name = |place| {
            // SAFETY: the names are constants of the library.
            let name = unsafe { shim::dahl_starpu_policy(place) };
            // SAFETY: as above, each ends with a zero.
            (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })
        };
        let names = (0..).map_while(name).map(|n| n.to_string_lossy());
        // One for StarPU's own tests: it runs nothing until the program calls for it.
        let usable = names.filter(|n| n != "graph_test");
        usable.map(|n| n.into_owned()).collect()
    }
}

/// The name of a file of durations: what is no letter, digit or line may mean something to a file system.
fn symbol(codelet: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
            c
        } else {
            '_'
        }
    };
    format!("dahl_{}", codelet.chars().map(plain).collect::<String>())
}

impl Engine for StarPu {
    fn start(&self, workers: usize, hands: Arc<Hands>) -> Result<(), RunError> {
        let refused = |why: String| Err(RunError::Start(why));
        // SAFETY: only returns a constant.
        let most = unsafe { shim::dahl_starpu_max_workers() };
        let Some(count) = c_int::try_from(workers).ok().filter(|n| *n <= most) else {
            let version = StarPu::version();
            return refused(format!(
                "this StarPU ({version}) was built for at most {most} CPU workers, and {workers} were asked for: use \
                 --workers {most}, or build with a StarPU that was configured with --enable-maxcpus={workers}"
            ));
        };
        let mut running = lock(&RUNNING);
        if *running {
            return refused(
                "StarPU runs already in this process, and it can run only once: end the other runtime first".into(),
            );
        }
        // SAFETY: it does not run, and nobody else starts it while the lock is held.
        let code = unsafe { shim::dahl_starpu_start(count, self.policy.as_ptr()) };
        if code != 0 {
            return refused(format!("starpu_init failed with {code}"));
        }
        // SAFETY: it runs.
        let started = unsafe { shim::dahl_starpu_workers() } as usize;
        if started != workers {
            // SAFETY: it runs, and no task was submitted.
            unsafe { shim::dahl_starpu_stop() };
            return refused(format!(
                "StarPU started {started} workers where {workers} were asked for"
            ));
        }
        *running = true;
        *lock(&self.running) = Some(Running {
            hands,
            codelets: HashMap::new(),
            handles: Vec::new(),
        });
        Ok(())
    }

    fn prepare(&self, graph: &Arc<Graph>) -> Result<Box<dyn Submit>, RunError> {
        let mut running = lock(&self.running);
        let Some(running) = running.as_mut() else {
            return Err(RunError::Start("StarPU does not run".into()));
        };
        let mut codelets = Vec::new();
        for codelet in &graph.codelets {
            if !running.codelets.contains_key(&codelet.name) {
                let made = self.kind(&codelet.name);
                let made = made.ok_or_else(|| RunError::OutOfMemory("a codelet".into()))?;
                running.codelets.insert(codelet.name.clone(), made);
            }
            codelets.push(running.codelets[&codelet.name].0);
        }
        let handles = self.sees_data.then(|| Arc::new(Handles::new(graph)));
        running.handles.retain(|h| h.strong_count() > 0);
        running.handles.extend(handles.as_ref().map(Arc::downgrade));
        let hands = running.hands.clone();
        Ok(Box::new(Tasks::new(graph, codelets, handles, hands)))
    }

    fn stop(&self) {
        let Some(ended) = lock(&self.running).take() else {
            return;
        };
        let mut running = lock(&RUNNING);
        for handles in ended.handles.iter().filter_map(Weak::upgrade) {
            handles.forget();
        }
        // SAFETY: it runs; it ends when all tasks have.
        unsafe { shim::dahl_starpu_stop() };
        for kind in ended.codelets.into_values() {
            // SAFETY: made below and freed once; StarPU, which knew it, has ended.
            unsafe { shim::dahl_starpu_free(kind.0) };
        }
        *running = false;
    }
}

impl StarPu {
    /// A kind of task; none if there is no memory.
    fn kind(&self, codelet: &str) -> Option<Kind> {
        let name = codelet.replace('\0', "");
        let (name, model) = (
            CString::new(name).ok()?,
            CString::new(symbol(codelet)).ok()?,
        );
        let model = match self.estimates {
            true => model.as_ptr(),
            false => std::ptr::null(),
        };
        // SAFETY: both are texts that end with a zero, or none, and are copied.
        let made = unsafe { shim::dahl_starpu_codelet(name.as_ptr(), model) };
        (!made.is_null()).then_some(Kind(made))
    }
}

impl Drop for StarPu {
    fn drop(&mut self) {
        self.stop();
    }
}
