//! A node of a cluster as an executor: the program launches whole graphs, and each node runs its part.
//!
//! All nodes run the same program: the same launches, writes and reads of the same arrays, in the same order. What each
//! holds is then known to all without asking ([`Holders`]), and so are the messages. What a launch does to that
//! knowledge is found out once: states are numbered, and a launch in a state that was met before takes the part that
//! was made then.
//!
//! A computer alone is a member, too: its part is the whole graph, and it agrees with itself.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use dahl_core::graph::partition::{
    Holders, Placement, PlacementError, for_shares, loads, pairwise, part, place_by_rows,
};
use dahl_core::{
    Codelet, ExecError, Executor, Graph, Handle, Recorder, Region, Task, UnitKind, Values,
    ValuesMut,
};

use dahl_sched::policy::Order;

use super::agree::{Meetings, NodeReport};
use super::balance::Balance;
use super::clocks::Round;
use super::exchange::read_rows;
use super::links::MeasuredLink;
use super::{LAUNCHES_APART, Network};
use crate::error::RunError;
use crate::runtime::Runtime;

/// Says on which node each task of a graph runs: the same for equal graphs, on all nodes.
pub type Placer = Box<dyn FnMut(&Graph) -> Placement>;

/// Where the tasks of a graph run, and in which order those of a node do.
pub struct Staged {
    /// By task.
    pub placement: Placement,
    /// By task, where the graph has an order; the group of each is that of its node.
    pub order: Option<Order>,
}

/// Places the tasks of a graph by the stages of a pipeline: the same for equal graphs, on all nodes.
pub type Stager = Box<dyn FnMut(&Graph) -> Result<Staged, ExecError>>;

/// Hears of the shares of all nodes when they change.
pub type OnShares = Box<dyn FnMut(&[f64])>;

/// A node of a cluster, or a computer alone.
pub struct Member {
    pub(super) runtime: Runtime,
    cluster: Option<Cluster>,
}

/// What a node knows of its cluster.
struct Cluster {
    node: u16,
    place: Place,
    states: Vec<Holders>,
    state: usize,
    /// By state and event, what follows.
    known: HashMap<(usize, Event), Follows>,
    meetings: Meetings,
    /// How the clocks of all nodes compared, first and last.
    clocks: Option<(Vec<Round>, Vec<Round>)>,
    /// What joins the first node and the others, where it was measured.
    links: Vec<MeasuredLink>,
    /// What nodes run of graphs, and where, if tasks are placed by shares.
    placed: HashMap<u64, (Arc<Graph>, Placement)>,
    /// What this node touches of arrays, by graph and array.
    touched: HashMap<(u64, u64), Range<usize>>,
    /// Launches so far.
    launches: u64,
}

/// Who says where tasks run.
enum Place {
    By(Placer),
    Shares(Balance, OnShares),
    Stages(Stager),
}

/// The program of a launch, where its tasks run, and in which order.
type Placed = (Arc<Graph>, Placement, Option<Order>);

/// The next state, and what this node runs.
type Follows = (usize, Option<Arc<Graph>>);

/// What can happen to the values of arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Event {
    /// A graph is launched.
    Launch(u64),
    /// All nodes write the same values into a part of a storage.
    Write(u64, Region),
    /// All nodes read a part of a storage.
    Read(u64, Region),
}

impl Member {
    /// A computer alone.
    pub fn alone(runtime: Runtime) -> Self {
        Member {
            runtime,
            cluster: None,
        }
    }

    /// The node that a runtime with a network is ([`crate::Builder::network`]); `placer` says where tasks run.
    pub fn new(runtime: Runtime, placer: Placer) -> Result<Self, RunError> {
        Self::join(runtime, Place::By(placer))
    }

