//! A node's part of a graph: its own tasks, and one for every message.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use crate::access::{Access, Mode};
use crate::codelet::{Call, Codelet, Cost, TaskError};
use crate::dtype::{DType, Element};
use crate::graph::deps::NONE;
use crate::graph::recorder::{GraphError, Recording};
use crate::graph::{Class, Graph, TaskRecord, reduce, runs};
use crate::machine::UnitKind;
use crate::operands::Operands;
use crate::region::Region;
use crate::shape::{MAX_RANK, Shape};
use crate::view::for_rows;

use super::due::{Dues, dues};
use super::trim::spans;
use super::{Placement, Transfer};

/// A message that a task of a part stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// The task, in the part's graph.
    pub task: u32,
    /// Place of the transfer in the list that all nodes know: what the message is called on its way.
    pub transfer: u32,
    /// The node at the other end.
    pub peer: u16,
    /// Whether it is sent, not received.
    pub sends: bool,
}

/// What one node runs.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its tasks and messages; [`Graph::messages`] says which is which.
    pub graph: Arc<Graph>,
    /// For every task of it, the task of the whole graph, or `NONE` for what belongs to a message.
    pub origin: Vec<u32>,
}

/// The part of one node: the tasks placed there, and its ends of the transfers that [`super::Holders::exchange`]
/// listed for this placement.
pub fn part(
    graph: &Graph,
    placement: &Placement,
    transfers: &[Transfer],
    node: u16,
) -> Result<Part, GraphError> {
    let mine = |t: &&Transfer| t.from == node || t.to == node;
    let spans = spans(graph, |see| {
        let placed = (0..graph.len() as u32).filter(|&t| placement.runs(t, node));
        placed
            .flat_map(|t| graph.accesses_of(t))
            .for_each(|a| see(a.array, &a.region));
        let own = transfers.iter().filter(mine);
        own.for_each(|t| see(t.array, &t.region));
    });
    let mut making = Making::new(graph, spans);
    making.dues = dues(graph, placement, transfers);
    let mut next = 0;
    for task in 0..=graph.len() as u32 {
        while let Some(transfer) = transfers.get(next).filter(|t| t.before <= task) {
            if mine(&transfer) {
                making.message(next as u32, transfer, node);
            }
            next += 1;
        }
        if (task as usize) < graph.len() && placement.runs(task, node) {
            making.task(task);
        }
    }
    making.finish()
}

/// A part while it is being made.
pub(super) struct Making<'g> {
    graph: &'g Graph,
    recording: Recording,
    /// What is touched of each storage.
    spans: Vec<Option<(usize, usize)>>,
    /// Classes, storages and arrays of the whole graph as the part knows them.
    classes: Vec<u32>,
    storages: Vec<u32>,
    arrays: Vec<u32>,
    /// Classes of pieces, by class and operands of the whole.
    pieces: HashMap<(u32, Vec<(Shape, Mode)>), u32>,
    origin: Vec<u32>,
    messages: Vec<Message>,
    dues: Option<Dues>,
    /// By task of the part.
    due: Vec<i32>,
    problem: Option<String>,
}

impl<'g> Making<'g> {
    pub(super) fn new(graph: &'g Graph, spans: Vec<Option<(usize, usize)>>) -> Self {
        let mut recording = Recording::new();
        recording.sections.clone_from(&graph.sections);
        Making {
            graph,
            recording,
            spans,
            classes: vec![NONE; graph.classes.len()],
            storages: vec![NONE; graph.storages.len()],
            arrays: vec![NONE; graph.arrays.len()],
            pieces: HashMap::new(),
            origin: Vec::new(),
            messages: Vec::new(),
            dues: None,
            due: Vec::new(),
            problem: None,
        }
    }

    /// A task of the whole graph.
    pub(super) fn task(&mut self, task: u32) {
        let graph = self.graph;
        let record = graph.tasks[task as usize];
        let class = self.class(record.class);
        let accesses = self.placed(graph.accesses_of(task));
        self.add(class, &accesses, (record.priority, record.section));
        self.recording.tasks.last_mut().expect("just added").fresh = record.fresh;
        *self.origin.last_mut().expect("just added") = task;
        if let Some(dues) = &self.dues {
            self.due.push(dues.tasks[task as usize]);
        }
    }

