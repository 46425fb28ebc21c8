//! What a figure shows: cells become panels, series and points. Drawing is `plot`'s.

use crate::design::Cell;
use crate::file::{Figure, FigureKind};
use crate::level::Level;
use crate::measure;
use crate::plot::{Panel, Picture, Point, Series};
use crate::session::Session;
use crate::summary::{NO_LEVEL, distinct, estimate, level, varying};

/// The picture of a figure; none if no cell has a value. `measure` is its own, or the one that stands beside it.
pub(crate) fn picture(session: &Session, figure: &Figure, measure: &str) -> Option<Picture> {
    if figure.kind == FigureKind::Time {
        return crate::resident::picture(session, figure);
    }
    let xs = distinct(session.cells.iter(), std::slice::from_ref(&figure.x))
        .into_iter()
        .flatten();
    let categories: Vec<String> = xs.filter(|x| x != NO_LEVEL).collect();
    let numbers = numbers(session, &figure.x).filter(|n| {
        let doubling = figure.log.contains('x') && is_geometric(n);
        figure.kind == FigureKind::Line && !doubling
    });
    let point = |cell: usize, levels: &Cell| {
        let name = level(levels, &figure.x);
        let at = categories.iter().position(|c| *c == name)?;
        let number = numbers
            .as_ref()
            .and_then(|_| levels.get(&figure.x)?.number());
        Some(Point {
            x: number.unwrap_or(at as f64 + 1.0),
            place: at,
            estimate: estimate(session, cell, measure)?,
        })
    };
    let axes = Axes {
        x: figure.x.clone(),
        y: measure::label(measure),
        categories: numbers.is_none().then(|| categories.clone()),
        marks: true,
    };
    panels(session, figure, axes, |cell, levels| {
        point(cell, levels).into_iter().collect()
    })
}

/// What stands at the axes of a picture.
#[derive(Default)]
pub(crate) struct Axes {
    pub x: String,
    pub y: String,
    /// Names along the axis, where it has no numbers.
    pub categories: Option<Vec<String>>,
    /// Whether points have marks.
    pub marks: bool,
}

/// Cells as panels and series, each with its points; none if no cell has any.
pub(crate) fn panels(
    session: &Session,
    figure: &Figure,
    axes: Axes,
    points_of: impl Fn(usize, &Cell) -> Vec<Point>,
) -> Option<Picture> {
    let panel_by: Vec<String> = figure.panels.iter().cloned().collect();
    let mut series_by: Vec<String> = figure.series.iter().cloned().collect();
    let placed =
        |f: &String| *f == figure.x || panel_by.contains(f) || figure.series.as_ref() == Some(f);
    series_by.extend(varying(session).into_iter().filter(|f| !placed(f)));
    let names = distinct(session.cells.iter(), &series_by);
    let mut panels = Vec::new();
    for panel in distinct(session.cells.iter(), &panel_by) {
        let mut all = Vec::new();
        for (place, name) in names.iter().enumerate() {
            let mut points = Vec::new();
            for (cell, levels) in session.cells.iter().enumerate() {
                let is = |by: &[String], key: &[String]| {
                    by.iter().zip(key).all(|(f, k)| level(levels, f) == *k)
                };
                if is(&panel_by, &panel) && is(&series_by, name) {
                    points.extend(points_of(cell, levels));
                }
            }
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            if !points.is_empty() {
                let name = titled(&series_by, name);
                all.push(Series {
                    name,
                    colour: place,
                    joined: true,
                    points,
                });
            }
        }
        if !all.is_empty() {
            panels.push(Panel {
                title: titled(&panel_by, &panel),
                series: all,
            });
        }
    }
    (!panels.is_empty()).then(|| Picture {
        panels,
        x: axes.x,
        y: axes.y,
        categories: axes.categories,
        log_x: figure.log.contains('x'),
        log_y: figure.log.contains('y'),
        bars: figure.kind == FigureKind::Bar,
        marks: axes.marks,
    })
}

/// Levels as a reader sees them: numbers and truth values say of what they are, and factors without a level nothing.
fn titled(factors: &[String], levels: &[String]) -> String {
    let word = |level: &str| level.parse::<f64>().is_err() && level.parse::<bool>().is_err();
    let one = |(factor, level): (&String, &String)| match word(level) {
        true => level.clone(),
        false => format!("{factor} = {level}"),
    };
    let all = factors
        .iter()
        .zip(levels)
        .filter(|(_, level)| *level != NO_LEVEL);
    all.map(one).collect::<Vec<_>>().join(", ")
}

/// Whether each number is the same multiple of the one before: on a logarithmic axis they then stand at equal distances, and
/// are themselves the best ticks.
fn is_geometric(numbers: &[f64]) -> bool {
    let ratios: Vec<f64> = numbers.windows(2).map(|w| w[1] / w[0]).collect();
    let same = |r: &f64| *r > 1.0 && (r / ratios[0] - 1.0).abs() < 1e-6;
    numbers.len() <= 12 && numbers.first().is_some_and(|n| *n > 0.0) && ratios.iter().all(same)
}

/// The levels of a factor as numbers, where all of them are.
fn numbers(session: &Session, factor: &str) -> Option<Vec<f64>> {
    let (_, levels) = session
        .experiment
        .factors
        .iter()
        .find(|(n, _)| n == factor)?;
    levels.iter().map(Level::number).collect()
}
