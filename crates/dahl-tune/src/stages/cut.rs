//! Where a model is cut into stages: where it is said, or as even as its layers allow, by static costs.

use dahl_core::Graph;
use dahl_core::graph::partition::rows_of;
use dahl_nn::Step;
use dahl_nn::stages::{operations, places_to_cut};

use super::Pipeline;
use crate::error::TuneError;

/// Seconds of a task on a core of 32 GFLOP/s and 8 GB/s: to compare tasks, not to predict them.
pub(super) fn seconds(graph: &Graph, task: u32) -> f64 {
    let cost = &graph.class_of(task).cost;
    cost.flops / 32e9 + cost.bytes / 8e9
}

/// The first layer of each stage of a pipeline: those that it names, or such that the longest is as short as possible.
pub(super) fn firsts(step: &Step, pipeline: &Pipeline) -> Result<Vec<usize>, TuneError> {
    let (stages, places) = (pipeline.stages(), places_to_cut(step));
    if !pipeline.cut.is_empty() {
        return named(step, pipeline, &places);
    }
    if places.len() < stages {
        return Err(TuneError::Option(format!(
            "{stages} stages of {}, which can be cut into {} at most: use fewer stages, or another schedule if it has \
             two on each device",
            step.model.name,
            places.len()
        )));
    }
    let graph = step.lower()?.graph;
    let mut costs = vec![0.0; places.len()];
    for (task, operation) in (0..).zip(operations(step, &graph, &places)) {
        costs[usize::from(operation.stage)] += seconds(&graph, task);
    }
    let cuts = even(&costs, stages);
    Ok(cuts.into_iter().map(|i| places[i]).collect())
}

fn named(step: &Step, pipeline: &Pipeline, places: &[usize]) -> Result<Vec<usize>, TuneError> {
    let (stages, cut) = (pipeline.stages(), &pipeline.cut);
    let refuse = |text: String| {
        Err(TuneError::Option(format!(
            "a cut into {stages} stages: {text}"
        )))
    };
    if cut.len() + 1 != stages {
        let (has, wants) = (cut.len(), stages - 1);
        return refuse(format!(
            "it names {has} layers, and {wants} stages begin behind the first: name as many"
        ));
    }
    let firsts: Vec<usize> = std::iter::once(0).chain(cut.iter().copied()).collect();
    if let Some(pair) = firsts.windows(2).find(|w| w[0] >= w[1]) {
        return refuse(format!(
            "layer {} does not come behind layer {}: name them in their order",
            pair[1], pair[0]
        ));
    }
    match firsts.iter().find(|f| !places.contains(f)) {
        None => Ok(firsts),
        Some(&wrong) => {
            let below = places.iter().rev().find(|p| (1..wrong).contains(*p));
            let above = places.iter().find(|p| **p > wrong);
            let near: Vec<String> = below
                .into_iter()
                .chain(above)
                .map(usize::to_string)
                .collect();
            refuse(match wrong < step.model.layers.len() {
                true => format!(
                    "layer {wrong} runs as one with the layer before it: cut at layer {}",
                    near.join(" or ")
                ),
                false => format!(
                    "{} has no layer {wrong}: its last is {}",
                    step.model.name,
                    step.model.layers.len() - 1
                ),
            })
        }
    }
}

/// Cuts a row of costs into parts, none of them empty, of which the largest is as small as possible: where each begins. Of
/// several ways, the one whose parts before the last are the shortest.
fn even(costs: &[f64], parts: usize) -> Vec<usize> {
    let n = costs.len();
    let sums: Vec<f64> = std::iter::once(0.0)
        .chain(costs.iter().scan(0.0, |sum, c| {
            *sum += c;
            Some(*sum)
        }))
        .collect();
    // By parts and end: the least largest part, and where the last part begins.
    let mut best = vec![vec![(f64::INFINITY, 0); n + 1]; parts + 1];
    best[0][0] = (0.0, 0);
    for p in 1..=parts {
        for end in p..=n {
            let options = (p - 1..end).map(|begin| {
                let largest = best[p - 1][begin].0.max(sums[end] - sums[begin]);
                (largest, begin)
            });
            let least = options.min_by(|a, b| a.0.total_cmp(&b.0));
            best[p][end] = least.unwrap_or((f64::INFINITY, 0));
        }
    }
    let (mut end, mut begins) = (n, Vec::new());
    for p in (1..=parts).rev() {
        end = best[p][end].1;
        begins.push(end);
    }
    begins.reverse();
    begins
}

/// The most parts of the batch that no task of a graph crosses: as many micro-batches change nothing.
pub(super) fn own_blocks(step: &Step, graph: &Graph) -> usize {
    let mut blocks = step.batch;
    let fits = |n: usize| {
        let crosses = |task: u32| {
            rows_of(graph, task).is_some_and(|([from, to], writes)| {
                let number = (from * n as f64 + 1e-9).floor();
                writes && to * n as f64 > number + 1.0 + 1e-9
            })
        };
        step.batch.is_multiple_of(n) && !(0..graph.len() as u32).any(crosses)
    };
    while blocks > 1 && !fits(blocks) {
        blocks -= 1;
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::even;

    #[test]
    fn the_largest_part_is_as_small_as_possible() {
        assert_eq!(even(&[1.0, 1.0, 1.0, 1.0], 2), [0, 2]);
        assert_eq!(even(&[5.0, 1.0, 1.0, 1.0], 2), [0, 1]);
        assert_eq!(even(&[1.0, 1.0, 5.0], 3), [0, 1, 2]);
        assert_eq!(even(&[2.0, 2.0, 3.0, 3.0, 2.0], 3), [0, 2, 3]);
        assert_eq!(even(&[7.0], 1), [0]);
    }
}