    /// A part of a task of the whole graph, with accesses of its own.
    pub(super) fn piece(&mut self, task: u32, accesses: &[Access]) {
        let record = self.graph.tasks[task as usize];
        let extents = |(a, &(shape, mode)): (&Access, &(Shape, Mode))| {
            let dims = a.region.dims4();
            let own = Shape::new(&dims[MAX_RANK - shape.rank()..]);
            (own.expect("not empty"), mode)
        };
        let whole = &self.graph.class_of(task).call.operands;
        let operands = accesses.iter().zip(whole).map(extents).collect();
        let class = self.class_of_piece(record.class, operands);
        let accesses = self.placed(accesses);
        self.add(class, &accesses, (record.priority, record.section));
        *self.origin.last_mut().expect("just added") = task;
    }

    /// A merge of two of the accumulators that a task of the whole graph merges.
    pub(super) fn merge(&mut self, task: u32, pair: [Access; 2]) {
        let graph = self.graph;
        let (record, class) = (graph.tasks[task as usize], graph.class_of(task));
        let operands = pair.map(|a| (class.call.operands[0].0, a.mode)).to_vec();
        let codelet = &graph.codelets[class.codelet as usize];
        let class = self.own_class(codelet, operands, class.call.dtype);
        let accesses = self.placed(&pair);
        self.add(class, &accesses, (record.priority, record.section));
        *self.origin.last_mut().expect("just added") = task;
    }

    /// Accesses of the whole graph as the part knows them.
    fn placed(&mut self, accesses: &[Access]) -> Vec<Access> {
        let own = |a: &Access| Access {
            array: self.place(a.array),
            ..*a
        };
        accesses.iter().map(own).collect()
    }

    /// This node's end of a transfer: one task, and one that packs or unpacks where the values do not lie side by side.
    fn message(&mut self, number: u32, transfer: &Transfer, node: u16) {
        let sends = transfer.from == node;
        let asker = self.graph.tasks.get(transfer.before as usize);
        let rank = asker.map_or((0, 0), |t| (t.priority, t.section));
        let (array, region) = (self.place(transfer.array), transfer.region);
        let GraphArrayOf { shape, dtype } = self.array(array);
        let dims = region.dims4();
        let extents = Shape::new(&dims[MAX_RANK - shape.rank()..]).expect("not empty");
        let mut pieces = 0;
        runs::runs(&shape, &region, |_, _| pieces += 1);
        let there = Place { array, region };
        let buffer = match pieces {
            1 => there,
            _ => Place {
                array: self.recording.add_temporary(extents, dtype),
                region: Region::whole(&extents),
            },
        };
        if pieces != 1 && sends {
            self.copy(there, buffer, (extents, dtype), rank);
        }
        let (codelet, mode) = match sends {
            true => (&*SEND, Mode::Read),
            false => (&*RECEIVE, Mode::Write),
        };
        let class = self.own_class(codelet, vec![(extents, mode)], dtype);
        self.add(class, &[buffer.access(mode)], rank);
        self.messages.push(Message {
            task: self.recording.tasks.len() as u32 - 1,
            transfer: number,
            peer: if sends { transfer.to } else { transfer.from },
            sends,
        });
        if pieces != 1 && !sends {
            self.copy(buffer, there, (extents, dtype), rank);
        }
        if let Some(dues) = &self.dues {
            let due = dues.transfers[number as usize];
            self.due.resize(self.recording.tasks.len(), due);
        }
    }

    fn copy(&mut self, from: Place, to: Place, (shape, dtype): (Shape, DType), rank: (i32, u32)) {
        let operands = vec![(shape, Mode::Read), (shape, Mode::Write)];
        let class = self.own_class(&COPY, operands, dtype);
        self.add(
            class,
            &[from.access(Mode::Read), to.access(Mode::Write)],
            rank,
        );
    }

    fn add(&mut self, class: u32, accesses: &[Access], (priority, section): (i32, u32)) {
        let r = &mut self.recording;
        let task = r.tasks.len() as u32;
        r.tasks.push(TaskRecord {
            class,
            first_access: r.accesses.len() as u32,
            access_count: accesses.len() as u16,
            fresh: false,
            priority,
            section,
        });
        r.accesses.extend(accesses);
        self.origin.push(NONE);
        for access in accesses {
            if let Err(problem) = reduce::track(r, task, access) {
                self.problem.get_or_insert(problem);
            }
        }
    }

