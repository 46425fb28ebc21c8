//! How long tasks take: one number for every class of task and unit, and where it comes from.
//!
//! A table rather than a function, so that the simulator looks a duration up and a planner sees the same
//! figures. It is filled from measurements where a performance model has any, else from the unit's rated
//! speeds by the roofline
//!
//! ```text
//!     seconds = max(flops / peak, bytes / bandwidth)
//! ```
//!
//! In another frequency state a task takes what [`roofline`](super::sides) says. What it costs beside its own
//! duration is the unit's `overhead`, which the simulator adds.

use std::collections::HashMap;

use dahl_core::{Graph, Machine, Seconds, Unit, UnitId, UnitKind};
use serde::Serialize;

use super::SimError;
use super::roofline::{Rates, Roofline};
use dahl_sched::model::{History, Key, PerfModel, Source};

/// Where a duration comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TimeSource {
    /// From durations of tasks of this very shape.
    Measured,
    /// From durations of the same implementation on other shapes.
    Fitted,
    /// From cost and the unit's rated speeds.
    Static,
    /// As `Static`, though there is no implementation for this kind of unit: what it would take if there
    /// were.
    Assumed,
}

impl TimeSource {
    /// All of them, from best to worst.
    pub const ALL: [TimeSource; 4] = [
        TimeSource::Measured,
        TimeSource::Fitted,
        TimeSource::Static,
        TimeSource::Assumed,
    ];

    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            TimeSource::Measured => "measured",
            TimeSource::Fitted => "fitted",
            TimeSource::Static => "static",
            TimeSource::Assumed => "assumed",
        }
    }
}

/// The name under which durations of a unit at a clock are recorded: that of the unit with the clock behind it, such as
/// `cpu@800MHz/2`.
pub fn timed_in(machine: &Machine, unit: &Unit, hertz: f64) -> String {
    let (name, clock) = (machine.timed_as(unit), format!("@{:.0}MHz", hertz * 1e-6));
    let alike = name.rsplit_once('/').filter(|_| unit.kind == UnitKind::CPU);
    match alike {
        Some((name, count)) => format!("{name}{clock}/{count}"),
        None => name + &clock,
    }
}

/// Durations by class and unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    units: usize,
    roofline: Vec<Roofline>,
    known: Vec<TimeSource>,
    /// Standard deviations, as parts of the durations; zero where nobody measured.
    spread: Vec<f64>,
    /// What was measured in other frequency states: by class and unit, parts of the usual speed with their durations. Empty
    /// where nothing was.
    in_states: HashMap<usize, Vec<(f64, f64)>>,
}

/// A duration, how we know, and how much it varies.
type Entry = (Roofline, TimeSource, f64);

impl Times {
    /// From a function of class and unit; `None` where such a task cannot run.
    pub fn from_fn(
        graph: &Graph,
        machine: &Machine,
        mut time: impl FnMut(u32, &Unit) -> Option<Seconds>,
    ) -> Result<Times, SimError> {
        Times::fill(graph, machine, |class, unit| {
            Ok(time(class, unit).map(|t| (Roofline::compute(t.0), TimeSource::Static, 0.0)))
        })
    }

