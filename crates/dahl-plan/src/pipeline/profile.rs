//! Profiles of layers: the text that PipeDream's profiler writes (github.com/msr-fiddle/pipedream), checked.
//!
//! A line is a layer, `node3 -- ReLU(inplace) -- forward_compute_time=1.2, backward_compute_time=2.1,
//! activation_size=4096.0, parameter_size=0.0` in milliseconds and bytes, or an edge: a tab, then `node2 -- node3`.
//! Sizes may be lists, `[4096.0; 128.0]`, and are added up. Inputs and outputs that nobody reads (`__getitem__`) are
//! no work and are left out, as PipeDream's optimiser does.
//!
//! What leaves this module is sound: numbers are finite and not negative, edges join layers, there is no cycle.

use std::collections::{HashMap, HashSet};

use super::PipelineError;

/// One layer of a profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// What edges and answers call it.
    pub name: String,
    /// What it computes, in words.
    pub what: String,
    /// Seconds of a batch, forward, on a unit of speed 1.
    pub forward: f64,
    /// Seconds of a batch, backward.
    pub backward: f64,
    /// Bytes of its output for a batch, kept until its backward pass.
    pub activation: f64,
    /// Bytes of its parameters.
    pub parameters: f64,
}

/// Layers and who reads whose output.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The layers, in an order in which each comes after those that it reads.
    pub layers: Vec<Layer>,
    /// For each layer, the layers that it reads, rising, without repetitions.
    pub reads: Vec<Vec<u32>>,
}

/// An edge, by the places of its ends, and its line.
type Edge = (usize, usize, usize);

impl Profile {
    /// Reads PipeDream's text.
    ///
    /// # Errors
    /// Names the line, what is wrong with it and what to do.
    pub fn from_text(text: &str) -> Result<Profile, PipelineError> {
        let mut layers: Vec<Layer> = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut ends: Vec<(&str, &str, usize)> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let number = number + 1;
            if line.trim().is_empty() {
                continue;
            }
            if line.starts_with(char::is_whitespace) {
                let (from, to) = edge(line, number)?;
                ends.push((from, to, number));
                continue;
            }
            let (name, layer) = node(line, number)?;
            if places.insert(name, layers.len()).is_some() {
                let what = format!("layer {name} appears twice");
                let remedy = "give each layer a name of its own";
                return Err(wrong(number, what, remedy));
            }
            layers.push(layer);
        }
        let mut edges: Vec<Edge> = Vec::with_capacity(ends.len());
        for (from, to, line) in ends {
            let find = |name: &str| {
                let missing = || {
                    let what = format!("there is no layer {name}");
                    wrong(line, what, "add its line, or correct the edge")
                };
                places.get(name).copied().ok_or_else(missing)
            };
            edges.push((find(from)?, find(to)?, line));
        }
        Profile::of(layers, &edges)
    }

    /// A profile of these layers; an edge leads from a layer to one that reads it.
    ///
    /// # Errors
    /// Without layers, with a cycle, or if sums are no numbers.
    pub fn new(layers: Vec<Layer>, edges: &[(usize, usize)]) -> Result<Profile, PipelineError> {
        let edges: Vec<Edge> = edges.iter().map(|e| (e.0, e.1, 0)).collect();
        Profile::of(layers, &edges)
    }

    fn of(layers: Vec<Layer>, edges: &[Edge]) -> Result<Profile, PipelineError> {
        if layers.is_empty() {
            return Err(PipelineError::Empty(""));
        }
        let count = layers.len();
        let mut seen = HashSet::new();
        let mut reads: Vec<Vec<u32>> = vec![Vec::new(); count];
        let mut read_by: Vec<Vec<u32>> = vec![Vec::new(); count];
        for &(from, to, _) in edges {
            if seen.insert((from, to)) {
                reads[to].push(from as u32);
                read_by[from].push(to as u32);
            }
        }
        let order = order(&layers, edges, &reads, &read_by)?;
        let kept: Vec<usize> = order
            .into_iter()
            .filter(|&v| {
                let input = reads[v].is_empty() && layers[v].what.starts_with("Input");
                let unread = read_by[v].is_empty() && layers[v].what.starts_with("__getitem__");
                !(input || unread)
            })
            .collect();
        if kept.is_empty() {
            return Err(PipelineError::Empty(" but inputs"));
        }
        let mut new = vec![u32::MAX; count];
        for (place, &v) in kept.iter().enumerate() {
            new[v] = place as u32;
        }
        let renamed = |old: &Vec<u32>| {
            let places = old.iter().map(|&u| new[u as usize]);
            let mut places: Vec<u32> = places.filter(|&u| u != u32::MAX).collect();
            places.sort_unstable();
            places
        };
        let profile = Profile {
            reads: kept.iter().map(|&v| renamed(&reads[v])).collect(),
            layers: kept.iter().map(|&v| layers[v].clone()).collect(),
        };
        profile.check_totals()?;
        Ok(profile)
    }

    /// For each layer, the layers that read it.
    pub(crate) fn read_by(&self) -> Vec<Vec<u32>> {
        let mut read_by = vec![Vec::new(); self.layers.len()];
        for (v, reads) in self.reads.iter().enumerate() {
            for &u in reads {
                read_by[u as usize].push(v as u32);
            }
        }
        read_by
    }

    fn check_totals(&self) -> Result<(), PipelineError> {
        let sum = |f: fn(&Layer) -> f64| self.layers.iter().map(f).sum::<f64>();
        let totals = [
            ("compute times", sum(|l| l.forward + l.backward)),
            ("activation sizes", sum(|l| l.activation)),
            ("parameter sizes", sum(|l| l.parameters)),
        ];
        // Room for the factors of transfers and versions.
        match totals.iter().find(|(_, total)| *total > 1e200) {
            Some((field, _)) => Err(PipelineError::TooLarge(field)),
            None => Ok(()),
        }
    }
}

