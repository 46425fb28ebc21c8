//! Windows of a schedule: tasks that cannot start before `h` nor end after `T − q`, for steps of `h` and `q`.

use crate::network::Network;

/// How many steps heads and tails are told apart by.
const STEPS: usize = 12;

/// Sets of tasks by their least head and tail.
pub(super) struct Windows {
    heads: Vec<f64>,
    tails: Vec<f64>,
    /// The number of steps each activity's head and tail reach.
    at: Vec<(u8, u8)>,
}

pub(super) struct Window {
    pub seconds: f64,
    pub offset: f64,
    pub resource: usize,
    head: usize,
    tail: usize,
}

/// Steps through a list of values, the first always 0.
fn steps(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.dedup();
    let mut steps = vec![0.0];
    if sorted.len() > 1 {
        let wanted = STEPS.min(sorted.len() - 1);
        steps.extend((1..=wanted).map(|k| sorted[k * (sorted.len() - 1) / wanted]));
        steps.dedup();
    }
    steps
}

impl Windows {
    pub(super) fn new(net: &Network) -> Self {
        let shortest = net.shortest();
        Windows::of(&net.heads(&shortest), &net.tails(&shortest))
    }

    /// Those of activities with these heads and tails.
    pub(super) fn of(head: &[f64], tail: &[f64]) -> Self {
        let (heads, tails) = (steps(head), steps(tail));
        let reach = |steps: &[f64], x: f64| (steps.partition_point(|&s| s <= x) - 1) as u8;
        let at = head
            .iter()
            .zip(tail)
            .map(|(&h, &q)| (reach(&heads, h), reach(&tails, q)))
            .collect();
        Windows { heads, tails, at }
    }

    /// The window that asks for most time.
    pub(super) fn best(&self, net: &Network, time_on: &[f64]) -> Window {
        let (resources, columns) = (net.resources.len(), self.tails.len());
        let mut best = Window {
            seconds: -1.0,
            offset: 0.0,
            resource: 0,
            head: 0,
            tail: 0,
        };
        let mut sums = vec![0.0; self.heads.len() * columns];
        for (r, &units) in net.resources.iter().enumerate() {
            sums.fill(0.0);
            for (i, &(h, q)) in self.at.iter().enumerate() {
                sums[usize::from(h) * columns + usize::from(q)] += time_on[i * resources + r];
            }
            // Sums over all larger heads and tails.
            for h in (0..self.heads.len()).rev() {
                let mut row = 0.0;
                for q in (0..columns).rev() {
                    row += sums[h * columns + q];
                    let above = if h + 1 < self.heads.len() {
                        sums[(h + 1) * columns + q]
                    } else {
                        0.0
                    };
                    sums[h * columns + q] = row + above;
                    if sums[h * columns + q] <= 0.0 {
                        continue;
                    }
                    let offset = self.heads[h] + self.tails[q];
                    let seconds = offset + sums[h * columns + q] / units as f64;
                    if seconds > best.seconds {
                        best = Window {
                            seconds,
                            offset,
                            resource: r,
                            head: h,
                            tail: q,
                        };
                    }
                }
            }
        }
        best
    }

    pub(super) fn inside<'a>(&'a self, w: &'a Window) -> impl Iterator<Item = usize> + 'a {
        let inside = |&(_, &(h, q)): &(usize, &(u8, u8))| {
            usize::from(h) >= w.head && usize::from(q) >= w.tail
        };
        self.at.iter().enumerate().filter(inside).map(|(i, _)| i)
    }
}
