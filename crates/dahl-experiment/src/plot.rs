//! The one module that draws: pictures as SVG, through the crate `kuva`.
//!
//! Colours are those of Okabe and Ito, which colour-blind readers tell apart; series differ by their marks, too. A
//! picture is light on its own; where its reader prefers dark, a style in it turns background, axes and text.

use std::sync::Arc;

use kuva::TickFormat;
use kuva::backend::svg::SvgBackend;
use kuva::plot::scatter::MarkerShape;
use kuva::plot::{BarPlot, LinePlot, ScatterPlot};
use kuva::prelude::{LegendEntry, LegendShape};
use kuva::render::figure::Figure;
use kuva::render::layout::Layout;
use kuva::render::plots::Plot;
use kuva::render::theme::Theme;

use crate::report::text::prefix;
use crate::stats::Estimate;

pub(crate) struct Picture {
    pub panels: Vec<Panel>,
    pub x: String,
    pub y: String,
    /// Names along the axis, where it has no numbers.
    pub categories: Option<Vec<String>>,
    pub log_x: bool,
    pub log_y: bool,
    pub bars: bool,
    /// Whether points have marks and intervals; curves have neither.
    pub marks: bool,
}

pub(crate) struct Panel {
    pub title: String,
    pub series: Vec<Series>,
}

/// Points of one colour.
pub(crate) struct Series {
    pub name: String,
    /// The same in every panel.
    pub colour: usize,
    /// Whether its points are joined.
    pub joined: bool,
    pub points: Vec<Point>,
}

/// A point with its interval.
pub(crate) struct Point {
    pub x: f64,
    /// Which category.
    pub place: usize,
    pub estimate: Estimate,
}

/// Okabe and Ito's colours, without black, which the text has, and yellow, which white swallows; then a grey and a wine red.
pub(crate) const COLOURS: &[&str] = &[
    BLUE.0, "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#8f8f8f", WINE.0,
];

const MARKS: &[MarkerShape] = &[
    MarkerShape::Circle,
    MarkerShape::Square,
    MarkerShape::Triangle,
    MarkerShape::Diamond,
    MarkerShape::Cross,
    MarkerShape::Plus,
];

// What a style turns in the dark. Each light colour is used for nothing else.
const BACKGROUND: (&str, &str) = ("#fefefe", "#16181d");
const TEXT: (&str, &str) = ("#1c1d21", "#e4e6eb");
const GRID: (&str, &str) = ("#dddfe4", "#33363f");
const AXIS: (&str, &str) = ("#6a6d75", "#9a9da6");
/// The first and the last of the colours are too dark for that background, as thin lines above all.
const BLUE: (&str, &str) = ("#0072b2", "#1c84c6");
const WINE: (&str, &str) = ("#882255", "#b8447c");

/// Width and height of a panel.
const PANEL: (f64, f64) = (340.0, 280.0);
/// Width of a page: wider pictures would shrink.
const PAGE: f64 = 1050.0;
/// So many bars, gaps counted as bars, fill a panel; on narrow pages they stand closer.
pub(crate) const BARS: f64 = 18.0;
const NARROW_BARS: f64 = 34.0;

impl Picture {
    /// The picture as SVG, with names of its own, so that one page can hold several.
    pub(crate) fn svg(&self, name: &str) -> String {
        self.sized(name, PANEL, 3, BARS)
    }

    /// The same with panels below each other, for narrow pages.
    pub(crate) fn narrow_svg(&self, name: &str) -> String {
        self.sized(name, PANEL, 1, NARROW_BARS)
    }

    /// The same with panels of this width and height, at most so many beside each other, each filled by so many bars.
    fn sized(&self, name: &str, panel: (f64, f64), most: usize, bars: f64) -> String {
        let (columns, width) = self.columns(panel.0, PAGE, bars);
        let columns = columns.min(most);
        let rows = self.panels.len().div_ceil(columns);
        let plots: Vec<Vec<Plot>> = self.panels.iter().map(|p| self.plots(p)).collect();
        let layouts = self
            .panels
            .iter()
            .zip(&plots)
            .map(|(p, plots)| self.layout(p, plots))
            .collect();
        let places = (0..self.panels.len()).map(|i| vec![i]).collect();
        let mut figure = Figure::new(rows, columns)
            .with_structure(places)
            .with_plots(plots)
            .with_layouts(layouts)
            .with_cell_size(width, panel.1)
            .with_spacing(14.0);
        let entries = self.legend();
        if entries.len() > 1 {
            figure = figure
                .with_shared_legend_bottom()
                .with_shared_legend_entries(entries);
        }
        let svg = SvgBackend::new().render_scene(&figure.render());
        dark(&scalable(&renamed(&svg, name)))
    }