/// A topological order that stays near the order of execution: what became ready last goes first, and by number in
/// names where several did, as profilers number layers as they run.
fn order(
    layers: &[Layer],
    edges: &[Edge],
    reads: &[Vec<u32>],
    read_by: &[Vec<u32>],
) -> Result<Vec<usize>, PipelineError> {
    let number = |name: &str| {
        let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
        digits.parse::<u64>().unwrap_or(u64::MAX)
    };
    let key = |v: usize| std::cmp::Reverse((number(&layers[v].name), v));
    let mut waits: Vec<usize> = reads.iter().map(Vec::len).collect();
    let sources = (0..layers.len()).filter(|&v| waits[v] == 0);
    let mut free: std::collections::BinaryHeap<_> = sources.map(|v| (key(v), v)).collect();
    let mut order = Vec::with_capacity(layers.len());
    while let Some((_, v)) = free.pop() {
        order.push(v);
        for &w in &read_by[v] {
            waits[w as usize] -= 1;
            if waits[w as usize] == 0 {
                free.push((key(w as usize), w as usize));
            }
        }
    }
    if order.len() == layers.len() {
        return Ok(order);
    }
    Err(cycle(layers, edges, &waits, reads))
}

/// Follows layers that still wait until one comes again.
fn cycle(layers: &[Layer], edges: &[Edge], waits: &[usize], reads: &[Vec<u32>]) -> PipelineError {
    let left = |v: &usize| waits[*v] > 0;
    let mut at = (0..layers.len()).find(left).unwrap_or(0);
    let mut place = vec![None; layers.len()];
    let mut path = Vec::new();
    let start = loop {
        if let Some(start) = place[at] {
            break start;
        }
        place[at] = Some(path.len());
        path.push(at);
        // What waits reads something that waits.
        let before = reads[at].iter().map(|&u| u as usize).find(left);
        at = before.unwrap_or(at);
    };
    let mut cycle = path[start..].to_vec();
    cycle.reverse();
    let on = |v: &usize| cycle.contains(v);
    let of_it = |e: &&Edge| on(&e.0) && on(&e.1);
    let (from, to, line) = *edges.iter().rfind(of_it).unwrap_or(&(at, at, 0));
    let name = |v: usize| layers[v].name.clone();
    cycle.push(cycle[0]);
    PipelineError::Cycle {
        line,
        from: name(from),
        to: name(to),
        cycle: cycle.into_iter().map(name).collect(),
    }
}

fn wrong(line: usize, what: String, remedy: &'static str) -> PipelineError {
    PipelineError::Line { line, what, remedy }
}

fn edge(line: &str, number: usize) -> Result<(&str, &str), PipelineError> {
    let ends = line.trim().split_once(" -- ");
    let ends = ends.map(|(from, to)| (from.trim(), to.trim()));
    ends.filter(|(from, to)| !from.is_empty() && !to.is_empty() && !to.contains(" -- "))
        .ok_or_else(|| {
            let what = format!("`{}` is no edge", short(line.trim()));
            wrong(number, what, "write a tab, then `node1 -- node2`")
        })
}

fn node(line: &str, number: usize) -> Result<(&str, Layer), PipelineError> {
    let remedy = "write `node1 -- Name -- forward_compute_time=…, backward_compute_time=…, \
                  activation_size=…, parameter_size=…`; is the file cut off?";
    let refuse = |what: String| wrong(number, what, remedy);
    let not = || refuse(format!("`{}` is no layer", short(line)));
    let (name, rest) = line.split_once(" -- ").ok_or_else(not)?;
    let (what, fields) = rest
        .rfind("forward_compute_time=")
        .and_then(|at| Some((rest[..at].trim_end().strip_suffix("--")?, &rest[at..])))
        .ok_or_else(not)?;
    let name = name.trim();
    if name.is_empty() {
        return Err(not());
    }
    let fields = fields.split(" -- ").next().unwrap_or(fields);
    let field = |key: &str| -> Result<f64, PipelineError> {
        let missing = || refuse(format!("{name} has no {key}"));
        let value = fields
            .split(',')
            .find_map(|f| f.trim().strip_prefix(key)?.strip_prefix('='))
            .ok_or_else(missing)?;
        let items = value.trim().trim_start_matches('[').trim_end_matches(']');
        let mut total = 0.0;
        for item in items.split(';') {
            let read: Option<f64> = item.trim().parse().ok();
            total += read.filter(|v| v.is_finite() && *v >= 0.0).ok_or_else(|| {
                let what = format!("{key} of {name} is `{}`", short(value.trim()));
                wrong(number, what, "it must be a number that is not negative")
            })?;
        }
        Ok(total)
    };
    let layer = Layer {
        name: name.to_owned(),
        what: what.trim().to_owned(),
        forward: field("forward_compute_time")? / 1e3,
        backward: field("backward_compute_time")? / 1e3,
        activation: field("activation_size")?,
        parameters: field("parameter_size")?,
    };
    Ok((name, layer))
}

/// The beginning of a text, for messages.
fn short(text: &str) -> String {
    const SHOWN: usize = 40;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
