//! A node of a cluster as an executor: the program launches whole graphs, and each node runs its part.
//!
//! All nodes run the same program: the same launches, writes and reads of the same arrays, in the same order. What each
//! holds is then known to all without asking ([`Holders`]), and so are the messages. What a launch does to that
//! knowledge is found out once: states are numbered, and a launch in a state that was met before takes the part that
//! was made then.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use dahl_core::graph::partition::{Holders, part};
use dahl_core::{
    Codelet, ExecError, Executor, Graph, Handle, Recorder, Region, Task, UnitKind, Values,
    ValuesMut,
};

use crate::error::RunError;
use crate::runtime::Runtime;

/// Says on which node each task of a graph runs: the same for equal graphs, on all nodes.
pub type Placer = Box<dyn FnMut(&Graph) -> Vec<u16>>;

/// A node of a cluster.
pub struct Member {
    runtime: Runtime,
    node: u16,
    placer: Placer,
    states: Vec<Holders>,
    state: usize,
    /// By state and event, what follows.
    known: HashMap<(usize, Event), Follows>,
}

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
    /// The node that a runtime with a network is ([`crate::Builder::network`]).
    pub fn new(runtime: Runtime, placer: Placer) -> Result<Self, RunError> {
        let Some((node, nodes)) = runtime.place_in_cluster() else {
            let why = "a member of a cluster needs a runtime with a network";
            return Err(RunError::Start(why.into()));
        };
        Ok(Member {
            runtime,
            node,
            placer,
            states: vec![Holders::new(nodes)],
            state: 0,
            known: HashMap::new(),
        })
    }

    /// The number of this node.
    pub fn node(&self) -> u16 {
        self.node
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u16 {
        self.states[0].nodes()
    }

    /// The runtime of this node.
    pub fn runtime(&mut self) -> &mut Runtime {
        &mut self.runtime
    }

    /// Changes where tasks run, from the next launch on. All nodes must do so between the same launches.
    pub fn place_by(&mut self, placer: Placer) {
        self.placer = placer;
        self.known
            .retain(|(_, event), _| !matches!(event, Event::Launch(_)));
    }

    /// Something happens: returns what this node runs for it, after `new` if it never happened in this state before.
    fn happen(
        &mut self,
        event: Event,
        new: impl FnOnce(&mut Self, &mut Holders) -> Result<Option<Arc<Graph>>, ExecError>,
    ) -> Result<Option<Arc<Graph>>, ExecError> {
        if let Some((next, run)) = self.known.get(&(self.state, event)) {
            self.state = *next;
            return Ok(run.clone());
        }
        let mut holders = self.states[self.state].clone();
        let run = new(self, &mut holders)?;
        let met = self.states.iter().position(|s| *s == holders);
        let next = met.unwrap_or_else(|| {
            self.states.push(holders);
            self.states.len() - 1
        });
        self.known.insert((self.state, event), (next, run.clone()));
        self.state = next;
        Ok(run)
    }
}

impl Executor for Member {
    fn launch(&mut self, graph: &Arc<Graph>) -> Result<(), ExecError> {
        let run = self.happen(Event::Launch(graph.id), |this, holders| {
            let node_of = (this.placer)(graph);
            let transfers = holders.exchange(graph, &node_of)?;
            Ok(Some(part(graph, &node_of, &transfers, this.node)?.graph))
        })?;
        match run {
            Some(part) => Ok(self.runtime.launch(&part)?),
            None => Ok(()),
        }
    }

    fn wait(&mut self) -> Result<(), ExecError> {
        Ok(self.runtime.wait()?)
    }

    fn read(&mut self, array: &Handle, see: &mut dyn FnMut(Values<'_>)) -> Result<(), ExecError> {
        let event = Event::Read(array.storage.id, array.region);
        let run = self.happen(event, |this, holders| {
            let nodes = 0..holders.nodes();
            if nodes.clone().all(|n| holders.missing(array, n).is_empty()) {
                return Ok(None);
            }
            let recorder = Recorder::new();
            for _ in nodes.clone() {
                recorder.submit(Task::new(&TOUCH, &[array.with(dahl_core::Mode::Read)]));
            }
            let graph = recorder.finish()?;
            let node_of: Vec<u16> = nodes.collect();
            let transfers = holders.exchange(&graph, &node_of)?;
            Ok(Some(part(&graph, &node_of, &transfers, this.node)?.graph))
        })?;
        if let Some(gather) = run {
            self.runtime.launch(&gather)?;
        }
        Executor::read(&mut self.runtime, array, see)
    }

    fn write(
        &mut self,
        array: &Handle,
        change: &mut dyn FnMut(ValuesMut<'_>),
    ) -> Result<(), ExecError> {
        let event = Event::Write(array.storage.id, array.region);
        self.happen(event, |_, holders| {
            holders.written(array);
            Ok(None)
        })?;
        Executor::write(&mut self.runtime, array, change)
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
static TOUCH: LazyLock<Arc<Codelet>> = LazyLock::new(|| {
    Arc::new(Codelet::new("touch").implement("reference", UnitKind::CPU, |_| Ok(())))
});
