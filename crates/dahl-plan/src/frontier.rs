//! The frontier: plans of which none is both faster and thriftier than another.
//!
//! Found by deadlines: the fastest plan and the thriftiest mark the ends, and between them the least
//! energy is sought for one deadline after another (the ε-constraint method). What a later plan beats in
//! both respects is dropped.

use std::fmt::Write;

use super::problem::{Goal, Objective, PlanError, Problem};
use super::solve::{Limits, Plan, plan};

/// The plans for `points` deadlines, the fastest first. `deadline` is the latest that is of interest.
pub fn frontier(
    problem: &Problem,
    deadline: Option<f64>,
    points: usize,
    limits: &Limits<'_>,
    keep_going: &mut dyn FnMut() -> bool,
) -> Result<Vec<Plan>, PlanError> {
    let goal = |objective, deadline| Goal {
        objective,
        deadline,
    };
    let fast = plan(
        problem,
        &goal(Objective::Time, deadline),
        limits,
        keep_going,
    )?;
    let thrifty = plan(
        problem,
        &goal(Objective::Energy, deadline),
        limits,
        keep_going,
    )?;
    let (from, to) = (fast.schedule.seconds, thrifty.schedule.seconds);
    let mut all = vec![fast, thrifty];
    // The fastest time at the least energy first: the fastest plan may waste.
    for k in 0..points.saturating_sub(1) {
        let part = k as f64 / points.saturating_sub(1).max(1) as f64;
        let limit = from + (to - from) * part;
        if to > from && keep_going() {
            all.extend(plan(
                problem,
                &goal(Objective::Energy, Some(limit)),
                limits,
                keep_going,
            ));
        }
    }
    all.sort_by(|a, b| {
        let key = |s: &Plan| (s.schedule.seconds, s.schedule.energy.total());
        let (a, b) = (key(a), key(b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    let mut least = f64::INFINITY;
    all.retain(|s| {
        let joules = s.schedule.energy.total();
        let better = joules < least * (1.0 - 1e-9);
        if better {
            least = joules;
        }
        better
    });
    Ok(all)
}

/// A frontier as a picture: seconds to the right, joules upwards, the plan itself as a disc and other plans as
/// crosses, with names.
pub fn svg(
    title: &str,
    points: &[(f64, f64)],
    own: (f64, f64),
    others: &[(String, f64, f64)],
) -> String {
    let (width, height, margin) = (640.0, 400.0, 64.0);
    let all = || {
        points
            .iter()
            .copied()
            .chain([own])
            .chain(others.iter().map(|o| (o.1, o.2)))
    };
    let range = |of: fn((f64, f64)) -> f64| {
        let (low, high) = all()
            .map(of)
            .fold((f64::INFINITY, 0.0_f64), |r, x| (r.0.min(x), r.1.max(x)));
        let room = (0.08 * (high - low))
            .max(0.02 * high)
            .max(f64::MIN_POSITIVE);
        (low - room, high + room)
    };
    let (x, y) = (range(|p| p.0), range(|p| p.1));
    let at = |p: (f64, f64)| {
        let right = margin + (p.0 - x.0) / (x.1 - x.0) * (width - 1.5 * margin);
        let down = height - margin - (p.1 - y.0) / (y.1 - y.0) * (height - 2.0 * margin);
        (right, down)
    };
    let mut out = String::new();
    let escaped = |text: &str| {
        text.replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
    };
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{margin}\" y=\"28\" font-size=\"15\">{}</text>\n",
        escaped(title)
    );
    let (left, bottom) = (margin, height - margin);
    let (right, top) = (width - margin / 2.0, margin);
    let _ = writeln!(
        out,
        "<path d=\"M{left} {top}V{bottom}H{right}\" fill=\"none\" stroke=\"#555\"/>\n\
         <text x=\"{right}\" y=\"{}\" text-anchor=\"end\">time of a step</text>\n\
         <text x=\"{left}\" y=\"{}\">energy of a step</text>",
        height - 12.0,
        top - 8.0
    );
    for value in round_ticks(x) {
        let across = at((value, y.0)).0;
        let _ = writeln!(
            out,
            "<path d=\"M{across:.1} {bottom}v4\" stroke=\"#555\"/>\
             <text x=\"{across:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            dahl_core::Seconds(value)
        );
    }
    for value in round_ticks(y) {
        let down = at((x.0, value)).1;
        let _ = writeln!(
            out,
            "<path d=\"M{left} {down:.1}h-4\" stroke=\"#555\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 6.0,
            down + 4.0,
            dahl_core::Joules(value)
        );
    }
    let line: Vec<String> = points
        .iter()
        .map(|&p| at(p))
        .map(|(a, b)| format!("{a:.1},{b:.1}"))
        .collect();
    let _ = writeln!(
        out,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#1b6ca8\" stroke-width=\"1.5\"/>",
        line.join(" ")
    );
    for &p in points {
        let (a, b) = at(p);
        let _ = writeln!(
            out,
            "<circle cx=\"{a:.1}\" cy=\"{b:.1}\" r=\"4\" fill=\"#1b6ca8\"><title>{}, {}</title></circle>",
            dahl_core::Seconds(p.0),
            dahl_core::Joules(p.1)
        );
    }
    // Names go to the left of marks on the right, and above or below names that are in the way, wherever they
    // stay clear of the axis.
    let mut names: Vec<(bool, f64)> = Vec::new();
    let this = [("this plan".to_string(), own.0, own.1)];
    for (k, (name, seconds, joules)) in this.iter().chain(others).enumerate() {
        let (a, b) = at((*seconds, *joules));
        let before = a > width / 2.0;
        let free = |down: f64| {
            let apart = |n: &(bool, f64)| n.0 != before || (n.1 - down).abs() >= 13.0;
            (top..bottom - 2.0).contains(&down) && names.iter().all(apart)
        };
        let shifts = (0..40).flat_map(|i| [f64::from(i), -f64::from(i)]);
        let down = shifts.map(|s| b + 4.0 + 2.0 * s).find(|d| free(*d));
        let down = down.unwrap_or(b + 4.0);
        names.push((before, down));
        let (beside, anchor) = match before {
            true => (a - 9.0, "end"),
            false => (a + 9.0, "start"),
        };
        let (mark, colour) = match k {
            0 => (
                format!(
                    "<circle cx=\"{a:.1}\" cy=\"{b:.1}\" r=\"6\" fill=\"none\" stroke=\"#111\" stroke-width=\"2\"/>"
                ),
                "#111",
            ),
            _ => (
                format!(
                    "<path d=\"M{:.1} {:.1}l8 8m0 -8l-8 8\" stroke=\"#b5442e\" stroke-width=\"2\"/>",
                    a - 4.0,
                    b - 4.0
                ),
                "#b5442e",
            ),
        };
        let _ = writeln!(
            out,
            "{mark}<text x=\"{beside:.1}\" y=\"{down:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{}</text>",
            escaped(name)
        );
    }
    out.push_str("</svg>\n");
    out
}

/// About five round values in a range: multiples of 1, 2 or 5 times a power of ten.
fn round_ticks((low, high): (f64, f64)) -> impl Iterator<Item = f64> {
    let rough = (high - low) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0].map(|f| f * power);
    let step = step
        .into_iter()
        .find(|s| *s >= rough)
        .unwrap_or(10.0 * power);
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    (first..=last).map(move |k| k as f64 * step)
}

#[cfg(test)]
mod tests {
    use super::round_ticks;

    #[test]
    fn ticks_are_round_and_inside() {
        for (low, high) in [(0.0325, 0.0958), (0.9, 1.1), (3.0, 3e4), (1e-7, 9e-6)] {
            let all: Vec<f64> = round_ticks((low, high)).collect();
            assert!((2..=7).contains(&all.len()), "{low} to {high}: {all:?}");
            let step = all[1] - all[0];
            let lead = step / 10f64.powf((step * 1.0001).log10().floor());
            assert!(
                [1.0, 2.0, 5.0]
                    .iter()
                    .any(|r| (lead / r - 1.0).abs() < 1e-6),
                "{step}"
            );
            assert!(all.iter().all(|t| (low..=high).contains(t)));
        }
    }
}
