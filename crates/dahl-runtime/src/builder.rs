//! Building a runtime: how many workers, which policy, which memories.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use dahl_core::{Bytes, Graph, Link, Machine, Memory, MemoryId, Seconds, Unit, UnitKind};
use dahl_sched::policy::{self, Fixed, Order, Orders, Policy};
use dahl_sched::transfers::PlannedTransfer;

use crate::driver::{CpuDriver, Driver, NullDriver, TaskTime, TimedDriver};
use crate::engine::{Engine, EngineDecides};
use crate::error::RunError;
use crate::heap::Temporaries;
use crate::memory::{Backing, Device, HostDevice, Memories, OnLoss, OnNoRoom};
use crate::network::{Network, Transport};
use crate::perf_store::PerfStore;
use crate::prepare::{Planned, TransferList};
use crate::runtime::{Runtime, Settings};
use crate::shared::{Shared, UnitState};
use crate::tracer::Tracer;
use crate::watchdog::Watchdog;

/// Settings of a runtime.
pub struct Builder {
    workers: usize,
    policy: MakePolicy,
    main_works: bool,
    pin: bool,
    null: bool,
    task_time: Option<TaskTime>,
    ring: usize,
    devices: Vec<HostDeviceSpec>,
    others: Vec<DeviceSpec>,
    watchdog: Watchdog,
    store: Option<PerfStore>,
    events: Option<usize>,
    schedule: Option<Schedule>,
    alike: Vec<u16>,
    orders: Option<(Orders, MakeOrder)>,
    on_loss: Option<OnLoss>,
    on_no_room: Option<OnNoRoom>,
    network: Option<(Box<dyn Transport>, Duration)>,
    engine: Option<Box<dyn Engine>>,
    temporaries: Temporaries,
    during: Vec<Box<dyn Any + Send>>,
}

/// Makes the policy once the machine is known.
type MakePolicy = Box<dyn FnOnce(&Machine) -> Result<Box<dyn Policy>, RunError>>;

/// The policy of this name.
fn named(name: String) -> MakePolicy {
    Box::new(move |machine| {
        let policy = policy::by_name(&name, machine);
        policy.map_err(|e| RunError::Start(e.to_string()))
    })
}

/// The order of a graph for so many groups of units, or none if it has none.
pub type MakeOrder = Box<dyn FnMut(&Graph, usize) -> Option<Order> + Send>;

/// Where and in which order the tasks of one graph run, decided beforehand.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The fingerprint of the graph that it is for.
    pub graph: u64,
    /// For every unit, its tasks in order.
    pub order: Vec<Vec<u32>>,
    /// What is moved between memories ahead of the tasks, in order; none if each task's data is to be
    /// brought when its unit turns to it.
    pub transfers: Vec<PlannedTransfer>,
}

/// A device made of host memory: a unit that reaches its operands by explicit copies only.
#[derive(Clone, Debug)]
pub struct HostDeviceSpec {
    /// Units on it.
    pub units: usize,
    /// Most bytes it holds.
    pub capacity: Bytes,
    /// Bytes per second of its link, each way.
    pub bandwidth: f64,
    /// Time before the first byte of a copy.
    pub latency: Duration,
}

/// A device of any kind: one unit with a memory of its own.
pub struct DeviceSpec {
    /// Its name.
    pub name: String,
    /// How it executes tasks.
    pub driver: Box<dyn Driver>,
    /// Where copies are kept, and how bytes get there.
    pub backing: Box<dyn Backing>,
    /// Most bytes it holds.
    pub capacity: Bytes,
    /// Bytes per second and seconds before the first byte, to the device and back.
    pub links: [(f64, Seconds); 2],
}

impl Default for Builder {
    fn default() -> Self {
        Builder {
            workers: crate::discover::default_workers(),
            policy: named("ws".into()),
            main_works: true,
            pin: true,
            null: false,
            task_time: None,
            ring: 2,
            devices: Vec::new(),
            others: Vec::new(),
            watchdog: Watchdog::default(),
            store: None,
            events: None,
            schedule: None,
            alike: Vec::new(),
            orders: None,
            on_loss: None,
            on_no_room: None,
            network: None,
            engine: None,
            temporaries: Temporaries::Planned,
            during: Vec::new(),
        }
    }
}

impl Builder {
    /// Number of CPU workers. Unless set, as many as logical CPUs that the process may use, or fewer where its control
    /// groups grant less time.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// So many processes share this computer: each gets its part of the cores, unless it was bound to some already.
    /// Workers are not pinned then, because no process knows which cores the others have.
    pub fn share_cores(mut self, processes: usize) -> Self {
        if !crate::pin::is_bound() {
            self.workers = (self.workers / processes.max(1)).max(1);
            self.pin = false;
        }
        self
    }