    /// The same, with tasks placed by samples: each node has its share of a batch. Without `shares` they follow
    /// measured speeds, and `on_shares` hears of every change. No bit depends on them.
    pub fn with_shares(
        runtime: Runtime,
        shares: Option<Vec<f64>>,
        on_shares: OnShares,
    ) -> Result<Self, RunError> {
        let nodes = runtime.place_in_cluster().map_or(1, |(_, nodes)| nodes);
        let start = |e: PlacementError| RunError::Start(e.to_string());
        let balance = Balance::new(nodes, shares).map_err(start)?;
        match nodes {
            1 => Ok(Self::alone(runtime)),
            _ => Self::join(runtime, Place::Shares(balance, on_shares)),
        }
    }

    /// The same, with tasks placed by the stages of a pipeline. In which order they run is known to those that the runtime
    /// follows ([`crate::Builder::orders`]), if it does.
    pub fn with_stages(runtime: Runtime, stager: Stager) -> Result<Self, RunError> {
        Self::join(runtime, Place::Stages(stager))
    }

    fn join(runtime: Runtime, place: Place) -> Result<Self, RunError> {
        let Some((node, nodes)) = runtime.place_in_cluster() else {
            let why = "a member of a cluster needs a runtime with a network";
            return Err(RunError::Start(why.into()));
        };
        let start = |e: ExecError| RunError::Start(e.to_string());
        let meetings = Meetings::new(nodes).map_err(start)?;
        let mut member = Member {
            runtime,
            cluster: Some(Cluster {
                node,
                place,
                states: vec![Holders::new(nodes)],
                state: 0,
                known: HashMap::new(),
                meetings,
                clocks: None,
                links: Vec::new(),
                placed: HashMap::new(),
                touched: HashMap::new(),
                launches: 0,
            }),
        };
        let names = member.gather(crate::discover::host_name().as_bytes());
        let text = |name: Vec<u8>| String::from_utf8_lossy(&name).into_owned();
        let names = names.map_err(start)?.into_iter().map(text).collect();
        if let Some(network) = member.network() {
            network.call_nodes(names);
        }
        Ok(member)
    }

