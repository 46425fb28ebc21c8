//! Durations of shapes that were never measured, from the cost of those that were.
//!
//! For one codelet, implementation, unit and element type, with `f` flops and `y` bytes, two laws are
//! fitted to the measured points (one per shape, its median `t`, its weight `w`):
//!
//! ```text
//! additive   t ≈ a + b·f + c·y,  a, b, c ≥ 0      minimise  Σ w ((a + b·f + c·y − t) / t)²
//! power      ln t ≈ p + q·ln x,  q ≥ 0            minimise  Σ w (p + q·ln x − ln t)²
//! ```
//!
//! where `x` is `f`, or `y` if some point has no flops. `a` is a launch overhead, `1/b` a rate of
//! arithmetic, `1/c` a bandwidth: none of them can be negative. Errors are relative, or the largest
//! shape alone would decide.
//!
//! The non-negative problem is solved exactly: at its optimum, the coefficients that are not zero
//! solve the ordinary problem on their columns. Three columns have seven non-empty subsets; each is
//! solved by normal equations (columns scaled to unit length, Cholesky), and the best one without a
//! negative coefficient wins. A subset whose columns are dependent is left out: a smaller one spans
//! the same.
//!
//! The power law is taken only if it predicts better what it has not seen: both are fitted without
//! one point, for each point in turn (beyond [`FOLDS`] points, without every sixteenth), and their
//! errors on what was left out are compared. The additive law wins ties, and
//! whenever there are only three points: it extrapolates sanely.

use dahl_core::{Cost, Seconds};

/// Points with different costs that a fit needs.
pub(crate) const MIN_POINTS: usize = 3;
/// Most refits when comparing the laws.
pub(crate) const FOLDS: usize = 16;

/// How much better the power law must predict to be taken.
const MARGIN: f64 = 0.8;
/// Mean squared relative error below which the additive law needs no rival: a thousandth, squared.
const GOOD: f64 = 1e-6;
/// Columns whose residual is below this part of their length count as dependent.
const DEPENDENT: f64 = 1e-10;

/// A measured shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    /// Its work.
    pub cost: Cost,
    /// Its duration in seconds, positive.
    pub seconds: f64,
    /// How much it counts, positive.
    pub weight: f64,
}

/// Which part of the cost a power law is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Arithmetic operations.
    Flops,
    /// Bytes moved.
    Bytes,
}

/// How duration depends on cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Law {
    /// `overhead + per_flop · flops + per_byte · bytes`, in seconds.
    Additive {
        /// Seconds that any task takes.
        overhead: f64,
        /// Seconds per operation.
        per_flop: f64,
        /// Seconds per byte.
        per_byte: f64,
    },
    /// `scale · work ^ exponent`, in seconds.
    Power {
        /// What the law is in.
        work: Work,
        /// Natural logarithm of the seconds that one unit of work takes.
        ln_scale: f64,
        /// Growth with the work.
        exponent: f64,
    },
}

/// A law and how well it fits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fit {
    /// The law.
    pub law: Law,
    /// Part of the variance of the logarithms of the durations that it explains, from 0 to 1.
    pub r2: f64,
    /// Points it was fitted to.
    pub points: usize,
}

/// For people: `1.20 µs + 12.3 GFLOP/s + 4.50 GB/s`, or `3.10 ms for 1 MFLOP, times 1.7 when that doubles`.
impl std::fmt::Display for Law {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Law::Additive {
                overhead,
                per_flop,
                per_byte,
            } => {
                let start = (overhead > 0.0).then(|| Seconds(overhead).to_string());
                let speed = |each: f64, unit| (each > 0.0).then(|| rate(1.0 / each, unit));
                let speeds = [speed(per_flop, "FLOP/s"), speed(per_byte, "B/s")];
                let parts: Vec<String> = start
                    .into_iter()
                    .chain(speeds.into_iter().flatten())
                    .collect();
                f.write_str(&parts.join(" + "))
            }
            Law::Power {
                work,
                ln_scale,
                exponent,
            } => {
                let million = Seconds((ln_scale + exponent * 1e6f64.ln()).exp());
                let unit = match work {
                    Work::Flops => "MFLOP",
                    Work::Bytes => "MB",
                };
                let factor = exponent.exp2();
                write!(
                    f,
                    "{million} for 1 {unit}, times {factor:.1} when that doubles"
                )
            }
        }
    }
}

