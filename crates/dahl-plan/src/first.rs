//! Initial plans: the best of several simple ones, for the local search to begin with.
//!
//! [Warm starts](super::warm_start) of the caller, and those made here: by [dispatching rules](super::rules) at the
//! dual prices and by [earliest finish times](super::construct), at several weights of time and with each kind of unit
//! alone.

use super::bound::DualBound;
use super::construct::greedy;
use super::dispatch::Dispatch;
use super::list::{Candidate, Choice, Lister};
use super::network::{ExecMode, Frame, Network};
use super::rules::Rules;
use super::warm_start::WarmStart;

/// Most changes of rules that are tried.
const RULES: u64 = 2000;

/// The best plan so far.
#[derive(Default)]
pub(crate) struct Best {
    plan: Option<Candidate>,
}

impl Best {
    /// What the best plan costs; without end if there is none.
    pub(crate) fn cost(&self) -> f64 {
        self.plan.as_ref().map_or(f64::INFINITY, |p| p.cost)
    }

    /// Keeps the plan of a choice if none ranks better. Its rank, if that is at most `most` or the best.
    pub(crate) fn offer(
        &mut self,
        lister: &mut Lister<'_, '_>,
        choice: &Choice,
        nudge: &[f64],
        most: f64,
    ) -> Option<f64> {
        let known = self.plan.as_ref().map_or(f64::INFINITY, |b| b.rank);
        let found = lister.rough(choice, nudge, known.max(most))?;
        let rank = found.rank;
        if self.plan.is_none() || rank < known {
            self.plan = Some(found);
        }
        (rank <= most).then_some(rank)
    }
}

/// What first plans are made from.
pub(crate) struct First<'a, 'p> {
    /// The problem.
    pub frame: &'a Frame<'p>,
    /// Without transfers.
    pub relaxed: &'a Network,
    /// What was found of it.
    pub dual: &'a DualBound,
    /// What each mode of each task costs beyond its cheapest.
    pub reduced_costs: &'a [Vec<f64>],
    /// Plans that the caller has.
    pub warm_starts: &'a [WarmStart],
    /// Which random numbers to use.
    pub seed: u64,
    /// How many changes the search will try.
    pub rounds: u64,
    /// Stops once a plan costs this little.
    pub enough: f64,
}

impl First<'_, '_> {
    /// The best first plan; if `several`, after it the best of those that took the least trouble, where that
    /// is another: from there a search may come elsewhere.
    pub(crate) fn best(
        &self,
        several: bool,
        lister: &mut Lister<'_, '_>,
        keep_going: &mut dyn FnMut() -> bool,
    ) -> Vec<Candidate> {
        let frame = self.frame;
        let mut best = Best::default();
        let rules = Rules {
            dispatch: &Dispatch::new(frame, self.relaxed, self.dual),
            problem: frame.problem,
            dual: self.dual,
            reduced_costs: self.reduced_costs,
            seed: self.seed,
            rounds: (self.rounds / 10).min(RULES),
            enough: self.enough,
        };
        let rule = rules.begin(&mut best, lister);
        self.greedy(&mut best, lister, keep_going);
        let simple = best.plan.clone().filter(|_| several);
        for (choice, nudge) in self.warm_starts.iter().filter_map(|s| s.choice(frame)) {
            best.offer(lister, &choice, &nudge, 0.0);
        }
        if let Some(rule) = rule {
            rules.improve(rule, &mut best, lister, keep_going);
        }
        let simple = simple.filter(|s| best.plan.as_ref().is_some_and(|b| b.rank < s.rank));
        let mut whole = |p: Candidate| lister.plan(&p.choice, &p.nudge);
        best.plan
            .into_iter()
            .chain(simple)
            .filter_map(&mut whole)
            .collect()
    }

    /// Each task where it ends first or costs least; all of these plans, or those that time is left for.
    fn greedy(
        &self,
        best: &mut Best,
        lister: &mut Lister<'_, '_>,
        keep_going: &mut dyn FnMut() -> bool,
    ) {
        let (frame, p) = (self.frame, self.frame.problem);
        let shares = &self.dual.shares;
        let standing = p.standing_watts().max(1e-9);
        for weight in [0.0, 0.1, 0.3, 0.6, 1.0, 1.5, 3.0, 10.0, 1e6] {
            if best.plan.as_ref().is_some_and(|p| p.cost.is_finite()) && !keep_going() {
                return;
            }
            let mut take = |choice: Choice| {
                best.offer(lister, &choice, &[], 0.0);
            };
            let greedy = |allowed: &dyn Fn(usize, usize, &ExecMode) -> bool| {
                greedy(frame, self.relaxed, standing * weight, allowed)
            };
            take(greedy(&|_, _, _| true));
            take(greedy(&|t, k, _| shares[t][k] > 0.02));
            for (g, group) in p.groups.iter().enumerate() {
                take(greedy(&|_, _, w| usize::from(w.resource) == g));
                let near =
                    |_, _, w: &ExecMode| p.groups[usize::from(w.resource)].memory == group.memory;
                take(greedy(&near));
            }
        }
        best.offer(lister, &rounded(shares), &[], 0.0);
    }
}

/// For each task the mode that the relaxation uses most.
pub(crate) fn rounded(shares: &[Vec<f64>]) -> Choice {
    let most = |s: &Vec<f64>| {
        (0..s.len())
            .max_by(|&a, &b| s[a].total_cmp(&s[b]))
            .unwrap_or(0) as u16
    };
    shares.iter().map(most).collect()
}
