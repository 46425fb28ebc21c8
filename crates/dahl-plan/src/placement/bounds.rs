//! What no placement can beat, whatever its shape.
//!
//! For a largest load T: A accelerators do at most A·T of the accelerators' work, and what the CPUs take
//! off them is at most what C·T of CPU time buys at the best rates (a knapsack whose items may be cut).
//! The same holds for memory. All of this grows with T, so the least T for which everything fits is
//! found by bisection. The order of the atoms is left out: the search accounts for it.

use super::instance::Instance;

/// Answers how much of something the CPUs can take off the accelerators.
#[derive(Debug)]
struct Knapsack {
    /// What an atom is worth, and its time on a CPU; best rate first.
    items: Vec<(u64, u64)>,
}

impl Knapsack {
    fn new(instance: &Instance, worth: impl Fn(usize) -> u64) -> Knapsack {
        let mut items: Vec<(u64, u64)> = (0..instance.len())
            .map(|a| (worth(a), instance.cpu[a]))
            .filter(|item| item.0 > 0)
            .collect();
        let cross = |x: u64, y: u64| u128::from(x) * u128::from(y);
        items.sort_by(|x, y| cross(y.0, x.1).cmp(&cross(x.0, y.1)));
        Knapsack { items }
    }

    /// What `cpus` CPUs can hold if none works longer than `load`.
    fn at_most(&self, cpus: usize, load: u64) -> u64 {
        if cpus == 0 {
            return 0;
        }
        let mut budget = u128::from(load) * cpus as u128;
        let mut held = 0u64;
        for &(worth, cpu) in self.items.iter().filter(|item| item.1 <= load) {
            if u128::from(cpu) > budget {
                let part = u128::from(worth) * budget / u128::from(cpu) + 1;
                return held.saturating_add(part as u64);
            }
            budget -= u128::from(cpu);
            held = held.saturating_add(worth);
        }
        held
    }
}

/// What some CPUs can take off the accelerators, at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relief {
    /// Time to compute.
    pub work: u64,
    /// Time to compute and to communicate, if every net of an atom that moves were saved.
    pub traffic: u64,
    /// Memory.
    pub size: u64,
}

/// Answers what CPUs can take off the accelerators.
#[derive(Debug)]
pub(super) struct Reliefs {
    work: Knapsack,
    traffic: Knapsack,
    size: Knapsack,
}

impl Reliefs {
    /// Looks at the atoms.
    pub(super) fn new(instance: &Instance) -> Reliefs {
        let nets = |a: usize| -> u64 {
            let cost = |&net: &u32| instance.net[net as usize].0;
            instance.nets.of(a).iter().map(cost).sum()
        };
        Reliefs {
            work: Knapsack::new(instance, |a| instance.accelerator[a]),
            traffic: Knapsack::new(instance, |a| instance.accelerator[a] + nets(a)),
            size: Knapsack::new(instance, |a| instance.size[a]),
        }
    }

    /// What `cpus` CPUs can take if none works longer than `load`.
    pub(super) fn at_most(&self, cpus: usize, load: u64) -> Relief {
        Relief {
            work: self.work.at_most(cpus, load),
            traffic: self.traffic.at_most(cpus, load),
            size: self.size.at_most(cpus, load),
        }
    }
}

/// The least largest load that the simple counts allow; at most the instance's ceiling.
pub(super) fn lower_bound(instance: &Instance, reliefs: &Reliefs) -> u64 {
    let work: u64 = instance.accelerator.iter().sum();
    let size: u64 = instance.size.iter().sum();
    let cpu_only: u64 = (0..instance.len())
        .filter(|&a| !instance.supported[a])
        .map(|a| instance.cpu[a])
        .sum();
    let each = (0..instance.len())
        .map(|a| match (instance.supported[a], instance.cpus > 0) {
            (true, true) => instance.accelerator[a].min(instance.cpu[a]),
            (true, false) => instance.accelerator[a],
            (false, _) => instance.cpu[a],
        })
        .max()
        .unwrap_or(0);
    let fits = |load: u64| {
        let time = |devices: usize| u128::from(load) * devices as u128;
        let relief = reliefs.at_most(instance.cpus, load);
        let memory = u128::from(instance.size_limit) * instance.accelerators as u128;
        u128::from(work) <= time(instance.accelerators) + u128::from(relief.work)
            && u128::from(size) <= memory + u128::from(relief.size)
            && u128::from(cpu_only) <= time(instance.cpus)
    };
    let (mut low, mut high) = (each.min(instance.ceiling), instance.ceiling);
    while low < high {
        let middle = low + (high - low) / 2;
        if fits(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}
