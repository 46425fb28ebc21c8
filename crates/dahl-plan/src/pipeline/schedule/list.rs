//! A list scheduler for pipelines: the device that can begin first does what its rules prefer, the gradient of an input
//! before all else. What is decided is never taken back; better rules are found by trying.

use super::{Operation, PipelineSchedule, PipelineWork, Slot, rate};

/// Rules of the list scheduler.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) device_of: Vec<usize>,
    pub(super) split: bool,
    /// For each device, how many stages' activations it may keep.
    pub(super) kept: Vec<usize>,
    /// For each device, how many micro-batches it may be ahead of their gradients.
    pub(super) ahead: Vec<usize>,
    /// Whether backward operations wait until all forward ones have been done.
    pub(super) forward_first: bool,
    /// For each device: if it may do F or W, it does W while at least so many wait.
    pub(super) weights_from: Vec<usize>,
}

/// The best schedule found by changing, device by device, when W is done and how much is kept below the limit: the one with
/// the smallest bubble, for that is what a run of many steps takes; of those the shortest.
pub(super) fn descend(work: &PipelineWork, mut rules: Rules) -> Option<PipelineSchedule> {
    let better = |a: &PipelineSchedule, b: &PipelineSchedule| {
        let (x, y) = (1.0 + a.bubble, 1.0 + b.bubble);
        let same = (x / y - 1.0).abs() <= 1e-12;
        x < y && !same || same && a.makespan < b.makespan * (1.0 - 1e-12)
    };
    let may_keep = rules.kept.clone();
    let mut left = lists(work).max(1);
    let mut list = |rules: &Rules| {
        left = left.checked_sub(1)?;
        list(work, rules, &may_keep)
    };
    let limits: Vec<usize> = rules.kept.iter().map(|&k| k.min(WIDEST)).collect();
    let mut best: Option<PipelineSchedule> = None;
    let mut start = rules.clone();
    for more in [Some(0), Some(1), Some(2), None] {
        for (device, ahead) in start.ahead.iter_mut().enumerate() {
            *ahead = more.map_or(usize::MAX, |more| work.devices - device + more);
        }
        for from in 1..=limits[0] + 1 {
            start.weights_from.fill(from);
            if let Some(made) = list(&start)
                && best.as_ref().is_none_or(|best| better(&made, best))
            {
                rules = start.clone();
                best = Some(made);
            }
        }
    }
    let mut moved = best.is_some();
    // A step is tried for each device; a few rounds suffice.
    for _ in 0..ROUNDS {
        if !std::mem::take(&mut moved) {
            break;
        }
        for (device, &limit) in limits.iter().enumerate() {
            for kept in (1..=limit).rev() {
                for from in 1..=kept + 1 {
                    let mut other = rules.clone();
                    other.kept[device] = kept;
                    other.weights_from[device] = from;
                    if let (Some(made), Some(known)) = (list(&other), &best)
                        && better(&made, known)
                    {
                        (rules, best, moved) = (other, Some(made), true);
                    }
                }
            }
        }
    }
    best
}

/// Looks at what a device could do next beyond which the descent ends.
const LOOKS: usize = 50_000_000;

/// How many schedules the descent makes at most; none for pipelines so large that even one takes long.
pub(super) fn lists(work: &PipelineWork) -> usize {
    let operations = work.stages.len().saturating_mul(3 * work.micro_batches);
    LOOKS / operations.saturating_mul(work.devices).max(1)
}

/// Limits above this are not varied.
const WIDEST: usize = 16;
/// Rounds of the descent.
const ROUNDS: usize = 4;

/// What has been done of each stage, counted in micro-batches: each operation takes them in order.
struct State<'a> {
    work: &'a PipelineWork,
    rules: &'a Rules,
    /// The stages of each device.
    stages_of: Vec<Vec<usize>>,
    /// When F and B of a stage and micro-batch ended.
    ends: [Vec<Vec<f64>>; 2],
    done: Vec<[usize; 3]>,
}

