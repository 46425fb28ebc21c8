//! How much durations of like tasks vary, seen in traces: around what is usual, between units, by interruptions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How many times as long as most of its like an interrupted task takes, as in performance models.
const INTERRUPTED: f64 = dahl_sched::model::OUTLIER_FACTOR;

/// What varies, in the figures of the simulator's noise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Variation {
    /// Within a timing window, on one unit: standard deviation of the logarithm.
    pub stddev: f64,
    /// Between units during a window, one of which may share its core with another program: standard deviation
    /// of the logarithm of a unit's speed.
    pub core_stddev: f64,
    /// Interruptions in a second of computing.
    pub interruption_rate: f64,
    /// Mean seconds of one.
    pub interruption_seconds: f64,
}

/// Units and nanoseconds of tasks, by class: what one timing window shows.
pub(super) type Window = Vec<Vec<(u16, f64)>>;

/// How durations vary.
pub(super) fn variation(windows: &[Window]) -> Variation {
    let classes = windows.first().map_or(0, Vec::len);
    let (mut varied, mut computed) = (Variance::default(), 0.0);
    let (mut lost, mut squares) = (0.0, 0.0);
    let mut speeds = vec![Speeds::default(); windows.len()];
    for class in 0..classes {
        let of = |window: &Window| window[class].clone();
        let mut all: Vec<f64> = windows.iter().flat_map(of).map(|d| d.1).collect();
        all.sort_unstable_by(f64::total_cmp);
        let Some(&usual) = all.get(all.len() / 2) else {
            continue;
        };
        for (window, speeds) in windows.iter().zip(&mut speeds) {
            let mut calm: BTreeMap<u16, Vec<f64>> = BTreeMap::new();
            for &(unit, d) in &window[class] {
                if d > INTERRUPTED * usual {
                    let more = (d - usual) * 1e-9;
                    lost += more;
                    squares += more * more;
                    computed += usual;
                } else {
                    computed += d;
                    // Clocks of two cores may disagree on a task now and then: nothing takes no time.
                    if usual <= INTERRUPTED * d {
                        calm.entry(unit).or_default().push(d);
                        speeds.add(unit, d, usual);
                    }
                }
            }
            calm.values().for_each(|unit| varied.add(unit));
        }
    }
    // Of exponentially distributed times, the mean square is twice the square of the mean. Long ones decide, so
    // that tasks of nanoseconds, which vary for other reasons, do not.
    let length = if lost > 0.0 {
        squares / lost / 2.0
    } else {
        0.0
    };
    let interruption_rate = match length > 0.0 {
        true => lost / length / (computed * 1e-9),
        false => 0.0,
    };
    let stddev = varied.deviation();
    Variation {
        stddev,
        core_stddev: between_units(&speeds, stddev),
        interruption_rate,
        interruption_seconds: length,
    }
}

/// The variance of logarithms around the means of their groups. Groups count by the time they take: nobody waits
/// long for tasks of a few nanoseconds, however much those vary.
#[derive(Default)]
struct Variance {
    squares: f64,
    total: f64,
}

impl Variance {
    fn add(&mut self, durations: &[f64]) {
        let n = durations.len() as f64;
        if n > 1.0 {
            let mean = durations.iter().map(|d| d.ln()).sum::<f64>() / n;
            let squares = durations.iter().map(|d| (d.ln() - mean).powi(2));
            let time: f64 = durations.iter().sum();
            self.squares += time * squares.sum::<f64>() / (n - 1.0);
            self.total += time;
        }
    }

    fn deviation(&self) -> f64 {
        match self.total > 0.0 {
            true => (self.squares / self.total).sqrt(),
            false => 0.0,
        }
    }
}

/// What the units of a window took, what is usual for the same tasks, and the squares of the latter.
#[derive(Clone, Default)]
struct Speeds {
    units: Vec<[f64; 3]>,
}

