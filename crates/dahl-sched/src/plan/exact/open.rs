//! Memories left open: tasks that may run on either of two *sides*, and data that may have to move between.
//!
//! A transfer is an activity that a plan may start or not; when it may, and what follows, is in `sides`.
//! Only for memories that nothing limits, and one link each way.

use super::layers::Found;
use super::moment::{MOST, Moment};
use super::prices::Prices;
use super::symmetry::{Columns, columns_of};
use crate::plan::bound::Carries;
use crate::plan::network::{Activity, Frame, Network, Way, What};
use crate::plan::problem::Origin;
use crate::plan::timeline::Started;

/// Where a datum is before it moves.
#[derive(Clone, Copy, Debug)]
pub(super) enum Home {
    /// On this side.
    Side(usize),
    /// Where this task is.
    With(u32),
}

/// A datum that may have to move.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub datum: u32,
    pub home: Home,
    /// The task that must end before it exists.
    pub after: Option<u32>,
    pub readers: Vec<u32>,
    /// Seconds and joules of moving it to each side, if it can.
    pub to: [Option<(f64, f64)>; 2],
}

/// A problem whose tasks may run on two sides.
#[derive(Debug)]
pub(super) struct Open {
    /// Tasks, and after them the transfers of items, which only wait for their writers.
    pub net: Network,
    /// Tasks alone.
    pub relaxed: Network,
    /// How many tasks there are.
    pub tasks: usize,
    /// The side of each resource: of a group the one it computes on, of a link the one it leads to.
    pub sides: Vec<u8>,
    pub items: Vec<Item>,
    /// The items that each task reads, and those that are where it is.
    pub reads: Vec<Vec<u32>>,
    pub homes: Vec<Vec<u32>>,
    /// Least seconds of each task on each side; infinite if it cannot be there.
    pub seconds: Vec<[f64; 2]>,
    /// Interchangeable columns of tasks and transfers.
    pub columns: Vec<Columns>,
    /// The transfers that may be needed, for bounds.
    pub carries: Carries,
    prices: Prices,
    pub memories: [usize; 2],
}

impl Open {
    /// `None` if the problem is of another kind, or too large.
    pub fn new(frame: &Frame<'_>) -> Option<Self> {
        let p = frame.problem;
        let tasks = p.tasks.len();
        let mut memories: Vec<usize> = (0..tasks).flat_map(|t| frame.memories_of(t)).collect();
        memories.sort_unstable();
        memories.dedup();
        let memories: [usize; 2] = memories.try_into().ok()?;
        if frame.copies {
            return None;
        }
        // The link to each side, if there is one.
        let mut links = [None; 2];
        for s in 0..2 {
            match frame.routes[memories[1 - s]][memories[s]].as_deref() {
                None => {}
                Some(&[link]) => links[s] = Some(link as usize),
                Some(_) => return None,
            }
        }
        let items = items(frame, memories, links)?;
        let relaxed = frame.relaxed();
        let mut net = relaxed.clone();
        let mut sides: Vec<u8> = p
            .groups
            .iter()
            .map(|g| memories.iter().position(|&m| m == g.memory).unwrap_or(2) as u8)
            .collect();
        sides.resize(p.groups.len() + p.links.len(), 2);
        for (s, link) in links.iter().enumerate() {
            if let Some(link) = link {
                sides[p.groups.len() + link] = s as u8;
            }
        }
        let (mut reads, mut homes) = (vec![Vec::new(); tasks], vec![Vec::new(); tasks]);
        for (k, item) in items.iter().enumerate() {
            item.readers
                .iter()
                .for_each(|&r| reads[r as usize].push(k as u32));
            if let Home::With(w) = item.home {
                homes[w as usize].push(k as u32);
            }
            net.activities.push(item.activity(p.groups.len(), links));
        }
        if net.activities.len() > MOST {
            return None;
        }
        let seconds: Vec<[f64; 2]> = (0..tasks)
            .map(|t| {
                memories.map(|m| {
                    let ways = frame.ways_in(t, Some(m));
                    ways.iter().map(|w| w.seconds).fold(f64::INFINITY, f64::min)
                })
            })
            .collect();
        let mut columns = columns_of(frame);
        for column in columns.iter_mut().flatten() {
            let node = |&i: &u32| match i.checked_sub(tasks as u32) {
                None => Some(i),
                Some(datum) => {
                    let item = items.iter().position(|i| i.datum == datum)?;
                    Some((tasks + item) as u32)
                }
            };
            *column = column.iter().filter_map(node).collect();
        }
        let carries = Carries::new(frame);
        Some(Open {
            net,
            tasks,
            sides,
            items,
            reads,
            homes,
            seconds,
            columns,
            prices: Prices::new(frame, &relaxed, &carries),
            relaxed,
            carries,
            memories,
        })
    }

    /// Where an item is before it moves, if that is decided.
    pub fn home(&self, m: &Moment, item: &Item) -> Option<usize> {
        match item.home {
            Home::Side(s) => Some(s),
            Home::With(t) => m.side(t as usize),
        }
    }

    /// Whether somebody will read what is where a task is.
    pub fn is_home(&self, m: &Moment, task: usize) -> bool {
        let waits = |r: &u32| !m.has_started(*r as usize);
        let wanted = |&k: &u32| self.items[k as usize].readers.iter().any(waits);
        self.homes[task].iter().any(wanted)
    }

