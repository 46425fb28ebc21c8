//! Every small problem has the optimum that trying everything finds.

use super::super::{DeviceKind, PlacementProblem, solve};
use super::random::{Dice, small};
use super::{allowed, check, load};

/// The least largest load, by trying all placements.
fn try_all(problem: &PlacementProblem) -> Option<f64> {
    let devices = problem.accelerators + problem.cpus;
    let n = problem.nodes.len();
    // Colours move as one: the first node of each decides.
    let leader = |a: usize| {
        let colour = problem.nodes[a].colour;
        (0..a)
            .find(|&b| colour.is_some() && problem.nodes[b].colour == colour)
            .unwrap_or(a)
    };
    let leaders: Vec<usize> = (0..n).filter(|&a| leader(a) == a).collect();
    let mut best: Option<f64> = None;
    for code in 0..(devices as u64).pow(leaders.len() as u32) {
        let mut place = vec![0; n];
        let mut code = code;
        for &a in &leaders {
            place[a] = (code % devices as u64) as usize;
            code /= devices as u64;
        }
        for a in 0..n {
            place[a] = place[leader(a)];
        }
        if !allowed(problem, &place) {
            continue;
        }
        for cpus in (0u32..1 << devices).filter(|c| c.count_ones() as usize == problem.cpus) {
            let kind = |d: usize| {
                if cpus >> d & 1 == 1 {
                    DeviceKind::Cpu
                } else {
                    DeviceKind::Accelerator
                }
            };
            let loads = (0..devices).map(|d| load(problem, &place, d, kind(d)));
            let largest = loads
                .collect::<Option<Vec<f64>>>()
                .map(|l| l.into_iter().fold(0.0, f64::max));
            best = [best, largest].into_iter().flatten().reduce(f64::min);
        }
    }
    best
}

#[test]
fn small_problems_have_the_optimum_of_exhaustive_search() {
    let (mut solved, mut refused) = (0, 0);
    for seed in 0..2500 {
        let text = small(&mut Dice::new(seed)).to_string();
        let problem = match PlacementProblem::from_json(&text) {
            Ok(problem) => problem,
            Err(error) => panic!("seed {seed}: {error}\n{text}"),
        };
        let best = if problem.accelerators + problem.cpus == 0 {
            None
        } else {
            try_all(&problem)
        };
        match (solve(&problem, &mut || true), best) {
            (Ok(answer), Some(best)) => {
                check(&problem, &answer);
                assert!(answer.is_optimal(), "seed {seed}: {answer:?}\n{text}");
                let error = (answer.max_load - best).abs();
                assert!(
                    error < 1e-9,
                    "seed {seed}: {best} is possible, {answer:?}\n{text}"
                );
                solved += 1;
            }
            (Err(_), None) => refused += 1,
            (answer, best) => panic!("seed {seed}: {best:?} but {answer:?}\n{text}"),
        }
    }
    assert!(
        solved > 1500 && refused > 200,
        "{solved} solved, {refused} refused"
    );
}
