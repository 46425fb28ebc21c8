//! Objectives that are no sums over [parts](super::series): one part beside the Pareto fronts of the others.
//!
//! Energy within a deadline, or energy × time, of the whole is not best for each part alone. But in a best plan no
//! part could be both faster and thriftier. So the Pareto front of each small part is found, by one deadline after
//! another (the ε-constraint method), and the sums of their points are the modes of one task that stands in for
//! these parts, in a problem with the largest part.
//!
//! Points so slow or dear that the whole cannot cost less than the incumbent are left out.

use super::bound::{self, PossibleTransfers};
use super::exact;
use super::network::Frame;
use super::problem::{Class, Goal, Group, Objective};
use super::series::{StartOrder, SubProblem};

/// Most plans of one part, or of several together.
const MOST: usize = 200;

/// Most questions whether to go on until all of them are found.
const ASKED: usize = 20_000;

/// What some parts do: the seconds and joules of that, and how.
#[derive(Clone, Debug, Default)]
pub(super) struct Point {
    pub seconds: f64,
    pub joules: f64,
    /// Which part does it in which order.
    pub orders: Vec<(usize, StartOrder)>,
}

/// The whole's goal, and what is known of it: plans that cost this or more are of no interest.
pub(super) struct Cutoff<'g> {
    pub goal: &'g Goal,
    pub limit: f64,
}

impl Cutoff<'_> {
    /// Whether plans of so many seconds and joules at least are of interest.
    fn includes(&self, (seconds, joules): Least) -> bool {
        self.goal.in_time(seconds) && self.goal.cost(seconds, joules) < self.limit
    }

    /// The longest that a part can take, and the most joules it can need, where it and the others need so much at least.
    fn most(&self, part: Least, others: Least) -> Least {
        let (seconds, joules) = (part.0 + others.0, part.1 + others.1);
        let deadline = self.goal.deadline.unwrap_or(f64::INFINITY);
        let whole = match self.goal.objective {
            Objective::Time => (self.limit, f64::INFINITY),
            Objective::Energy => (f64::INFINITY, self.limit),
            Objective::Edp => (self.limit / joules, self.limit / seconds),
        };
        (whole.0.min(deadline) - others.0, whole.1 - others.1)
    }
}

/// Seconds and joules that something needs at least.
type Least = (f64, f64);

fn sum(least: impl Iterator<Item = Least>) -> Least {
    least.fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1))
}

/// The largest part, and what the others can do together; `None` if that is too much to tell.
pub(super) fn pareto_front(
    parts: &[SubProblem],
    wanted: &Cutoff<'_>,
    rounds: usize,
    keep_going: &mut dyn FnMut() -> bool,
) -> Option<(usize, Vec<Point>)> {
    let mut asked = 0;
    let mut keep_going = || {
        asked += 1;
        asked <= ASKED && keep_going()
    };
    let mut least: Vec<Least> = Vec::new();
    for part in parts {
        let frame = Frame::new(&part.problem).ok()?;
        let (net, carries) = (frame.relaxed(), PossibleTransfers::new(&frame));
        let (bound, _) = bound::bound(&net, &carries, &Goal::default(), rounds, &mut keep_going);
        least.push((bound.seconds, bound.joules));
    }
    let mut by_size: Vec<usize> = (0..parts.len()).collect();
    by_size.sort_by_key(|&k| parts[k].tasks.len());
    let largest = by_size.pop()?;
    let mut all = vec![Point::default()];
    for (done, &k) in by_size.iter().enumerate() {
        let others = sum((0..parts.len()).filter(|&o| o != k).map(|o| least[o]));
        let mine = plans(&parts[k], wanted.most(least[k], others), &mut keep_going)?;
        let to_come = by_size[done + 1..].iter().chain([&largest]);
        let to_come = sum(to_come.map(|&o| least[o]));
        all = sums(&all, k, &mine);
        all.retain(|p| wanted.includes((p.seconds + to_come.0, p.joules + to_come.1)));
        if all.len() > MOST {
            return None;
        }
    }
    Some((largest, all))
}

/// Plans of a part of which none is both faster and thriftier, the slowest first, within so many seconds and joules.
fn plans(
    part: &SubProblem,
    (seconds, joules): Least,
    keep_going: &mut dyn FnMut() -> bool,
) -> Option<Vec<(f64, f64, StartOrder)>> {
    let frame = Frame::new(&part.problem).ok()?;
    let mut goal = Goal {
        objective: Objective::Energy,
        deadline: Some(seconds),
    };
    let mut all = Vec::new();
    while all.len() <= MOST {
        let exact = exact::solve(&frame, &goal, joules, None, 0.0, keep_going);
        if !exact.proven {
            return None;
        }
        let Some((_, log)) = exact.found else {
            return Some(all);
        };
        let order = StartOrder::new(&frame, &log);
        let done = order.perform(&frame)?;
        // Faster by more than what counts as in time.
        goal.deadline = Some(done.seconds * (1.0 - 2e-9));
        all.push((done.seconds, done.joules, order));
    }
    None
}

/// What some parts and one more can do, without what something else beats in both respects.
fn sums(all: &[Point], part: usize, mine: &[(f64, f64, StartOrder)]) -> Vec<Point> {
    let mut sums = Vec::new();
    for point in all {
        for (seconds, joules, order) in mine {
            let mut orders = point.orders.clone();
            orders.push((part, order.clone()));
            sums.push(Point {
                seconds: point.seconds + seconds,
                joules: point.joules + joules,
                orders,
            });
        }
    }
    sums.sort_by(|a, b| {
        a.seconds
            .total_cmp(&b.seconds)
            .then(a.joules.total_cmp(&b.joules))
    });
    let mut least = f64::INFINITY;
    sums.retain(|p| {
        let is_thriftier = p.joules < least;
        least = least.min(p.joules);
        is_thriftier
    });
    sums
}

/// A part, and after its tasks one that stands in for all others: it comes first, and these points are its modes.
pub(super) fn beside(part: &SubProblem, points: &[Point]) -> SubProblem {
    let mut problem = part.problem.clone();
    let standing = problem.standing_watts();
    let watts = |p: &Point| match p.seconds > 0.0 {
        true => (p.joules / p.seconds - standing).max(0.0),
        false => 0.0,
    };
    problem
        .classes
        .iter_mut()
        .for_each(|c| c.seconds.push(Vec::new()));
    let mut seconds = vec![Vec::new(); problem.groups.len()];
    seconds.push(points.iter().map(|p| p.seconds).collect());
    problem.classes.push(Class {
        name: "other parts".into(),
        seconds,
    });
    problem.groups.push(Group {
        name: "other parts".into(),
        units: 1,
        memory: problem.groups[0].memory,
        idle_watts: 0.0,
        busy_watts: points.iter().map(watts).collect(),
    });
    let count = problem.tasks.len() as u32;
    problem.tasks.push(problem.classes.len() as u32 - 1);
    problem.edges.extend((0..count).map(|t| (count, t)));
    let tasks = part.tasks.iter().copied().chain([u32::MAX]).collect();
    SubProblem { problem, tasks }
}
