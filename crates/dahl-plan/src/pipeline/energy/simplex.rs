//! A network simplex method for circulations of least cost, in whole numbers.
//!
//! The basis is a spanning tree, kept *strongly feasible*: from every node some flow can be sent to the root along the
//! tree. With the rule for the leaving arc that keeps it so, the method does not cycle (Cunningham 1976). Costs may be
//! changed between two solutions; the tree is kept, so the next solution begins where the last one ended.

/// An arc: at most `capacity` may flow from one node to another, at a cost each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arc {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) capacity: i64,
    pub(super) cost: i64,
}

/// No limit.
pub(super) const FREE: i64 = i64::MAX / 4;

const NONE: u32 = u32::MAX;

#[derive(Clone)]
pub(super) struct Simplex {
    pub(super) arcs: Vec<Arc>,
    pub(super) flow: Vec<i64>,
    /// Whether an arc is in the tree.
    basic: Vec<bool>,
    /// The price of each node: an arc of the tree costs what the prices of its ends differ by.
    pub(super) price: Vec<i64>,
    parent: Vec<u32>,
    /// The arc to the parent.
    link: Vec<u32>,
    depth: Vec<u32>,
    children: Vec<Vec<u32>>,
    /// Where the search for an entering arc goes on.
    next: usize,
}

impl Simplex {
    /// Begins without any flow, with a tree of arcs that lead towards the root: `link[v]` leaves v.
    pub(super) fn new(arcs: Vec<Arc>, link: Vec<u32>, root: u32) -> Simplex {
        let nodes = link.len();
        let mut simplex = Simplex {
            flow: vec![0; arcs.len()],
            basic: vec![false; arcs.len()],
            price: vec![0; nodes],
            parent: vec![NONE; nodes],
            depth: vec![0; nodes],
            children: vec![Vec::new(); nodes],
            next: 0,
            arcs,
            link,
        };
        for v in 0..nodes as u32 {
            if v != root {
                let arc = simplex.link[v as usize];
                let parent = simplex.arcs[arc as usize].to;
                simplex.basic[arc as usize] = true;
                simplex.parent[v as usize] = parent;
                simplex.children[parent as usize].push(v);
            }
        }
        simplex.reprice(root);
        simplex
    }

    /// Prices and depths of a node's descendants, from its own.
    fn reprice(&mut self, top: u32) {
        let mut open = vec![top];
        while let Some(v) = open.pop() {
            for i in 0..self.children[v as usize].len() {
                let child = self.children[v as usize][i];
                self.price_from_parent(child);
                open.push(child);
            }
        }
    }

    fn price_from_parent(&mut self, v: u32) {
        let (arc, parent) = (
            self.arcs[self.link[v as usize] as usize],
            self.parent[v as usize],
        );
        // cost + price[from] − price[to] is 0 on the tree.
        let price = self.price[parent as usize];
        self.price[v as usize] = match arc.from == v {
            true => price - arc.cost,
            false => price + arc.cost,
        };
        self.depth[v as usize] = self.depth[parent as usize] + 1;
    }

    /// Changes what an arc costs.
    pub(super) fn set_cost(&mut self, arc: usize, cost: i64) {
        let change = cost - self.arcs[arc].cost;
        self.arcs[arc].cost = cost;
        if change != 0 && self.basic[arc] {
            let Arc { from, to, .. } = self.arcs[arc];
            let below = if self.parent[from as usize] == to {
                from
            } else {
                to
            };
            self.price_from_parent(below);
            self.reprice(below);
        }
    }

    fn reduced(&self, arc: usize) -> i64 {
        let Arc { from, to, cost, .. } = self.arcs[arc];
        cost + self.price[from as usize] - self.price[to as usize]
    }

    /// The arc that gains most in the next block of arcs that has any.
    fn entering(&mut self) -> Option<usize> {
        let count = self.arcs.len();
        let block = (count as f64).sqrt() as usize + 16;
        let (mut best, mut gain) = (None, 0);
        let mut in_block = 0;
        for step in 0..count {
            let arc = (self.next + step) % count;
            if !self.basic[arc] {
                let reduced = self.reduced(arc);
                let own = if self.flow[arc] == 0 {
                    -reduced
                } else {
                    reduced
                };
                if own > gain {
                    (best, gain) = (Some(arc), own);
                }
            }
            in_block += 1;
            if in_block >= block {
                if best.is_some() {
                    self.next = arc;
                    return best;
                }
                in_block = 0;
            }
        }
        best
    }

