//! Ways: from any memory to any other, over which links, and what that takes.

use dahl_core::{Bytes, Link, Machine, Seconds};

use dahl_sched::batch::is_small;

/// The routes, by first and last memory.
#[derive(Debug)]
pub(super) struct Routes {
    memories: usize,
    routes: Vec<Option<Route>>,
}

/// A way from one memory to another.
#[derive(Clone, Debug, Default)]
struct Route {
    /// Numbers of links, in order, and the links themselves: side by side, where prices are asked for.
    numbers: Vec<u16>,
    links: Vec<Link>,
    /// How long a mebibyte takes, and how long nothing does.
    far: f64,
    start: f64,
}

impl Route {
    fn new(machine: &Machine, numbers: Vec<u16>) -> Route {
        let links = numbers
            .iter()
            .map(|&l| machine.links[usize::from(l)].clone());
        let mut way = Route {
            links: links.collect(),
            numbers,
            ..Route::default()
        };
        (way.far, way.start) = (way.duration(MEBIBYTE), way.duration(0));
        way
    }

    #[inline]
    fn duration(&self, bytes: u64) -> f64 {
        self.links.iter().map(|l| l.duration(Bytes(bytes)).0).sum()
    }
}

/// What routes are compared by.
const MEBIBYTE: u64 = 1 << 20;

impl Routes {
    /// The fastest routes for a mebibyte.
    pub(crate) fn new(machine: &Machine) -> Routes {
        let n = machine.memories.len();
        let mut cost = vec![f64::INFINITY; n * n];
        let mut routes: Vec<Option<Vec<u16>>> = vec![None; n * n];
        for m in 0..n {
            cost[m * n + m] = 0.0;
            routes[m * n + m] = Some(Vec::new());
        }
        for (i, link) in machine.links.iter().enumerate() {
            let at = usize::from(link.from.0) * n + usize::from(link.to.0);
            cost[at] = link.duration(Bytes(MEBIBYTE)).0;
            routes[at] = Some(vec![i as u16]);
        }
        // Floyd and Warshall's algorithm; memories are few.
        for via in 0..n {
            for from in 0..n {
                for to in 0..n {
                    let sum = cost[from * n + via] + cost[via * n + to];
                    if sum < cost[from * n + to]
                        && let (Some(first), Some(then)) =
                            (&routes[from * n + via], &routes[via * n + to])
                    {
                        let whole = [first.as_slice(), then.as_slice()].concat();
                        cost[from * n + to] = sum;
                        routes[from * n + to] = Some(whole);
                    }
                }
            }
        }
        let way = |numbers: Option<Vec<u16>>| numbers.map(|n| Route::new(machine, n));
        Routes {
            memories: n,
            routes: routes.into_iter().map(way).collect(),
        }
    }

    fn way(&self, from: usize, to: usize) -> Option<&Route> {
        self.routes[from * self.memories + to].as_ref()
    }

    /// The nearest to a memory of those in a mask.
    #[inline]
    pub(crate) fn nearest(&self, places: u64, memory: usize) -> usize {
        // Most values are current in one place.
        if places.is_power_of_two() {
            return places.trailing_zeros() as usize;
        }
        let all = (0..self.memories).filter(|m| places & (1 << m) != 0);
        let far = |m: &usize| self.way(*m, memory).map_or(f64::INFINITY, |w| w.far);
        all.min_by(|a, b| far(a).total_cmp(&far(b))).unwrap_or(0)
    }

    /// The links from one memory to another, in order; `None` if there is no way.
    pub(crate) fn get(&self, from: usize, to: usize) -> Option<&[u16]> {
        self.way(from, to).map(|w| &w.numbers[..])
    }

    /// How long it takes to move this much when nothing else uses the links, and how much of that is the
    /// start, if the copy is small for the way: it may then be shared with others. Ways of several links
    /// count as one.
    #[inline]
    pub(crate) fn price(&self, from: usize, to: usize, bytes: u64) -> (f64, Option<f64>) {
        let Some(way) = self.way(from, to) else {
            return (f64::INFINITY, None);
        };
        let whole = way.duration(bytes);
        let is_small = is_small(Seconds(way.start), Seconds(whole), 1.0);
        (whole, is_small.then_some(way.start))
    }
}
