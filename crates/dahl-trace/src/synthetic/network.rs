//! The network of a made-up trace: its tasks, data and dependencies.

use dahl_core::access::Mode;
use dahl_core::graph::deps::Edge;
use dahl_core::region::Region;
use dahl_core::trace::{TraceAccess, TraceClass, TraceEnd, TraceGraph, TraceStorage, TraceTask};
use dahl_core::{Shape, UnitKind};

use super::bytes;

/// A layer: its name, codelets forwards and backwards, output per sample, weights.
struct Layer {
    name: &'static str,
    codelets: [&'static str; 2],
    output: [usize; 3],
    weights: [usize; 4],
    /// Microseconds of one task, forwards.
    micros: f64,
}

const NONE: [usize; 4] = [0; 4];

/// `weights` is [`NONE`] where a layer has no parameters.
const LAYERS: [Layer; 6] = [
    Layer {
        name: "0 conv2d",
        codelets: ["conv2d", "conv2d_filter_grad"],
        output: [8, 28, 28],
        weights: [8, 1, 3, 3],
        micros: 60.0,
    },
    Layer {
        name: "1 max_pool2d",
        codelets: ["max_pool2d", "max_pool2d_grad"],
        output: [8, 14, 14],
        weights: NONE,
        micros: 12.0,
    },
    Layer {
        name: "2 conv2d",
        codelets: ["conv2d", "conv2d_filter_grad"],
        output: [16, 14, 14],
        weights: [16, 8, 3, 3],
        micros: 95.0,
    },
    Layer {
        name: "3 relu",
        codelets: ["relu", "relu_grad"],
        output: [16, 14, 14],
        weights: NONE,
        micros: 6.0,
    },
    Layer {
        name: "4 linear",
        codelets: ["linear", "linear_grad"],
        output: [1, 1, 10],
        weights: [1, 1, 10, 3136],
        micros: 30.0,
    },
    Layer {
        name: "loss",
        codelets: ["cross_entropy", "cross_entropy_grad"],
        output: [1, 1, 1],
        weights: NONE,
        micros: 3.0,
    },
];

/// Samples of a task.
const SAMPLES: usize = 4;

/// A network as the scheduler needs it.
pub(super) struct Network {
    pub graph: TraceGraph,
    /// Mean nanoseconds of a task on a CPU, by class.
    pub nanos: Vec<f64>,
    /// Edges from a task of one step to a task of the next: a layer waits for its weights.
    pub next: Vec<(u32, u32)>,
}

impl Network {
    /// About `tasks` tasks, at least one a layer and direction.
    pub(super) fn of(tasks: usize) -> Network {
        let updates = LAYERS.iter().filter(|l| l.weights != NONE).count();
        let parts = (tasks.saturating_sub(updates) / (2 * LAYERS.len())).max(1);
        let mut net = Builder::new(parts);
        for (l, layer) in LAYERS.iter().enumerate() {
            net.layer(l, layer, 0);
        }
        for (l, layer) in LAYERS.iter().enumerate().rev() {
            net.layer(l, layer, 1);
            if layer.weights != NONE {
                net.update(l, layer);
            }
        }
        net.finish()
    }
}

struct Builder {
    parts: usize,
    net: Network,
    edges: Vec<(u32, u32)>,
    /// First task of a layer in a direction.
    first: [[u32; 2]; LAYERS.len()],
    /// Storages of a layer: output, gradient of the output, weights, gradient of the weights.
    storages: [[u32; 4]; LAYERS.len()],
    input: u32,
}

impl Builder {
    fn new(parts: usize) -> Builder {
        let mut graph = TraceGraph {
            fingerprint: 0x5eed_0000 + parts as u64,
            sections: vec![String::new()],
            ..TraceGraph::default()
        };
        let mut storages = [[0; 4]; LAYERS.len()];
        let mut add = |name: String, bytes: u64, temporary: bool| {
            graph.storages.push(TraceStorage {
                name,
                bytes,
                temporary,
                data: graph.storages.len() as u64,
                overwritten: false,
            });
            graph.storages.len() as u32 - 1
        };
        let batch = parts * SAMPLES;
        let input = add("images".into(), bytes([batch, 1, 28, 28]), false);
        for (l, layer) in LAYERS.iter().enumerate() {
            let [c, h, w] = layer.output;
            let output = bytes([batch, c, h, w]);
            storages[l] = [
                add(format!("{l}.output"), output, true),
                add(format!("{l}.output.grad"), output, true),
                add(format!("{l}.weight"), bytes(layer.weights).max(4), false),
                add(
                    format!("{l}.weight.grad"),
                    bytes(layer.weights).max(4),
                    true,
                ),
            ];
        }
        graph.sections.extend(LAYERS.iter().map(|l| l.name.into()));
        Builder {
            parts,
            net: Network {
                graph,
                nanos: vec![],
                next: vec![],
            },
            edges: vec![],
            first: [[0; 2]; LAYERS.len()],
            storages,
            input,
        }
    }

