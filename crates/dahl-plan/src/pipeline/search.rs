//! The least time per batch in the steady state, by asking: can every stage stay within t seconds?
//!
//! For a given t, the fewest units that the layers after each cut need are found from the end of the network to its
//! beginning; fewer units after a cut are better for all that comes before, in time and in memory. A yes gives a
//! plan, whose own time is the next upper bound. A no gives a lower bound: the least time above t at which any of the
//! comparisons made could have come out differently. Between the two bounds the interval is halved.

use super::cost::{Line, Stage, stashed};
use super::cuts::Cuts;

/// What limits the search beside the platform.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) most_replicas: usize,
    /// Whether where units are makes a difference to transfers.
    pub(super) two_levels: bool,
    /// Whether leaving out a unit of the line may help.
    pub(super) may_skip: bool,
}

/// The best way to run what lies after a cut.
#[derive(Clone, Copy)]
struct Best {
    /// Units of the line taken or left out.
    end: usize,
    /// Units taken.
    used: usize,
    stage: Option<Stage>,
}

const NOTHING: Best = Best {
    end: usize::MAX,
    used: 0,
    stage: None,
};

pub(super) struct Search<'a> {
    cuts: &'a Cuts,
    line: &'a Line<'a>,
    rules: Rules,
    /// For each cut: `[0]` for any sender, `[1]` if the sender is in the node of the receiver.
    best: Vec<[Best; 2]>,
    /// The least time at which a comparison could come out differently.
    next: f64,
}

impl<'a> Search<'a> {
    pub(super) fn new(cuts: &'a Cuts, line: &'a Line<'a>, rules: Rules) -> Search<'a> {
        Search {
            cuts,
            line,
            rules,
            best: Vec::new(),
            next: f64::INFINITY,
        }
    }

    /// Stages of at most `limit` seconds each, from the first to the last; or the least limit that might allow some.
    pub(super) fn within(&mut self, limit: f64) -> Result<Vec<Stage>, f64> {
        let cuts = self.cuts;
        let end = self.cuts.end();
        self.next = f64::INFINITY;
        self.best = vec![[NOTHING; 2]; end + 1];
        self.best[end] = [Best { end: 0, ..NOTHING }; 2];
        for first in (0..end).rev() {
            for last in cuts.after(first) {
                let [anybody, inside] = self.best[last];
                if anybody.end.min(inside.end) < self.line.len() {
                    self.extend(first, last, limit);
                }
            }
        }
        if self.best[0][0].end == usize::MAX {
            return Err(self.next);
        }
        let (mut at, mut inside, mut stages) = (0, 0, Vec::new());
        while let Some(stage) = self.best[at][inside].stage {
            stages.push(stage);
            (at, inside) = (stage.last, usize::from(stage.to_inside));
        }
        Ok(stages)
    }

    /// Tries a stage between two cuts, before the best ways to run what follows it.
    fn extend(&mut self, first: usize, last: usize, limit: f64) {
        let levels = if self.rules.two_levels { 2 } else { 1 };
        for to_inside in 0..levels {
            let after = self.best[last][to_inside];
            if after.end == usize::MAX || to_inside == 1 && last == self.cuts.end() {
                continue;
            }
            let starts = match self.rules.may_skip {
                true => after.end..self.line.len(),
                false => after.end..(after.end + 1).min(self.line.len()),
            };
            for place in starts {
                for from_inside in 0..levels {
                    let stage = Stage {
                        first,
                        last,
                        place,
                        replicas: 1,
                        from_inside: from_inside == 1,
                        to_inside: to_inside == 1,
                    };
                    self.fewest(stage, after, limit);
                }
            }
        }
    }

    /// Gives a stage as few replicas as keep it within the limit, if that is better than what is known.
    fn fewest(&mut self, mut stage: Stage, after: Best, limit: f64) {
        let known = self.best[stage.first][usize::from(stage.from_inside)].end;
        let room = known.saturating_sub(1).min(self.line.len());
        if stage.place >= room || stage.first == 0 && stage.from_inside {
            return;
        }
        let most = (room - stage.place).min(self.rules.most_replicas);
        stage.replicas = most;
        let least = self.line.compute(self.cuts, &stage);
        if least > limit {
            self.next = self.next.min(least);
            return;
        }
        // What is sent needs so many, however fast they compute.
        stage.replicas = 1;
        let [received, passed_on] = self.line.transfers(self.cuts, &stage);
        let sent = received.max(passed_on);
        // Rounded so that an exact quotient is not missed: the times themselves are compared below.
        let for_sent = (sent / limit * (1.0 - 1e-14)).ceil();
        let for_sent = for_sent.clamp(1.0, most as f64 + 1.0) as usize;
        if for_sent > most {
            self.next = self.next.min(sent / most as f64);
            return;
        }
        if for_sent > 1 {
            let fewer = sent / (for_sent - 1) as f64;
            self.next = self.next.min(fewer.max(limit));
        }
        for replicas in self.start(&stage, most, limit).max(for_sent)..=most {
            stage.replicas = replicas;
            if !self.joined(&stage, after) {
                return;
            }
            let seconds = self.line.seconds(self.cuts, &stage);
            if seconds > limit {
                self.next = self.next.min(seconds);
                continue;
            }
            let used = after.used + replicas;
            let memory = self.line.memory(stage.place, replicas);
            if stashed(self.cuts, &stage, used) > memory {
                continue;
            }
            self.best[stage.first][usize::from(stage.from_inside)] = Best {
                end: stage.place + replicas,
                used,
                stage: Some(stage),
            };
            return;
        }
    }

    /// The fewest replicas whose computing alone is within the limit; the one before is noted.
    fn start(&mut self, stage: &Stage, most: usize, limit: f64) -> usize {
        let compute = |replicas: usize| {
            let stage = Stage { replicas, ..*stage };
            self.line.compute(self.cuts, &stage)
        };
        let (mut low, mut high) = (1, most);
        while low < high {
            let middle = (low + high) / 2;
            if compute(middle) > limit {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if low > 1 {
            self.next = self.next.min(compute(low - 1));
        }
        low
    }

    /// Whether the stage is where its transfers are said to be. More replicas never make it so again.
    fn joined(&self, stage: &Stage, after: Best) -> bool {
        if !(stage.from_inside || stage.to_inside) {
            return true;
        }
        let together = self.line.together(stage.place, stage.replicas);
        let node = self.line.units[stage.place].node;
        let receiver = after.stage.map(|s| self.line.units[s.place].node);
        together && (!stage.to_inside || receiver == Some(node))
    }
}

/// The best stages with their time, and a time that none are faster than. `None` if none fit the memory.
pub(super) fn least_time(
    search: &mut Search<'_>,
    mut low: f64,
    most: f64,
) -> Option<(Vec<Stage>, f64)> {
    let time = |search: &Search<'_>, stages: &[Stage]| {
        let seconds = stages.iter().map(|s| search.line.seconds(search.cuts, s));
        seconds.fold(0.0, f64::max)
    };
    let mut best = search.within(most).ok()?;
    let mut high = time(search, &best);
    // Sixty halvings exhaust what numbers can tell apart.
    for _ in 0..60 {
        if low >= high {
            break;
        }
        let middle = f64::midpoint(low, high);
        let limit = if middle > low && middle < high {
            middle
        } else {
            low
        };
        match search.within(limit) {
            Ok(stages) => {
                high = time(search, &stages);
                best = stages;
                if limit == low {
                    low = high;
                }
            }
            Err(next) => low = next.max(limit).min(high),
        }
    }
    Some((best, low.min(high)))
}