/// An amount by time, with a prefix that leaves few digits.
fn rate(amount: f64, unit: &str) -> String {
    let prefixes = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    let fitting = prefixes.into_iter().find(|p| amount >= p.0);
    let (size, prefix) = fitting.unwrap_or((1.0, ""));
    format!("{:.1} {prefix}{unit}", amount / size)
}

impl Law {
    /// The duration of a cost in seconds, if the law gives one.
    pub(crate) fn predict(&self, cost: Cost) -> Option<f64> {
        let seconds = match *self {
            Law::Additive {
                overhead,
                per_flop,
                per_byte,
            } => overhead + per_flop * cost.flops + per_byte * cost.bytes,
            Law::Power {
                work,
                ln_scale,
                exponent,
            } => {
                let x = amount(work, cost);
                if x <= 0.0 {
                    return None;
                }
                (ln_scale + exponent * x.ln()).exp()
            }
        };
        (seconds > 0.0 && seconds.is_finite()).then_some(seconds)
    }
}

/// Fits the better law to the points, if at least [`MIN_POINTS`] of them differ in cost. The result
/// depends on the points and their order only.
pub(crate) fn fit(points: &[Point]) -> Option<Fit> {
    let mut distinct: Vec<Cost> = Vec::new();
    for p in points {
        if !distinct.contains(&p.cost) {
            distinct.push(p.cost);
            if distinct.len() == MIN_POINTS {
                break;
            }
        }
    }
    if distinct.len() < MIN_POINTS {
        return None;
    }
    let additive = fit_additive(points);
    // With fewer points, a law fitted without one of them says nothing about the other two.
    let power = if points.len() > MIN_POINTS {
        fit_power(points)
    } else {
        None
    };
    let law = match (additive, power) {
        (Some(additive), Some(power)) => {
            let unseen = left_out_error(points, fit_additive);
            let power_wins = unseen > GOOD && left_out_error(points, fit_power) < MARGIN * unseen;
            if power_wins { power } else { additive }
        }
        (one, other) => one.or(other)?,
    };
    Some(Fit {
        law,
        r2: explained(points, &law),
        points: points.len(),
    })
}

/// The non-negative least squares fit of the additive law.
pub(crate) fn fit_additive(points: &[Point]) -> Option<Law> {
    // Rows divided by the duration: relative errors, and a target of one.
    let row =
        |p: &Point| [1.0, p.cost.flops, p.cost.bytes].map(|v| v * p.weight.sqrt() / p.seconds);
    let mut length = [0.0f64; 3];
    for p in points {
        let r = row(p);
        for j in 0..3 {
            length[j] = length[j].hypot(r[j]);
        }
    }
    let mut gram = [[0.0; 3]; 3];
    let mut right = [0.0; 3];
    for p in points {
        let r = row(p);
        let unit: [f64; 3] = std::array::from_fn(|j| {
            if length[j] > 0.0 {
                r[j] / length[j]
            } else {
                0.0
            }
        });
        for i in 0..3 {
            right[i] += unit[i] * p.weight.sqrt();
            for j in 0..3 {
                gram[i][j] += unit[i] * unit[j];
            }
        }
    }
    let total: f64 = points.iter().map(|p| p.weight).sum();
    let mut best: Option<(f64, Law)> = None;
    // Fewer columns first, and more only if they gain something: rounding must not invent a term.
    for subset in [0b010u8, 0b100, 0b001, 0b011, 0b101, 0b110, 0b111] {
        let columns: Vec<usize> = (0..3).filter(|j| subset >> j & 1 == 1).collect();
        if columns.len() > points.len() || columns.iter().any(|&j| length[j] <= 0.0) {
            continue;
        }
        let Some(solution) = solve(&gram, &right, &columns) else {
            continue;
        };
        if solution.iter().any(|&v| v < 0.0) {
            continue;
        }
        let [overhead, per_flop, per_byte] = std::array::from_fn(|j| {
            if length[j] > 0.0 {
                solution[j] / length[j]
            } else {
                0.0
            }
        });
        let law = Law::Additive {
            overhead,
            per_flop,
            per_byte,
        };
        let residual: f64 = points
            .iter()
            .map(|p| p.weight * (law.predict(p.cost).unwrap_or(0.0) / p.seconds - 1.0).powi(2))
            .sum();
        if best.is_none_or(|(least, _)| residual < least * (1.0 - 1e-6) - 1e-18 * total) {
            best = Some((residual, law));
        }
    }
    best.map(|(_, law)| law)
}

