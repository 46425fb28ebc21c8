//! Numbers for what runs are grouped by: codelet with implementation, class, layer.
//!
//! Graphs have tables of their own, and the same names in several of them mean the same. Looking up a
//! run costs a few loads instead of comparing names.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use dahl_core::UnitKind;
use dahl_core::trace::{TaskRun, Trace};

/// The groups of a trace's runs.
pub(super) struct Labels {
    /// Codelets and implementations.
    pub codelets: Vec<(String, String)>,
    /// Codelets, implementations and shapes.
    pub classes: Vec<(String, String, String)>,
    /// Layers.
    pub layers: Vec<String>,
    /// By graph and class, for each kind of unit: numbers in `codelets` and `classes`.
    of_class: Vec<Vec<Vec<(u32, u32)>>>,
    /// For each unit, the place of its kind among all kinds; then that of the host's processor.
    kind_of: Vec<usize>,
    /// By graph and section: number in `layers`.
    of_section: Vec<Vec<u32>>,
}

impl Labels {
    /// Numbers the groups.
    pub(super) fn of(trace: &Trace) -> Labels {
        let (mut codelets, mut classes, mut layers) =
            (Names::default(), Names::default(), Names::default());
        let kinds = || trace.units.iter().map(|u| u.kind).chain([UnitKind::CPU]);
        let sorted: BTreeSet<UnitKind> = kinds().collect();
        let place = |kind| sorted.iter().take_while(|k| **k != kind).count();
        let mut of_class = vec![];
        let mut of_section = vec![];
        for g in &trace.graphs {
            let number = |c: &dahl_core::trace::TraceClass| {
                let one = |kind: &UnitKind| {
                    let codelet = c.codelet.clone();
                    let name = c.implementations.get(kind).cloned().unwrap_or_default();
                    let class = (codelet.clone(), name.clone(), c.shapes.clone());
                    (codelets.number((codelet, name)), classes.number(class))
                };
                sorted.iter().map(one).collect()
            };
            of_class.push(g.classes.iter().map(number).collect());
            let layer = |s: &String| layers.number(s.clone());
            of_section.push(g.sections.iter().map(layer).collect());
        }
        Labels {
            codelets: codelets.names,
            classes: classes.names,
            layers: layers.names,
            of_class,
            of_section,
            kind_of: kinds().map(place).collect(),
        }
    }

    fn both(&self, trace: &Trace, run: &TaskRun) -> (u32, u32) {
        let graph = trace.launches[run.id.launch as usize].graph as usize;
        let class = trace.graphs[graph].tasks[run.id.task as usize].class as usize;
        let unit = match run.fell_back {
            true => trace.units.len(),
            false => run.unit.into(),
        };
        self.of_class[graph][class][self.kind_of[unit]]
    }

    /// The run's number in `codelets`.
    pub(super) fn codelet(&self, trace: &Trace, run: &TaskRun) -> usize {
        self.both(trace, run).0 as usize
    }

    /// The run's number in `classes`.
    pub(super) fn class(&self, trace: &Trace, run: &TaskRun) -> usize {
        self.both(trace, run).1 as usize
    }

    /// The run's number in `layers`.
    pub(super) fn layer(&self, trace: &Trace, run: &TaskRun) -> usize {
        let graph = trace.launches[run.id.launch as usize].graph as usize;
        let section = trace.graphs[graph].tasks[run.id.task as usize].section as usize;
        self.of_section[graph][section] as usize
    }
}

struct Names<T> {
    names: Vec<T>,
    numbers: HashMap<T, u32>,
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        Names {
            names: vec![],
            numbers: HashMap::new(),
        }
    }
}

impl<T: Clone + Eq + Hash> Names<T> {
    fn number(&mut self, name: T) -> u32 {
        let names = &mut self.names;
        *self.numbers.entry(name).or_insert_with_key(|name| {
            names.push(name.clone());
            names.len() as u32 - 1
        })
    }
}