    /// The policy, by name; `ws` unless set.
    pub fn policy(mut self, name: &str) -> Self {
        self.policy = named(name.into());
        self
    }

    /// A policy of the program's own, made for the machine that the runtime will have.
    ///
    /// ```
    /// use std::sync::Mutex;
    /// use dahl_core::{Seconds, UnitId};
    /// use dahl_runtime::Runtime;
    /// use dahl_sched::policy::{Policy, TaskRef, World};
    ///
    /// /// The task that became ready last runs first.
    /// struct LastFirst(Mutex<Vec<TaskRef>>);
    ///
    /// impl Policy for LastFirst {
    ///     fn name(&self) -> &'static str {
    ///         "last-first"
    ///     }
    ///
    ///     fn ready(
    ///         &self,
    ///         world: &dyn World,
    ///         _: Option<UnitId>,
    ///         tasks: &[TaskRef],
    ///         _: Seconds,
    ///     ) -> Option<TaskRef> {
    ///         self.0.lock().unwrap().extend(tasks);
    ///         tasks.iter().for_each(|_| {
    ///             world.wake(None);
    ///         });
    ///         None
    ///     }
    ///
    ///     fn next(&self, world: &dyn World, unit: UnitId, _: Seconds) -> Option<TaskRef> {
    ///         let mut all = self.0.lock().unwrap();
    ///         let able = all.iter().rposition(|&t| world.can_run(t, unit))?;
    ///         Some(all.remove(able))
    ///     }
    ///
    ///     fn backlog(&self) -> Vec<(String, usize)> {
    ///         vec![("all".into(), self.0.lock().unwrap().len())]
    ///     }
    /// }
    ///
    /// let builder = Runtime::builder().workers(2);
    /// let mut runtime = builder.with_policy(|_| LastFirst(Mutex::default())).build()?;
    /// runtime.run(|_| ())?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn with_policy<P: Policy + 'static>(
        mut self,
        make: impl FnOnce(&Machine) -> P + 'static,
    ) -> Self {
        self.policy = Box::new(|machine| Ok(Box::new(make(machine))));
        self
    }

    /// Whether the thread that waits works meanwhile, as one of the workers. It does unless set.
    pub fn main_works(mut self, works: bool) -> Self {
        self.main_works = works;
        self
    }

    /// Keeps a value as long as the runtime, which does nothing with it: what stands for a setting of the machine, say,
    /// that ends with the value.
    pub fn during(mut self, value: impl Any + Send) -> Self {
        self.during.push(Box::new(value));
        self
    }

    /// Whether worker threads are pinned to cores, where the system can. They are unless set: to physical cores of
    /// their own as long as there are any, fast ones first. The thread that waits is never pinned: it is the user's.
    pub fn pin(mut self, pin: bool) -> Self {
        self.pin = pin;
        self
    }

    /// Executes nothing: tasks are scheduled and end at once.
    pub fn null(mut self) -> Self {
        self.null = true;
        self
    }

    /// Executes nothing: a task takes the time that `time` says. For timing networks and schedules without the noise of
    /// computing, and with more workers than cores.
    pub fn timed(
        mut self,
        time: impl Fn(&dahl_core::graph::Class) -> Duration + Send + Sync + 'static,
    ) -> Self {
        self.task_time = Some(Arc::new(time));
        self
    }

    /// How many launches of one graph may be in flight; two unless set. Each has its own temporaries.
    pub fn in_flight(mut self, launches: usize) -> Self {
        self.ring = launches.max(1);
        self
    }

    /// Adds a device made of host memory.
    pub fn host_device(mut self, device: HostDeviceSpec) -> Self {
        self.devices.push(device);
        self
    }

    /// Adds a device with its own driver and memory.
    pub fn device(mut self, device: DeviceSpec) -> Self {
        self.others.push(device);
        self
    }

    /// Ends the process with a dump if no task ends for this long during a wait: for tests.
    pub fn watchdog(mut self, patience: Duration) -> Self {
        self.watchdog.patience = Some(patience);
        self
    }

    /// Begins with what is known about durations, and lets [`Runtime::save_perf_model`] write down what
    /// is learnt. Only policies that estimate look at it. Without one, they begin with a guess.
    pub fn perf_model(mut self, store: PerfStore) -> Self {
        self.store = Some(store);
        self
    }

    /// Records what runs where and when, for [`Runtime::take_trace`]: up to so many tasks per unit, of
    /// which the oldest go first. Each takes 16 bytes; the number is rounded up to a power of two.
    pub fn trace(mut self, events: usize) -> Self {
        self.events = Some(events);
        self
    }

    /// Follows a schedule instead of a policy: every task of its graph on its unit, in its order. Other
    /// graphs run on units that have nothing planned to do.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = Some(schedule);
        self
    }

    /// Units of one class stand in for each other when they follow a schedule and one is late
    /// ([`Fixed::among`]): every unit's class. Only where all data is in the host's memory.
    pub fn alike(mut self, class: Vec<u16>) -> Self {
        self.alike = class;
        self
    }

    /// Follows the orders of graphs instead of a policy: see [`Orders`]. `make` is asked for that of a graph which is launched for
    /// the first time, for so many groups; it has none for graphs that run on units which have nothing else to do.
    pub fn orders(mut self, orders: Orders, make: MakeOrder) -> Self {
        self.orders = Some((orders, make));
        self
    }

    /// Calls `notify` with a device's name and the reason when one fails and is taken out: once for each,
    /// from any thread, under a lock. It may print; it must not use the runtime.
    pub fn on_device_lost(mut self, notify: impl Fn(&str, &str) + Send + Sync + 'static) -> Self {
        self.on_loss = Some(Box::new(notify));
        self
    }

    /// Calls `notify` when tasks find no room in a device's memory and run in the host's: once for each device,
    /// with its name, the bytes it would have to hold, and those it holds. As for [`Builder::on_device_lost`].
    pub fn on_no_room(
        mut self,
        notify: impl Fn(&str, Bytes, Bytes) + Send + Sync + 'static,
    ) -> Self {
        self.on_no_room = Some(Box::new(notify));
        self
    }

    /// Connects this runtime to others: it becomes a node of a cluster ([`crate::network::Member`]). A node from which
    /// nothing comes for so long while it is waited for counts as lost.
    pub fn network(mut self, transport: Box<dyn Transport>, patience: Duration) -> Self {
        self.network = Some((transport, patience));
        self
    }

    /// Lets somebody else's workers run tasks, instead of the runtime's own under a policy: as many as
    /// [`Builder::workers`] says. They work on this computer's CPUs alone.
    pub fn engine(mut self, engine: impl Engine + 'static) -> Self {
        self.engine = Some(Box::new(engine));
        self
    }

    /// Where temporaries lie; in one planned block per launch unless set.
    pub fn temporaries(mut self, temporaries: Temporaries) -> Self {
        self.temporaries = temporaries;
        self
    }

    /// Refuses what an engine, or memory without a plan, cannot do.
    fn check_alone(&self) -> Result<(), RunError> {
        let devices = !self.devices.is_empty() || !self.others.is_empty();
        let wants = [
            (devices, "devices"),
            (self.network.is_some(), "other nodes"),
            (self.schedule.is_some(), "a schedule decided beforehand"),
        ];
        let wants = wants.iter().filter(|(wanted, _)| *wanted);
        let mut wants = wants.map(|(_, what)| what);
        let first = wants.next();
        if let (Some(what), Some(_)) = (first, &self.engine) {
            return Err(RunError::Start(format!(
                "{what} and an engine: an engine runs tasks on this computer's CPUs, in an order of its own"
            )));
        }
        if (devices || self.network.is_some()) && self.temporaries == Temporaries::Malloc {
            return Err(RunError::Start(
                "temporaries can be allocated one by one only where all tasks run on this computer's CPUs".into(),
            ));
        }
        Ok(())
    }

    fn driver(&self) -> Box<dyn Driver> {
        match &self.task_time {
            Some(time) => Box::new(TimedDriver(time.clone())),
            None if self.null => Box::new(NullDriver),
            None => Box::new(CpuDriver),
        }
    }

    /// Starts the runtime.
    pub fn build(self) -> Result<Runtime, RunError> {
        self.check_alone()?;
        let mut machine = Machine::cpus(self.workers);
        let state = |memory| UnitState {
            driver: self.driver(),
            memory,
            busy: 0.into(),
        };
        let mut units: Vec<UnitState> = (0..self.workers).map(|_| state(MemoryId::HOST)).collect();
        let mut devices = Vec::new();
        for (i, spec) in self.devices.iter().enumerate() {
            let memory = MemoryId(i as u16 + 1);
            let name = format!("device:{i}");
            let backing = HostDevice::new(spec.bandwidth, spec.latency);
            let room = Memory::new(name.clone(), Some(spec.capacity));
            machine.memories.push(room);
            machine.links.extend(backing.links(memory));
            for u in 0..spec.units {
                let name = format!("device:{i}.{u}");
                machine.units.push(Unit::new(name, UnitKind::CPU, memory));
                units.push(state(memory));
            }
            devices.push(Device::new(name, spec.capacity, Box::new(backing)));
        }
        for spec in self.others {
            let memory = MemoryId(machine.memories.len() as u16);
            let room = memory_name(&spec.name, spec.driver.device());
            machine
                .memories
                .push(Memory::new(room, Some(spec.capacity)));
            let ends = [(MemoryId::HOST, memory), (memory, MemoryId::HOST)];
            for ((from, to), (bandwidth, latency)) in ends.into_iter().zip(spec.links) {
                machine.links.push(Link::new(from, to, bandwidth, latency));
            }
            let kind = spec.driver.kind();
            if let Some(kernels) = spec.driver.kernels()
                && !machine.kernels.add(kind, kernels.clone())
            {
                let name = &spec.name;
                return Err(RunError::Start(format!(
                    "{name} is of kind {kind} and has other kernels than a device before it: give it a kind of \
                     its own, since units of one kind must compute the same"
                )));
            }
            let unit = Unit::new(spec.name.clone(), kind, memory);
            machine.units.push(unit);
            units.push(UnitState {
                driver: spec.driver,
                memory,
                busy: 0.into(),
            });
            devices.push(Device::new(spec.name, spec.capacity, spec.backing));
        }
        if units.is_empty() || units.len() > usize::from(u16::MAX) {
            let n = units.len();
            return Err(RunError::Start(format!("{n} units: use 1 to {}", u16::MAX)));
        }
        let (policy, planned) = match (self.schedule, &self.orders) {
            (None, _) if self.engine.is_some() => {
                (Box::new(EngineDecides) as Box<dyn Policy>, None)
            }
            (None, None) => ((self.policy)(&machine)?, None),
            (None, Some((orders, _))) => {
                let policy = policy::ordered(orders.clone(), &machine);
                (policy.map_err(|e| RunError::Start(e.to_string()))?, None)
            }
            (Some(schedule), _) => {
                let (follow, planned) = schedule.check(&machine, &self.alike)?;
                (follow, Some(planned))
            }
        };
        #[cfg(all(feature = "helgrind", not(feature = "shuttle")))]
        let policy: Box<dyn Policy> = Box::new(crate::helgrind::Handover(policy));
        let id = crate::runtime::fresh_id();
        let (brings, connected) = (!devices.is_empty(), self.network.is_some());
        let tracer = self
            .events
            .map(|n| Arc::new(Tracer::new(units.len(), n, brings, connected)));
        let (on_loss, on_no_room) = (self.on_loss, self.on_no_room);
        let memories = (!devices.is_empty()).then(|| {
            let memories = Memories::new(devices, id, tracer.clone(), on_loss);
            memories.saying(on_no_room)
        });
        // Unit 0 is a CPU of the host, or the first device's unit if there are no CPUs.
        let main_works = self.main_works && self.workers > 0 && self.engine.is_none();
        let network = self
            .network
            .as_ref()
            .map(|(transport, patience)| Network::new(&**transport, *patience));
        let mut shared = Shared::new(
            machine, units, policy, memories, network, tracer, main_works,
        );
        shared.engine = self.engine.is_some();
        let settings = Settings {
            id,
            ring: self.ring,
            pin: self.pin,
            main_works,
            watchdog: self.watchdog,
            store: self.store,
            planned,
            orders: self.orders,
            transport: self.network.map(|(transport, _)| transport),
            engine: self.engine,
            malloc: self.temporaries == Temporaries::Malloc,
            during: self.during,
        };
        Runtime::start(shared, settings)
    }
}

