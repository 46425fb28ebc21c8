//! The runtime: launches graphs and hands out their results.
//!
//! Launching returns at once. What a launch must wait for in earlier ones is found from the graphs'
//! boundaries: for every persistent array the runtime keeps the launches in flight that touch it
//! (*layers*), newest last, and a pair of graphs is compared once. A layer that overwrites the whole
//! array hides those below it.

use std::any::Any;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use dahl_core::hash::FastBuild;
use dahl_core::trace::Trace;
use dahl_core::{Graph, Machine, MemoryId, Recorder, Seconds, UnitId, UnitKind};
use dahl_sched::model::PerfModel;
use dahl_sched::policy::{Orders, TaskRef};

use crate::builder::{Builder, MakeOrder};
use crate::engine::{Engine, Hands};
use crate::error::RunError;
use crate::heap::Usage;
use crate::instance::Instance;
use crate::layers::{Entry, Layer, register};
use crate::learn::Learner;
use crate::memory::Traffic;
use crate::network::Transport;
use crate::perf_store::PerfStore;
use crate::prepare::{Planned, TransferList};
use crate::shared::{Sample, Shared, UnitState};
use crate::tracer::Log;
use crate::values::WaitScratch;
use crate::watchdog::Watchdog;
use crate::worker::Worker;
use dahl_energy::Clock;

/// Executes graphs.
///
/// ```
/// use std::sync::{Arc, Weak};
/// use dahl_core::{Arena, Codelet, Recorder, Task, UnitKind};
/// use dahl_runtime::Runtime;
///
/// let add = Arc::new(Codelet::new("add").implement("reference", UnitKind::CPU, |ops| {
///     let (x, mut y) = (ops.read::<f32>(0), ops.write::<f32>(1));
///     dahl_core::view::for_rows(y.dims(), |at| {
///         y.row(at).iter_mut().zip(x.row(at)).for_each(|(y, x)| *y += x);
///     });
///     Ok(())
/// }));
/// let arena = Arena::new();
/// let x = arena.from_slice([3], &[1.0f32, 2.0, 3.0])?;
/// let mut y = arena.full([3], 10.0f32)?;
///
/// let recorder = Recorder::new();
/// recorder.submit(Task::new(&add, &[x.read(), y.read_write()]));
/// let graph = recorder.finish()?;
///
/// let mut runtime = Runtime::builder().workers(2).build()?;
/// for _ in 0..4 {
///     runtime.launch(&graph)?; // returns at once; launches follow each other by their dependencies
/// }
/// assert_eq!(*runtime.read(&y)?, [14.0, 18.0, 22.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Runtime {
    pub(crate) shared: Arc<Shared>,
    threads: Vec<crate::sync::thread::JoinHandle<()>>,
    /// The worker of unit 0, if the thread that waits works too.
    main: RefCell<Option<Worker>>,
    pub(crate) graphs: HashMap<u64, Entry, FastBuild>,
    pub(crate) layers: HashMap<u64, Vec<Layer>, FastBuild>,
    pub(crate) in_flight: RefCell<VecDeque<(Arc<Instance>, u64)>>,
    serial: u64,
    pub(crate) id: u64,
    pub(crate) ring: usize,
    watchdog: Watchdog,
    roots: Vec<TaskRef>,
    pub(crate) wait_scratch: RefCell<WaitScratch>,
    pub(crate) learner: Option<Learner>,
    log: Option<Log>,
    pub(crate) planned: Option<Planned>,
    /// Who runs tasks, if not the workers.
    pub(crate) engine: Option<Box<dyn Engine>>,
    /// What temporaries take that are allocated one by one, if they are.
    pub(crate) heap: Option<Arc<Usage>>,
    pub(crate) orders: Option<(Orders, MakeOrder)>,
    /// What runs for graphs that have orders, by their ids.
    pub(crate) sequenced: HashMap<u64, (Weak<Graph>, Arc<Graph>)>,
    /// The number of this node and how many there are, in a cluster.
    place: Option<(u16, u16)>,
    /// What ends with it.
    #[allow(dead_code)]
    during: Vec<Box<dyn Any + Send>>,
}