    /// Transfers whose end may let an activity start.
    pub fn moves_for(&self, i: usize) -> u128 {
        let reads = self.reads.get(i).into_iter().flatten();
        reads.fold(0, |all, &k| all | 1 << (self.tasks + k as usize))
    }

    /// Joules of transfers that what is decided makes necessary and that have not started.
    pub fn certain_joules(&self, m: &Moment) -> f64 {
        let mut joules = 0.0;
        for (k, item) in self.items.iter().enumerate() {
            if m.has_started(self.tasks + k) {
                continue;
            }
            if let Some(home) = self.home(m, item)
                && item
                    .readers
                    .iter()
                    .any(|&r| m.side(r as usize) == Some(1 - home))
            {
                joules += item.to[1 - home].map_or(f64::INFINITY, |t| t.1);
            }
        }
        joules
    }

    /// Seconds and joules of any plan with the sides decided so far, a path of this many seconds, and
    /// [certain](Self::certain_joules) joules.
    pub fn floor(&self, m: &Moment, path: f64, certain: f64) -> (f64, f64) {
        let mut moves = certain;
        for (k, item) in self.items.iter().enumerate() {
            if let (true, Some(home)) = (m.has_started(self.tasks + k), self.home(m, item)) {
                moves += item.to[1 - home].map_or(0.0, |t| t.1);
            }
        }
        let memory = |t: usize| m.side(t).map(|s| self.memories[s]);
        self.prices.floor(memory, path, moves)
    }

    /// The memory of each task, by the sides decided.
    pub fn memories(&self, on: &[u128; 2]) -> Vec<usize> {
        let side = |t: usize| usize::from(on[1] >> t & 1 == 1);
        (0..self.tasks).map(|t| self.memories[side(t)]).collect()
    }

    /// A plan found in the open network, in the network of the memories that it chose.
    pub fn plan(&self, frame: &Frame<'_>, found: &Found) -> (Vec<usize>, Vec<Started>) {
        let memory = self.memories(&found.on);
        let net = frame
            .network(&memory)
            .expect("a plan that was found moves its data over links that are there");
        let activity = |s: &Started| {
            let way = &self.net.activities[s.activity as usize].ways[usize::from(s.way)];
            let at = match (s.activity as usize).checked_sub(self.tasks) {
                None => Some(s.activity as usize),
                Some(k) => {
                    let moves = |a: &Activity| match a.what {
                        What::Transfer { datum, .. } => datum == self.items[k].datum,
                        What::Task(_) => false,
                    };
                    net.activities.iter().position(moves)
                }
            }?;
            let way = net.activities[at].ways.iter().position(|w| w == way)?;
            Some(Started {
                activity: at as u32,
                way: way as u16,
                ..*s
            })
        };
        let log = found.log.iter().map(activity).collect::<Option<Vec<_>>>();
        let log = log.expect("every transfer of a plan that was found has a reader");
        (memory, log)
    }
}

/// The data that may have to move: all but those that can be on one side only. `None` if something is on
/// neither.
fn items(frame: &Frame<'_>, memories: [usize; 2], links: [Option<usize>; 2]) -> Option<Vec<Item>> {
    let p = frame.problem;
    let places = |t: u32| frame.memories_of(t as usize);
    let mut items = Vec::new();
    for (i, d) in p.data.iter().enumerate() {
        let home = match (frame.writer(i), d.origin) {
            (Some(w), _) => Home::With(w),
            (None, Origin::Memory(m)) => Home::Side(memories.iter().position(|&x| x == m)?),
            (None, _) => return None,
        };
        let homes = match home {
            Home::Side(s) => vec![memories[s]],
            Home::With(w) => places(w),
        };
        if homes.len() == 1 && d.readers.iter().all(|&r| places(r) == homes) {
            continue;
        }
        items.push(Item {
            datum: i as u32,
            home,
            after: match d.origin {
                Origin::Task(w) => Some(w),
                _ => None,
            },
            readers: d.readers.clone(),
            to: links.map(|l| {
                let l = &p.links[l?];
                Some((l.seconds(d.bytes), l.joules_per_byte * d.bytes as f64))
            }),
        });
    }
    Some(items)
}

impl Item {
    /// Seconds of moving it to a side; infinite if it cannot.
    pub fn seconds_to(&self, side: usize) -> f64 {
        self.to[side].map_or(f64::INFINITY, |t| t.0)
    }

    /// Its transfer: to either side, whichever it is not on.
    fn activity(&self, groups: usize, links: [Option<usize>; 2]) -> Activity {
        let way = |(to, link): (&Option<(f64, f64)>, Option<usize>)| {
            let (seconds, joules) = (*to)?;
            Some(Way {
                resource: (groups + link?) as u16,
                state: 0,
                seconds,
                joules,
            })
        };
        Activity {
            what: What::Transfer {
                datum: self.datum,
                link: u32::MAX,
            },
            ways: self.to.iter().zip(links).filter_map(way).collect(),
            before: self.after.into_iter().collect(),
            after: self.readers.clone(),
            makes: Vec::new(),
            uses: Vec::new(),
            ends: Vec::new(),
        }
    }
}
