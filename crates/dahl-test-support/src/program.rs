//! Random programs over random overlapping regions, and what they should do: values by running one step after
//! another, edges element by element.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use dahl_core::random::Random;
use dahl_core::{
    Arena, Codelet, DType, Executor, Graph, Handle, Mode, Operands, Param, Recorder, Region, Shape,
    Shown, Task, TaskError, UnitKind, Values, ValuesMut,
};

/// A source of choices that can be repeated.
pub struct Dice {
    random: Random,
    at: u64,
}

impl Dice {
    /// The same seed, the same choices.
    pub fn new(seed: u64) -> Self {
        Dice {
            random: Random::new(seed, 77),
            at: 0,
        }
    }

    /// The next number in `0..n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.at += 1;
        self.random.below(self.at, n as u64) as usize
    }

    /// True in so many cases of a hundred.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// One operand: array, the shape it is seen under, region, mode.
#[derive(Clone, Debug)]
pub struct Use {
    /// Index into [`Program::arrays`].
    pub array: usize,
    /// As many elements as the array has.
    pub shape: Vec<usize>,
    /// Within the shape.
    pub region: Region,
    /// Those of one step do not conflict.
    pub mode: Mode,
}

/// One task of [`MIX`].
#[derive(Clone, Debug)]
pub struct Step {
    /// Its operands.
    pub uses: Vec<Use>,
    /// Added to the sum of what it reads.
    pub salt: i64,
    /// Higher is more urgent.
    pub priority: i32,
}

/// A program over a few arrays.
#[derive(Clone, Debug)]
pub struct Program {
    /// Extents of the arrays of `f64`.
    pub arrays: Vec<Vec<usize>>,
    /// In program order.
    pub steps: Vec<Step>,
}

/// Shapes with the same number of elements, so that arrays can be seen under each.
const FAMILIES: &[&[&[usize]]] = &[
    &[&[24], &[4, 6], &[2, 3, 4], &[2, 2, 2, 3], &[3, 8]],
    &[&[30], &[5, 6], &[2, 3, 5], &[1, 5, 2, 3]],
    &[&[7], &[7, 1]],
    &[&[36], &[6, 6], &[3, 3, 4], &[3, 2, 2, 3]],
];

impl Program {
    /// Up to three arrays and twenty steps; with reductions if asked.
    pub fn random(seed: u64, reduce: bool) -> Program {
        let mut dice = Dice::new(seed);
        let arrays: Vec<usize> = (0..1 + dice.below(3))
            .map(|_| dice.below(FAMILIES.len()))
            .collect();
        let own: Vec<Vec<usize>> = arrays
            .iter()
            .map(|&f| pick(&mut dice, FAMILIES[f]).to_vec())
            .collect();
        let relabel = dice.chance(30);
        let steps = (0..2 + dice.below(18))
            .map(|_| {
                let mut uses: Vec<Use> = Vec::new();
                for _ in 0..1 + dice.below(3) {
                    let array = dice.below(arrays.len());
                    let shape = if relabel && dice.chance(40) {
                        pick(&mut dice, FAMILIES[arrays[array]]).to_vec()
                    } else {
                        own[array].clone()
                    };
                    let mode = match dice.below(if reduce { 6 } else { 4 }) {
                        0 | 1 => Mode::Read,
                        2 => Mode::Write,
                        3 => Mode::ReadWrite,
                        _ => Mode::Reduce,
                    };
                    // Reductions meet on the same few regions, or they would never form groups.
                    let region = region(&mut dice, &shape, mode == Mode::Reduce);
                    let new = Use {
                        array,
                        shape,
                        region,
                        mode,
                    };
                    if uses.iter().all(|u| !conflicts(u, &new)) {
                        uses.push(new);
                    }
                }
                Step {
                    uses,
                    salt: dice.below(50) as i64,
                    priority: dice.below(3) as i32,
                }
            })
            .collect();
        Program { arrays: own, steps }
    }

    /// The arrays' values before the program runs.
    pub fn initial(&self) -> Vec<Vec<f64>> {
        let len = |e: &Vec<usize>| e.iter().product::<usize>();
        self.arrays
            .iter()
            .enumerate()
            .map(|(i, e)| (0..len(e)).map(|j| (i * 7 + j) as f64).collect())
            .collect()
    }

    /// The arrays' values after running one step after another.
    pub fn sequential(&self, times: usize) -> Vec<Vec<f64>> {
        let mut values = self.initial();
        for step in (0..times).flat_map(|_| &self.steps) {
            let mut sum = step.salt as f64;
            for u in step.uses.iter().filter(|u| u.mode == Mode::Read) {
                sum += elements(u).iter().map(|&e| values[u.array][e]).sum::<f64>();
            }
            for u in step.uses.iter().filter(|u| u.mode.writes()) {
                for e in elements(u) {
                    let v = &mut values[u.array][e];
                    *v = apply(u.mode, *v, sum);
                }
            }
        }
        values
    }

    /// Edges found element by element.
    pub fn brute_force_edges(&self) -> BTreeSet<(u32, u32)> {
        type History = (Option<u32>, BTreeSet<u32>);
        let len = |e: &Vec<usize>| e.iter().product::<usize>();
        let mut history: Vec<Vec<History>> = self
            .arrays
            .iter()
            .map(|e| vec![(None, BTreeSet::new()); len(e)])
            .collect();
        let mut edges = BTreeSet::new();
        for (t, step) in self.steps.iter().enumerate() {
            let t = t as u32;
            for u in &step.uses {
                for e in elements(u) {
                    let (writer, readers) = &history[u.array][e];
                    let before: Vec<u32> = if u.mode.writes() && !readers.is_empty() {
                        readers.iter().copied().collect()
                    } else {
                        writer.iter().copied().collect()
                    };
                    edges.extend(before.into_iter().filter(|&b| b != t).map(|b| (b, t)));
                }
            }
            for u in &step.uses {
                for e in elements(u) {
                    let (writer, readers) = &mut history[u.array][e];
                    if u.mode.writes() {
                        *writer = Some(t);
                        readers.clear();
                    } else {
                        readers.insert(t);
                    }
                }
            }
        }
        edges
    }

