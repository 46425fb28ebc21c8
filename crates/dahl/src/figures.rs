//! Pictures of what is planned and measured, drawn by the module that draws experiments.

use dahl_experiment::{Chart, Curve};
use dahl_plan::pipeline::{EnergyFrontier, EnergyPoint};
use dahl_tune::{FrontierPoint, PerfRow, Planned};

/// Time against energy: the frontier, the plan itself, and what it was compared with.
pub fn frontier_chart(planned: &Planned, points: &[FrontierPoint]) -> Chart {
    let file = &planned.plan.file;
    let one = |name: &str, seconds: f64, joules: f64| Curve {
        name: name.into(),
        joined: false,
        points: vec![(seconds, joules)],
    };
    let frontier = Curve {
        name: "frontier".into(),
        joined: true,
        points: points.iter().map(|p| (p.seconds, p.joules)).collect(),
    };
    // As the points of the frontier and the others: a step in a run that follows it, where that is known.
    let expected = file.expected.as_ref().map(|e| (e.seconds, e.joules));
    let (seconds, joules) = expected.unwrap_or((file.seconds, file.joules.total));
    let own = one("this plan", seconds.0, joules.0);
    let others = file.alternatives.iter();
    let others = others.map(|o| one(&o.name, o.seconds.0, o.joules.0));
    Chart {
        title: format!("{} on {}", file.target.title, file.target.machine),
        x: "time of a step, s".into(),
        y: "energy of a step, J".into(),
        log: false,
        curves: [frontier, own].into_iter().chain(others).collect(),
    }
}

/// Time against energy of a pipeline's iteration, with the bound.
pub fn energy_chart(title: &str, frontier: &EnergyFrontier) -> Chart {
    let curve = |name: &str, of: fn(&EnergyPoint) -> f64| Curve {
        name: name.into(),
        joined: true,
        points: frontier.points.iter().map(|p| (p.seconds, of(p))).collect(),
    };
    Chart {
        title: title.into(),
        x: "time of an iteration, s".into(),
        y: "energy, J".into(),
        log: false,
        curves: vec![
            curve("frontier", |p| p.joules),
            curve("no less than", |p| p.lower_bound),
        ],
    }
}

/// Durations of a codelet over its work, by implementation and unit.
pub fn durations_chart(codelet: &str, rows: &[PerfRow]) -> Chart {
    let same =
        |a: &PerfRow, b: &PerfRow| (&a.implementation, &a.unit) == (&b.implementation, &b.unit);
    let curve = |group: &[PerfRow]| {
        let mut points: Vec<(f64, f64)> = group
            .iter()
            .map(|r| (r.flops.max(r.bytes), r.median))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Curve {
            name: format!("{} on {}", group[0].implementation, group[0].unit),
            joined: false,
            points,
        }
    };
    Chart {
        title: codelet.into(),
        x: "work: the larger of flops and bytes".into(),
        y: "median, s".into(),
        log: true,
        curves: rows.chunk_by(same).map(curve).collect(),
    }
}