/// What a runtime is started with, beside what its threads share.
pub(crate) struct Settings {
    pub id: u64,
    pub ring: usize,
    pub pin: bool,
    pub main_works: bool,
    pub watchdog: Watchdog,
    pub store: Option<PerfStore>,
    /// What a schedule is for.
    pub planned: Option<Planned>,
    /// In which order graphs run.
    pub orders: Option<(Orders, MakeOrder)>,
    /// How messages travel.
    pub transport: Option<Box<dyn Transport>>,
    /// Who runs tasks, if not the workers.
    pub engine: Option<Box<dyn Engine>>,
    /// Whether temporaries are allocated one by one.
    pub malloc: bool,
    /// What ends with the runtime.
    pub during: Vec<Box<dyn Any + Send>>,
}

/// A number that no other runtime of this process has: by it chunks know who leases them.
pub(crate) fn fresh_id() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

/// Launches between two times that timings are taken in, if nobody waits.
const LEARN_EVERY: u64 = 16;

/// Stops what a runtime has in flight, from anywhere.
#[derive(Clone)]
pub struct Canceller(Arc<Shared>);

impl Canceller {
    /// Stops it. Only writes a flag, so a signal handler may call it.
    pub fn cancel(&self) {
        self.0.cancel();
    }
}

impl Runtime {
    /// A builder with the defaults: as many workers as cores, policy `ws`.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn start(shared: Shared, settings: Settings) -> Result<Self, RunError> {
        let Settings {
            id,
            ring,
            pin,
            main_works,
            watchdog,
            store,
            planned,
            orders,
            transport,
            engine,
            malloc,
            during,
        } = settings;
        let learner = shared.timed.then(|| Learner::new(store, &shared.machine));
        let shared = Arc::new(shared);
        let mut threads = Vec::new();
        let workers = match engine {
            None => usize::from(main_works)..shared.units.len(),
            Some(_) => 0..0,
        };
        for u in workers {
            let shared = shared.clone();
            let body = move || {
                if pin {
                    crate::pin::to_core(u);
                }
                Worker::new(UnitId(u as u16), &shared).run(&shared);
            };
            threads.push(spawn(format!("dahl-{u}"), body)?);
        }
        // One for every device, and one for every direction where transfers were planned for both.
        let told =
            |p: &Planned| matches!(&p.transfers, TransferList::Unchecked(all) if !all.is_empty());
        let each = if planned.as_ref().is_some_and(told) {
            2
        } else {
            1
        };
        for i in 0..each * (shared.machine.memories.len() - 1) {
            let shared = shared.clone();
            let body = move || {
                if let Some(memories) = &shared.memories {
                    memories.serve();
                }
            };
            threads.push(spawn(format!("dahl-copy-{i}"), body)?);
        }
        let place = transport.as_ref().map(|t| (t.node(), t.nodes()));
        if let Some(transport) = transport {
            let shared = shared.clone();
            let body = move || {
                if let Some(network) = &shared.network {
                    crate::network::serve(&shared, network, transport);
                }
            };
            threads.push(spawn("dahl-network".into(), body)?);
        }
        if let Some(engine) = &engine {
            engine.start(shared.units.len(), Hands::new(&shared))?;
        }
        Ok(Runtime {
            engine,
            heap: malloc.then(Arc::default),
            place,
            during,
            main: RefCell::new(main_works.then(|| Worker::new(UnitId(0), &shared))),
            threads,
            graphs: HashMap::default(),
            layers: HashMap::default(),
            in_flight: RefCell::default(),
            serial: 0,
            id,
            ring,
            watchdog,
            roots: Vec::new(),
            wait_scratch: RefCell::default(),
            learner,
            planned,
            orders,
            sequenced: HashMap::new(),
            log: shared.tracer.is_some().then(Log::new),
            shared,
        })
    }

    /// The machine it runs on.
    pub fn machine(&self) -> &Machine {
        &self.shared.machine
    }

    /// The number of this node, and how many there are, if the runtime has a network.
    pub(crate) fn place_in_cluster(&self) -> Option<(u16, u16)> {
        self.place
    }

    /// A handle that can stop what is in flight.
    pub fn canceller(&self) -> Canceller {
        Canceller(self.shared.clone())
    }

    /// What has been moved between memories.
    pub fn traffic(&self) -> Traffic {
        self.shared
            .memories
            .as_ref()
            .map(|m| m.traffic())
            .unwrap_or_default()
    }

    /// Devices that failed and were taken out, each with its name and why. Their units go on in the
    /// host's memory, with what no other unit can run.
    pub fn lost_devices(&self) -> Vec<(String, String)> {
        let memories = self.shared.memories.iter();
        let lost = memories.flat_map(|m| m.losses());
        lost.map(|(name, why)| (name.into(), why.into())).collect()
    }

    /// Bytes of copies in a memory that is not the host's: now, and at most so far.
    pub fn memory_usage(&self, memory: MemoryId) -> (dahl_core::Bytes, dahl_core::Bytes) {
        let none = (dahl_core::Bytes(0), dahl_core::Bytes(0));
        self.shared
            .memories
            .as_ref()
            .map_or(none, |m| m.usage(memory))
    }

    /// Bytes set apart for the temporaries of all graphs launched and still known; where they are allocated one by one,
    /// the most that there were at a time.
    pub fn temporary_bytes(&self) -> usize {
        if let Some(usage) = &self.heap {
            return usage.most();
        }
        self.graphs
            .values()
            .flat_map(|e| &e.ring)
            .map(|s| s.instance.block_bytes)
            .sum()
    }

    /// Timings since the last call, if the policy needs them; the oldest are dropped if nobody asks.
    pub fn take_samples(&mut self) -> Vec<Sample> {
        self.learn();
        self.learner
            .as_mut()
            .map(Learner::take_recent)
            .unwrap_or_default()
    }

    /// What has been learnt of how long tasks take, if the policy wants to know.
    pub fn perf_model(&self) -> Option<&PerfModel> {
        self.learner.as_ref().map(Learner::model)
    }

    /// Writes down what has been learnt, where the builder was given a store.
    pub fn save_perf_model(
        &mut self,
    ) -> Result<Option<crate::perf_store::Warning>, crate::perf_store::StoreError> {
        self.learn();
        self.learner.as_mut().map_or(Ok(None), Learner::save)
    }

    /// Takes in the timings gathered since the last time, and tells policies what to expect.
    fn learn(&mut self) {
        if let Some(learner) = &mut self.learner {
            let graphs = &self.graphs;
            self.shared.hand_samples(|samples| {
                learner.learn(samples, |id| graphs.get(&id).map(|e| &*e.prepared));
            });
        }
    }

    /// How long each unit has worked so far: on tasks and on what they need, not looking for any.
    pub fn busy(&self) -> Vec<Seconds> {
        let nanos = |u: &UnitState| u.busy.load(std::sync::atomic::Ordering::Relaxed);
        let units = self.shared.units.iter();
        units.map(|u| Seconds(nanos(u) as f64 * 1e-9)).collect()
    }

    /// Tells at any time and from any thread how long all units of a kind have worked so far.
    pub fn busy_clock(&self, kind: UnitKind) -> Clock {
        let shared = self.shared.clone();
        Clock::Given(Arc::new(move || {
            let of_kind = |u: &&UnitState| u.driver.kind() == kind;
            let units = shared.units.iter().filter(of_kind);
            let nanos = units.map(|u| u.busy.load(std::sync::atomic::Ordering::Relaxed));
            Seconds(nanos.sum::<u64>() as f64 * 1e-9)
        }))
    }

    /// Waits for all launches and returns what ran since the last trace, if traces are recorded
    /// ([`Builder::trace`]). A launch that failed is in it as far as it came.
    pub fn take_trace(&mut self) -> Option<Trace> {
        let tracer = self.shared.tracer.clone()?;
        let mut log = self.log.take()?;
        let flights = self.in_flight.take();
        for (instance, serial) in &flights {
            // Waiting for a launch cannot fail; a task that did is reported by the next wait.
            let _ = self.wait_until(|| instance.has_ended(*serial));
        }
        let notes = self.shared.memories.as_ref().map(|m| m.take_notes());
        let trace = log.take(&tracer, &self.shared.machine, notes.unwrap_or_default());
        self.log = Some(log);
        Some(trace)
    }

    /// The moment that times of traces count from.
    pub fn trace_start(&self) -> Option<std::time::Instant> {
        self.shared.tracer.as_ref().map(|t| t.clock.start())
    }

    /// Records a small program and executes it on the spot.
    ///
    /// ```
    /// # use std::sync::{Arc, Weak};
    /// # use dahl_core::{Arena, Codelet, Task, UnitKind};
    /// # use dahl_runtime::Runtime;
    /// # let one = Arc::new(Codelet::new("one").implement("reference", UnitKind::CPU, |ops| {
    /// #     ops.write::<f64>(0).fill(1.0);
    /// #     Ok(())
    /// # }));
    /// let arena = Arena::new();
    /// let mut x = arena.zeros::<f64, 0>([])?;
    /// let mut runtime = Runtime::builder().workers(1).build()?;
    /// runtime.run(|r| {
    ///     r.submit(Task::new(&one, &[x.write()]));
    /// })?;
    /// assert_eq!(runtime.read(&x)?[0], 1.0);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn run(
        &mut self,
        program: impl FnOnce(&Recorder),
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let recorder = Recorder::new();
        program(&recorder);
        let graph = recorder.finish()?;
        self.launch(&graph)?;
        Ok(self.wait()?)
    }

    /// Launches a graph and returns at once. If all instances of it are in flight, works or waits until
    /// the oldest has ended.
    pub fn launch(&mut self, graph: &Arc<Graph>) -> Result<(), RunError> {
        let graph = &self.in_order(graph);
        self.check(graph)?;
        if self.shared.is_failing() {
            self.drain()?;
        }
        let id = self.entry(graph)?;
        let place = self.next_slot(id)?;
        self.lease(id)?;
        self.serial += 1;
        let serial = self.serial;
        if serial.is_multiple_of(LEARN_EVERY) {
            self.learn(); // For programs that read results and never wait for everything.
        }
        let entry = self.graphs.get_mut(&id).expect("made above");
        entry.launched = serial;
        let instance = entry.ring[place].instance.clone();
        match &self.shared.memories {
            Some(memories) => memories.launch(&instance, serial),
            None => instance.arm(serial),
        }
        register(entry, place, &mut self.layers, serial);
        let flights = self.in_flight.get_mut();
        while flights
            .front()
            .is_some_and(|(i, serial)| i.has_ended(*serial))
        {
            flights.pop_front();
        }
        // Behind one that takes long, those that have ended go when the queue would have to grow.
        if flights.len() == flights.capacity() {
            flights.retain(|(i, serial)| !i.has_ended(*serial));
        }
        flights.push_back((instance.clone(), serial));
        if let (Some(log), Some(tracer)) = (&mut self.log, &self.shared.tracer) {
            log.launch(graph, serial, tracer.clock.ticks());
        }
        self.roots.clear();
        // An engine counts predecessors itself: to it, every task is submitted.
        let all = 0..self.engine.as_ref().map_or(0, |_| graph.len() as u32);
        let roots = graph.roots.iter().copied().filter(|_| all.is_empty());
        let free = roots.chain(all.clone()).filter(|&t| instance.release(t));
        self.roots.extend(free.map(|t| instance.task(t)));
        if graph.len() == 0 {
            instance.account(0);
        }
        let none = self.shared.ready(None, &mut self.roots);
        debug_assert!(none.is_none(), "nobody is there to run it at once");
        Ok(())
    }

    /// Waits for all launches. If a task failed, returns its error; the runtime can be used again.
    pub fn wait(&mut self) -> Result<(), RunError> {
        let flights = self.in_flight.take();
        for (instance, serial) in &flights {
            self.wait_until(|| instance.has_ended(*serial))?;
        }
        let mut empty = flights;
        empty.clear();
        *self.in_flight.get_mut() = empty;
        self.learn();
        match self.shared.take_error() {
            Some(error) => {
                if let Some(memories) = &self.shared.memories {
                    memories.forget_temporaries();
                }
                Err(error)
            }
            None => Ok(()),
        }
    }

    /// After a failure: lets what is in flight run out, and returns the error.
    fn drain(&mut self) -> Result<(), RunError> {
        self.wait()
    }

    /// Works, or sleeps, until `done` holds.
    pub(crate) fn wait_until(&self, done: impl Fn() -> bool) -> Result<(), RunError> {
        if done() {
            return Ok(());
        }
        let _watch = self.watchdog.watch(&self.shared, || self.dump());
        if let Some(worker) = &mut *self.main.borrow_mut() {
            worker.turn(&self.shared, done);
            return Ok(());
        }
        while !done() {
            self.shared
                .sleep
                .sleep(self.shared.main_slot, || done().then_some(()));
        }
        Ok(())
    }

    /// Who waits for what, for people.
    pub fn dump(&self) -> String {
        use std::fmt::Write;
        let mut out = String::new();
        let asleep = self.shared.sleep.asleep();
        for (unit, asleep) in self.shared.machine.units.iter().zip(&asleep) {
            let _ = writeln!(
                out,
                "  {}: {}",
                unit.name,
                if *asleep { "asleep" } else { "awake" }
            );
        }
        for (queue, tasks) in self.shared.policy.backlog() {
            let _ = writeln!(out, "  queue of {queue}: {tasks} tasks");
        }
        for line in self.shared.memories.iter().flat_map(|m| m.backlog()) {
            let _ = writeln!(out, "  {line}");
        }
        for (instance, serial) in self.in_flight.borrow().iter() {
            let _ = writeln!(
                out,
                "  launch {serial}: {} tasks left",
                instance.remaining()
            );
            let waits = (0..instance.graph().len() as u32)
                .map(|t| (t, instance.pending[t as usize].left()))
                .filter(|&(_, n)| n > 0);
            for (task, n) in waits.take(8) {
                let _ = writeln!(out, "    {} waits for {n}", instance.graph().describe(task));
            }
        }
        out
    }
}

fn spawn(
    name: String,
    body: impl FnOnce() + Send + 'static,
) -> Result<crate::sync::thread::JoinHandle<()>, RunError> {
    let builder = crate::sync::thread::Builder::new().name(name.clone());
    builder
        .spawn(body)
        .map_err(|e| RunError::Start(format!("thread {name}: {e}")))
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // Whatever has not begun is not begun any more; what runs is waited for.
        self.shared.cancel();
        let _ = self.wait();
        self.shared.stop();
        if let Some(memories) = &self.shared.memories {
            memories.stop();
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        if let Some(memories) = &self.shared.memories {
            memories.flush();
        }
        // A canceller may keep what is shared until the process ends: others wait for this node to leave.
        if let Some(network) = &self.shared.network {
            network.leave();
        }
        if let Some(engine) = &self.engine {
            engine.stop();
        }
    }
}