    /// The number of this node; 0 if it is alone.
    pub fn node(&self) -> u16 {
        self.cluster.as_ref().map_or(0, |c| c.node)
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u16 {
        self.cluster.as_ref().map_or(1, |c| c.states[0].nodes())
    }

    /// What the nodes are called, by number; none if it is alone.
    pub fn names(&self) -> Vec<String> {
        self.network().map(Network::all_names).unwrap_or_default()
    }

    /// Each node's part of a batch, if tasks are placed by that.
    pub fn shares(&self) -> Option<&[f64]> {
        match &self.cluster.as_ref()?.place {
            Place::Shares(balance, _) => Some(balance.shares()),
            Place::By(_) | Place::Stages(_) => None,
        }
    }

    /// The runtime of this node.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The runtime of this node, to take a trace of say. What it launches by itself, other nodes do not know of.
    pub fn runtime_mut(&mut self) -> &mut Runtime {
        &mut self.runtime
    }

    /// Changes where tasks run, from the next launch on. All nodes must do so between the same launches.
    pub fn place_by(&mut self, placer: Placer) {
        if let Some(cluster) = &mut self.cluster {
            cluster.place = Place::By(placer);
            cluster.forget_parts();
        }
    }

    /// Notes what joins the nodes, as it was measured before the runtime had the network.
    pub fn note_links(&mut self, links: Vec<MeasuredLink>) {
        if let Some(cluster) = &mut self.cluster {
            cluster.links = links;
        }
    }

    /// What joins the nodes, where it was measured and noted.
    pub fn links(&self) -> &[MeasuredLink] {
        self.cluster.as_ref().map_or(&[], |c| &c.links)
    }

    /// Notes how the clocks of all nodes compare now.
    pub(super) fn note_clocks(&mut self, rounds: Vec<Round>) {
        if let Some(cluster) = &mut self.cluster {
            let first = cluster.clocks.take().map(|c| c.0);
            cluster.clocks = Some((first.unwrap_or_else(|| rounds.clone()), rounds));
        }
    }

    /// How the clocks of all nodes compared, first and last.
    pub(super) fn clocks(&self) -> Option<&(Vec<Round>, Vec<Round>)> {
        self.cluster.as_ref()?.clocks.as_ref()
    }

    /// All nodes have come to the end: waits for the others, and leaves the cluster together with them. A member that
    /// is dropped before says goodbye to the others, which ends their run.
    pub fn finish(&mut self) -> Result<(), ExecError> {
        if self.cluster.is_some() {
            self.wait()?;
            self.gather(&[])?;
            self.runtime.wait()?;
            if let Some(network) = self.network() {
                network.all_finished();
            }
        }
        Ok(())
    }

    /// Notes why this node is about to leave: the others will name it as the reason for their end.
    pub fn leave_because(&mut self, why: impl Into<String>) {
        if let Some(network) = self.network() {
            network.leave_because(why.into());
        }
    }

    fn network(&self) -> Option<&Network> {
        self.runtime.shared.network.as_ref()
    }

    /// Something happens: returns what this node runs for it, after `new` if it never happened in this state before.
    fn happen(
        cluster: &mut Cluster,
        event: Event,
        new: impl FnOnce(&mut Cluster, &mut Holders) -> Result<Option<Arc<Graph>>, ExecError>,
    ) -> Result<Option<Arc<Graph>>, ExecError> {
        if let Some((next, run)) = cluster.known.get(&(cluster.state, event)) {
            cluster.state = *next;
            return Ok(run.clone());
        }
        let mut holders = cluster.states[cluster.state].clone();
        let run = new(cluster, &mut holders)?;
        let met = cluster.states.iter().position(|s| *s == holders);
        let next = met.unwrap_or_else(|| {
            cluster.states.push(holders);
            cluster.states.len() - 1
        });
        let follows = (next, run.clone());
        cluster.known.insert((cluster.state, event), follows);
        cluster.state = next;
        Ok(run)
    }

    pub(super) fn launch_placed(
        &mut self,
        graph: &Arc<Graph>,
        placement: Placement,
    ) -> Result<(), ExecError> {
        self.launch_by(graph, |_, graph| Ok((graph.clone(), placement, None)))
    }

    /// Launches what `place` makes of a graph: the same program, and where its tasks run.
    fn launch_by(
        &mut self,
        graph: &Arc<Graph>,
        place: impl FnOnce(&mut Cluster, &Arc<Graph>) -> Result<Placed, ExecError>,
    ) -> Result<(), ExecError> {
        let Some(cluster) = &mut self.cluster else {
            return Ok(self.runtime.launch(graph)?);
        };
        let orders = self.runtime.orders.as_ref().map(|(orders, _)| orders);
        let units = self.runtime.machine().units.len();
        let run = Self::happen(cluster, Event::Launch(graph.id), |cluster, holders| {
            let (graph, placement, order) = place(cluster, graph)?;
            let mut transfers = holders.exchange(&graph, &placement)?;
            // An order decided beforehand knows of no such messages.
            if order.is_none() {
                holders.publish(&graph, &mut transfers);
            }
            let part = part(&graph, &placement, &transfers, cluster.node)?;
            let (Some(orders), Some(order)) = (orders, order) else {
                return Ok(Some(part.graph));
            };
            let order = order.of_part(&part, &transfers);
            let sequenced = orders.sequenced(&part.graph, &order, units);
            let graph = sequenced.unwrap_or(part.graph);
            orders.insert(graph.id, order);
            Ok(Some(graph))
        })?;
        self.run(run)
    }

    /// Launches what this node runs, if anything; the same on all nodes.
    fn run(&mut self, part: Option<Arc<Graph>>) -> Result<(), ExecError> {
        let (Some(part), Some(cluster)) = (part, &mut self.cluster) else {
            return Ok(());
        };
        cluster.launches += 1;
        // So two launches that are `LAUNCHES_APART` from each other have a wait between them, on every node.
        if cluster.launches.is_multiple_of(LAUNCHES_APART / 2) {
            self.runtime.wait()?;
        }
        Ok(self.runtime.launch(&part)?)
    }

    /// What nodes said when they last met; what this one says is sent on its way.
    fn meet(&mut self) -> Result<Vec<NodeReport>, ExecError> {
        let busy = self.runtime.busy();
        let busy = busy.iter().map(|s| s.0).sum::<f64>() / busy.len().max(1) as f64;
        let Some(cluster) = &mut self.cluster else {
            return Ok(Vec::new());
        };
        let (array, given) = (cluster.meetings.rows.array.clone(), cluster.meetings.given);
        let all: Vec<NodeReport> = match given {
            true => {
                let rows = read_rows(self, &array)?;
                rows.iter().map(|row| NodeReport::read(row)).collect()
            }
            false => Vec::new(),
        };
        if let Some(cluster) = &mut self.cluster {
            let meetings = &mut cluster.meetings;
            if given {
                meetings.heard(&all);
            }
            let report = meetings.say(busy);
            meetings.rows.give(report.row().into_iter());
            let rows = &meetings.rows;
            let (graph, placement) = (rows.graph.clone(), rows.placement.clone());
            self.launch_placed(&graph, placement)?;
        }
        Ok(all)
    }
}

/// Which part of a graph's work each node has with these shares, by static costs; the shares where that is not known.
fn part_of_work(graph: &Graph, shares: &[f64]) -> Vec<f64> {
    let Ok(placement) = place_by_rows(graph, shares) else {
        return shares.to_vec();
    };
    let loads = loads(graph, &placement, &[], shares.len() as u16);
    let total: f64 = loads.iter().map(|load| load.work).sum();
    match total > 0.0 {
        true => loads.iter().map(|load| load.work / total).collect(),
        false => shares.to_vec(),
    }
}

impl Cluster {
    /// What nodes run of a graph, where, and in which order if that is decided.
    fn place(&mut self, graph: &Arc<Graph>) -> Result<Placed, ExecError> {
        let balance = match &mut self.place {
            Place::By(placer) => return Ok((graph.clone(), placer(graph), None)),
            Place::Stages(stager) => {
                let graph = pairwise(graph);
                let Staged { placement, order } = stager(&graph)?;
                return Ok((graph, placement, order));
            }
            Place::Shares(balance, _) => balance,
        };
        if let Some((whole, placement)) = self.placed.get(&graph.id) {
            return Ok((whole.clone(), placement.clone(), None));
        }
        let whole = for_shares(graph, balance.shares());
        let placement = place_by_rows(&whole, balance.shares())?;
        self.placed
            .insert(graph.id, (whole.clone(), placement.clone()));
        Ok((whole, placement, None))
    }

