//! Plans that somebody has already: where each task ran and in which order, for the search to begin with.
//!
//! What a policy did in a simulation is one, so a plan need not be worse than deciding at run time. But a seed
//! says nothing of transfers and nothing of which of several equal units ran a task: both are decided again, by
//! the problem's equations, which may cost a little more than the simulation, where small copies travel
//! together and units are chosen one by one.

use super::graph_problem::GraphProblem;
use super::list::{self, Choice};
use super::network::Frame;
use dahl_sim::TaskSpan;

/// Where each task ran, and when, for a search to begin with.
#[derive(Clone, Debug, PartialEq)]
pub struct WarmStart {
    /// Each task's group of units.
    pub groups: Vec<usize>,
    /// When each task starts.
    pub starts: Vec<f64>,
}

impl WarmStart {
    /// What the last launch of a run did; `None` if tasks of it are missing.
    pub fn of_run(graph_problem: &GraphProblem, runs: &[TaskSpan]) -> Option<WarmStart> {
        let tasks = graph_problem.problem.tasks.len();
        let launch = runs.iter().map(|r| r.task.launch).max()?;
        let mut seed = WarmStart {
            groups: vec![usize::MAX; tasks],
            starts: vec![0.0; tasks],
        };
        for run in runs.iter().filter(|r| r.task.launch == launch) {
            let task = run.task.task as usize;
            let mut groups = graph_problem.units.iter();
            let group = groups.position(|g| g.iter().any(|u| u.0 == run.unit))?;
            *seed.groups.get_mut(task)? = group;
            seed.starts[task] = run.start.0;
        }
        let first = seed.starts.iter().copied().fold(f64::INFINITY, f64::min);
        seed.starts.iter_mut().for_each(|s| *s -= first);
        seed.groups.iter().all(|&g| g != usize::MAX).then_some(seed)
    }

    /// The modes it takes, each as fast as its group can, and how urgent tasks have to be to start in its order.
    /// `None` if it is for another problem.
    pub(super) fn choice(&self, frame: &Frame<'_>) -> Option<(Choice, Vec<f64>)> {
        let tasks = &frame.problem.tasks;
        if self.groups.len() != tasks.len() || self.starts.len() != tasks.len() {
            return None;
        }
        let mode = |(&class, &group): (&u32, &usize)| {
            let modes = frame.modes[class as usize].iter().enumerate();
            let here = modes.filter(|w| usize::from(w.1.resource) == group);
            let fastest = here.min_by(|a, b| a.1.seconds.total_cmp(&b.1.seconds));
            fastest.map(|w| w.0 as u16)
        };
        let choice: Option<Choice> = tasks.iter().zip(&self.groups).map(mode).collect();
        Some((choice?, list::by_start(&self.starts)))
    }
}