impl State<'_> {
    /// When the next operation of a kind of a stage could begin; `None` if something before it has not ended.
    fn ready(&self, stage: usize, operation: usize) -> Option<f64> {
        let batch = self.done[stage][operation];
        if batch >= self.work.micro_batches {
            return None;
        }
        let end = |which: usize, stage: usize| self.ends[which][stage].get(batch).copied();
        match operation {
            0 if stage == 0 => Some(0.0),
            0 => end(0, stage - 1),
            1 if stage + 1 == self.done.len() => end(0, stage),
            1 => Some(end(1, stage + 1)?.max(end(0, stage)?)),
            _ => end(1, stage),
        }
    }

    fn kept(&self, device: usize) -> usize {
        let last = if self.rules.split { 2 } else { 1 };
        let stages = self.stages_of[device].iter();
        stages.map(|&s| self.done[s][0] - self.done[s][last]).sum()
    }

    /// The operation that a device that is free from a time on should do next, and when it begins.
    fn choose(&self, device: usize, free: f64) -> Option<(f64, usize, usize)> {
        let stages = &self.stages_of[device];
        let kept = self.kept(device);
        let forward_left = stages
            .iter()
            .any(|&s| self.done[s][0] < self.work.micro_batches);
        let waiting: usize = stages
            .iter()
            .map(|&s| self.done[s][1] - self.done[s][2])
            .sum();
        let mut best: Option<(f64, usize, usize, usize)> = None;
        for &stage in stages.iter().rev() {
            for operation in 0..3 {
                let allowed = match operation {
                    // What goes forward must be able to come by again: the last place is for a device's last stage.
                    0 if Some(&stage) != stages.last() => kept + 1 < self.rules.kept[device],
                    0 if self.done[stage][0] - self.done[stage][1] >= self.rules.ahead[device] => {
                        false
                    }
                    0 => kept < self.rules.kept[device],
                    1 => !(self.rules.forward_first && forward_left),
                    _ => self.rules.split,
                };
                let Some(ready) = self.ready(stage, operation).filter(|_| allowed) else {
                    continue;
                };
                let rank = match operation {
                    1 => 0,
                    2 if waiting >= self.rules.weights_from[device] => 1,
                    0 => 2,
                    _ => 3,
                };
                let begin = ready.max(free);
                let key = (begin, rank);
                if best.is_none_or(|b| key.0 < b.0 || key.0 == b.0 && key.1 < b.3) {
                    best = Some((begin, stage, operation, rank));
                }
            }
        }
        best.map(|b| (b.0, b.1, b.2))
    }
}

/// The schedule that a list scheduler makes by rules, if it comes to an end. Its bounds are those of devices that may keep so
/// much.
pub(super) fn list(
    work: &PipelineWork,
    rules: &Rules,
    may_keep: &[usize],
) -> Option<PipelineSchedule> {
    let (stages, devices) = (work.stages.len(), work.devices);
    let seconds = |stage: usize, operation: usize| match (operation, rules.split) {
        (1, false) => work.stages[stage][1] + work.stages[stage][2],
        _ => work.stages[stage][operation],
    };
    let mut stages_of = vec![Vec::new(); devices];
    for (stage, &device) in rules.device_of.iter().enumerate() {
        stages_of[device].push(stage);
    }
    let mut state = State {
        work,
        rules,
        stages_of,
        ends: [vec![Vec::new(); stages], vec![Vec::new(); stages]],
        done: vec![[0; 3]; stages],
    };
    let mut free = vec![0.0; devices];
    let mut orders: Vec<Vec<Slot>> = vec![Vec::new(); devices];
    let mut begins: Vec<Vec<f64>> = vec![Vec::new(); devices];
    let mut most = vec![0; devices];
    let kinds = if rules.split { 3 } else { 2 };
    for _ in 0..stages * work.micro_batches * kinds {
        // The earliest begin anywhere: nothing that is decided later can change what it saw.
        let next = (0..devices).filter_map(|d| Some((d, state.choose(d, free[d])?)));
        let (device, (begin, stage, operation)) = next.min_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
        let end = begin + seconds(stage, operation);
        let micro_batch = state.done[stage][operation];
        state.done[stage][operation] += 1;
        if operation < 2 {
            state.ends[operation][stage].push(end);
        }
        if operation == 1 && !rules.split {
            state.done[stage][2] += 1;
        }
        free[device] = end;
        most[device] = most[device].max(state.kept(device));
        let all = [
            Operation::Forward,
            Operation::InputGradient,
            Operation::WeightGradient,
        ];
        orders[device].push(Slot {
            operation: all[operation],
            stage,
            micro_batch,
        });
        begins[device].push(begin);
    }
    Some(rate(
        work,
        &rules.device_of,
        rules.split,
        (orders, begins, &free),
        (&most, may_keep),
    ))
}
