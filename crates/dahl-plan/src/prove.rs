//! The proof that a plan is best, or a better one: of the whole problem at once, or [part](super::series) by part.

use super::bound::{self, Bound, DualBound, PossibleTransfers};
use super::exact::{self, Hint};
use super::levelling::level_loads;
use super::list::Candidate;
use super::network::Frame;
use super::pareto::{Cutoff, beside, pareto_front};
use super::problem::{Goal, Objective, PlanError, Problem};
use super::reduced_cost::fix_modes;
use super::series::{self, StartOrder, SubProblem};
use super::solve::Limits;
use super::timeline::Started;

/// What is known of a problem.
pub(super) struct Incumbent {
    /// The best plan: its cost, each task's memory, and what starts when.
    pub plan: Option<(f64, Vec<usize>, Vec<Started>)>,
    /// Whether nothing is better, but for the gap that is allowed.
    pub proven: bool,
    /// No plan costs less.
    pub floor: f64,
}

impl Incumbent {
    /// Makes equal units end together, in the best plan and in another one, until it is enough or for so many tries.
    pub(crate) fn level_loads(
        &mut self,
        frame: &Frame<'_>,
        goal: &Goal,
        other: Option<Candidate>,
        (enough, tries): (f64, usize),
        keep_going: &mut dyn FnMut() -> bool,
    ) {
        let starts = self.plan.clone().into_iter();
        let starts = starts.chain(other.map(|o| (o.cost, o.memory, o.log)));
        for (_, memory, log) in starts.collect::<Vec<_>>() {
            let known = self.plan.as_ref().map_or(f64::INFINITY, |p| p.0);
            if known > enough
                && let Some(net) = frame.network(&memory)
                && let Some((cost, log)) = level_loads(&net, goal, &log, enough, tries, keep_going)
                && cost < known
            {
                self.plan = Some((cost, memory, log));
            }
        }
    }

    /// Looks for the proof, or a better plan; if that is one of another frame, returns it.
    pub(crate) fn prove<'p>(
        &mut self,
        whole: &Bounded<'p>,
        goal: &Goal,
        limits: &Limits<'_>,
        keep_going: &mut dyn FnMut() -> bool,
    ) -> Option<Frame<'p>> {
        let parts = series::parts(&whole.frame);
        if parts.len() > 1 {
            // A plan that is in time is known, so the fastest one is in time, too.
            let is_sum = match goal.objective {
                Objective::Time => true,
                Objective::Energy => goal.deadline.is_none(),
                Objective::Edp => false,
            };
            let done = match is_sum {
                true => self.apart(&whole.frame, goal, limits, &parts, keep_going),
                false => self.together(&whole.frame, goal, limits, &parts, keep_going),
            };
            if done.is_some() {
                return None;
            }
        }
        let hint = self.plan.as_ref();
        let hint = hint.and_then(|(_, memory, log)| Hint::new(&whole.frame, memory, log));
        let beat = self.plan.as_ref().map_or(f64::INFINITY, |p| p.0);
        let found = whole.search(goal, limits, beat, hint.as_ref(), keep_going);
        self.proven = found.proven;
        self.floor = self.floor.max(found.floor);
        let (frame, memory, log) = found.plan?;
        self.plan = Some((found.cost, memory, log));
        Some(frame)
    }

    /// Each part by itself, the smallest first, where the goal is a sum over parts.
    fn apart(
        &mut self,
        frame: &Frame<'_>,
        goal: &Goal,
        limits: &Limits<'_>,
        parts: &[SubProblem],
        keep_going: &mut dyn FnMut() -> bool,
    ) -> Option<()> {
        let whole = StartOrder::new(frame, &self.plan.as_ref()?.2);
        let mut orders: Vec<StartOrder> = parts.iter().map(|p| p.of(&whole)).collect();
        let mut by_size: Vec<usize> = (0..parts.len()).collect();
        by_size.sort_by_key(|&k| parts[k].tasks.len());
        let goal = &Goal {
            deadline: None,
            ..*goal
        };
        let (mut floor, mut proven) = (0.0, true);
        for k in by_size {
            let part = Bounded::new(&parts[k].problem, goal, limits, keep_going).ok()?;
            let done = orders[k].perform(&part.frame)?;
            let mut known = Incumbent {
                plan: Some((goal.cost(done.seconds, done.joules), done.memory, done.log)),
                proven: false,
                floor: part.bound.cost,
            };
            let until = (limits.enough(part.bound.cost), limits.evened());
            known.level_loads(&part.frame, goal, None, until, keep_going);
            let other = known.prove(&part, goal, limits, keep_going);
            orders[k] = StartOrder::new(other.as_ref().unwrap_or(&part.frame), &known.plan?.2);
            floor += known.floor;
            proven &= known.proven;
        }
        self.proven = proven;
        self.floor = self.floor.max(floor);
        self.take(frame, goal, &series::join(parts, &orders))
    }

    /// The largest part with all that the others can do at once.
    fn together(
        &mut self,
        frame: &Frame<'_>,
        goal: &Goal,
        limits: &Limits<'_>,
        parts: &[SubProblem],
        keep_going: &mut dyn FnMut() -> bool,
    ) -> Option<()> {
        let beat = self.plan.as_ref()?.0;
        let limit = beat * (1.0 - limits.gap.max(1e-9));
        let wanted = Cutoff { goal, limit };
        let (largest, points) = pareto_front(parts, &wanted, limits.bound_iterations, keep_going)?;
        if points.is_empty() {
            (self.proven, self.floor) = (true, limit);
            return Some(());
        }
        let part = beside(&parts[largest], &points);
        let part = Bounded::new(&part.problem, goal, limits, keep_going).ok()?;
        let found = part.search(goal, limits, beat, None, keep_going);
        self.proven = found.proven;
        self.floor = self.floor.max(found.floor.min(limit));
        let Some((fixed, _, log)) = found.plan else {
            return Some(());
        };
        let mut order = StartOrder::new(&fixed, &log);
        let point = &points[usize::from(order.modes.pop()?.state)];
        order.tasks.retain(|&t| (t as usize) < order.modes.len());
        let mut orders = point.orders.clone();
        orders.push((largest, order));
        orders.sort_by_key(|o| o.0);
        let orders: Vec<StartOrder> = orders.into_iter().map(|o| o.1).collect();
        self.take(frame, goal, &series::join(parts, &orders))
    }

    /// A plan that was found in parts.
    fn take(&mut self, frame: &Frame<'_>, goal: &Goal, order: &StartOrder) -> Option<()> {
        let done = order.perform(frame)?;
        let cost = goal.cost(done.seconds, done.joules);
        self.plan = Some((cost, done.memory, done.log));
        Some(())
    }
}