    /// The number of an array in this part.
    fn place(&mut self, array: u32) -> u32 {
        if self.arrays[array as usize] == NONE {
            let whole = &self.graph.arrays[array as usize];
            let storage = whole.storage as usize;
            if self.storages[storage] == NONE {
                let kept = &self.graph.storages[storage];
                let number = self.recording.add_storage(kept.storage.clone());
                if kept.by_rows {
                    self.recording.by_rows.insert(kept.storage.id);
                }
                let own = &mut self.recording.storages[number as usize];
                if let (Some(_), Some(span)) = (kept.temporary, self.spans[storage]) {
                    own.span = span;
                }
                self.storages[storage] = number;
            }
            let view = self.recording.add_view(self.storages[storage], whole.shape);
            self.arrays[array as usize] = view;
        }
        self.arrays[array as usize]
    }

    fn array(&self, array: u32) -> GraphArrayOf {
        let array = &self.recording.arrays[array as usize];
        let storage = &self.recording.storages[array.storage as usize];
        GraphArrayOf {
            shape: array.shape,
            dtype: storage.storage.dtype,
        }
    }

    fn class(&mut self, class: u32) -> u32 {
        if self.classes[class as usize] == NONE {
            let whole = &self.graph.classes[class as usize];
            let codelet = &self.graph.codelets[whole.codelet as usize];
            let codelet = self.recording.intern(codelet);
            self.recording.classes.push(Class {
                codelet,
                ..whole.clone()
            });
            self.classes[class as usize] = self.recording.classes.len() as u32 - 1;
        }
        self.classes[class as usize]
    }

    /// The class of a task with smaller operands: the same codelet, by the same implementation.
    fn class_of_piece(&mut self, class: u32, operands: Vec<(Shape, Mode)>) -> u32 {
        let key = (class, operands);
        if let Some(&known) = self.pieces.get(&key) {
            return known;
        }
        let like = self.class(class);
        let like = &self.recording.classes[like as usize];
        let call = Call {
            operands: key.1.clone(),
            ..like.call.clone()
        };
        let codelet = &self.recording.codelets[like.codelet as usize];
        let piece = Class {
            cost: (codelet.cost)(&call),
            call,
            ..like.clone()
        };
        self.recording.classes.push(piece);
        let number = self.recording.classes.len() as u32 - 1;
        self.pieces.insert(key, number);
        number
    }

    fn own_class(
        &mut self,
        codelet: &Arc<Codelet>,
        operands: Vec<(Shape, Mode)>,
        dtype: DType,
    ) -> u32 {
        let call = Call {
            operands,
            dtype,
            params: Vec::new(),
        };
        self.recording.plain_class(codelet, call)
    }

    pub(super) fn finish(self) -> Result<Part, GraphError> {
        if let Some(problem) = self.problem {
            return Err(GraphError {
                codelet: "partition".into(),
                section: String::new(),
                problem,
                place: "a part of a graph".into(),
            });
        }
        Ok(Part {
            graph: Arc::new(self.recording.into_graph(self.messages, self.due)),
            origin: self.origin,
        })
    }
}

struct GraphArrayOf {
    shape: Shape,
    dtype: DType,
}

#[derive(Clone, Copy)]
struct Place {
    array: u32,
    region: Region,
}

impl Place {
    fn access(self, mode: Mode) -> Access {
        Access {
            array: self.array,
            mode,
            fresh: None,
            region: self.region,
        }
    }
}

static SEND: LazyLock<Arc<Codelet>> = LazyLock::new(|| message("send"));

static RECEIVE: LazyLock<Arc<Codelet>> = LazyLock::new(|| message("receive"));

fn message(name: &'static str) -> Arc<Codelet> {
    let cost = |call: &Call| Cost {
        flops: 0.0,
        bytes: call.bytes(),
    };
    let body = move |_: &Operands<'_>| -> Result<(), TaskError> {
        Err(TaskError(format!(
            "{name} needs a connection to other nodes"
        )))
    };
    let codelet = Codelet::new(name).cost(cost);
    Arc::new(codelet.implement("network", UnitKind::NET, body))
}

/// Copies operand 0 to operand 1, as large.
static COPY: LazyLock<Arc<Codelet>> = LazyLock::new(|| {
    let cost = |call: &Call| Cost {
        flops: 0.0,
        bytes: call.bytes(),
    };
    let body = |ops: &Operands<'_>| match ops.dtype(0) {
        DType::F32 => copy::<f32>(ops),
        DType::F64 => copy::<f64>(ops),
    };
    let codelet = Codelet::new("pack").cost(cost);
    Arc::new(codelet.implement("reference", UnitKind::CPU, body))
});

fn copy<T: Element>(ops: &Operands<'_>) -> Result<(), TaskError> {
    let (from, mut to) = (ops.read::<T>(0), ops.write::<T>(1));
    for_rows(to.dims(), |at| to.row(at).copy_from_slice(from.row(at)));
    Ok(())
}