    /// How many panels stand beside each other, three at most, and how wide each is, where one with no more bars than
    /// `fill` has this width and all of them together have the page's.
    pub(crate) fn columns(&self, width: f64, page: f64, fill: f64) -> (usize, f64) {
        let places = self.categories.as_ref().map_or(0, Vec::len);
        let bars = match self.bars {
            true => places as f64 * (self.most_series() as f64 + 1.0),
            false => 0.0,
        };
        let wanted = (width * bars / fill).clamp(width, page);
        let columns = ((page / wanted + 0.2) as usize).clamp(1, 3);
        (
            columns.min(self.panels.len().max(1)),
            wanted.min(page / columns as f64).max(width),
        )
    }

    /// Series of the panel that has most.
    pub(crate) fn most_series(&self) -> usize {
        self.panels
            .iter()
            .map(|p| p.series.len())
            .max()
            .unwrap_or(0)
    }

    fn plots(&self, panel: &Panel) -> Vec<Plot> {
        match self.bars {
            true => vec![self.bars(panel)],
            false => panel
                .series
                .iter()
                .flat_map(|s| line(s, self.marks))
                .collect(),
        }
    }

    fn bars(&self, panel: &Panel) -> Plot {
        let categories = self.categories.as_deref().unwrap_or_default();
        let mut plot = BarPlot::new();
        let mut errors = Vec::new();
        for (place, category) in categories.iter().enumerate() {
            let bar = |series: &Series| {
                let point = series.points.iter().find(|p| p.place == place)?;
                let estimate = &point.estimate;
                Some((estimate.median, arms(estimate), series.colour))
            };
            let all = middle(panel.series.iter().map(bar).collect());
            let all = all.into_iter().map(Option::unwrap_or_default);
            let (values, arms): (Vec<_>, Vec<_>) =
                all.map(|(v, arms, at)| ((v, colour(at)), arms)).unzip();
            errors.extend(arms);
            plot = plot.with_group(category.clone(), values);
        }
        Plot::Bar(
            plot.with_asymmetric_error(errors)
                .with_error_color(TEXT.0)
                .with_width(0.7),
        )
    }

    fn layout(&self, panel: &Panel, plots: &[Plot]) -> Layout {
        let mut layout = Layout::auto_from_plots(plots)
            .with_x_label(self.x.clone())
            .with_y_label(self.y.clone())
            // Ticks are written longer here than the room that is kept for them.
            .with_y_label_offset(-5.0, 0.0)
            .with_theme(theme())
            .with_title_size(14)
            .with_label_size(12)
            .with_tick_size(11)
            .with_y_tick_format(ticks(self.has_plain_y(panel)))
            .with_x_tick_format(ticks(self.has_plain_x()))
            .with_ticks(5);
        if !panel.title.is_empty() {
            layout = layout.with_title(panel.title.clone());
        }
        if let Some(categories) = &self.categories
            && !self.bars
        {
            // Half a place on both sides, so that no mark is cut.
            layout = layout
                .with_x_categories(categories.clone())
                .with_x_axis_min(0.5)
                .with_x_axis_max(categories.len() as f64 + 0.5);
        }
        if self.is_long() {
            layout = layout.with_x_tick_rotate(-40.0);
        }
        if self.log_x && self.categories.is_none() {
            layout = layout.with_log_x();
        }
        if self.log_y {
            layout = layout.with_log_y();
        }
        if let Some(low) = self.bars.then(|| self.decade_below()).flatten() {
            layout = layout.with_y_axis_min(low);
        }
        layout
    }

