//! Energetic reasoning: what must run on a resource between two moments has to fit there.
//!
//! For each pair of moments, the activities that cannot start before the first nor end after the second are
//! added up. If they are more than the resource can do in that time there is a conflict. An activity that may run
//! elsewhere and would be too much does. On a disjunctive resource (one activity at a time), one that starts inside
//! and would be too much comes after all of them, and one that ends inside before: edge finding.

use super::model::Span;
use super::trail::{Conflict, Literal, Trail, Var};

/// An activity that may run on the resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    pub span: Span,
    pub time: i64,
}

impl Demand {
    /// With time running backwards.
    fn mirrored(self) -> Demand {
        let span = Span {
            start: !self.span.end,
            end: !self.span.start,
            here: self.span.here,
        };
        Demand { span, ..self }
    }
}

/// One resource.
#[derive(Debug)]
pub(super) struct Energetic {
    units: i64,
    parts: Vec<Demand>,
    mirrored: Vec<Demand>,
}

/// A part with its bounds.
#[derive(Clone, Copy, Debug)]
struct Now {
    part: Demand,
    from: i64,
    to: i64,
    certain: bool,
}

/// Room for it.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    parts: Vec<Now>,
    /// When certain ones must have ended.
    ends: Vec<i64>,
    because: Vec<Literal>,
}

impl Energetic {
    /// A resource that does so much at once.
    pub(super) fn new(units: usize, parts: Vec<Demand>) -> Self {
        Energetic {
            units: units as i64,
            mirrored: parts.iter().map(|p| p.mirrored()).collect(),
            parts,
        }
    }

    /// Numbers on which it depends.
    pub(super) fn numbers(&self) -> impl Iterator<Item = Var> {
        let of = |p: &Demand| {
            let here = p.span.here.map(|h| h.var);
            [Some(p.span.start), Some(!p.span.end), here]
                .into_iter()
                .flatten()
        };
        self.parts.iter().flat_map(of)
    }

    /// What follows from the bounds as they are.
    pub(super) fn check(&self, trail: &mut Trail, room: &mut Scratch) -> Result<(), Conflict> {
        self.sweep(&self.parts, trail, room)?;
        if self.units == 1 {
            self.sweep(&self.mirrored, trail, room)?;
        }
        Ok(())
    }

    fn sweep(
        &self,
        parts: &[Demand],
        trail: &mut Trail,
        room: &mut Scratch,
    ) -> Result<(), Conflict> {
        room.parts.clear();
        for &part in parts {
            if part.span.here.is_some_and(|h| trail.fails(h)) || part.time == 0 {
                continue;
            }
            room.parts.push(Now {
                part,
                from: trail.least(part.span.start),
                to: trail.most(part.span.end),
                certain: part.span.here.is_none_or(|h| trail.holds(h)),
            });
        }
        room.parts
            .sort_unstable_by_key(|p| std::cmp::Reverse(p.from));
        let certain = room.parts.iter().filter(|p| p.certain);
        room.ends.clear();
        room.ends.extend(certain.map(|p| p.to));
        room.ends.sort_unstable();
        room.ends.dedup();
        for k in 0..room.ends.len() {
            self.until(room.ends[k], trail, room)?;
        }
        Ok(())
    }

    /// Windows that end at a moment when some part must.
    fn until(&self, to: i64, trail: &mut Trail, room: &mut Scratch) -> Result<(), Conflict> {
        let mut energetic = 0;
        // The longest of those that are not certain, or may end later: nothing follows where even that fits.
        let mut longest = 0;
        for i in 0..room.parts.len() {
            let p = room.parts[i];
            if p.certain && p.to <= to {
                energetic += p.part.time;
            } else if p.to <= to || p.certain && self.units == 1 {
                longest = longest.max(p.part.time);
            } else {
                continue;
            }
            let free = self.units * (to - p.from) - energetic;
            if free < 0 && energetic > 0 {
                self.explain(room, to, p.from);
                return Err(trail.refuse(&room.because));
            }
            if longest > free && energetic > 0 {
                self.crowd_out(trail, room, (p.from, to), (energetic, free))?;
            }
        }
        Ok(())
    }

    /// Facts that put the certain parts into a window.
    fn explain(&self, room: &mut Scratch, to: i64, from: i64) {
        room.because.clear();
        for p in &room.parts {
            if p.certain && p.to <= to && p.from >= from {
                room.because.extend(p.part.span.here);
                room.because.push(p.part.span.start.at_least(from));
                room.because.push(p.part.span.end.at_most(to));
            }
        }
    }

    /// Parts that do not fit into a window beside what must be there.
    fn crowd_out(
        &self,
        trail: &mut Trail,
        room: &mut Scratch,
        (from, to): (i64, i64),
        (energetic, free): (i64, i64),
    ) -> Result<(), Conflict> {
        for i in 0..room.parts.len() {
            let p = room.parts[i];
            if p.from < from {
                break;
            }
            if p.part.time <= free {
                continue;
            }
            if !p.certain && p.to <= to {
                self.explain(room, to, from);
                room.because.push(p.part.span.start.at_least(from));
                room.because.push(p.part.span.end.at_most(to));
                if let Some(here) = p.part.span.here {
                    trail.follow(!here, &room.because)?;
                }
            } else if p.certain
                && p.to > to
                && self.units == 1
                && trail.least(p.part.span.start) < from + energetic
            {
                self.explain(room, to, from);
                room.because.extend(p.part.span.here);
                room.because.push(p.part.span.start.at_least(from));
                trail.follow(p.part.span.start.at_least(from + energetic), &room.because)?;
            }
        }
        Ok(())
    }
}
