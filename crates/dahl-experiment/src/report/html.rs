//! The page: one file with figures inside, light or dark as its reader prefers, without a script.

use crate::report::text;
use crate::session::Session;
use crate::summary::{Entry, Filled};

const STYLE: &str = "\
:root{--bg:#fefefe;--fg:#1c1d21;--soft:#6a6d75;--line:#dddfe4;--head:#f3f4f7}\
@media(prefers-color-scheme:dark){:root{--bg:#16181d;--fg:#e4e6eb;--soft:#9a9da6;--line:#33363f;--head:#1f2229}}\
*{box-sizing:border-box}body{background:var(--bg);color:var(--fg);font:16px/1.55 system-ui,sans-serif;max-width:68rem;margin:0 auto;padding:1.5rem}\
h1{margin:.2em 0}h2{margin-top:2.2em;border-bottom:1px solid var(--line);padding-bottom:.2em}\
.question{font-size:1.15em;color:var(--soft);margin-top:0}\
.scroll{overflow-x:auto;background:linear-gradient(to right,var(--bg) 2rem,transparent) left/4rem 100% no-repeat local,\
linear-gradient(to left,var(--bg) 2rem,transparent) right/4rem 100% no-repeat local,\
linear-gradient(to right,var(--soft),transparent) left/.6rem 100% no-repeat,linear-gradient(to left,var(--soft),transparent) right/.6rem 100% no-repeat}\
.narrow{display:none}p.why::first-letter{text-transform:uppercase}table{border-collapse:collapse;font-size:.9em;margin:.6em 0}\
th,td{padding:.35em .6em;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}th{background:var(--head);font-weight:600}\
th.number{text-align:right}td.key,td b,td span{white-space:nowrap}td.why{min-width:9em}td.number{text-align:right;font-variant-numeric:tabular-nums}td small{display:block;color:var(--soft)}.words td+td{overflow-wrap:anywhere}\
figure{margin:1.2em 0}figcaption{color:var(--soft);font-size:.9em}svg{max-width:100%;height:auto}\
@media(max-width:60rem){body{padding:1rem}th,td{padding:.35em}.wide{display:none}.narrow{display:block}.narrow svg{display:block;max-width:none!important}.narrow svg>rect[width=\"100%\"]{fill:none}pre{white-space:pre-wrap}}\
code,pre{font:.88em ui-monospace,monospace}pre{background:var(--head);padding:1em;overflow-x:auto;border-radius:.4em}";

/// The page of a session.
pub(super) fn page(session: &Session) -> String {
    let e = &session.experiment;
    let mut body = format!(
        "<h1>{}</h1>\n<p class=\"question\">{}</p>\n",
        escape(&e.name),
        escape(&e.question)
    );
    let notes: Vec<String> = session
        .notes()
        .iter()
        .map(|n| format!("<li>{}</li>", escape(n)))
        .collect();
    body += &format!("<ul class=\"notes\">{}</ul>\n", notes.join(""));
    let pictures = session.pictures();
    if !pictures.is_empty() {
        body += "<h2>Figures</h2>\n";
    }
    for (name, picture) in &pictures {
        body += &format!(
            "<figure id=\"figure-{name}\"><div class=\"wide\">{}</div><div class=\"narrow scroll\">{}</div><figcaption>{} by {}: {}. <code>figures/{name}.svg</code></figcaption></figure>\n",
            picture.svg(&format!("f{name}")),
            picture.narrow_svg(&format!("n{name}")),
            escape(&picture.y),
            escape(&picture.x),
            match (picture.marks, session.has_intervals()) {
                (false, _) => "medians of all runs",
                (true, true) => "medians with their intervals",
                (true, false) => "medians with the range of all values",
            },
        );
    }
    let tables = session.filled();
    if !tables.is_empty() {
        body += "<h2>Tables</h2>\n";
    }
    for (_, table) in &tables {
        body += &filled(table);
    }
    body += "<h2>Runs left out</h2>\n";
    body += &left_out(session);
    body += "<h2>Environment</h2>\n";
    let facts = session
        .environment
        .facts
        .iter()
        .chain(&session.environment.variables);
    let rows: Vec<String> = facts
        .map(|(k, v)| format!("<tr><td>{}</td><td>{}</td></tr>", escape(k), escape(v)))
        .collect();
    body += &format!(
        "<div class=\"scroll words\"><table>{}</table></div>\n",
        rows.join("")
    );
    let said: std::collections::BTreeSet<&str> =
        session.runs().map(|r| r.engine.as_str()).collect();
    let said: Vec<&str> = said.into_iter().filter(|s| !s.is_empty()).collect();
    if !said.is_empty() {
        body += &format!("<p>Engines: {}.</p>\n", escape(&said.join("; ")));
    }
    body += &format!(
        "<h2>How to repeat</h2>\n<pre>dahl experiment run experiment.toml -o again{}\ndahl experiment compare . again</pre>\n<h2>The experiment</h2>\n<pre>{}</pre>\n",
        escape(&session.changes.options()),
        escape(&e.text)
    );
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{}</title><style>{STYLE}</style></head>\n<body>\n{body}</body></html>\n",
        escape(&e.name)
    )
}