    /// Whether values of a panel are read best as they are: ratios, some seconds.
    fn has_plain_y(&self, panel: &Panel) -> bool {
        let points = || panel.series.iter().flat_map(|s| &s.points);
        let largest = points().map(|p| p.estimate.high).fold(0.0, f64::max);
        let least = points().map(|p| p.estimate.low).fold(largest, f64::min);
        (0.5..1e3).contains(&largest) && (!self.log_y || least >= 0.01)
    }

    /// Whether numbers along the axis, such as batches or seconds, are read best as they are.
    fn has_plain_x(&self) -> bool {
        let series = self.panels.iter().flat_map(|p| &p.series);
        let largest = series.flat_map(|s| &s.points).map(|p| p.x.abs());
        !self.log_x && (0.1..1e5).contains(&largest.fold(0.0, f64::max))
    }

    /// Where bars of a logarithmic axis begin: at a power of ten below the smallest, in all panels alike.
    fn decade_below(&self) -> Option<f64> {
        let series = self.panels.iter().flat_map(|p| &p.series);
        let lows = series.flat_map(|s| &s.points).map(|p| p.estimate.low);
        let least = lows.filter(|v| *v > 0.0).min_by(f64::total_cmp)?;
        self.log_y
            .then(|| 10f64.powf((least.log10() - 0.05).floor()))
    }

    /// Whether names along the axis are too long to stand beside each other.
    pub(crate) fn is_long(&self) -> bool {
        let long = |c: &Vec<String>| c.iter().map(String::len).sum::<usize>() > 30;
        self.categories.as_ref().is_some_and(long)
    }

    /// The series of all panels, each once: colour and name.
    pub(crate) fn names(&self) -> Vec<(usize, &str)> {
        let mut entries: Vec<(usize, &str)> = Vec::new();
        for series in self.panels.iter().flat_map(|p| &p.series) {
            if !entries.iter().any(|e| e.0 == series.colour) {
                entries.push((series.colour, &series.name));
            }
        }
        entries.sort_unstable();
        entries
    }

    fn legend(&self) -> Vec<LegendEntry> {
        let entry = |(at, name): (usize, &str)| LegendEntry {
            label: name.to_owned(),
            color: colour(at),
            shape: match (self.bars, self.marks) {
                (true, _) => LegendShape::Rect,
                (false, true) => LegendShape::Marker(mark(at)),
                (false, false) => LegendShape::Line,
            },
            dasharray: None,
        };
        self.names().into_iter().map(entry).collect()
    }
}

/// How an axis writes its numbers.
fn ticks(is_plain: bool) -> TickFormat {
    TickFormat::Custom(Arc::new(if is_plain { plain } else { tick }))
}

/// A number at an axis: three digits and a prefix.
fn tick(value: f64) -> String {
    let (scale, prefix) = prefix(value.abs());
    let scaled = value / scale;
    let digits = if scaled.abs() >= 100.0 { 0 } else { 2 };
    let text = format!("{scaled:.digits$}");
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    format!("{text}{prefix}")
}

