//! Durations that vary: around what is usual, and by interruptions.
//!
//! A task that takes `d` seconds on average takes
//!
//! ```text
//!     c + interruptions      c = d · f(sigma) · f(unit_sigma) / (1 + rate·length),   f(s) = exp(s·z - s²/2)
//! ```
//!
//! with a standard normal `z` of every task in `f(sigma)`, and one of every unit and launch in `f(unit_sigma)`: a core
//! that a stranger shares is slower for a while. Interruptions, by other users of the machine, come `rate` times in a second of computing and take an
//! exponentially distributed time of mean `length` each. So the mean remains `d`, whatever the figures; what
//! changes is how long others wait for the unlucky one. Draws depend on the seed, the task or unit, and
//! the launch, but not on time.

use dahl_core::random::Random;

use dahl_sched::policy::TaskRef;

/// Where the draws of interruptions begin, and those of units: beyond those of any task's normal.
const BEYOND: u64 = 1 << 40;
const UNITS: u64 = 1 << 42;

/// How durations vary: a seed and the spread around what is usual.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// Of the random numbers.
    pub seed: u64,
    /// Standard deviation of the usual durations' logarithm.
    pub sigma: f64,
    /// The same of units' speeds during a launch.
    pub unit_sigma: f64,
    /// What comes in between.
    pub interruptions: Interruptions,
}

/// Tasks that are interrupted by others' work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interruptions {
    /// How many in a second of computing.
    pub rate: f64,
    /// Mean seconds of one.
    pub length: f64,
}

impl Interruptions {
    /// What they take, as a part of what is computed meanwhile.
    pub(crate) fn share(&self) -> f64 {
        self.rate * self.length
    }
}

impl Noise {
    /// Whether it can be: what is wrong with it otherwise.
    pub(super) fn check(&self) -> Result<(), String> {
        for sigma in [self.sigma, self.unit_sigma] {
            if !(0.0..=3.0).contains(&sigma) {
                return Err(format!("noise of sigma {sigma}: use 0 to 3"));
            }
        }
        let Interruptions { rate, length } = self.interruptions;
        let fine = |x: f64| x.is_finite() && x >= 0.0;
        if !(fine(rate) && fine(length)) {
            return Err(format!(
                "{rate} interruptions of {length} seconds in a second: use finite numbers from 0"
            ));
        }
        Ok(())
    }

    /// What a task that takes so many seconds on average takes a unit this time.
    pub(super) fn seconds(&self, mean: f64, task: TaskRef, unit: u16) -> f64 {
        let (random, index) = (
            Random::new(self.seed, task.launch as u64),
            u64::from(task.task),
        );
        let vary = |sigma: f64, index| match sigma > 0.0 {
            true => (sigma * random.normal(index) - sigma * sigma / 2.0).exp(),
            false => 1.0,
        };
        let factor = vary(self.sigma, index) * vary(self.unit_sigma, UNITS + u64::from(unit));
        let Interruptions { rate, length } = self.interruptions;
        let calm = mean * factor / (1.0 + self.interruptions.share());
        let many = rate * calm;
        if many == 0.0 {
            return calm;
        }
        // Of many only the last is a matter of chance.
        let (sure, chance) = (many.floor(), many.fract());
        let drawn = |k| random.uniform(BEYOND + 2 * index + k);
        let last = match drawn(0) < chance {
            true => -length * (1.0 - drawn(1)).ln(),
            false => 0.0,
        };
        calm + sure * length + last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(noise: &Noise, seconds: f64) -> (f64, f64) {
        let all: Vec<f64> = (0..100_000)
            .map(|task| noise.seconds(seconds, TaskRef { launch: 3, task }, 0))
            .collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let longest = all.iter().fold(0.0, |a: f64, &b| a.max(b));
        (mean, longest)
    }

    #[test]
    fn the_mean_remains_and_the_longest_grows() {
        let calm = Noise {
            seed: 1,
            sigma: 0.1,
            unit_sigma: 0.0,
            interruptions: Interruptions::default(),
        };
        let interrupted = Noise {
            interruptions: Interruptions {
                rate: 100.0,
                length: 1e-3,
            },
            ..calm
        };
        // Short tasks are rarely interrupted, and then for long; of the others a few times.
        for seconds in [1e-4, 1e-2, 1.0] {
            for noise in [calm, interrupted] {
                let (mean, _) = mean(&noise, seconds);
                assert!((mean / seconds - 1.0).abs() < 0.02, "{mean} of {seconds}");
            }
        }
        assert!(mean(&calm, 1e-4).1 < 2e-4);
        assert!(mean(&interrupted, 1e-4).1 > 1e-3);
    }

    #[test]
    fn a_unit_keeps_its_speed_for_a_launch() {
        let noise = Noise {
            seed: 1,
            sigma: 0.0,
            unit_sigma: 0.2,
            interruptions: Interruptions::default(),
        };
        let speed = |launch, task, unit| noise.seconds(1.0, TaskRef { launch, task }, unit);
        assert_eq!(speed(0, 1, 0), speed(0, 2, 0));
        assert_ne!(speed(0, 1, 0), speed(0, 1, 1));
        assert_ne!(speed(0, 1, 0), speed(1, 1, 0));
        let mean = (0..50_000).map(|l| speed(l, 0, 1)).sum::<f64>() / 50_000.0;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
    }

    #[test]
    fn figures_that_cannot_be_are_refused() {
        let noise = |sigma, rate| Noise {
            seed: 0,
            sigma,
            unit_sigma: sigma / 2.0,
            interruptions: Interruptions { rate, length: 1.0 },
        };
        assert!(noise(0.1, 1.0).check().is_ok());
        for bad in [
            noise(-0.1, 1.0),
            noise(4.0, 1.0),
            noise(0.1, f64::NAN),
            noise(0.1, -1.0),
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