    /// Where tasks run has changed.
    fn forget_parts(&mut self) {
        self.touched.clear();
        self.placed.clear();
        let meeting = Event::Launch(self.meetings.rows.graph.id);
        self.known
            .retain(|(_, event), _| *event == meeting || !matches!(event, Event::Launch(_)));
    }
}

impl Executor for Member {
    fn launch(&mut self, graph: &Arc<Graph>) -> Result<(), ExecError> {
        self.launch_by(graph, Cluster::place)
    }

    fn wait(&mut self) -> Result<(), ExecError> {
        Ok(self.runtime.wait()?)
    }

    fn read(&mut self, array: &Handle, see: &mut dyn FnMut(Values<'_>)) -> Result<(), ExecError> {
        if let Some(cluster) = &mut self.cluster {
            let event = Event::Read(array.storage.id, array.region);
            let run = Self::happen(cluster, event, |cluster, holders| {
                let nodes = 0..holders.nodes();
                if nodes.clone().all(|n| holders.missing(array, n).is_empty()) {
                    return Ok(None);
                }
                let recorder = Recorder::new();
                for _ in nodes.clone() {
                    recorder.submit(Task::new(&TOUCH, &[array.with(dahl_core::Mode::Read)]));
                }
                let graph = recorder.finish()?;
                let placement = Placement::from_iter(nodes);
                let transfers = holders.exchange(&graph, &placement)?;
                Ok(Some(
                    part(&graph, &placement, &transfers, cluster.node)?.graph,
                ))
            })?;
            self.run(run)?;
        }
        Executor::read(&mut self.runtime, array, see)
    }

    fn write(
        &mut self,
        array: &Handle,
        change: &mut dyn FnMut(ValuesMut<'_>),
    ) -> Result<(), ExecError> {
        if let Some(cluster) = &mut self.cluster {
            let event = Event::Write(array.storage.id, array.region);
            Self::happen(cluster, event, |_, holders| {
                holders.written(array);
                Ok(None)
            })?;
        }
        Executor::write(&mut self.runtime, array, change)
    }

    fn agree(&mut self, stop: bool) -> Result<bool, ExecError> {
        let Some(cluster) = &mut self.cluster else {
            return Ok(stop);
        };
        if !cluster.meetings.is_due(stop) {
            return Ok(false);
        }
        let all = self.meet()?;
        let Some(cluster) = &mut self.cluster else {
            return Ok(false);
        };
        if let Place::Shares(balance, on_shares) = &mut cluster.place {
            let busy: Vec<f64> = all.iter().map(|t| t.busy).collect();
            // Of equal ones the newest, so that all nodes look at the same.
            let largest = cluster
                .placed
                .iter()
                .max_by_key(|(id, (whole, _))| (whole.len(), **id));
            let work = |shares: &[f64]| {
                largest.map_or(shares.to_vec(), |(_, (whole, _))| {
                    part_of_work(whole, shares)
                })
            };
            if balance.adjust(&busy, work) {
                on_shares(balance.shares());
                cluster.forget_parts();
            }
        }
        Ok(all.iter().any(|t| t.stop))
    }

    fn compare(
        &mut self,
        facts: &mut dyn FnMut() -> Vec<(&'static str, String)>,
    ) -> Result<(), ExecError> {
        if self.cluster.is_none() {
            return Ok(());
        }
        let facts = facts();
        let mut own = Vec::new();
        // A value may have several lines, but none has a zero byte.
        for (_, value) in &facts {
            own.extend(value.as_bytes());
            own.push(0);
        }
        let all = self.gather(&own)?;
        let value = |node: usize, i: usize| {
            let value = all[node].split(|&b| b == 0).nth(i).unwrap_or_default();
            String::from_utf8_lossy(value).into_owned()
        };
        let name = |node: usize| match self.network() {
            Some(network) => network.name(node as u16),
            None => format!("node {node}"),
        };
        for node in 1..all.len() {
            for (i, (what, _)) in facts.iter().enumerate() {
                let (first, other) = (value(0, i), value(node, i));
                if first != other {
                    return Err(Box::new(RunError::NodesDiffer {
                        what: (*what).into(),
                        first: format!("{}: {first}", name(0)),
                        other: format!("{}: {other}", name(node)),
                    }));
                }
            }
        }
        Ok(())
    }

    fn touched(&mut self, graph: &Arc<Graph>, array: &Handle) -> Range<usize> {
        let whole = 0..array.storage.shape.len();
        let Some(cluster) = &mut self.cluster else {
            return whole;
        };
        if let Place::By(_) = cluster.place {
            return whole;
        }
        let key = (graph.id, array.storage.id);
        if let Some(known) = cluster.touched.get(&key) {
            return known.clone();
        }
        let node = cluster.node;
        let found = match cluster.place(graph) {
            Ok((graph, placement, _)) => super::own_rows::touched(&graph, array, &placement, node),
            Err(_) => whole,
        };
        cluster.touched.insert(key, found.clone());
        found
    }

    fn is_first(&self) -> bool {
        self.node() == 0
    }
}

/// A node stays until it has sent what others wait for; reading values waits only for those that come here.
impl Drop for Member {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // Who wanted to know of a failure has waited before.
            let _ = self.runtime.wait();
        }
    }
}

/// Reads its operand and does nothing: a node that runs it has the newest values.
pub(super) static TOUCH: LazyLock<Arc<Codelet>> = LazyLock::new(|| {
    Arc::new(Codelet::new("touch").implement("reference", UnitKind::CPU, |_| Ok(())))
});