/// A number without a prefix.
fn plain(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The mark of a colour; when colours begin again, marks are other ones.
fn mark(at: usize) -> MarkerShape {
    MARKS[(at + at / COLOURS.len()) % MARKS.len()]
}

fn colour(at: usize) -> String {
    COLOURS[at % COLOURS.len()].into()
}

/// What is there stands side by side, as many empty places on its left as on its right: a place of bars lies around its name.
fn middle<T>(all: Vec<Option<T>>) -> Vec<Option<T>> {
    let (mut there, mut left): (Vec<_>, Vec<_>) = all.into_iter().partition(Option::is_some);
    let right = left.split_off(left.len() / 2);
    left.append(&mut there);
    left.extend(right);
    left
}

/// Lengths of an interval's arms.
fn arms(e: &Estimate) -> (f64, f64) {
    ((e.median - e.low).max(0.0), (e.high - e.median).max(0.0))
}

fn line(series: &Series, marked: bool) -> Vec<Plot> {
    let points: Vec<(f64, f64)> = series
        .points
        .iter()
        .map(|p| (p.x, p.estimate.median))
        .collect();
    let errors: Vec<(f64, f64)> = series.points.iter().map(|p| arms(&p.estimate)).collect();
    let line = LinePlot::new()
        .with_data(points.clone())
        .with_color(colour(series.colour))
        .with_stroke_width(1.6);
    if !marked {
        return vec![Plot::Line(line)];
    }
    let marks = ScatterPlot::new()
        .with_data(points)
        .with_y_err_asymmetric(errors)
        .with_color(colour(series.colour))
        .with_marker(mark(series.colour))
        .with_size(4.0);
    match series.joined {
        true => vec![Plot::Line(line), Plot::Scatter(marks)],
        false => vec![Plot::Scatter(marks)],
    }
}

fn theme() -> Theme {
    Theme {
        background: BACKGROUND.0.into(),
        axis_color: AXIS.0.into(),
        grid_color: GRID.0.into(),
        tick_color: AXIS.0.into(),
        text_color: TEXT.0.into(),
        legend_bg: BACKGROUND.0.into(),
        legend_border: "none".into(),
        font_family: Some("system-ui, sans-serif".into()),
        ..Theme::light()
    }
}

/// Lets the picture shrink with the page: its size becomes a view box.
fn scalable(svg: &str) -> String {
    let attribute = |name: &str| {
        let rest = svg.split_once(&format!("{name}=\""))?.1;
        rest.split_once('"').map(|(value, _)| value.to_owned())
    };
    match (attribute("width"), attribute("height")) {
        (Some(w), Some(h)) => svg.replacen(
            "<svg ",
            &format!("<svg viewBox=\"0 0 {w} {h}\" style=\"max-width:100%;height:auto\" "),
            1,
        ),
        _ => svg.to_owned(),
    }
}

/// Clipping paths by the picture's name: `kuva` counts them over all pictures of a process, and the same rows shall give
/// the same bytes.
fn renamed(svg: &str, name: &str) -> String {
    let ids = svg
        .split("<clipPath id=\"")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once('"')?.0));
    let mut out = svg.to_owned();
    for (n, id) in ids.enumerate() {
        let new = format!("{name}-clip-{n}");
        out = out.replace(&format!("\"{id}\""), &format!("\"{new}\""));
        out = out.replace(&format!("url(#{id})"), &format!("url(#{new})"));
    }
    out
}

/// Adds the style for readers who prefer dark.
fn dark(svg: &str) -> String {
    let mut rules = String::new();
    for (light, dark) in [BACKGROUND, TEXT, GRID, AXIS, BLUE, WINE] {
        for property in ["fill", "stroke"] {
            rules += &format!("[{property}=\"{light}\"]{{{property}:{dark}}}");
        }
    }
    let style = format!("<style>@media (prefers-color-scheme:dark){{{rules}}}</style>");
    match svg.find('>') {
        Some(end) => format!("{}{style}{}", &svg[..=end], &svg[end + 1..]),
        None => svg.to_owned(),
    }
}

/// A picture of plain numbers, for programs that draw something else than an experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// What the horizontal axis counts.
    pub x: String,
    /// What the vertical axis counts.
    pub y: String,
    /// Whether both axes are logarithmic.
    pub log: bool,
    /// Its curves, each with a colour and a mark of its own.
    pub curves: Vec<Curve>,
}

/// A curve of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// Whether its points are joined.
    pub joined: bool,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