    /// The program as a graph, over arrays of this arena.
    pub fn record(&self, arena: &Arena) -> (Arc<Graph>, Vec<Handle>) {
        let alloc = |e: &Vec<usize>| arena.alloc("", e, DType::F64).unwrap();
        let handles: Vec<Handle> = self.arrays.iter().map(alloc).collect();
        (record(&self.steps, &handles), handles)
    }

    /// Launches the program so often, and compares what that leaves with sequential execution.
    pub fn check_on(
        &self,
        graph: &Arc<Graph>,
        handles: &[Handle],
        executor: &mut dyn Executor,
        times: usize,
        what: &str,
    ) {
        for (handle, values) in handles.iter().zip(self.initial()) {
            let mut fill = |mut v: ValuesMut<'_>| {
                values.iter().enumerate().for_each(|(i, &x)| v.set(i, x));
            };
            executor.write(handle, &mut fill).unwrap();
        }
        for _ in 0..times {
            executor.launch(graph).unwrap();
        }
        for (i, (handle, want)) in handles.iter().zip(&self.sequential(times)).enumerate() {
            let mut see = |got: Values<'_>| {
                let got = f64::values(got).expect("arrays of f64");
                assert_eq!(got, &want[..], "array {i} of {self:#?}\n{what}");
            };
            executor.read(handle, &mut see).unwrap();
        }
        executor.wait().unwrap();
    }
}

/// Steps as a graph, over these arrays.
pub fn record(steps: &[Step], handles: &[Handle]) -> Arc<Graph> {
    let recorder = Recorder::new();
    for step in steps {
        let parts: Vec<(Handle, Mode)> = step
            .uses
            .iter()
            .map(|u| {
                (
                    handles[u.array].reshape(&u.shape).unwrap().part(&u.region),
                    u.mode,
                )
            })
            .collect();
        let operands: Vec<_> = parts.iter().map(|(h, m)| h.with(*m)).collect();
        let params = [Param::Int(step.salt)];
        recorder.submit(
            Task::new(&MIX, &operands)
                .params(&params)
                .priority(step.priority),
        );
    }
    recorder.finish().unwrap()
}

fn pick<'a>(dice: &mut Dice, family: &[&'a [usize]]) -> &'a [usize] {
    family[dice.below(family.len())]
}

fn region(dice: &mut Dice, extents: &[usize], coarse: bool) -> Region {
    let dims = Shape::new(extents).unwrap().dims4();
    let (mut start, mut end) = ([0; 4], dims);
    for a in 0..4 {
        if coarse {
            if dims[a] > 1 && dice.chance(15) {
                end[a] = dims[a] / 2;
            }
        } else if !dice.chance(40) {
            start[a] = dice.below(dims[a]);
            end[a] = start[a] + 1 + dice.below(dims[a] - start[a]);
        }
    }
    Region::new(start, end).unwrap()
}

/// Places of a region's elements in the storage.
pub fn elements(u: &Use) -> Vec<usize> {
    let strides = Shape::new(&u.shape).unwrap().strides4();
    let (s, e) = (u.region.start(), u.region.end());
    let mut out = Vec::new();
    for i in s[0]..e[0] {
        for j in s[1]..e[1] {
            for k in s[2]..e[2] {
                out.extend(
                    (s[3]..e[3]).map(|l| i * strides[0] + j * strides[1] + k * strides[2] + l),
                );
            }
        }
    }
    out
}

fn conflicts(a: &Use, b: &Use) -> bool {
    a.array == b.array
        && (a.mode.writes() || b.mode.writes())
        && elements(a).iter().any(|e| elements(b).contains(e))
}

/// What a step with this sum makes of an element. Whole numbers below 2⁵³ add up exactly in any order, so even reductions can be compared to the bit.
pub fn apply(mode: Mode, old: f64, sum: f64) -> f64 {
    match mode {
        Mode::Read => old,
        Mode::Write => sum % 1009.0,
        Mode::ReadWrite => (old * 3.0 + sum) % 1009.0,
        Mode::Reduce => old + sum % 1009.0,
    }
}

/// Sums what it reads and writes, read-writes or reduces with the sum, by [`apply`].
pub static MIX: LazyLock<Arc<Codelet>> =
    LazyLock::new(|| Arc::new(Codelet::new("mix").implement("reference", UnitKind::CPU, mix)));

fn mix(ops: &Operands<'_>) -> Result<(), TaskError> {
    let mut sum = ops.int(0) as f64;
    for i in (0..ops.len()).filter(|&i| ops.mode(i) == Mode::Read) {
        let x = ops.read::<f64>(i);
        dahl_core::view::for_rows(x.dims(), |at| sum += x.row(at).iter().sum::<f64>());
    }
    for i in (0..ops.len()).filter(|&i| ops.mode(i).writes()) {
        let mode = ops.mode(i);
        let mut x = ops.write::<f64>(i);
        dahl_core::view::for_rows(x.dims(), |at| {
            x.row(at).iter_mut().for_each(|v| *v = apply(mode, *v, sum));
        });
    }
    Ok(())
}
