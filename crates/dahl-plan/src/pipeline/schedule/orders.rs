//! Orders that others found by hand, and when their operations begin.

use super::{Operation, PipelineSchedule, PipelineWork, ScheduleError, Slot, rate};

/// Zero Bubble's H1: 1F1B with W as many micro-batches later as there are devices before.
pub(super) fn h1(p: usize, m: usize) -> Vec<Vec<Slot>> {
    let orders = (0..p).map(|device| {
        let slot = |operation: Operation, micro_batch: usize| Slot {
            operation,
            stage: device,
            micro_batch,
        };
        let ahead = (p - device - 1).min(m);
        let mut order: Vec<Slot> = (0..ahead).map(|n| slot(Operation::Forward, n)).collect();
        let mut weights = 0;
        for n in 0..m {
            let forward = n + ahead < m;
            if forward {
                order.push(slot(Operation::Forward, n + ahead));
            }
            order.push(slot(Operation::InputGradient, n));
            if !forward || n >= device {
                order.push(slot(Operation::WeightGradient, weights));
                weights += 1;
            }
        }
        order.extend((weights..m).map(|n| slot(Operation::WeightGradient, n)));
        order
    });
    orders.collect()
}

/// Zero Bubble's V: a device's first stage is as far from the network's begin as its second is from the end. After the first
/// micro-batches W follows B at once, and the two stages take turns, so that a device always has something that another has
/// just made ready; at the end W fills the waits. With equal operations nobody waits if there are at least `2p - 1`
/// micro-batches; of fewer, the order is that of so many without those that are not there.
pub(super) fn v(p: usize, m: usize) -> Vec<Vec<Slot>> {
    (0..p).map(|device| v_of(device, p, m)).collect()
}

fn v_of(device: usize, p: usize, m: usize) -> Vec<Slot> {
    use Operation::{Forward, InputGradient, WeightGradient};
    let all = m.max(2 * p - 1);
    // How often each operation was done of the first stage and of the second.
    let mut done = [[0; 3]; 2];
    let mut order = Vec::new();
    let mut go = |done: &mut [[usize; 3]; 2], which: usize, operations: &[Operation]| {
        for &operation in operations {
            let micro_batch = done[which][operation as usize];
            done[which][operation as usize] += 1;
            if micro_batch < m {
                order.push(Slot {
                    operation,
                    stage: [device, 2 * p - 1 - device][which],
                    micro_batch,
                });
            }
        }
    };
    for _ in 0..2 * (p - device) - 1 {
        go(&mut done, 0, &[Forward]);
    }
    for _ in 0..device {
        go(&mut done, 1, &[Forward]);
        go(&mut done, 0, &[Forward]);
    }
    for _ in device..p {
        go(&mut done, 1, &[Forward, InputGradient, WeightGradient]);
    }
    while done[1][0] < all {
        if done[0][0] < all {
            go(&mut done, 0, &[Forward]);
        }
        go(&mut done, 0, &[InputGradient, WeightGradient]);
        go(&mut done, 1, &[Forward, InputGradient, WeightGradient]);
    }
    for _ in 0..device {
        go(&mut done, 0, &[InputGradient]);
        go(&mut done, 1, &[InputGradient]);
    }
    for _ in device..p {
        go(&mut done, 0, &[InputGradient, WeightGradient]);
    }
    for which in [1, 0] {
        let left = done[which][1] - done[which][2];
        go(&mut done, which, &vec![WeightGradient; left]);
    }
    order
}

/// Megatron-LM's order: micro-batches in groups of as many as there are devices, each group through a device's first
/// stage, then through its second.
pub(super) fn interleaved(work: &PipelineWork) -> Result<PipelineSchedule, ScheduleError> {
    let (p, m) = (work.devices, work.micro_batches);
    if m % p != 0 {
        let text = format!("interleaving {m} micro-batches on {p} devices; give a multiple of {p}");
        return Err(ScheduleError::Work(text));
    }
    let orders = (0..p).map(|device| {
        let slot = |operation: Operation, n: usize| {
            let (group, chunk, batch) = (n / (2 * p), n / p % 2, n % p);
            let back = operation != Operation::Forward;
            Slot {
                operation,
                stage: device + p * if back { 1 - chunk } else { chunk },
                micro_batch: group * p + batch,
            }
        };
        let ahead = (2 * (p - device - 1) + p).min(2 * m);
        let mut order: Vec<Slot> = (0..ahead).map(|n| slot(Operation::Forward, n)).collect();
        for n in 0..2 * m {
            if n + ahead < 2 * m {
                order.push(slot(Operation::Forward, n + ahead));
            }
            order.push(slot(Operation::InputGradient, n));
        }
        order
    });
    let device_of: Vec<usize> = (0..2 * p).map(|s| s % p).collect();
    replay(work, &device_of, false, orders.collect(), None)
        .ok_or_else(|| ScheduleError::Work("the order waits for itself".into()))
}

/// When the operations of given orders begin, where devices might keep so much, or no more than they do. `None` if they wait
/// for each other in a circle.
pub(super) fn replay(
    work: &PipelineWork,
    device_of: &[usize],
    split: bool,
    orders: Vec<Vec<Slot>>,
    limits: Option<&[usize]>,
) -> Option<PipelineSchedule> {
    let (stages, m) = (work.stages.len(), work.micro_batches);
    let mut ends = [vec![vec![None; m]; stages], vec![vec![None; m]; stages]];
    let mut begins: Vec<Vec<f64>> = vec![Vec::new(); orders.len()];
    let mut free = vec![0.0f64; orders.len()];
    let mut kept = vec![(0i64, 0i64); orders.len()];
    let mut left: usize = orders.iter().map(Vec::len).sum();
    while left > 0 {
        let before = left;
        for (device, order) in orders.iter().enumerate() {
            while let Some(slot) = order.get(begins[device].len()) {
                let (s, b) = (slot.stage, slot.micro_batch);
                let ready: Option<f64> = match slot.operation {
                    Operation::Forward if s == 0 => Some(0.0),
                    Operation::Forward => ends[0][s - 1][b],
                    Operation::InputGradient if s + 1 == stages => ends[0][s][b],
                    Operation::InputGradient => ends[1][s + 1][b],
                    Operation::WeightGradient => ends[1][s][b],
                };
                let Some(ready) = ready else { break };
                let begin = free[device].max(ready);
                let [f, i, w] = work.stages[s];
                let (seconds, change) = match slot.operation {
                    Operation::Forward => (f, 1),
                    Operation::InputGradient if split => (i, 0),
                    Operation::InputGradient => (i + w, -1),
                    Operation::WeightGradient => (w, -1),
                };
                free[device] = begin + seconds;
                match slot.operation {
                    Operation::Forward => ends[0][s][b] = Some(free[device]),
                    Operation::InputGradient => ends[1][s][b] = Some(free[device]),
                    Operation::WeightGradient => {}
                }
                let (now, most) = kept[device];
                let now = now + change;
                kept[device] = (now, most.max(now));
                begins[device].push(begin);
                left -= 1;
            }
        }
        if left == before {
            return None;
        }
    }
    let most: Vec<usize> = kept.iter().map(|k| k.1 as usize).collect();
    Some(rate(
        work,
        device_of,
        split,
        (orders, begins, &free),
        (&most, limits.unwrap_or(&most)),
    ))
}