impl Chart {
    /// The chart as SVG. Points that are no numbers, or that a logarithmic axis cannot show, are left out.
    pub fn svg(&self) -> String {
        let good = |v: f64| v.is_finite() && (v > 0.0 || !self.log);
        let point = |(place, &(x, y)): (usize, &(f64, f64))| {
            let estimate = Estimate {
                median: y,
                low: y,
                high: y,
                n: 1,
            };
            (good(x) && good(y)).then_some(Point { x, place, estimate })
        };
        let series = |(colour, curve): (usize, &Curve)| Series {
            name: curve.name.clone(),
            colour,
            joined: curve.joined,
            points: curve.points.iter().enumerate().filter_map(point).collect(),
        };
        let all = self.curves.iter().enumerate().map(series);
        let picture = Picture {
            panels: vec![Panel {
                title: self.title.clone(),
                series: all.filter(|s| !s.points.is_empty()).collect(),
            }],
            x: self.x.clone(),
            y: self.y.clone(),
            categories: None,
            log_x: self.log,
            log_y: self.log,
            bars: false,
            marks: true,
        };
        picture.sized("chart", (640.0, 420.0), 1, BARS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(bars: bool) -> Picture {
        let point = |i: usize| Point {
            x: i as f64 + 1.0,
            place: i,
            estimate: Estimate {
                median: 10.0 * (i as f64 + 1.0),
                low: 9.0 * (i as f64 + 1.0),
                high: 12.0 * (i as f64 + 1.0),
                n: 8,
            },
        };
        let series = |colour: usize| Series {
            name: format!("s<{colour}>"),
            colour,
            joined: true,
            points: (0..3).map(point).collect(),
        };
        let panel = |title: &str| Panel {
            title: title.into(),
            series: (0..2).map(series).collect(),
        };
        Picture {
            panels: vec![panel("a & b"), panel("c")],
            x: "x".into(),
            y: "y".into(),
            categories: bars.then(|| ["p", "q", "r"].map(String::from).to_vec()),
            log_x: !bars,
            log_y: true,
            bars,
            marks: true,
        }
    }

    #[test]
    fn numbers_at_axes_are_short() {
        let texts = [
            (0.0, "0"),
            (1.2499999999e-5, "12.5µ"),
            (20000.0, "20k"),
            (1500.0, "1.5k"),
            (0.35, "350m"),
            (120.0, "120"),
        ];
        for (value, text) in texts {
            assert_eq!(tick(value), text);
        }
        assert_eq!(
            [0.95, 1.0, 0.975, 0.0].map(plain),
            ["0.95", "1", "0.975", "0"]
        );
    }

    #[test]
    fn bars_of_a_place_leave_no_gap_between_them() {
        let all = middle(vec![Some(1), None, Some(3), None]);
        assert_eq!(all, [None, Some(1), Some(3), None]);
        let all = middle(vec![Some(1), None, Some(3)]);
        assert_eq!(all, [Some(1), Some(3), None]);
        assert_eq!(middle(vec![Some(1), Some(2)]), [Some(1), Some(2)]);
    }

    #[test]
    fn pictures_are_the_same_bytes_twice_and_have_a_dark_side() {
        for bars in [true, false] {
            let svg = picture(bars).svg("f");
            assert_eq!(svg, picture(bars).svg("f"));
            // Two panels: below each other where a page is narrow.
            let width = |svg: &str| -> f64 {
                let rest = svg.split_once("viewBox=\"0 0 ").expect("a view box").1;
                let width = rest.split(' ').next().expect("a width");
                width.parse().expect("a number")
            };
            assert!(width(&picture(bars).narrow_svg("f")) < 0.6 * width(&svg));
            assert!(
                svg.starts_with("<svg ")
                    && svg.contains("viewBox")
                    && svg.contains("prefers-color-scheme:dark")
            );
            assert!(
                svg.contains("a &amp; b") && svg.contains("s&lt;1&gt;") && !svg.contains("NaN"),
                "{svg}"
            );
            assert!(svg.contains(COLOURS[0]) && svg.contains(COLOURS[1]));
        }
    }

    #[test]
    fn charts_leave_out_what_an_axis_cannot_show() {
        let chart = Chart {
            title: "t".into(),
            x: "s".into(),
            y: "J".into(),
            log: true,
            curves: vec![
                Curve {
                    name: "frontier".into(),
                    joined: true,
                    points: vec![(1.0, 2.0), (0.0, 3.0), (4.0, f64::NAN), (8.0, 1.0)],
                },
                Curve {
                    name: "own".into(),
                    joined: false,
                    points: vec![(2.0, 2.0)],
                },
            ],
        };
        let svg = chart.svg();
        assert!(
            svg.contains("frontier") && svg.contains("own") && !svg.contains("NaN"),
            "{svg}"
        );
        assert!(
            Chart::default().svg().starts_with("<svg "),
            "nothing to show is no crash"
        );
    }
}
