//! The account of one domain: raw readings become joules, and doubts are written down.
//!
//! Pure arithmetic over (time, reading): it reads no clock and no file. For a counter with range `R`,
//! readings `a` then `b`, and `dt` seconds between them at a ceiling of `C` watts:
//!
//! - `b ≥ a`: `b − a` joules; `b < a`: the counter wrapped, `R − a + b`.
//! - If a whole `R` more would still fit under `C · dt`, it may have wrapped unseen: the figure is kept
//!   and called uncertain.
//! - If the difference is more than `C · (dt + 1 s)`, or there is no `R` and `b < a`, the counter was
//!   reset or lied: that interval is left out, the figure is called incomplete, and counting goes on
//!   from `b`. The second of slack is for counters that are updated in steps.
//!
//! Power is integrated by the trapezium rule.

use dahl_core::{Joules, Seconds, Watts};

use super::{Domain, Quantity, Trouble, TroubleKind};

/// Power that was read less often than this is a guess.
const LONGEST_STEP: Seconds = Seconds(5.0);

/// Steps in which hardware may update its counters.
const SLACK: Seconds = Seconds(1.0);

/// Samples kept of a domain; beyond, pairs of them are merged: memory stays flat, however long a run.
const MOST_SAMPLES: usize = 1 << 16;

/// A kind of doubt; each is reported once, with how often it arose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// A counter may have wrapped more than once between two readings.
    Wraps,
    /// A counter went backwards without a wrap.
    Backwards,
    /// A counter rose by more than is possible.
    Jump,
    /// It was gone, or could not be read, for a while.
    Gap,
    /// Power was not read for too long.
    Step,
}

/// The account of a domain.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    quantity: Quantity,
    ceiling: Watts,
    sampled: bool,
    /// Power is sampled over at least this long.
    shortest: Seconds,
    last: Option<(Seconds, u64)>,
    joules: Joules,
    doubts: Vec<(Doubt, String, u32)>,
    /// Since when it cannot be read, and why.
    trouble: Option<(Seconds, Trouble)>,
    /// Where the sample that is being gathered began.
    mark: Option<(Seconds, Joules)>,
    samples: Vec<Span>,
}

/// Energy of an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    /// Its beginning.
    pub from: Seconds,
    /// Its end.
    pub to: Seconds,
    /// What was used.
    pub joules: Joules,
}

impl Span {
    /// Mean power.
    pub(crate) fn watts(&self) -> Watts {
        Watts(self.joules.0 / (self.to - self.from).0)
    }

    /// Both as one, and what lies between them.
    fn and(self, later: Span) -> Span {
        Span {
            from: self.from,
            to: later.to,
            joules: self.joules + later.joules,
        }
    }
}

impl Account {
    /// An empty account; power samples stand for `interval` or a little less.
    pub(crate) fn new(domain: &Domain, interval: Seconds) -> Self {
        Account {
            quantity: domain.quantity,
            ceiling: domain.ceiling,
            sampled: domain.sampled,
            shortest: Seconds(interval.0 * 0.5),
            last: None,
            joules: Joules(0.0),
            doubts: Vec::new(),
            trouble: None,
            mark: None,
            samples: Vec::new(),
        }
    }

    /// Takes a reading in.
    pub(crate) fn enter(&mut self, now: Seconds, reading: Result<u64, Trouble>) {
        match reading {
            Ok(value) => {
                self.recover(now);
                match (self.last, self.quantity) {
                    (None, _) => self.mark = Some((now, self.joules)),
                    // The clock is the caller's; a step back in it must not become negative energy.
                    (Some((then, _)), _) if now.0 <= then.0 => return,
                    (Some(last), Quantity::Counter { joules, range }) => {
                        self.count(last, (now, value), joules, range);
                    }
                    (Some(last), Quantity::Power { watts }) => {
                        let power = Watts(value as f64 * watts);
                        if power > self.ceiling {
                            let at = now.0;
                            self.doubt(
                                Doubt::Jump,
                                format!("{power} at {at:.1} s is more than it can draw: that reading is left out"),
                            );
                            return;
                        }
                        self.integrate(last, (now, value), watts);
                    }
                }
                self.last = Some((now, value));
                self.sample(now);
            }
            Err(why) => {
                if self.trouble.is_none() {
                    self.trouble = Some((now, why));
                }
            }
        }
    }

