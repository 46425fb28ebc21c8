//! Messages there and back: how the clocks of nodes compare.
//!
//! The first node and each other one write the time in turns, in a chain of tasks of one graph: there, here, and there
//! again. If the way takes as long in both directions, the other's time belongs to the middle of the first node's two;
//! if not, it is wrong by half the way at most. Of several rounds the fastest counts. Clocks are compared when a run
//! begins and when it ends, which shows how much faster one is than the other ([`Alignment`]).

use std::sync::Arc;

use dahl_core::trace::Alignment;
use dahl_core::{
    Arena, Codelet, ExecError, Executor, Mode, Recorder, Region, Task, UnitKind, Values,
};

use super::member::Member;

/// Rounds of which the fastest counts; the first ones find threads asleep.
const ROUNDS: usize = 24;

/// The fastest round with one node, in ticks of the clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Round {
    /// The first node's time, in the middle of the way.
    first: f64,
    /// The other's.
    other: f64,
    /// The way there and back, by the first node's clock.
    way: f64,
}

/// A clock that every node has of its own.
type Ticks = Arc<dyn Fn() -> f64 + Send + Sync>;

impl Member {
    /// Compares the clocks of all nodes, if traces are recorded. All nodes must call it at the same place.
    pub fn compare_clocks(&mut self) -> Result<(), ExecError> {
        let tracer = self.runtime().shared.tracer.clone();
        let Some(tracer) = tracer.filter(|_| self.nodes() > 1) else {
            return Ok(());
        };
        let ticks = Arc::new(move || tracer.clock.ticks() as f64);
        let rounds = self.there_and_back(ticks)?;
        self.note_clocks(rounds);
        Ok(())
    }

    /// The fastest round with each node.
    fn there_and_back(&mut self, ticks: Ticks) -> Result<Vec<Round>, ExecError> {
        let nodes = usize::from(self.nodes());
        let stamp = Codelet::new("stamp").implement("reference", UnitKind::CPU, move |ops| {
            ops.write::<f64>(0).row([0, 0, 0])[0] = ticks();
            Ok(())
        });
        let stamp = Arc::new(stamp);
        let arena = Arena::new();
        let row = 3 * ROUNDS;
        let times = arena.zeros::<f64, 2>([nodes, row])?.handle().clone();
        let element = |node: usize, n: usize| -> Result<_, ExecError> {
            let region = Region::new([0, 0, node, n], [1, 1, node + 1, n + 1]);
            Ok(times.part(&region.ok_or("a time has a place")?))
        };
        let (recorder, mut node_of) = (Recorder::new(), Vec::<u16>::new());
        for node in 1..nodes {
            for n in 0..3 * ROUNDS {
                let (own, before) = (element(node, n)?, element(node, n.saturating_sub(1))?);
                let accesses = [own.with(Mode::Write), before.with(Mode::Read)];
                recorder.submit(Task::new(&stamp, &accesses[..1 + n.min(1)]));
                node_of.push(if n % 3 == 1 { node as u16 } else { 0 });
            }
        }
        self.launch_placed(&recorder.finish()?, node_of.into())?;
        let mut fastest_of = Vec::new();
        self.read(&times, &mut |values| {
            if let Values::F64(all) = values {
                fastest_of = all.chunks(row).map(fastest).collect();
            }
        })?;
        Ok(fastest_of)
    }

    /// How the times of each node's trace become those of the first node's. All nodes must call it at the same place.
    pub fn alignments(&mut self) -> Result<Vec<Alignment>, ExecError> {
        self.compare_clocks()?;
        let rate = self.runtime().shared.tracer.as_ref();
        let rates = self.exchange(&[rate.map_or(1.0, |t| t.clock.rate())])?;
        let Some((first, last)) = self.clocks() else {
            return Ok(vec![Alignment::default(); rates.len()]);
        };
        let align = |(node, rate): (usize, &Vec<f64>)| match node {
            0 => Alignment::default(),
            _ => align([&first[node], &last[node]], (rates[0][0], rate[0])),
        };
        Ok(rates.iter().enumerate().map(align).collect())
    }
}

/// Of times there, here, there again: the round that took the least.
fn fastest(times: &[f64]) -> Round {
    let rounds = times.chunks(3).map(|t| Round {
        first: (t[0] + t[2]) / 2.0,
        other: t[1],
        way: t[2] - t[0],
    });
    let fastest = rounds.min_by(|a, b| a.way.total_cmp(&b.way));
    fastest.expect("there are rounds")
}

/// The clocks' rates are nanoseconds per tick.
fn align(rounds: [&Round; 2], (first, own): (f64, f64)) -> Alignment {
    let way = rounds.iter().map(|r| r.way * first).fold(0.0, f64::max);
    Alignment {
        at: rounds.map(|r| r.other * own),
        offset: rounds.map(|r| r.first * first - r.other * own),
        uncertainty: (way / 2.0).ceil() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_round_counts() {
        // Times: there 0, here 1100, there 200 (way 200); there 300, here 1350, there 400 (way 100).
        let round = fastest(&[0.0, 1100.0, 200.0, 300.0, 1350.0, 400.0]);
        let want = Round {
            first: 350.0,
            other: 1350.0,
            way: 100.0,
        };
        assert_eq!(round, want);
        let aligned = align([&round, &round], (2.0, 1.0));
        assert_eq!(aligned.at, [1350.0; 2]);
        assert_eq!(aligned.offset, [-650.0; 2]);
        assert_eq!(aligned.uncertainty, 100);
        assert_eq!(aligned.apply(1350), 700);
    }
}
