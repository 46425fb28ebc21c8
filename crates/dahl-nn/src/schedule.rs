//! Learning-rate schedules: the rate as a pure function of the step.
//!
//! Steps count from 0; nothing is kept between calls, so a resumed run needs no state. In the formulas
//! `t` is the step, `base` the rate that was asked for:
//!
//! | Text | Rate | PyTorch |
//! |---|---|---|
//! | `constant` | base | |
//! | `step:SIZE:GAMMA` | base · GAMMA^(epoch div SIZE) | `StepLR(SIZE, GAMMA)`, stepped once an epoch |
//! | `cosine[:MIN]` | MIN + (base − MIN) · (1 + cos(π · t / T)) / 2 | `CosineAnnealingLR(T, MIN)`, stepped once a step |
//! | `restarts:E[:K[:MIN]]` | the same cosine over E epochs, then over E·K, E·K², …, from base each time; K is 1 unless given | `CosineAnnealingWarmRestarts(T, K, MIN)`, stepped once a step |
//! | `warmup:N` | base · (t + 1) / (N + 1) while t < N | `LinearLR(1 / (N + 1), total_iters=N)`, stepped once a step |
//!
//! A warm-up is combined with another by `+`, as in `warmup:500+cosine`. The cosine then begins where the
//! warm-up ends (as `SequentialLR` does it) and takes the T = total − N steps that are left; the
//! epochs of `step` count from the beginning of the run, and the warm-up multiplies their rate. Cosines and powers are
//! the `libm` crate's, as in kernels: every machine computes the same rate.

use std::fmt;
use std::str::FromStr;

use dahl_core::text::unknown;

/// How the learning rate changes over a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Schedule {
    /// Over how many steps the rate rises at the beginning; 0 for none.
    pub warmup: u64,
    /// What it does otherwise.
    pub shape: Shape,
}

/// How the learning rate falls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Shape {
    /// Not at all.
    #[default]
    Constant,
    /// By a factor every so many epochs.
    Step {
        /// Epochs between changes.
        size: u64,
        /// The factor.
        gamma: f64,
    },
    /// Along half a cosine over the whole run.
    Cosine {
        /// The rate at its end.
        min: f64,
    },
    /// Along half a cosine over some epochs, and again from the beginning.
    Restarts {
        /// Epochs of the first cosine.
        epochs: u64,
        /// What the length of each is multiplied by for the next.
        factor: u64,
        /// The rate at the end of each.
        min: f64,
    },
}

/// Why there is no such schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// A text that cannot be read.
    #[error(
        "{text:?} is not a schedule: {message}; write constant, step:EPOCHS:FACTOR, cosine or cosine:MIN, \
         restarts:EPOCHS[:FACTOR[:MIN]], warmup:STEPS, or two joined as in warmup:500+cosine"
    )]
    Text {
        /// The text.
        text: String,
        /// What is wrong with it.
        message: String,
    },
    /// A schedule that does not fall.
    #[error("the schedule {schedule} {message}")]
    Rising {
        /// Which.
        schedule: String,
        /// What is wrong with it, and what it may be.
        message: String,
    },
}

impl Schedule {
    /// Refuses what does not fall from this base rate: an end above it, or a factor above 1.
    pub fn check(&self, base: f64) -> Result<(), ScheduleError> {
        let message = match self.shape {
            Shape::Cosine { min } | Shape::Restarts { min, .. } if !(0.0..=base).contains(&min) => {
                format!(
                    "ends at a learning rate of {min}; it must be 0 to {base}, with which it begins"
                )
            }
            Shape::Step { gamma, .. } if !(0.0..=1.0).contains(&gamma) => {
                format!(
                    "multiplies the learning rate by {gamma}; it must be 0 to 1, so that it falls"
                )
            }
            _ => return Ok(()),
        };
        let schedule = self.to_string();
        Err(ScheduleError::Rising { schedule, message })
    }

    /// Whether rates depend on how long the whole run is.
    pub(crate) fn needs_total(&self) -> bool {
        matches!(self.shape, Shape::Cosine { .. })
    }

    /// The rate of a step, counted from 0. `total_steps` is the length of the whole run; past its end
    /// the rate stays as it is at the end.
    pub fn lr(&self, step: u64, steps_per_epoch: u64, total_steps: u64, base: f64) -> f64 {
        let falling = match self.shape {
            Shape::Constant => base,
            Shape::Step { size, gamma } => {
                let epoch = step / steps_per_epoch.max(1);
                power(base, gamma, epoch / size.max(1))
            }
            Shape::Cosine { min } => {
                let length = total_steps.saturating_sub(self.warmup).max(1);
                let t = step.saturating_sub(self.warmup).min(length);
                half_cosine(t, length, min, base)
            }
            Shape::Restarts {
                epochs,
                factor,
                min,
            } => {
                let mut length = epochs.saturating_mul(steps_per_epoch).max(1);
                let mut t = step.saturating_sub(self.warmup);
                if factor <= 1 {
                    t %= length;
                }
                while t >= length {
                    t -= length;
                    length = length.saturating_mul(factor);
                }
                half_cosine(t, length, min, base)
            }
        };
        if step < self.warmup {
            falling * ((step + 1) as f64 / (self.warmup as f64 + 1.0))
        } else {
            falling
        }
    }
}

