//! Tables and figures for LaTeX: `booktabs` tables and `pgfplots` pictures, to `\input` where they belong, and a document
//! around them that compiles as it is. Plain pdfLaTeX: nothing but packages that every distribution has.

use crate::plot::{BARS, COLOURS, Picture, Series};
use crate::report::text;
use crate::session::Session;
use crate::stats::Estimate;
use crate::summary::{Entry, Filled};

/// The tables that have values: one without any is a sentence of the paper.
fn with_values(session: &Session) -> Vec<(String, Filled)> {
    let filled = session.filled().into_iter();
    filled.filter(|(_, f)| f.has_values()).collect()
}

/// Points from one bar to the next, of a panel that is not wider than others, and of a page's text.
const BAR: f64 = 5.0;
const PANEL_POINTS: f64 = 155.0;
const PAGE_POINTS: f64 = 480.0;

/// `tables/*.tex`.
pub(super) fn tables(session: &Session) -> Vec<(String, String)> {
    let table = |(name, filled): (String, Filled)| {
        let heads: Vec<String> = filled
            .keys
            .iter()
            .chain(&filled.columns)
            .map(|h| escape(h))
            .collect();
        let columns = format!(
            "{}{}",
            "l".repeat(filled.keys.len()),
            "r".repeat(filled.columns.len())
        );
        let mut text = format!(
            "% {}; needs \\usepackage{{booktabs}}\n\\begin{{tabular}}{{{columns}}}\n\\toprule\n{} \\\\\n\\midrule\n",
            filled.title,
            heads.join(" & ")
        );
        for (place, (key, entries)) in filled.rows.iter().enumerate() {
            if place > 0 {
                text += "\\addlinespace\n";
            }
            let fields = key
                .iter()
                .map(|k| escape(k))
                .chain(entries.iter().map(entry));
            text += &format!("{} \\\\\n", fields.collect::<Vec<_>>().join(" & "));
        }
        text += "\\bottomrule\n\\end{tabular}\n";
        (format!("tables/{name}.tex"), text)
    };
    with_values(session).into_iter().map(table).collect()
}

fn entry(entry: &Entry) -> String {
    let interval = |low: String, high: String| format!("{{\\scriptsize ({low}--{high})}}");
    let value = |e: &Estimate| {
        let [median, low, high] = [e.median, e.low, e.high].map(|v| escape(&text::number(v)));
        format!("{median} {}", interval(low, high))
    };
    match entry {
        Entry::Empty => String::new(),
        Entry::Missing(_) => "--".into(),
        Entry::Value(e, None) => value(e),
        Entry::Value(e, Some(r)) => {
            let ratio = match r.contains(1.0) {
                true => "{\\scriptsize no difference seen}".into(),
                false => format!(
                    "$\\times$ {:.2} {}",
                    r.median,
                    interval(format!("{:.2}", r.low), format!("{:.2}", r.high))
                ),
            };
            // The value stands on the row's line, its ratio below.
            format!(
                "\\begin{{tabular}}[t]{{@{{}}r@{{}}}}{}\\\\{ratio}\\end{{tabular}}",
                value(e)
            )
        }
    }
}

/// `pgf/*.tex`.
pub(super) fn figures(session: &Session) -> Vec<(String, String)> {
    let figure = |(name, picture): (String, Picture)| (format!("pgf/{name}.tex"), pgf(&picture));
    session.pictures().into_iter().map(figure).collect()
}

/// A document with all tables and figures that are there: a beginning for a paper, and a check that they compile.
pub(super) fn paper(session: &Session) -> (String, String) {
    let mut text = String::from(
        "\\documentclass{article}\n\\usepackage[margin=2cm]{geometry}\n\\usepackage{booktabs,graphicx,pgfplots}\n\\pgfplotsset{compat=1.16}\n\
         % What is wider than the page shrinks to it.\n\\newsavebox{\\fitted}\n\\newcommand{\\fit}[1]{\\IfFileExists{#1}{\\sbox{\\fitted}{\\input{#1}}%\n\
         \\ifdim\\wd\\fitted>\\linewidth\\resizebox{\\linewidth}{!}{\\usebox{\\fitted}}\\else\\usebox{\\fitted}\\fi}{}}\n\
         \\begin{document}\n",
    );
    text += &format!(
        "\\section*{{{}}}\n{}\n",
        escape(&session.experiment.name),
        escape(&session.experiment.question)
    );
    for note in session.notes() {
        text += &format!("\n{}\n", escape(&note));
    }
    for (name, picture) in session.pictures() {
        let caption = escape(&format!("{} by {}", picture.y, picture.x));
        text += &float("figure", &format!("pgf/{name}.tex"), &caption);
    }
    for (name, filled) in session.filled() {
        let title = escape(&filled.title);
        let notes = filled.notes.iter().map(|n| format!(" {}", escape(n)));
        let caption = format!("{title}.{}", notes.collect::<String>());
        text += &match filled.has_values() {
            true => float("table", &format!("tables/{name}.tex"), &caption),
            false => format!("\n{title}: {}.\n", escape(&filled.reasons().join("; "))),
        };
    }
    ("paper.tex".into(), text + "\\end{document}\n")
}

fn float(kind: &str, file: &str, caption: &str) -> String {
    format!(
        "\\begin{{{kind}}}[p]\n\\centering\\fit{{{file}}}\n\\caption{{{caption}}}\n\\end{{{kind}}}\n"
    )
}