    /// From what was measured, else from cost and roofline. `assume` lets kinds of unit that a codelet
    /// has no implementation for run it all the same, at their rated speed.
    pub fn estimate(
        graph: &Graph,
        machine: &Machine,
        model: Option<&PerfModel>,
        assume: bool,
    ) -> Result<Times, SimError> {
        let one = |class: u32, unit: &Unit| -> Result<Option<Entry>, SimError> {
            let record = &graph.classes[class as usize];
            let key = {
                let unit = (&*machine.timed_as(unit), unit.kind);
                Key::of(graph, class, unit, &machine.kernels)
            };
            let known = match &key {
                Some(_) => TimeSource::Static,
                None if assume => TimeSource::Assumed,
                None => return Ok(None),
            };
            let rates = unit.rated.map(|rated| Rates {
                flops: rated.flops(record.call.dtype),
                bytes: rated.bandwidth,
            });
            if let (Some(model), Some(key)) = (model, &key)
                && let Some(e) = model.estimate(key, record.cost)
            {
                let known = match e.source {
                    Source::Measured { .. } => TimeSource::Measured,
                    Source::Regression { .. } | Source::Scaled => TimeSource::Fitted,
                };
                let spread = model.history(key).and_then(History::spread);
                let roofline = match &rates {
                    Some(rates) => Roofline::of(e.seconds.0, record.cost, rates),
                    None => Roofline::compute(e.seconds.0),
                };
                return Ok(Some((roofline, known, spread.unwrap_or(0.0))));
            }
            let Some(rates) = rates else {
                return Err(SimError::Unrated {
                    unit: unit.name.clone(),
                    codelet: graph.codelets[record.codelet as usize].name.clone(),
                });
            };
            let seconds = rates.seconds(record.cost);
            Ok(Some((
                Roofline::of(seconds, record.cost, &rates),
                known,
                0.0,
            )))
        };
        // Equal units stand next to each other: one answer does for all of them.
        let mut last = None;
        let times = Times::fill(graph, machine, |class, unit| {
            let asked = (class, unit.kind, unit.memory, unit.rated);
            if let Some((same, answer)) = &last
                && *same == asked
            {
                return Ok(*answer);
            }
            let answer = one(class, unit)?;
            last = Some((asked, answer));
            Ok(answer)
        });
        let mut times = times?;
        if let Some(model) = model {
            times.measured_in_states(graph, machine, model);
        }
        Ok(times)
    }

    /// Takes what a model knows of tasks at the clocks of units' frequency states.
    fn measured_in_states(&mut self, graph: &Graph, machine: &Machine, model: &PerfModel) {
        for (u, unit) in machine.units.iter().enumerate() {
            for state in &unit.states {
                let Some(hertz) = state.hertz else { continue };
                let name = timed_in(machine, unit, hertz);
                for class in 0..graph.classes.len() as u32 {
                    let key = Key::of(graph, class, (&name, unit.kind), &machine.kernels);
                    let cost = graph.classes[class as usize].cost;
                    let known = key.and_then(|k| model.estimate(&k, cost));
                    let measured = known.filter(|e| matches!(e.source, Source::Measured { .. }));
                    if let Some(e) = measured {
                        let place = self.place(class, UnitId(u as u16));
                        let all = self.in_states.entry(place).or_default();
                        all.push((state.speed, e.seconds.0));
                    }
                }
            }
        }
    }

    fn fill(
        graph: &Graph,
        machine: &Machine,
        mut time: impl FnMut(u32, &Unit) -> Result<Option<Entry>, SimError>,
    ) -> Result<Times, SimError> {
        let units = machine.units.len();
        let mut times = Times {
            units,
            roofline: Vec::with_capacity(units * graph.classes.len()),
            known: Vec::with_capacity(units * graph.classes.len()),
            spread: Vec::with_capacity(units * graph.classes.len()),
            in_states: HashMap::new(),
        };
        for (class, record) in graph.classes.iter().enumerate() {
            for unit in &machine.units {
                let (roofline, known, spread) = match time(class as u32, unit)? {
                    None => (Roofline::compute(f64::INFINITY), TimeSource::Assumed, 0.0),
                    Some(entry) if entry.0.usual.is_finite() && entry.0.usual >= 0.0 => entry,
                    Some((t, ..)) => {
                        return Err(SimError::BadTime {
                            unit: unit.name.clone(),
                            codelet: graph.codelets[record.codelet as usize].name.clone(),
                            seconds: t.usual.to_string(),
                        });
                    }
                };
                times.roofline.push(roofline);
                times.known.push(known);
                times.spread.push(spread);
            }
        }
        Ok(times)
    }

    fn place(&self, class: u32, unit: UnitId) -> usize {
        class as usize * self.units + usize::from(unit.0)
    }

    /// How long a task of a class takes on a unit; `None` if it cannot run there.
    pub fn get(&self, class: u32, unit: UnitId) -> Option<Seconds> {
        let seconds = self.raw(class, unit);
        seconds.is_finite().then_some(Seconds(seconds))
    }

    /// As [`Times::get`], infinite where it cannot run.
    #[inline]
    pub(super) fn raw(&self, class: u32, unit: UnitId) -> f64 {
        self.roofline[self.place(class, unit)].usual
    }

