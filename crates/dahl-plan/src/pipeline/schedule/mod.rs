//! Schedules of synchronous pipelines: in which order each device computes what, and what that costs.
//!
//! A micro-batch goes forward (F) through all stages, then back: the gradient of each stage's input (B), which the stage
//! before waits for, and the gradient of its weights (W), which nobody waits for before the flush. Schedules that split
//! the two fill waiting time with W (Qi et al., "Zero Bubble Pipeline Parallelism", 2024). A device may have several
//! stages: interleaved, or there and back in the shape of a V.
//!
//! Schedules come from known orders or from a list scheduler with rules: which stages a device has, how much it may keep,
//! whether B and W are one. They are orders of operations, not times: what executes one replays its order.

mod bound;
mod drawing;
mod improve;
mod list;
mod orders;
#[cfg(test)]
mod tests;

use serde::Serialize;

use bound::Bounds;
use improve::improve;
use list::{Rules, descend, list, lists};
use orders::{h1, interleaved, replay, v};

/// What is computed for a stage and a micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Operation {
    /// The output, from the input.
    Forward,
    /// The gradient of the input; with that of the weights where these are not split.
    InputGradient,
    /// The gradient of the weights.
    WeightGradient,
}

/// One operation in a device's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Slot {
    /// What is computed.
    pub operation: Operation,
    /// For which stage of the network.
    pub stage: usize,
    /// For which micro-batch.
    pub micro_batch: usize,
}

/// Kinds of schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum ScheduleKind {
    /// All micro-batches forward, then all back.
    GPipe,
    /// One forward, one backward in turn.
    OneFOneB,
    /// 1F1B with several stages on each device, round robin.
    Interleaved,
    /// Split backward, with the memory of 1F1B's first stage everywhere.
    ZbH1,
    /// Split backward, with about twice that.
    ZbH2,
    /// Split backward, two stages on each device in the shape of a V.
    ZbV,
    /// The best found within a limit on what devices keep.
    Auto,
}

impl ScheduleKind {
    /// All of them, by name.
    pub const ALL: [(&'static str, ScheduleKind); 7] = [
        ("gpipe", ScheduleKind::GPipe),
        ("1f1b", ScheduleKind::OneFOneB),
        ("interleaved", ScheduleKind::Interleaved),
        ("zb-h1", ScheduleKind::ZbH1),
        ("zb-h2", ScheduleKind::ZbH2),
        ("zb-v", ScheduleKind::ZbV),
        ("auto", ScheduleKind::Auto),
    ];

    /// How many stages each device has.
    pub fn stages_per_device(self) -> usize {
        match self {
            ScheduleKind::Interleaved | ScheduleKind::ZbV => 2,
            _ => 1,
        }
    }
}

/// A pipeline to schedule.
#[derive(Clone, Debug)]
pub struct PipelineWork {
    /// Seconds of F, B and W of each stage of the network; as many on each device.
    pub stages: Vec<[f64; 3]>,
    /// How many devices there are.
    pub devices: usize,
    /// How many micro-batches a batch has.
    pub micro_batches: usize,
    /// For `auto`, how many micro-batches' activations each device may keep: one number for all of them, or one for
    /// each; without, as many as 1F1B's first.
    pub in_flight: Option<Vec<usize>>,
}

/// A schedule with what it costs.
#[derive(Clone, Debug, Serialize)]
pub struct PipelineSchedule {
    /// The order of each device.
    pub orders: Vec<Vec<Slot>>,
    /// When each operation of the orders begins.
    pub begins: Vec<Vec<f64>>,
    /// From the first begin to the last end.
    pub makespan: f64,
    /// No schedule that keeps as much at most is shorter.
    pub lower_bound: f64,
    /// How much longer than the busiest device computes the longest stay of a device is, from its first operation to its
    /// last, as a part of that: what a step in a run of many takes beyond the least that is possible.
    pub bubble: f64,
    /// No schedule that keeps as much at most has a smaller bubble.
    pub bubble_bound: f64,
    /// For each device, most activations kept at a time, in those of a whole device for one micro-batch.
    pub in_flight: Vec<f64>,
}

/// What can be wrong with a pipeline.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// Counts that do not go together, or times that are none.
    #[error("{0}")]
    Work(String),
}

