//! Resident memory over time: looked at by the harness, the same for every engine, from a peer's start to its end.

use std::fs;
use std::time::{Duration, Instant};

use crate::figure::{Axes, panels};
use crate::file::Figure;
use crate::plot::{Picture, Point};
use crate::quiet;
use crate::session::Session;
use crate::stats;
use crate::summary::counted;

/// The measure, for figures of kind `time`.
pub(crate) const MEASURE: &str = "resident_bytes";

/// How often a peer is looked at, at most.
pub(crate) const EVERY: Duration = Duration::from_millis(50);

/// Most points of a curve: when there are more, every other goes, and looks are half as frequent from then on.
const MOST: usize = 512;

/// Points of a figure's line.
const DRAWN: usize = 96;

/// What a peer had resident, as it was looked at.
pub(crate) struct Curve {
    start: Instant,
    every: Duration,
    points: Vec<(f64, u64)>,
}

impl Curve {
    /// Nothing yet; time begins now.
    pub(crate) fn new() -> Curve {
        Curve {
            start: Instant::now(),
            every: EVERY,
            points: Vec::new(),
        }
    }

    /// Looks at a process and what it started, unless that was done a moment ago.
    pub(crate) fn look(&mut self, pid: u32) {
        let at = self.start.elapsed().as_secs_f64();
        let last = self.points.last().map_or(f64::NEG_INFINITY, |p| p.0);
        // A look that comes a little early is as good.
        if at - last < 0.9 * self.every.as_secs_f64() {
            return;
        }
        let all = std::iter::once(pid).chain(quiet::children(pid));
        let bytes: u64 = all.filter_map(resident).sum();
        if bytes > 0 {
            self.add((at * 1e3).round() / 1e3, bytes);
        }
    }

    fn add(&mut self, at: f64, bytes: u64) {
        self.points.push((at, bytes));
        if self.points.len() > MOST {
            let mut odd = false;
            self.points.retain(|_| {
                odd = !odd;
                odd
            });
            self.every *= 2;
        }
    }

    /// Seconds since the start, and bytes.
    pub(crate) fn points(&self) -> &[(f64, u64)] {
        &self.points
    }
}

/// Bytes of a process that are in memory.
fn resident(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    quiet::kibibytes(&status, "VmRSS:")
}

/// The picture of memory over time: for each cell the median over its runs.
pub(crate) fn picture(session: &Session, figure: &Figure) -> Option<Picture> {
    let points = |cell: usize, _: &_| {
        let runs = counted(session, cell).into_values();
        let curves: Vec<&[(f64, u64)]> = runs.map(|r| &r.resident[..]).collect();
        let last = |c: &&[(f64, u64)]| c.last().map(|p| p.0);
        let ends: Option<Vec<f64>> = curves.iter().map(last).collect();
        // As long as all runs have it.
        let end = ends.unwrap_or_default().into_iter().reduce(f64::min);
        let Some(end) = end.filter(|e| *e > 0.0) else {
            return Vec::new();
        };
        let at = |i: usize| {
            let x = end * i as f64 / (DRAWN - 1) as f64;
            let values: Vec<f64> = curves.iter().filter_map(|c| before(c, x)).collect();
            let estimate = stats::estimate(&values, session.experiment.seed)?;
            Some(Point {
                x,
                place: 0,
                estimate,
            })
        };
        (0..DRAWN).filter_map(at).collect()
    };
    let axes = Axes {
        x: "seconds".into(),
        y: "resident bytes".into(),
        ..Axes::default()
    };
    panels(session, figure, axes, points)
}

/// The value of a curve at a time.
fn before(curve: &[(f64, u64)], at: f64) -> Option<f64> {
    let next = curve.partition_point(|p| p.0 <= at);
    let known = curve.get(next.saturating_sub(1))?;
    Some(known.1 as f64)
}

/// All curves, tidy: one line per look. Empty if there are none.
pub(crate) fn csv(session: &Session) -> String {
    let mut text = String::new();
    for run in session.runs() {
        for (seconds, bytes) in &run.resident {
            let (block, cell, attempt) = (run.block, run.cell, run.attempt);
            text += &format!("{block},{cell},{attempt},{seconds},{bytes}\n");
        }
    }
    match text.is_empty() {
        true => text,
        false => format!("block,cell,attempt,seconds,{MEASURE}\n{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_stay_short_and_keep_their_ends() {
        let mut curve = Curve::new();
        (0..10_000).for_each(|i| curve.add(f64::from(i), 7 + i as u64));
        let points = curve.points();
        assert!(points.len() <= MOST && points.len() > MOST / 4);
        assert_eq!(points[0], (0.0, 7));
        assert!(points.windows(2).all(|p| p[0].0 < p[1].0));
        assert_eq!(before(points, 0.5), Some(7.0));
        assert_eq!(before(&[], 0.5), None);
    }

    #[test]
    fn this_process_is_in_memory() {
        let mut curve = Curve::new();
        curve.look(std::process::id());
        curve.look(std::process::id());
        assert_eq!(curve.points().len(), 1);
        assert!(curve.points()[0].1 > 1 << 16);
    }
}