impl Schedule {
    /// The policy that follows it on a machine, if it is for one like this.
    fn check(
        self,
        machine: &Machine,
        alike: &[u16],
    ) -> Result<(Box<dyn Policy>, Planned), RunError> {
        let Schedule {
            graph,
            order,
            transfers,
        } = self;
        let (has, wants) = (machine.units.len(), order.len());
        if has != wants {
            let message = format!("the schedule is for {wants} units, there are {has}");
            return Err(RunError::Start(message));
        }
        let memories = machine.memories.len();
        if memories > 1 && !alike.is_empty() {
            let message = "units stand in for each other only where all data is in one memory";
            return Err(RunError::Start(message.into()));
        }
        let outside = |t: &PlannedTransfer| usize::from(t.from.max(t.to)) >= memories;
        if let Some(i) = transfers.iter().position(outside) {
            let message = format!("transfer {i} of the schedule: there are {memories} memories");
            return Err(RunError::Start(message));
        }
        let tasks = order.iter().map(Vec::len).sum();
        let fixed = Fixed::new(tasks, order.clone());
        let fixed = fixed
            .map_err(|e| RunError::Start(e.to_string()))?
            .among(alike);
        let planned = Planned {
            fingerprint: graph,
            tasks,
            order,
            transfers: TransferList::Unchecked(transfers),
        };
        Ok((policy::follow(fixed, machine), planned))
    }
}

/// The name of a device's memory. Durations are recorded under it, so it tells which device it is: `gpu:0`
/// may be another one tomorrow.
pub fn memory_name(unit: &str, device: &str) -> String {
    // A slash would count units that share it.
    let plain = |c: char| if c == '/' || c.is_control() { '-' } else { c };
    let named = format!("{unit} {device}");
    named.trim_end().chars().map(plain).collect()
}