    /// Brings the flow to least cost, in at most so many steps; says whether that was enough.
    pub(super) fn solve(&mut self, steps: usize) -> bool {
        for _ in 0..steps {
            let Some(arc) = self.entering() else {
                return true;
            };
            if !self.pivot(arc) {
                return false;
            }
        }
        false
    }

    /// Sends as much as possible round the cycle that an arc closes. Says if there is no end to that.
    fn pivot(&mut self, entering: usize) -> bool {
        let arc = self.arcs[entering];
        let forward = self.flow[entering] == 0;
        let (first, second) = if forward {
            (arc.from, arc.to)
        } else {
            (arc.to, arc.from)
        };
        let mut delta = arc.capacity;
        // Where the tree falls apart: the lower end of the leaving arc, and on which side.
        let mut leaving: Option<(u32, bool)> = None;
        let (mut u, mut v) = (first, second);
        let mut blocked_second: Option<u32> = None;
        let mut least_second = i64::MAX;
        while u != v {
            if self.depth[u as usize] >= self.depth[v as usize] {
                // From the meeting point down to the first: flow goes from parent to child.
                let room = self.room(u, false);
                if room < delta {
                    delta = room;
                    leaving = Some((u, true));
                }
                u = self.parent[u as usize];
            } else {
                let room = self.room(v, true);
                // The last one on the way wins.
                if room <= least_second {
                    least_second = room;
                    blocked_second = Some(v);
                }
                v = self.parent[v as usize];
            }
        }
        if least_second <= delta {
            delta = least_second;
            leaving = blocked_second.map(|v| (v, false));
        }
        if delta >= FREE {
            return false;
        }
        let join = u;
        if delta > 0 {
            self.flow[entering] += if forward { delta } else { -delta };
            let mut u = first;
            while u != join {
                self.send(u, false, delta);
                u = self.parent[u as usize];
            }
            let mut v = second;
            while v != join {
                self.send(v, true, delta);
                v = self.parent[v as usize];
            }
        }
        if let Some((low, on_first)) = leaving {
            let inside = if on_first { first } else { second };
            self.exchange(entering, low, inside);
        }
        true
    }

    /// How much more can flow between a node and its parent.
    fn room(&self, v: u32, up: bool) -> i64 {
        let link = self.link[v as usize] as usize;
        let leads_up = self.arcs[link].from == v;
        match leads_up == up {
            true if self.arcs[link].capacity >= FREE => FREE,
            true => self.arcs[link].capacity - self.flow[link],
            false => self.flow[link],
        }
    }

    fn send(&mut self, v: u32, up: bool, delta: i64) {
        let link = self.link[v as usize] as usize;
        let leads_up = self.arcs[link].from == v;
        self.flow[link] += if leads_up == up { delta } else { -delta };
    }

    /// Hangs the part below a leaving arc to the other end of the entering one: `inside` is its end in that part.
    fn exchange(&mut self, entering: usize, low: u32, inside: u32) {
        self.basic[self.link[low as usize] as usize] = false;
        self.basic[entering] = true;
        let Arc { from, to, .. } = self.arcs[entering];
        let outside = if from == inside { to } else { from };
        // Turns the way from `inside` up to `low` round.
        let (mut v, mut parent, mut link) = (inside, outside, entering as u32);
        loop {
            let (old_parent, old_link) = (self.parent[v as usize], self.link[v as usize]);
            self.children[old_parent as usize].retain(|&c| c != v);
            self.parent[v as usize] = parent;
            self.link[v as usize] = link;
            self.children[parent as usize].push(v);
            if v == low {
                break;
            }
            (parent, v, link) = (v, old_parent, old_link);
        }
        self.price_from_parent(inside);
        self.reprice(inside);
    }
}
