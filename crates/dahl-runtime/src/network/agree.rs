//! What nodes must agree upon while they run: to stop, and how the work is shared.
//!
//! All nodes run the same program, so nothing that only one of them knows (a signal, the time) may decide on what it
//! does. Every so many steps each node gives a row of numbers; all read the same rows and conclude the same. The rows
//! travel as values of an ordinary graph: a task on each node writes its row, and one on each node reads them all. What
//! was given at one meeting is read at the next, when it has long arrived: nobody waits for it.
//!
//! Meetings are rare enough to cost nothing and frequent enough for a person who pressed Ctrl-C ([`MEETING`]).

use std::sync::Arc;
use std::time::{Duration, Instant};

use dahl_core::graph::partition::Placement;
use dahl_core::{Arena, Codelet, ExecError, Graph, Handle, Mode, Recorder, Region, Task, UnitKind};

use crate::sync::{Mutex, lock};

/// From one meeting to the next, about.
const MEETING: Duration = Duration::from_millis(100);

/// Most calls from one meeting to the next.
const MOST: u64 = 4096;

/// Numbers that each node gives.
const WIDTH: usize = 3;

/// An array with a row for every node, and the graph by which each node fills in its own and gets all others.
pub(super) struct Rows {
    _arena: Arena,
    pub(super) array: Handle,
    pub(super) graph: Arc<Graph>,
    /// Where its tasks run.
    pub(super) placement: Placement,
    own: Arc<Mutex<Vec<f64>>>,
}

impl Rows {
    /// Rows of so many numbers, which the first of the nodes read.
    pub(super) fn new(nodes: u16, width: usize, readers: u16) -> Result<Rows, ExecError> {
        let arena = Arena::new();
        let array = arena
            .zeros::<f64, 2>([usize::from(nodes), width])?
            .handle()
            .clone();
        let own = Arc::new(Mutex::new(vec![0.0; width]));
        let (from, recorder) = (own.clone(), Recorder::new());
        let tell = Codelet::new("tell").implement("reference", UnitKind::CPU, move |ops| {
            let mut row = ops.write::<f64>(0);
            row.row([0, 0, 0]).copy_from_slice(&lock(&from));
            Ok(())
        });
        let tell = Arc::new(tell);
        for node in 0..usize::from(nodes) {
            let row = Region::new([0, 0, node, 0], [1, 1, node + 1, width]);
            let row = array.part(&row.ok_or("rows without numbers")?);
            recorder.submit(Task::new(&tell, &[row.with(Mode::Write)]));
        }
        for _ in 0..readers {
            recorder.submit(Task::new(&super::member::TOUCH, &[array.with(Mode::Read)]));
        }
        Ok(Rows {
            _arena: arena,
            array,
            graph: recorder.finish()?,
            placement: (0..nodes).chain(0..readers).collect(),
            own,
        })
    }

    /// What this node will give; the launch before has ended.
    pub(super) fn give(&self, values: impl Iterator<Item = f64>) {
        let mut own = lock(&self.own);
        own.iter_mut().zip(values).for_each(|(own, v)| *own = v);
    }
}

/// What a node tells the others when they meet.
pub(super) struct NodeReport {
    /// Whether somebody wants the run to end.
    pub(super) stop: bool,
    /// Seconds since the meeting before.
    pub(super) seconds: f64,
    /// Seconds that its units have worked since, by unit.
    pub(super) busy: f64,
}

impl NodeReport {
    pub(super) fn row(&self) -> [f64; WIDTH] {
        [f64::from(u8::from(self.stop)), self.seconds, self.busy]
    }

    pub(super) fn read(row: &[f64]) -> NodeReport {
        NodeReport {
            stop: row[0] != 0.0,
            seconds: row[1],
            busy: row[2],
        }
    }
}

/// When nodes meet, and what they have said.
pub(super) struct Meetings {
    pub(super) rows: Rows,
    /// Calls since the last meeting, and how many there are between two.
    calls: u64,
    every: u64,
    /// Calls between the last two meetings, and those that the rows on their way speak of.
    ended: u64,
    covered: u64,
    since: Instant,
    busy: f64,
    /// Whether rows are on their way.
    pub(super) given: bool,
    /// Whether this node wants to stop and has not said so.
    stop: bool,
}

impl Meetings {
    pub(super) fn new(nodes: u16) -> Result<Meetings, ExecError> {
        Ok(Meetings {
            rows: Rows::new(nodes, WIDTH, nodes)?,
            calls: 0,
            every: 1,
            ended: 1,
            covered: 1,
            since: Instant::now(),
            busy: 0.0,
            given: false,
            stop: false,
        })
    }

    /// Counts a call; true if it is time to meet. The same on all nodes.
    pub(super) fn is_due(&mut self, stop: bool) -> bool {
        self.stop |= stop;
        self.calls += 1;
        if self.calls < self.every {
            return false;
        }
        (self.calls, self.ended) = (0, self.every);
        true
    }

    /// All nodes have said this: how many calls until the next meeting.
    pub(super) fn heard(&mut self, all: &[NodeReport]) {
        let slowest = all.iter().map(|t| t.seconds).fold(1e-9, f64::max);
        let per_call = slowest / self.covered as f64;
        self.every = ((MEETING.as_secs_f64() / per_call) as u64).clamp(1, MOST);
    }

    /// What this node says now; `busy` is how long its units have worked so far, by unit.
    pub(super) fn say(&mut self, busy: f64) -> NodeReport {
        let report = NodeReport {
            stop: std::mem::take(&mut self.stop),
            seconds: self.since.elapsed().as_secs_f64(),
            busy: busy - self.busy,
        };
        (self.since, self.busy, self.given) = (Instant::now(), busy, true);
        self.covered = self.ended;
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows speak of the time before the last meeting, when there may have been more calls than since: steps of a tenth of
    /// [`MEETING`] are ten from one meeting to the next, whatever came before.
    #[test]
    fn meetings_keep_their_distance() {
        let mut meetings = Meetings::new(1).unwrap();
        let (mut calls, mut said, mut apart) = (0, None, Vec::new());
        for call in 0..400 {
            calls += 1;
            if !meetings.is_due(false) {
                continue;
            }
            if let Some(seconds) = said {
                let (stop, busy) = (false, seconds);
                meetings.heard(&[NodeReport {
                    stop,
                    seconds,
                    busy,
                }]);
            }
            meetings.say(0.0);
            // The first call contains the start of everything.
            let more = if call == 0 { 20.0 } else { 0.0 };
            said = Some(MEETING.as_secs_f64() / 10.0 * (f64::from(calls) + more));
            apart.push(std::mem::take(&mut calls));
        }
        assert!(apart[4..].iter().all(|n| (9..=10).contains(n)), "{apart:?}");
    }
}