fn filled(table: &Filled) -> String {
    if !table.has_values() {
        let why = table.reasons().join("; ");
        return format!(
            "<h3>{}</h3><p class=\"why\">{}.</p>\n",
            escape(&table.title),
            escape(&why)
        );
    }
    let keys = table.keys.iter().map(|h| ("", h));
    let columns = table.columns.iter().map(|h| (" class=\"number\"", h));
    let heads: Vec<String> = keys
        .chain(columns)
        .map(|(class, h)| format!("<th{class}>{}</th>", escape(h)))
        .collect();
    let mut rows = String::new();
    for (key, entries) in &table.rows {
        let keys: String = key
            .iter()
            .map(|k| format!("<td class=\"key\">{}</td>", escape(k)))
            .collect();
        let cells: String = entries.iter().map(entry).collect();
        rows += &format!("<tr>{keys}{cells}</tr>");
    }
    let notes: String = table
        .notes
        .iter()
        .map(|n| format!("<li>{}</li>", escape(n)))
        .collect();
    let notes = if notes.is_empty() {
        notes
    } else {
        format!("<ul>{notes}</ul>")
    };
    format!(
        "<h3>{}</h3><div class=\"scroll\"><table><tr>{}</tr>{rows}</table></div>{notes}\n",
        escape(&table.title),
        heads.join("")
    )
}

/// A cell of a table. Where columns are narrow, lines break between numbers and never inside them.
fn entry(entry: &Entry) -> String {
    match entry {
        Entry::Empty => "<td></td>".into(),
        Entry::Missing(why) => format!("<td class=\"why\">–<small>{}</small></td>", escape(why)),
        Entry::Value(e, ratio) => {
            // As many as values, unless a block lacks one of the two.
            let ratio = ratio.map_or(String::new(), |r| match r.contains(1.0) {
                true => format!(
                    "<small>no difference seen</small><small><span>× {:.3}–{:.3}</span></small>",
                    r.low, r.high
                ),
                false => format!(
                    "<small><b>× {:.3}</b> <span>({:.3}–{:.3})</span></small>",
                    r.median, r.low, r.high
                ),
            });
            let interval = format!(
                "<small><span>{}–</span><wbr><span>{},</span> <span>n = {}</span></small>",
                text::number(e.low),
                text::number(e.high),
                e.n
            );
            format!(
                "<td class=\"number\"><b>{}</b>{interval}{ratio}</td>",
                text::number(e.median)
            )
        }
    }
}

fn left_out(session: &Session) -> String {
    let mut rows = String::new();
    for run in session.runs().filter(|r| !r.counts()) {
        let why = run
            .failed
            .as_ref()
            .or(run.disturbed.as_ref())
            .map_or("", String::as_str);
        let name = crate::design::name(&run.levels);
        rows += &format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            run.block + 1,
            escape(&name),
            run.attempt + 1,
            escape(why)
        );
    }
    match rows.is_empty() {
        true => "<p>None.</p>\n".into(),
        false => format!(
            "<div class=\"scroll words\"><table><tr><th>block</th><th>cell</th><th>attempt</th><th>why</th></tr>{rows}</table></div>\n"
        ),
    }
}

fn escape(text: &str) -> String {
    let text = dahl_core::text::printable(text);
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
