//! Tables and figures for LaTeX: `booktabs` tables and `pgfplots` pictures, to `\input` where they belong.

use crate::plot::{Picture, Series};
use crate::report::text;
use crate::session::Session;
use crate::stats::Estimate;
use crate::summary::Entry;

/// `tables/*.tex`.
pub(super) fn tables(session: &Session) -> Vec<(String, String)> {
    let table = |(name, filled): (String, crate::summary::Filled)| {
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
        for (key, entries) in &filled.rows {
            let fields = key
                .iter()
                .map(|k| escape(k))
                .chain(entries.iter().map(entry));
            text += &format!("{} \\\\\n", fields.collect::<Vec<_>>().join(" & "));
        }
        text += "\\bottomrule\n\\end{tabular}\n";
        (format!("tables/{name}.tex"), text)
    };
    session.filled().into_iter().map(table).collect()
}

fn entry(entry: &Entry) -> String {
    let value = |e: &Estimate| {
        format!(
            "{} ({}--{})",
            escape(&text::number(e.median)),
            escape(&text::number(e.low)),
            escape(&text::number(e.high))
        )
    };
    match entry {
        Entry::Empty => String::new(),
        Entry::Missing(_) => "--".into(),
        Entry::Value(e, None) => value(e),
        Entry::Value(e, Some(r)) => match r.contains(1.0) {
            true => format!("{}, no difference seen", value(e)),
            false => format!(
                "{}, $\\times$ {:.2} ({:.2}--{:.2})",
                value(e),
                r.median,
                r.low,
                r.high
            ),
        },
    }
}

/// `pgf/*.tex`.
pub(super) fn figures(session: &Session) -> Vec<(String, String)> {
    let figure = |(name, picture): (String, Picture)| (format!("pgf/{name}.tex"), pgf(&picture));
    session.pictures().into_iter().map(figure).collect()
}

fn pgf(picture: &Picture) -> String {
    let mut text = String::from("% needs \\usepackage{pgfplots}\n");
    for panel in &picture.panels {
        let mut options = vec![
            format!("title={{{}}}", escape(&panel.title)),
            format!("xlabel={{{}}}", escape(&picture.x)),
            format!("ylabel={{{}}}", escape(&picture.y)),
            "legend pos=outer north east".into(),
            "error bars/y dir=both".into(),
            "error bars/y explicit".into(),
        ];
        if let Some(names) = &picture.categories {
            let places: Vec<String> = (1..=names.len()).map(|i| i.to_string()).collect();
            let names: Vec<String> = names.iter().map(|n| format!("{{{}}}", escape(n))).collect();
            options.push(format!("xtick={{{}}}", places.join(",")));
            options.push(format!("xticklabels={{{}}}", names.join(",")));
        } else if picture.log_x {
            options.push("xmode=log".into());
        }
        if picture.log_y {
            options.push("ymode=log".into());
        }
        text += &format!(
            "\\begin{{tikzpicture}}\n\\begin{{axis}}[{}]\n",
            options.join(",")
        );
        for series in &panel.series {
            text += &coordinates(series);
        }
        text += "\\end{axis}\n\\end{tikzpicture}\n";
    }
    text
}

fn coordinates(series: &Series) -> String {
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
    let legend = escape(&series.name);
    format!(
        "\\addplot+ coordinates {{{}}};\n\\addlegendentry{{{legend}}}\n",
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