fn pgf(picture: &Picture) -> String {
    let mut text = String::from("% needs \\usepackage{pgfplots} and \\pgfplotsset{compat=1.16}\n");
    for (i, colour) in COLOURS.iter().enumerate() {
        let digits = colour.trim_start_matches('#').to_uppercase();
        text += &format!("\\definecolor{{dahl{i}}}{{HTML}}{{{digits}}}\n");
    }
    let last = picture.panels.len().saturating_sub(1);
    // As many beside each other as a page is wide, with their labels and the legend.
    let (columns, _) = picture.columns(PANEL_POINTS, PAGE_POINTS, BARS);
    text += "\\begin{tabular}{@{}l@{}}\n";
    for (i, panel) in picture.panels.iter().enumerate() {
        let first = i % columns == 0;
        if first && i > 0 {
            text += "\\\\[1ex]\n";
        }
        let options = axis(picture, &panel.title, first);
        text += &format!("\\begin{{tikzpicture}}[baseline]\n\\begin{{axis}}[{options}]\n");
        for (place, series) in panel.series.iter().enumerate() {
            // Bars stand beside each other, around their place.
            let middle = (panel.series.len() as f64 - 1.0) / 2.0;
            let shift = picture.bars.then_some(BAR * (place as f64 - middle));
            text += &coordinates(series, shift);
        }
        // One legend for all panels, which have the same colours.
        if i == last {
            for (at, name) in picture.names() {
                let image = match picture.bars {
                    true => format!("area legend,fill=dahl{at},draw=none"),
                    false => format!("dahl{at},mark={},mark options={{fill=dahl{at}}}", mark(at)),
                };
                text += &format!(
                    "\\addlegendimage{{{image}}}\n\\addlegendentry{{{}}}\n",
                    escape(name)
                );
            }
        }
        text += "\\end{axis}\n\\end{tikzpicture}%\n";
    }
    text + "\\end{tabular}\n"
}

/// The options of an axis.
fn axis(picture: &Picture, title: &str, first: bool) -> String {
    let mut options = vec![
        format!("title={{{}}}", escape(title)),
        format!("xlabel={{{}}}", escape(&picture.x)),
        "height=5cm".into(),
        "title style={font=\\small},label style={font=\\small},tick label style={font=\\scriptsize}".into(),
        "legend pos=outer north east,legend style={font=\\scriptsize,draw=none},legend cell align=left".into(),
        "error bars/y dir=both,error bars/y explicit".into(),
    ];
    if first {
        options.push(format!("ylabel={{{}}}", escape(&picture.y)));
    }
    if picture.bars {
        // Room for all bars of a place, and as much as a bar between places.
        let unit = (BAR * (picture.most_series() as f64 + 1.5)).max(20.0);
        options.push(format!(
            "ybar,bar width={}pt,x={unit}pt,enlarge x limits={{abs=0.6}}",
            BAR - 1.0
        ));
    } else {
        options.push("width=5.4cm".into());
    }
    if let Some(names) = &picture.categories {
        let places: Vec<String> = (1..=names.len()).map(|i| i.to_string()).collect();
        let names: Vec<String> = names.iter().map(|n| format!("{{{}}}", escape(n))).collect();
        options.push(format!("xtick={{{}}}", places.join(",")));
        options.push(format!("xticklabels={{{}}}", names.join(",")));
        if picture.is_long() {
            options.push("x tick label style={rotate=40,anchor=north east}".into());
        }
    } else if picture.log_x {
        options.push("xmode=log".into());
    }
    if picture.log_y {
        options.push("ymode=log,log origin=infty".into());
    } else if picture.bars {
        options.push("ymin=0".into());
    }
    options.join(",")
}

fn mark(at: usize) -> &'static str {
    ["*", "square*", "triangle*", "diamond*", "x", "+"][at % 6]
}

fn coordinates(series: &Series, shift: Option<f64>) -> String {
    let point = |p: &crate::plot::Point| {
        let Estimate {
            median, low, high, ..
        } = p.estimate;
        format!(
            "({},{median}) += (0,{}) -= (0,{})",
            p.x,
            high - median,
            median - low
        )
    };
    let points: Vec<String> = series.points.iter().map(point).collect();
    let at = series.colour % COLOURS.len();
    let style = match shift {
        Some(shift) => format!(
            "fill=dahl{at},draw=none,bar shift={shift}pt,error bars/error bar style={{black!60}}"
        ),
        None => format!("dahl{at},mark={},mark options={{fill=dahl{at}}}", mark(at)),
    };
    format!(
        "\\addplot[{style},forget plot] coordinates {{{}}};\n",
        points.join(" ")
    )
}

/// A text that LaTeX prints as it is.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', c]),
            '\\' => out += "\\textbackslash{}",
            '~' => out += "\\textasciitilde{}",
            '^' => out += "\\textasciicircum{}",
            '–' => out += "--",
            '<' | '>' | '|' => out.extend(['$', c, '$']),
            '×' => out += "$\\times$",
            '→' => out += "$\\to$",
            '…' => out += "\\dots{}",
            '°' => out += "$^\\circ$",
            'µ' => out += "$\\mu$",
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_latex_would_obey_is_printed() {
        assert_eq!(
            escape("a_b & 5 % of $x^2$ \\ {~} µ"),
            "a\\_b \\& 5 \\% of \\$x\\textasciicircum{}2\\$ \\textbackslash{} \\{\\textasciitilde{}\\} $\\mu$"
        );
    }
}
