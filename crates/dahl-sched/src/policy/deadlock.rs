//! Whether a schedule can be executed: units that each keep to their order must not wait for each other in a circle.

use std::fmt;

use dahl_core::Graph;

/// A circle of tasks, each of which waits for the next one, and the last for the first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Deadlock {
    /// What each task of the circle is, and whether it waits for the next one because that is before it in the
    /// order of its unit; else it needs the other's results.
    circle: Vec<(String, bool)>,
}

/// Links of a circle that a message shows.
const SHOWN: usize = 4;

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("its orders cannot be executed: ")?;
        let next = self.circle.iter().cycle().skip(1);
        for (i, ((task, by_order), (other, _))) in self.circle.iter().zip(next).enumerate() {
            if i == SHOWN && self.circle.len() > SHOWN + 1 {
                return write!(
                    f,
                    "; and so on, round a circle of {} tasks",
                    self.circle.len()
                );
            }
            let why = match by_order {
                true => "which is before it in the order of its unit",
                false => "whose results it needs",
            };
            let then = if i == 0 { "" } else { "; " };
            write!(f, "{then}{task} waits for {other}, {why}")?;
        }
        Ok(())
    }
}

/// Refuses orders of a graph's tasks, a list for every unit, that no execution can keep to. Every task must be in
/// them once.
pub fn check_orders(graph: &Graph, order: &[Vec<u32>]) -> Result<(), Deadlock> {
    // Who comes right after and before a task on its unit.
    let mut after = vec![None; graph.len()];
    let mut before = vec![None; graph.len()];
    for pair in order.iter().flat_map(|list| list.windows(2)) {
        after[pair[0] as usize] = Some(pair[1]);
        before[pair[1] as usize] = Some(pair[0]);
    }
    let mut waits: Vec<u32> = graph.in_degree.clone();
    for (count, before) in waits.iter_mut().zip(&before) {
        *count += u32::from(before.is_some());
    }
    let mut ready: Vec<u32> = (0..graph.len() as u32)
        .filter(|&t| waits[t as usize] == 0)
        .collect();
    while let Some(task) = ready.pop() {
        let successors = graph.successors(task).iter().copied();
        for next in successors.chain(after[task as usize]) {
            let left = &mut waits[next as usize];
            *left -= 1;
            if *left == 0 {
                ready.push(next);
            }
        }
    }
    let Some(first) = waits.iter().position(|&left| left > 0) else {
        return Ok(());
    };
    // A task that waits, waits for another that waits: going from one to the next must come round.
    let mut needed = vec![None; graph.len()];
    for (from, to) in graph.edges() {
        if waits[from as usize] > 0 {
            needed[to as usize] = Some(from);
        }
    }
    let mut path: Vec<(u32, bool)> = Vec::new();
    let mut seen = vec![false; graph.len()];
    let mut task = first as u32;
    while !std::mem::replace(&mut seen[task as usize], true) {
        let ahead = before[task as usize].filter(|&t| waits[t as usize] > 0);
        path.push((task, ahead.is_some()));
        task = ahead.or(needed[task as usize]).unwrap_or(task);
    }
    let start = path.iter().position(|&(t, _)| t == task).unwrap_or(0);
    let circle = path[start..].iter();
    let circle = circle.map(|&(t, by_order)| (graph.describe(t), by_order));
    Err(Deadlock {
        circle: circle.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dahl_core::{Arena, Codelet, DType, Mode, Recorder, Task};
    use std::sync::Arc;

    /// A chain of tasks that each change `x`, and as many that change `y`.
    fn two_chains(length: usize) -> Arc<Graph> {
        let codelet = Arc::new(Codelet::new("step"));
        let (arena, recorder) = (Arena::new(), Recorder::new());
        let x = arena.alloc("x", &[4], DType::F32).unwrap();
        let y = arena.alloc("y", &[4], DType::F32).unwrap();
        for _ in 0..length {
            recorder.submit(Task::new(&codelet, &[x.with(Mode::ReadWrite)]));
            recorder.submit(Task::new(&codelet, &[y.with(Mode::ReadWrite)]));
        }
        recorder.finish().unwrap()
    }

    #[test]
    fn possible_orders_pass() {
        let graph = two_chains(3);
        for order in [
            vec![vec![0, 1, 2, 3, 4, 5]],
            vec![vec![0, 2, 4], vec![1, 3, 5], vec![]],
            vec![vec![0, 3, 4], vec![1, 2, 5]],
        ] {
            assert_eq!(check_orders(&graph, &order), Ok(()), "{order:?}");
        }
    }

    #[test]
    fn circles_are_named() {
        let graph = two_chains(2);
        let error = check_orders(&graph, &[vec![2, 0], vec![1, 3]]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "its orders cannot be executed: task 0, step(x[0..4]) waits for task 2, step(x[0..4]), which is before it \
             in the order of its unit; task 2, step(x[0..4]) waits for task 0, step(x[0..4]), whose results it needs"
        );
        // Two units, each of which begins with what the other ends with.
        let error = check_orders(&graph, &[vec![2, 1], vec![3, 0]]).unwrap_err();
        assert_eq!(error.circle.len(), 4, "{error}");
        let long = two_chains(50);
        let reversed: Vec<u32> = (0..100).rev().collect();
        assert!(check_orders(&long, &[reversed]).is_err());
    }
}