/// The least squares fit of the power law, unless durations fall with the work.
pub(crate) fn fit_power(points: &[Point]) -> Option<Law> {
    let work = if points.iter().all(|p| p.cost.flops > 0.0) {
        Work::Flops
    } else {
        Work::Bytes
    };
    if points.iter().any(|p| amount(work, p.cost) <= 0.0) {
        return None;
    }
    let total: f64 = points.iter().map(|p| p.weight).sum();
    let mean = |value: &dyn Fn(&Point) -> f64| {
        points.iter().map(|p| p.weight * value(p)).sum::<f64>() / total
    };
    let x_mean = mean(&|p| amount(work, p.cost).ln());
    let t_mean = mean(&|p| p.seconds.ln());
    let xx = mean(&|p| (amount(work, p.cost).ln() - x_mean).powi(2));
    let xt = mean(&|p| (amount(work, p.cost).ln() - x_mean) * (p.seconds.ln() - t_mean));
    if xx.is_nan() || xx <= 1e-12 || xt < 0.0 {
        return None;
    }
    let exponent = xt / xx;
    Some(Law::Power {
        work,
        ln_scale: t_mean - exponent * x_mean,
        exponent,
    })
}

fn amount(work: Work, cost: Cost) -> f64 {
    match work {
        Work::Flops => cost.flops,
        Work::Bytes => cost.bytes,
    }
}

/// Solves the normal equations restricted to some columns, by Cholesky; the other unknowns are zero.
fn solve(gram: &[[f64; 3]; 3], right: &[f64; 3], columns: &[usize]) -> Option<[f64; 3]> {
    let n = columns.len();
    let mut l = [[0.0; 3]; 3];
    for i in 0..n {
        for j in 0..=i {
            let known: f64 = (0..j).map(|k| l[i][k] * l[j][k]).sum();
            let rest = gram[columns[i]][columns[j]] - known;
            if i == j {
                if rest.is_nan() || rest <= DEPENDENT {
                    return None;
                }
                l[i][i] = rest.sqrt();
            } else {
                l[i][j] = rest / l[j][j];
            }
        }
    }
    let mut y = [0.0; 3];
    for i in 0..n {
        let known: f64 = (0..i).map(|k| l[i][k] * y[k]).sum();
        y[i] = (right[columns[i]] - known) / l[i][i];
    }
    let mut x = [0.0; 3];
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|k| l[k][i] * x[columns[k]]).sum();
        x[columns[i]] = (y[i] - known) / l[i][i];
    }
    x.iter().all(|v| v.is_finite()).then_some(x)
}

/// Mean squared relative error on points that the fit has not seen. Relative to the larger of the two
/// durations: a prediction of nothing, or none at all, counts as an error of one.
fn left_out_error(points: &[Point], fit: fn(&[Point]) -> Option<Law>) -> f64 {
    let folds = points.len().min(FOLDS);
    let (mut sum, mut weight) = (0.0, 0.0);
    for fold in 0..folds {
        let seen: Vec<Point> = points
            .iter()
            .enumerate()
            .filter(|(i, _)| i % folds != fold)
            .map(|(_, p)| *p)
            .collect();
        let law = fit(&seen);
        for p in points.iter().skip(fold).step_by(folds) {
            let guess = law.and_then(|l| l.predict(p.cost)).unwrap_or(0.0);
            sum += p.weight * ((guess - p.seconds) / guess.max(p.seconds)).powi(2);
            weight += p.weight;
        }
    }
    sum / weight
}

/// Part of the variance of `ln t` that the law explains.
fn explained(points: &[Point], law: &Law) -> f64 {
    let mean = points.iter().map(|p| p.seconds.ln()).sum::<f64>() / points.len() as f64;
    let (mut left, mut all) = (0.0, 0.0);
    for p in points {
        let Some(guess) = law.predict(p.cost) else {
            return 0.0;
        };
        left += (p.seconds.ln() - guess.ln()).powi(2);
        all += (p.seconds.ln() - mean).powi(2);
    }
    // Equal durations leave nothing to explain: the law is right if it says so.
    if all < 1e-18 {
        f64::from(u8::from(left < 1e-12))
    } else {
        (1.0 - left / all).clamp(0.0, 1.0)
    }
}
