//! Data in a [model](super::model): when it crosses links, and how long its copies lie in memories that are limited.

use super::build::Builder;
use super::model::{Crossing, Cumulative, If, Span};
use super::trail::{Conflict, Literal, Var};
use crate::problem::Origin;

/// A datum on its way into the model.
struct Data {
    datum: usize,
    /// The task that writes it, if one does.
    writer: Option<u32>,
    /// The task that writes what takes its place.
    heir: Option<u32>,
    /// Its transfer over each link, and the copies that lie at their ends and at home.
    crossings: Vec<Option<(Span, Option<Var>)>>,
}

impl Builder<'_, '_> {
    /// All transfers, and if memories are limited all copies.
    pub(super) fn data(&mut self) -> Result<(), Conflict> {
        let p = self.frame.problem;
        if self.frame.copies {
            let limits = p.memories.iter().map(|m| m.capacity.unwrap_or(u64::MAX));
            self.model
                .cumulatives
                .extend(limits.map(|limit| Cumulative {
                    limit,
                    demands: Vec::new(),
                }));
        }
        let mut heirs = vec![None; p.data.len()];
        for d in &p.data {
            if let (Some(old), Origin::Task(w)) = (d.replaces, d.origin) {
                heirs[old as usize] = Some(w);
            }
        }
        for (datum, d) in p.data.iter().enumerate() {
            let owner = self.frame.writer(datum);
            let homes: Vec<Option<If>> = match (owner, d.origin) {
                (Some(w), _) => self.places[w as usize].clone(),
                (None, Origin::Memory(home)) => {
                    let at = |m| (m == home).then_some(None);
                    (0..p.memories.len()).map(at).collect()
                }
                (None, _) => continue,
            };
            let mut data = Data {
                datum,
                writer: match d.origin {
                    Origin::Task(w) => Some(w),
                    _ => None,
                },
                heir: heirs[datum],
                crossings: vec![None; p.links.len()],
            };
            for (o, home) in homes.into_iter().enumerate() {
                if let Some(home) = home {
                    self.begin_at(&mut data, o, home, owner)?;
                }
            }
        }
        Ok(())
    }

    /// What a datum does that begins in a memory, if it does.
    fn begin_at(
        &mut self,
        data: &mut Data,
        o: usize,
        home: If,
        owner: Option<u32>,
    ) -> Result<(), Conflict> {
        let d = &self.frame.problem.data[data.datum];
        let made = data.writer.map(|w| self.model.tasks[w as usize].0);
        let at_home = self.copy(data, o, home, made, d.kept);
        for &r in &d.readers {
            for m in 0..self.frame.problem.memories.len() {
                let Some(there) = self.places[r as usize][m] else {
                    continue;
                };
                if m != o && Some(r) == owner {
                    continue;
                }
                let so: Vec<Literal> = [home, there].into_iter().flatten().collect();
                let not: Vec<Literal> = so.iter().map(|&f| !f).collect();
                let Some(route) = &self.frame.routes[o][m] else {
                    self.require(not)?;
                    continue;
                };
                let (mut last, mut copy): (Option<Span>, _) = (None, at_home);
                for &l in route {
                    let (span, next) = self.cross(data, l);
                    let needed = span.here.into_iter();
                    self.require(not.iter().copied().chain(needed).collect())?;
                    if let Some(before) = last {
                        self.model.arcs.add(before.end, span.start, 0, &so);
                    }
                    self.uses(copy, span.end, &so);
                    (last, copy) = (Some(span), next);
                }
                let reader = self.model.tasks[r as usize].0;
                if let Some(last) = last {
                    self.model.arcs.add(last.end, reader.start, 0, &so);
                }
                // Who replaces a datum where it lies drops it as it starts.
                let until = match data.heir == Some(r) {
                    true => reader.start,
                    false => reader.end,
                };
                self.uses(copy, until, &so);
            }
        }
        Ok(())
    }

    /// The transfer of a datum over a link, and until when the copy lies there that it makes.
    fn cross(&mut self, data: &mut Data, link: u32) -> (Span, Option<Var>) {
        if let Some(known) = data.crossings[link as usize] {
            return known;
        }
        let needed = self.model.choice();
        let span = self.span(Some(needed));
        let p = self.frame.problem;
        let (l, bytes) = (&p.links[link as usize], p.data[data.datum].bytes);
        let time = self.ticks(l.seconds(bytes));
        let m = &mut self.model;
        m.arcs.add(span.start, span.end, time, &[]);
        m.arcs.add(span.end, m.budget.end, 0, &[needed]);
        if let Some(w) = data.writer {
            m.arcs.add(m.tasks[w as usize].0.end, span.start, 0, &[]);
        }
        m.budget
            .transfers
            .push((needed, l.joules_per_byte * bytes as f64));
        m.crossings.push(Crossing {
            datum: data.datum as u32,
            link,
            span,
        });
        let copy = self.copy(data, l.to, Some(needed), Some(span), false);
        data.crossings[link as usize] = Some((span, copy));
        (span, copy)
    }

    /// A copy in a memory, made by something or there from the beginning: until when it lies there, if that
    /// is of interest.
    fn copy(
        &mut self,
        data: &Data,
        memory: usize,
        here: If,
        made: Option<Span>,
        kept: bool,
    ) -> Option<Var> {
        if !self.frame.copies {
            return None;
        }
        let span = Span {
            start: made.map_or(self.beginning, |m| m.start),
            here,
            ..self.span(None)
        };
        if let Some(made) = made {
            self.model.arcs.add(made.end, span.end, 0, here.as_slice());
        }
        if kept {
            // To the end, unless it is replaced here.
            let replaced = data.heir.and_then(|w| self.places[w as usize][memory]);
            let unless: Option<Vec<Literal>> = match replaced {
                None => Some(Vec::new()),
                Some(None) => None,
                Some(Some(there)) => Some(vec![!there]),
            };
            if let Some(mut conditions) = unless {
                conditions.extend(here);
                let end = self.end;
                self.model.arcs.add(end, span.end, 0, &conditions);
            }
        }
        let bytes = self.frame.problem.data[data.datum].bytes;
        self.model.cumulatives[memory].demands.push((span, bytes));
        Some(span.end)
    }

    /// A copy is used until then, under these conditions.
    fn uses(&mut self, copy: Option<Var>, until: Var, conditions: &[Literal]) {
        if let Some(end) = copy {
            self.model.arcs.add(until, end, 0, conditions);
        }
    }
}