    /// As [`Times::get`] for every unit, infinite where it cannot run.
    pub(super) fn row(&self, class: u32) -> impl Iterator<Item = f64> {
        let first = class as usize * self.units;
        let row = &self.roofline[first..first + self.units];
        row.iter().map(|s| s.usual)
    }

    /// As [`Times::get`], at this part of the unit's usual speed: as it was measured in that state, else by the roofline.
    /// Infinite where it cannot run.
    #[inline]
    pub fn at_speed(&self, class: u32, unit: UnitId, speed: f64) -> Seconds {
        let place = self.place(class, unit);
        let measured = match speed == 1.0 || self.in_states.is_empty() {
            true => None,
            false => self.in_states.get(&place),
        };
        let measured = measured.and_then(|all| all.iter().find(|s| s.0 == speed));
        match measured {
            Some(&(_, seconds)) if self.roofline[place].usual.is_finite() => Seconds(seconds),
            _ => Seconds(self.roofline[place].at(speed)),
        }
    }

    /// Whether tasks of a class take the same on two units, at any speed.
    pub fn alike(&self, class: u32, a: UnitId, b: UnitId) -> bool {
        let (a, b) = (self.place(class, a), self.place(class, b));
        self.roofline[a] == self.roofline[b] && self.in_states.get(&a) == self.in_states.get(&b)
    }

    /// Makes every task take so many times as long on a unit.
    pub fn scale(&mut self, unit: UnitId, factor: f64) {
        self.change(unit, |r| r.times(factor));
        let units = self.units.max(1);
        let own = |place: &usize| place % units == usize::from(unit.0);
        for (_, all) in self.in_states.iter_mut().filter(|(p, _)| own(p)) {
            all.iter_mut().for_each(|s| s.1 *= factor);
        }
    }

    /// Makes a unit run at this part of its usual speed, as if that were its usual one.
    fn slow(&mut self, unit: UnitId, speed: f64) {
        let classes = self.roofline.len() / self.units.max(1);
        let taken: Vec<f64> = (0..classes as u32)
            .map(|class| self.at_speed(class, unit, speed).0)
            .collect();
        self.change(unit, |r| r.slowed(speed));
        for (class, seconds) in (0..).zip(taken) {
            let place = self.place(class, unit);
            if self.in_states.remove(&place).is_some() {
                self.roofline[place] = self.roofline[place].lasting(seconds);
            }
        }
    }

    /// Makes a frequency state of a unit its usual one, here and in the machine; nothing where it has no such state.
    pub fn settle(&mut self, machine: &mut Machine, unit: UnitId, state: usize) {
        let of = &mut machine.units[usize::from(unit.0)];
        let Some((speed, busy)) = of.state(state).filter(|_| state > 0) else {
            return;
        };
        if let (Some(power), Some(busy)) = (&mut of.power, busy) {
            power.busy = busy;
        }
        self.slow(unit, speed);
    }

    fn change(&mut self, unit: UnitId, to: impl Fn(&Roofline) -> Roofline) {
        let of = self.roofline.iter_mut().skip(usize::from(unit.0));
        of.step_by(self.units.max(1)).for_each(|r| *r = to(r));
    }

    /// Where that duration comes from.
    #[inline]
    pub fn known(&self, class: u32, unit: UnitId) -> TimeSource {
        self.known[self.place(class, unit)]
    }

    /// How much durations of a graph's tasks vary on a unit: the standard deviation as a part of the
    /// duration, longer tasks counting more; zero where nobody measured.
    pub fn spread(&self, graph: &Graph, unit: UnitId) -> f64 {
        let (mut squares, mut total) = (0.0, 0.0);
        for task in &graph.tasks {
            let seconds = self.raw(task.class, unit);
            if seconds.is_finite() {
                squares += seconds * self.spread[self.place(task.class, unit)].powi(2);
                total += seconds;
            }
        }
        if total > 0.0 {
            (squares / total).sqrt()
        } else {
            0.0
        }
    }

    /// Whether every unit can run every task.
    pub(super) fn is_uniform(&self) -> bool {
        self.roofline.iter().all(|s| s.usual.is_finite())
    }

    /// How many units the table is for.
    pub(super) fn units(&self) -> usize {
        self.units
    }
}