    fn count(
        &mut self,
        (then, from): (Seconds, u64),
        (now, to): (Seconds, u64),
        unit: f64,
        range: Option<u64>,
    ) {
        let step = now - then;
        let counts = match range {
            _ if to >= from => to - from,
            Some(range) if from <= range => range - from + to,
            _ => {
                self.doubt(
                    Doubt::Backwards,
                    format!(
                        "the counter went backwards at {:.1} s: what was used since {:.1} s is missing",
                        now.0, then.0
                    ),
                );
                return;
            }
        };
        let joules = Joules(counts as f64 * unit);
        if joules > self.ceiling * (step + SLACK) {
            self.doubt(
                Doubt::Jump,
                format!(
                    "the counter jumped by {joules} in {step} at {:.1} s, more than {} allow: that is left out",
                    now.0, self.ceiling
                ),
            );
            return;
        }
        if let Some(range) = range {
            let once = Joules(range as f64 * unit);
            let most = self.ceiling * step;
            if joules + once <= most {
                let more = ((most.0 - joules.0) / once.0).floor();
                self.doubt(
                    Doubt::Wraps,
                    format!(
                        "{step} passed between two readings at {:.1} s: the counter, which wraps every {once}, may have wrapped up to {more:.0} times unseen",
                        now.0
                    ),
                );
            }
        }
        self.joules += joules;
    }

    fn integrate(&mut self, (then, from): (Seconds, u64), (now, to): (Seconds, u64), unit: f64) {
        let step = now - then;
        if step > LONGEST_STEP {
            self.doubt(
                Doubt::Step,
                format!(
                    "power was not read for {step} before {:.1} s: it was taken to change evenly",
                    now.0
                ),
            );
        }
        self.joules += Watts((from as f64 + to as f64) / 2.0 * unit) * step;
    }

    /// It can be read again. A counter that was there all the time has counted on; one that was gone
    /// may have been reset, and power that nobody read is unknown.
    fn recover(&mut self, now: Seconds) {
        let Some((since, why)) = self.trouble.take() else {
            return;
        };
        if self.last.is_none() {
            return;
        }
        let counted = matches!(self.quantity, Quantity::Counter { .. });
        if counted && why.kind != TroubleKind::Missing {
            return;
        }
        self.last = None;
        self.doubt(
            Doubt::Gap,
            format!(
                "from {:.1} s to {:.1} s it could not be read ({why}): what was used then is missing",
                since.0, now.0
            ),
        );
    }

    fn doubt(&mut self, kind: Doubt, text: String) {
        match self.doubts.iter_mut().find(|(k, ..)| *k == kind) {
            Some((.., times)) => *times += 1,
            None => self.doubts.push((kind, text, 1)),
        }
    }

    /// Ends a sample, if it is long enough.
    fn sample(&mut self, now: Seconds) {
        let Some(span) = self
            .open_span(now)
            .filter(|s| s.to - s.from >= self.shortest)
        else {
            return;
        };
        if self.samples.len() == MOST_SAMPLES {
            let pairs = self.samples.chunks(2);
            self.samples = pairs
                .filter_map(|p| p.iter().copied().reduce(Span::and))
                .collect();
        }
        self.samples.push(span);
        self.mark = Some((now, self.joules));
    }

    /// The sample that is being gathered.
    fn open_span(&self, now: Seconds) -> Option<Span> {
        let (from, before) = self.mark.filter(|_| self.sampled)?;
        let span = Span {
            from,
            to: now,
            joules: self.joules - before,
        };
        (now > from).then_some(span)
    }

    /// Ends the last sample, which may be too short to stand alone: power over a moment says little.
    pub(crate) fn close(&mut self) {
        let Some((span, (now, _))) = self
            .last
            .and_then(|last| Some((self.open_span(last.0)?, last)))
        else {
            return;
        };
        match self.samples.last_mut() {
            Some(last) => *last = last.and(span),
            None => self.samples.push(span),
        }
        self.mark = Some((now, self.joules));
    }

    /// Joules so far; `None` if it never moved, which is no measurement: see [`Account::why_not`].
    pub(crate) fn joules(&self) -> Option<Joules> {
        (self.joules.0 > 0.0).then_some(self.joules)
    }

    /// Why there are no joules, after `elapsed`.
    pub(crate) fn why_not(&self, elapsed: Seconds) -> Option<Trouble> {
        if self.joules().is_some() {
            return None;
        }
        Some(match (&self.trouble, self.last, self.doubts.first()) {
            (Some((_, why)), ..) => why.clone(),
            (None, _, Some((_, text, _))) => Trouble::new(TroubleKind::Garbage, text.clone()),
            (None, ..) => Trouble::new(
                TroubleKind::Failed,
                format!("it can be read, but did not move in {elapsed}"),
            ),
        })
    }

    /// What makes the joules doubtful.
    pub(crate) fn doubts(&self) -> Vec<String> {
        let mut out: Vec<String> = Vec::new();
        for (_, text, times) in &self.doubts {
            out.push(match times {
                1 => text.clone(),
                n => format!("{text} (and {} more such)", n - 1),
            });
        }
        if let (Some((since, why)), true) = (&self.trouble, self.joules.0 > 0.0) {
            out.push(format!("counted until {:.1} s: {why}", since.0));
        }
        out
    }

    /// Energy from one sample to the next.
    pub(crate) fn samples(&self) -> &[Span] {
        &self.samples
    }
}

#[cfg(test)]
#[path = "account_tests.rs"]
mod tests;