/// A frame, its bound, and the prices of that.
pub(super) struct Bounded<'p> {
    pub frame: Frame<'p>,
    pub bound: Bound,
    pub dual: DualBound,
}

/// What a search found.
struct Found<'p> {
    proven: bool,
    floor: f64,
    cost: f64,
    /// A better plan: of which frame, each task's memory, and what starts when.
    plan: Option<(Frame<'p>, Vec<usize>, Vec<Started>)>,
}

impl<'p> Bounded<'p> {
    /// A problem with its bound.
    pub(crate) fn new(
        problem: &'p Problem,
        goal: &Goal,
        limits: &Limits<'_>,
        keep_going: &mut dyn FnMut() -> bool,
    ) -> Result<Self, PlanError> {
        let mut frame = Frame::new(problem)?;
        if goal.objective == Objective::Time {
            frame.keep_fastest();
        }
        let (net, carries) = (frame.relaxed(), PossibleTransfers::new(&frame));
        let (bound, dual) = bound::bound(&net, &carries, goal, limits.bound_iterations, keep_going);
        Ok(Bounded { frame, bound, dual })
    }

    /// Looks for a plan that costs less than `beat`, near a hint.
    fn search(
        &self,
        goal: &Goal,
        limits: &Limits<'_>,
        beat: f64,
        hint: Option<&Hint>,
        keep_going: &mut dyn FnMut() -> bool,
    ) -> Found<'p> {
        let limit = beat * (1.0 - limits.gap.max(1e-9));
        let known = (&self.bound, &self.dual);
        let fixed = fix_modes(
            &self.frame,
            goal,
            limit,
            limits.bound_iterations,
            known,
            keep_going,
        );
        let Some((fixed, tighter)) = fixed else {
            return Found {
                proven: true,
                floor: limit,
                cost: beat,
                plan: None,
            };
        };
        let exact = exact::solve(&fixed, goal, beat, hint, limits.gap, keep_going);
        Found {
            proven: exact.proven,
            floor: tighter.cost.min(limit).max(exact.floor),
            cost: exact.cost,
            plan: exact.found.map(|(memory, log)| (fixed, memory, log)),
        }
    }
}