/// From `base` at 0 to `min` at `length`.
fn half_cosine(t: u64, length: u64, min: f64, base: f64) -> f64 {
    let part = t as f64 / length as f64;
    min + (base - min) * (1.0 + libm::cos(std::f64::consts::PI * part)) / 2.0
}

/// `base · gammaⁿ`, multiplied one by one as PyTorch does, while that is affordable.
fn power(base: f64, gamma: f64, n: u64) -> f64 {
    const AFFORDABLE: u64 = 1000;
    if n <= AFFORDABLE {
        (0..n).fold(base, |rate, _| rate * gamma)
    } else {
        base * libm::pow(gamma, n as f64)
    }
}

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        parse(text).map_err(|message| ScheduleError::Text {
            text: text.to_owned(),
            message,
        })
    }
}

fn parse(text: &str) -> Result<Schedule, String> {
    let (mut warmup, mut shape) = (None, None);
    for part in text.split('+') {
        let words: Vec<&str> = part.trim().split(':').collect();
        let found = match words.as_slice() {
            ["warmup", steps] => {
                if warmup.replace(whole("warm-up steps", steps)?).is_some() {
                    return Err("it has two warm-ups".into());
                }
                continue;
            }
            ["constant"] => Shape::Constant,
            ["step", size, gamma] => Shape::Step {
                size: whole("epochs", size)?,
                gamma: real("the factor", gamma)?,
            },
            ["cosine"] => Shape::Cosine { min: 0.0 },
            ["cosine", min] => Shape::Cosine {
                min: real("the lowest rate", min)?,
            },
            ["restarts", epochs, rest @ ..] if rest.len() <= 2 => Shape::Restarts {
                epochs: whole("epochs", epochs)?,
                factor: whole("the factor", rest.first().unwrap_or(&"1"))?,
                min: real("the lowest rate", rest.get(1).unwrap_or(&"0"))?,
            },
            _ => {
                return Err(not_a_part(&words));
            }
        };
        if shape.replace(found).is_some() {
            return Err("only a warm-up can be combined with another".into());
        }
    }
    Ok(Schedule {
        warmup: warmup.unwrap_or(0),
        shape: shape.unwrap_or_default(),
    })
}

/// Why the words of a part are none: another name, or too few or too many of them.
fn not_a_part(words: &[&str]) -> String {
    const NAMES: [&str; 5] = ["constant", "cosine", "restarts", "step", "warmup"];
    match words.first() {
        Some(name) if NAMES.contains(name) => {
            let values = words.len() - 1;
            format!("{name:?} does not take {values} values")
        }
        name => unknown("part", name.unwrap_or(&""), &NAMES),
    }
}

fn whole(what: &str, text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!(
            "{what} must be a whole number, 1 or more, not {text:?}"
        )),
        Ok(n) => Ok(n),
    }
}

fn real(what: &str, text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(x) if x.is_finite() && x >= 0.0 => Ok(x),
        _ => Err(format!("{what} must be a number, 0 or more, not {text:?}")),
    }
}

