//! What a plan costs at least once the memories of some tasks are known, at prices found once.

use crate::plan::bound::{Carries, Game, Sides, play};
use crate::plan::network::{Frame, Network};
use crate::plan::problem::{Goal, Objective};

/// Rounds in which each of the prices is found.
const ROUNDS: usize = 1000;

/// The price of each task in each memory, by four games.
#[derive(Debug)]
pub(super) struct Prices {
    /// Of time, of energy, of energy without the transfers, and the joules of the tasks alone; after the
    /// memories the least of them.
    games: [Vec<Vec<f64>>; 4],
    constants: [f64; 4],
    standing_watts: f64,
}

impl Prices {
    /// The prices of a problem, whose tasks alone are `relaxed`.
    pub fn new(frame: &Frame<'_>, relaxed: &Network, carries: &Carries) -> Self {
        let standing_watts = relaxed.standing_watts;
        let none = Carries::default();
        let game = |carries, w, v, rounds| play(relaxed, carries, w, v, rounds, Sides::All);
        let games = [
            (0.0, game(carries, 1.0, 0.0, ROUNDS)),
            (1.0, game(carries, standing_watts, 1.0, ROUNDS)),
            (1.0, game(&none, standing_watts, 1.0, ROUNDS)),
            (1.0, game(&none, 0.0, 1.0, 1)),
        ];
        let memories = 0..frame.problem.memories.len();
        let priced = |(v, game): &(f64, Game)| -> Vec<Vec<f64>> {
            let task = |t| {
                let prices = memories.clone().map(|m| price(frame, game, *v, t, m));
                let mut prices: Vec<f64> = prices.collect();
                prices.push(prices.iter().copied().fold(f64::INFINITY, f64::min));
                prices
            };
            (0..frame.problem.tasks.len()).map(task).collect()
        };
        Prices {
            games: games.each_ref().map(priced),
            constants: games.each_ref().map(|g| g.1.constant),
            standing_watts,
        }
    }

    /// What a task costs in a memory, for choosing.
    pub fn of(&self, goal: &Goal, task: usize, memory: usize) -> f64 {
        self.games[usize::from(goal.objective != Objective::Time)][task][memory]
    }

    /// Seconds and joules of any plan with these memories, a path of this many seconds and transfers of this
    /// many joules.
    pub fn floor(
        &self,
        memory: impl Fn(usize) -> Option<usize>,
        path: f64,
        moves: f64,
    ) -> (f64, f64) {
        let mut sums = self.constants;
        for t in 0..self.games[0].len() {
            let memory = memory(t).unwrap_or(self.games[0][t].len() - 1);
            for (sum, game) in sums.iter_mut().zip(&self.games) {
                *sum += game[t][memory];
            }
        }
        let seconds = path.max(sums[0]);
        let alone = self.standing_watts * seconds + sums[3] + moves;
        (seconds, sums[1].max(sums[2] + moves).max(alone))
    }
}

/// The cheapest way of a task in a memory at a game's prices; infinite if there is none.
fn price(frame: &Frame<'_>, game: &Game, v: f64, task: usize, memory: usize) -> f64 {
    let ways = frame.ways_in(task, Some(memory));
    let costs = ways.iter().map(|w| game.cost(frame.problem, v, task, w));
    costs.fold(f64::INFINITY, f64::min)
}