impl Speeds {
    fn add(&mut self, unit: u16, took: f64, usual: f64) {
        let n = usize::from(unit) + 1;
        self.units.resize(self.units.len().max(n), [0.0; 3]);
        let [all, expected, squares] = &mut self.units[n - 1];
        *all += took;
        *expected += usual;
        *squares += usual * usual;
    }
}

/// How far units are apart beyond what tasks that vary each by themselves make them.
fn between_units(windows: &[Speeds], stddev: f64) -> f64 {
    let (mut variance, mut freedom) = (0.0, 0.0);
    for window in windows {
        let worked = || window.units.iter().filter(|u| u[1] > 0.0);
        let logs: Vec<f64> = worked().map(|u| (u[0] / u[1]).ln()).collect();
        let n = logs.len() as f64;
        if n > 1.0 {
            let mean = logs.iter().sum::<f64>() / n;
            let by_chance: f64 = worked().map(|u| stddev.powi(2) * u[2] / u[1].powi(2)).sum();
            variance += logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>();
            variance -= by_chance * (n - 1.0) / n;
            freedom += n - 1.0;
        }
    }
    match freedom > 0.0 {
        true => (variance / freedom).max(0.0).sqrt(),
        false => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(unit: u16, durations: &[f64]) -> Vec<(u16, f64)> {
        durations.iter().map(|&d| (unit, d)).collect()
    }

    #[test]
    fn durations_vary_around_those_of_like_tasks_in_the_same_window() {
        let mut all = Variance::default();
        let (once, twice) = (1f64.exp(), 2f64.exp());
        all.add(&[once, twice]);
        all.add(&[100.0 * once, 100.0 * twice]);
        all.add(&[7.0]);
        assert!((all.deviation() - 0.5f64.sqrt()).abs() < 1e-12);
        // A group as long as both together that does not vary.
        let long = 50.5 * (once + twice);
        all.add(&[long, long]);
        assert!((all.deviation() - 0.5).abs() < 1e-12);
        assert_eq!(Variance::default().deviation(), 0.0);
    }

    #[test]
    fn interruptions_are_told_from_what_varies() {
        // A class of a microsecond, two of a hundred tasks interrupted for a while; another that is calm.
        let mut short = vec![1000.0; 98];
        short.extend([1000.0 + 40_000.0, 1000.0 + 40_000.0]);
        let found = variation(&[vec![on(0, &short), on(0, &[50_000.0; 4])]]);
        // But for rounding in logarithms.
        assert!(found.stddev < 1e-9 && found.core_stddev < 1e-9, "{found:?}");
        assert!(
            (found.interruption_seconds - 20e-6).abs() < 1e-12,
            "{found:?}"
        );
        // All that was lost, 80 µs in 300.
        let share = found.interruption_rate * found.interruption_seconds;
        assert!((share - 80.0 / 300.0).abs() < 1e-9, "{found:?}");
        assert_eq!(variation(&[]), Variation::default());
        // A clock's mistake is no variation.
        let mistaken = on(0, &[9000.0, 9000.0, 1.0, 9000.0]);
        let found = variation(&[vec![mistaken]]);
        assert!(
            found.stddev < 1e-9 && found.interruption_rate == 0.0,
            "{found:?}"
        );
    }

    #[test]
    fn units_that_differ_for_a_while_are_apart() {
        // One is a tenth slower, now the first and now the second; tasks of one unit are all alike.
        let window = |slow: u16| {
            let mut all = on(slow, &[1100.0; 50]);
            all.extend(on(1 - slow, &[1000.0; 50]));
            vec![all]
        };
        let found = variation(&[window(0), window(1)]);
        let expected = 1.1f64.ln() / 2f64.sqrt();
        assert!(
            (found.core_stddev / expected - 1.0).abs() < 0.05,
            "{found:?}"
        );
        // That is no variation of the tasks of either.
        assert!(found.stddev < 1e-9, "{found:?}");
        // Tasks that vary each by themselves do not count: they even out.
        let mixed = [900.0, 1100.0].repeat(50);
        let mut both = on(0, &mixed);
        both.extend(on(1, &mixed));
        assert!(variation(&[vec![both]]).core_stddev < 0.01);
    }
}