/// A schedule of a kind.
///
/// # Errors
/// If counts do not go together or a time is no number.
pub fn schedule(
    work: &PipelineWork,
    kind: ScheduleKind,
) -> Result<PipelineSchedule, ScheduleError> {
    check(work, kind)?;
    let (p, m) = (work.devices, work.micro_batches);
    let straight: Vec<usize> = (0..p).collect();
    let base = Rules {
        device_of: straight,
        split: true,
        kept: vec![m; p],
        ahead: vec![usize::MAX; p],
        forward_first: false,
        weights_from: vec![usize::MAX; p],
    };
    let rules = match kind {
        ScheduleKind::GPipe => Rules {
            split: false,
            forward_first: true,
            ..base
        },
        ScheduleKind::OneFOneB => Rules {
            split: false,
            kept: (0..p).map(|d| (p - d).min(m)).collect(),
            ..base
        },
        ScheduleKind::Interleaved => return interleaved(work),
        ScheduleKind::ZbH1 => {
            let made = replay(work, &base.device_of, true, h1(p, m), None);
            return made.ok_or_else(|| ScheduleError::Work("the order waits for itself".into()));
        }
        ScheduleKind::ZbH2 => Rules {
            kept: vec![2 * p - 1; p],
            ..base
        },
        ScheduleKind::ZbV => Rules {
            device_of: (0..2 * p).map(|s| s.min(2 * p - 1 - s)).collect(),
            kept: vec![2 * p; p],
            ..base
        },
        ScheduleKind::Auto => Rules {
            kept: match work.in_flight.as_deref() {
                None => vec![p; p],
                Some([all]) => vec![*all; p],
                Some(each) => each.to_vec(),
            },
            ..base
        },
    };
    let found = match rules.split {
        true => {
            let known = match kind {
                ScheduleKind::ZbV => Some(v(p, m)),
                _ => rules.kept.iter().all(|&kept| kept >= p).then(|| h1(p, m)),
            };
            let known =
                known.map(|orders| replay(work, &rules.device_of, true, orders, Some(&rules.kept)));
            let known = known.flatten();
            // Nothing waits less than the V where it does not wait at all.
            let enough = |made: &PipelineSchedule| {
                kind == ScheduleKind::ZbV && made.bubble <= made.bubble_bound + 1e-12
            };
            let known = match known {
                Some(made) if enough(&made) => return Ok(made),
                other => other,
            };
            let (device_of, may_keep) = (rules.device_of.clone(), rules.kept.clone());
            let made = match &known {
                Some(_) if lists(work) == 0 => None,
                _ => descend(work, rules),
            };
            let all = [made, known].into_iter().flatten();
            let all = all.map(|made| improve(work, &device_of, &may_keep, made));
            all.min_by(|a, b| {
                let waits = a.bubble.total_cmp(&b.bubble);
                waits.then(a.makespan.total_cmp(&b.makespan))
            })
        }
        false => list(work, &rules, &rules.kept),
    };
    found.ok_or_else(|| {
        ScheduleError::Work(
            "a device must be able to keep a micro-batch of each of its stages".into(),
        )
    })
}

fn check(work: &PipelineWork, kind: ScheduleKind) -> Result<(), ScheduleError> {
    let refuse = |text: String| Err(ScheduleError::Work(text));
    let per = kind.stages_per_device();
    let (stages, devices) = (work.stages.len(), work.devices);
    if devices == 0 || work.micro_batches == 0 {
        return refuse("a pipeline needs at least one stage and one micro-batch".into());
    }
    if stages != devices * per {
        return refuse(format!(
            "{devices} devices with {per} stages each, and {stages} stages"
        ));
    }
    if let Some(limits) = work
        .in_flight
        .as_ref()
        .filter(|l| ![1, devices].contains(&l.len()))
    {
        let count = limits.len();
        return refuse(format!(
            "{count} limits on what devices keep, and {devices} devices: give one for all or one for each"
        ));
    }
    if stages.saturating_mul(work.micro_batches) > 1 << 20 {
        return refuse("more than a million forward operations; give fewer micro-batches".into());
    }
    match work
        .stages
        .iter()
        .flatten()
        .find(|t| !(t.is_finite() && **t >= 0.0))
    {
        Some(time) => refuse(format!(
            "a time of {time}; it must be a number that is not negative"
        )),
        None => Ok(()),
    }
}

/// What a schedule costs, from its orders, begins and ends. `most` is what devices keep at a time, in stages, and `limits` what
/// they might have kept.
fn rate(
    work: &PipelineWork,
    device_of: &[usize],
    split: bool,
    (orders, begins, free): (Vec<Vec<Slot>>, Vec<Vec<f64>>, &[f64]),
    (most, limits): (&[usize], &[usize]),
) -> PipelineSchedule {
    let per = (work.stages.len() / work.devices) as f64;
    let bounds = Bounds {
        work,
        device_of,
        split,
        limits,
    };
    let stays = begins.iter().zip(free).map(|(b, free)| free - b[0]);
    let busy = bounds.busiest().max(1e-300);
    PipelineSchedule {
        makespan: free.iter().copied().fold(0.0, f64::max),
        lower_bound: bounds.makespan(),
        bubble: (stays.fold(0.0, f64::max) / busy - 1.0).max(0.0),
        bubble_bound: (bounds.longest_stay() / busy - 1.0).max(0.0),
        in_flight: most.iter().map(|&n| n as f64 / per).collect(),
        orders,
        begins,
    }
}