/// As it is parsed.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.warmup > 0 {
            write!(f, "warmup:{}+", self.warmup)?;
        }
        match self.shape {
            Shape::Constant => write!(f, "constant"),
            Shape::Step { size, gamma } => write!(f, "step:{size}:{gamma:?}"),
            Shape::Cosine { min: 0.0 } => write!(f, "cosine"),
            Shape::Cosine { min } => write!(f, "cosine:{min:?}"),
            Shape::Restarts {
                epochs,
                factor,
                min,
            } => write!(f, "restarts:{epochs}:{factor}:{min:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rates of `text` from 0.1 for as many steps as values, against torch 2.15's.
    #[track_caller]
    fn check(text: &str, steps_per_epoch: u64, expected: &[f64]) {
        let schedule: Schedule = text.parse().unwrap();
        for (step, &value) in expected.iter().enumerate() {
            let lr = schedule.lr(step as u64, steps_per_epoch, expected.len() as u64, 0.1);
            assert!(
                (lr - value).abs() <= 1e-15,
                "{text} at {step}: {lr:e}, torch has {value:e}"
            );
        }
    }

    #[test]
    fn step_is_step_lr() {
        let per_epoch = [
            0.1,
            0.1,
            0.1,
            0.010000000000000002,
            0.010000000000000002,
            0.010000000000000002,
            0.0010000000000000002,
            0.0010000000000000002,
        ];
        check("step:3:0.1", 1, &per_epoch);
        let per_step: Vec<f64> = per_epoch.iter().flat_map(|&lr| [lr; 4]).collect();
        check("step:3:0.1", 4, &per_step);
    }

    #[test]
    fn restarts_are_cosine_annealing_warm_restarts() {
        let expected = [
            0.1,
            0.0775,
            0.032500000000000015,
            0.1,
            0.09397114317029975,
            0.0775,
            0.05500000000000001,
            0.032500000000000015,
            0.01602885682970026,
            0.1,
            0.09846666218300808,
            0.09397114317029975,
        ];
        check("restarts:1:2:0.01", 3, &expected);
    }

    #[test]
    fn cosine_is_cosine_annealing_lr() {
        let with_min = [
            0.1,
            0.09757729755661011,
            0.0905463412215599,
            0.07959536998847742,
            0.0657963412215599,
            0.0505,
            0.03520365877844011,
            0.02140463001152259,
            0.010453658778440109,
            0.0034227024433899004,
        ];
        check("cosine:0.001", 3, &with_min);
        let without = [
            0.1,
            0.09504844339512096,
            0.08117449009293669,
            0.061126046697815725,
            0.03887395330218429,
            0.018825509907063328,
            0.004951556604879048,
        ];
        check("cosine", 3, &without);
        let cosine: Schedule = "cosine:0.001".parse().unwrap();
        assert!((cosine.lr(u64::MAX, 3, 10, 0.1) - 0.001).abs() < 1e-17);
    }

    #[test]
    fn warm_up_is_linear_lr() {
        check("warmup:4", 3, &[0.02, 0.04, 0.06, 0.08, 0.1, 0.1, 0.1]);
        // SequentialLR of LinearLR(1/5, total_iters=4) and CosineAnnealingLR(6).
        let sequence = [
            0.020000000000000004,
            0.04000000000000001,
            0.06000000000000001,
            0.08000000000000002,
            0.1,
            0.09330127018922195,
            0.07500000000000001,
            0.05,
            0.025000000000000012,
            0.006698729810778065,
        ];
        check("warmup:4+cosine", 3, &sequence);
        check("cosine+warmup:4", 3, &sequence);
        check(
            "warmup:3+step:1:0.5",
            2,
            &[0.025, 0.05, 0.0375, 0.05, 0.025, 0.025],
        );
    }

    #[test]
    fn extremes_give_numbers() {
        for text in [
            "constant",
            "step:1:0.5",
            "cosine",
            "warmup:18446744073709551615+cosine:1",
        ] {
            let schedule: Schedule = text.parse().unwrap();
            for step in [0, 1, u64::MAX - 1, u64::MAX] {
                for (per_epoch, total) in [(0, 0), (1, 1), (u64::MAX, u64::MAX)] {
                    let lr = schedule.lr(step, per_epoch, total, 0.1);
                    assert!(
                        lr.is_finite() && lr >= 0.0,
                        "{text} {step} {per_epoch} {total}: {lr}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_rate_never_ends_above_its_beginning() {
        for (text, base, fits) in [
            ("cosine:5", 0.002, false),
            ("cosine:0.002", 0.002, true),
            ("warmup:9+cosine:0.1", 0.01, false),
            ("step:1:2", 0.1, false),
            ("step:1:1", 0.1, true),
            ("constant", 0.0, true),
            ("cosine", 0.0, true),
        ] {
            let schedule: Schedule = text.parse().unwrap();
            let checked = schedule.check(base);
            assert_eq!(checked.is_ok(), fits, "{text} from {base}");
            if let Err(error) = checked {
                assert!(error.to_string().contains("must"), "{error}");
            }
        }
        let program = Schedule {
            warmup: 0,
            shape: Shape::Step {
                size: 1,
                gamma: f64::NAN,
            },
        };
        assert!(program.check(0.1).is_err());
        let misspelt = "cosin".parse::<Schedule>().unwrap_err().to_string();
        assert!(misspelt.contains("did you mean \"cosine\"?"), "{misspelt}");
    }

    #[test]
    fn texts_go_round_and_others_are_refused() {
        for text in [
            "constant",
            "step:30:0.1",
            "cosine",
            "cosine:0.001",
            "warmup:500+cosine",
        ] {
            assert_eq!(text.parse::<Schedule>().unwrap().to_string(), text);
        }
        assert_eq!(
            "warmup:5".parse::<Schedule>().unwrap().to_string(),
            "warmup:5+constant"
        );
        for text in [
            "",
            "linear",
            "step",
            "step:3",
            "step:0:0.1",
            "step:3:-1",
            "step:3:nan",
            "step:3:0.1:4",
            "cosine:inf",
            "warmup",
            "warmup:0",
            "warmup:1.5+cosine",
            "cosine+cosine",
            "warmup:1+warmup:2",
            "cosine+",
            "step:3:0.1+cosine",
        ] {
            let error = text.parse::<Schedule>().unwrap_err().to_string();
            assert!(
                error.contains("warmup:500+cosine") && error.contains(text),
                "{error}"
            );
        }
    }
}