    fn class(&mut self, codelet: &str, layer: &Layer, nanos: f64) -> u32 {
        let [c, h, w] = layer.output;
        let flops = nanos * 4.0;
        self.net.graph.classes.push(TraceClass {
            codelet: codelet.into(),
            implementations: [
                (UnitKind::CPU, "simd".into()),
                (UnitKind::GPU, "gpu".into()),
            ]
            .into(),
            shapes: format!("f32 [{SAMPLES}, {c}, {h}, {w}] {:?}", layer.weights),
            flops,
            bytes: 2.0 * bytes([SAMPLES, c, h, w]) as f64,
        });
        self.net.nanos.push(nanos);
        self.net.graph.classes.len() as u32 - 1
    }

    fn task(&mut self, class: u32, layer: usize, accesses: &[(u32, Mode, Option<usize>)]) -> u32 {
        let graph = &mut self.net.graph;
        graph.tasks.push(TraceTask {
            class,
            section: layer as u32 + 1,
            first_access: graph.accesses.len() as u32,
            access_count: accesses.len() as u16,
            priority: 0,
        });
        for &(storage, mode, part) in accesses {
            // Weights and their gradients whole, everything else by sample.
            let (start, end) = part.map_or((0, 1), |p| (p * SAMPLES, (p + 1) * SAMPLES));
            let extent = (graph.storages[storage as usize].bytes as usize / 4).max(1);
            let row = part.map_or(extent, |_| (extent / (self.parts * SAMPLES)).max(1));
            graph.accesses.push(TraceAccess {
                storage,
                mode,
                region: Region::new([start, 0, 0, 0], [end, 1, 1, row]).expect("not empty"),
            });
        }
        graph.tasks.len() as u32 - 1
    }

    /// All tasks of a layer forwards (0) or backwards (1).
    fn layer(&mut self, l: usize, layer: &Layer, way: usize) {
        let nanos = layer.micros * 1000.0 * [1.0, 2.1][way];
        let class = self.class(layer.codelets[way], layer, nanos);
        self.first[l][way] = self.net.graph.tasks.len() as u32;
        let weights = layer.weights != NONE;
        for p in 0..self.parts {
            let [output, grad, weight, weight_grad] = self.storages[l];
            let before = if l == 0 {
                self.input
            } else {
                self.storages[l - 1][0]
            };
            let mut accesses = vec![(before, Mode::Read, Some(p))];
            if weights {
                accesses.push((weight, Mode::Read, None));
            }
            if way == 0 {
                accesses.push((output, Mode::Write, Some(p)));
            } else {
                accesses.push((grad, Mode::Read, Some(p)));
                if weights {
                    accesses.push((weight_grad, Mode::Reduce, None));
                }
                if l > 0 {
                    accesses.push((self.storages[l - 1][1], Mode::Write, Some(p)));
                }
            }
            let task = self.task(class, l, &accesses);
            let part = p as u32;
            match (way, l) {
                (0, 0) => {}
                (0, _) => self.edges.push((self.first[l - 1][0] + part, task)),
                _ if l + 1 == LAYERS.len() => self.edges.push((self.first[l][0] + part, task)),
                _ => self.edges.push((self.first[l + 1][1] + part, task)),
            }
        }
    }

    /// The update of a layer's weights: after all its gradients, before the layer's next step.
    fn update(&mut self, l: usize, layer: &Layer) {
        let class = self.class("sgd", layer, 9000.0);
        let [_, _, weight, weight_grad] = self.storages[l];
        let accesses = [
            (weight_grad, Mode::Read, None),
            (weight, Mode::ReadWrite, None),
        ];
        let task = self.task(class, l, &accesses);
        let shape = Shape::new(&layer.weights).expect("a layer with weights");
        let end = |task, writes| TraceEnd {
            storage: weight,
            shape,
            edge: Edge {
                task,
                region: Region::whole(&shape),
                writes,
            },
        };
        let graph = &mut self.net.graph;
        for p in 0..self.parts as u32 {
            self.edges.push((self.first[l][1] + p, task));
            self.net.next.push((task, self.first[l][0] + p));
            graph.inlets.push(end(self.first[l][0] + p, false));
        }
        graph.inlets.push(end(task, true));
        graph.outlets.push(end(task, true));
        graph.storages[weight as usize].overwritten = true;
    }

    fn finish(mut self) -> Network {
        self.edges.sort_unstable();
        let graph = &mut self.net.graph;
        let mut edges = self.edges.iter().peekable();
        for t in 0..graph.tasks.len() as u32 {
            graph.successor_start.push(graph.successors.len() as u32);
            while let Some(&(_, to)) = edges.next_if(|e| e.0 == t) {
                graph.successors.push(to);
            }
        }
        graph.successor_start.push(graph.successors.len() as u32);
        graph.inlets.sort_by_key(|e| e.storage);
        graph.outlets.sort_by_key(|e| e.storage);
        self.net
    }
}
