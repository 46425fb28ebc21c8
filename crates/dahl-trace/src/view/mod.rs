//! The viewer: a trace as one page of HTML that needs nothing else, neither a server nor a network.
//!
//! The page is put together here from `page.html`, `style.css` and the files of `app`, which share one
//! scope; the data follow as packed columns. All figures beside the chart are those of [`Summary`]; the
//! page computes none of its own. Names from the trace are data to the page, never markup.

mod encode;
mod memory;
mod pack;

use std::io::{self, Write};

use dahl_core::trace::Trace;
use serde_json::{Value, json};

use crate::Index;
use crate::summary::timeline::has_to_fetch;
use crate::summary::{Summary, critical};

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");

/// The page's program: one idea a file, in an order in which constants come before their use.
const APP: &[&str] = &[
    include_str!("app/unpack.js"),
    include_str!("app/columns.js"),
    include_str!("app/format.js"),
    include_str!("app/trace.js"),
    include_str!("app/neighbours.js"),
    include_str!("app/palette.js"),
    include_str!("app/groups.js"),
    include_str!("app/search.js"),
    include_str!("app/pyramid.js"),
    include_str!("app/raster.js"),
    include_str!("app/view.js"),
    include_str!("app/layout.js"),
    include_str!("app/curves.js"),
    include_str!("app/axis.js"),
    include_str!("app/lanes.js"),
    include_str!("app/arrows.js"),
    include_str!("app/overview.js"),
    include_str!("app/chart.js"),
    include_str!("app/pointer.js"),
    include_str!("app/details.js"),
    include_str!("app/summary.js"),
    include_str!("app/input.js"),
    include_str!("app/main.js"),
];

/// Writes the page of a trace that [`crate::check`] accepts.
pub fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    let summary = Summary::of(trace);
    let index = Index::of(trace);
    let critical = critical::critical_path(trace, &index).runs;
    let order = pack::order(trace);
    let curves = memory::curves(trace, &index);
    let mut blocks = pack::blocks(trace, &index, &order, &critical);
    blocks.push(("memory".into(), memory::pack(&curves)));
    let mut summary = serde_json::to_value(&summary)?;
    // A figure per step and nothing that shows them: the chart does.
    if let Value::Object(fields) = &mut summary {
        fields.remove("steps");
    }
    let meta = meta(trace, &curves, summary);

    // The template's places, in the order in which they stand there.
    let mut rest = PAGE;
    let mut upto = |place: &str, out: &mut dyn Write| -> io::Result<()> {
        let (before, after) = rest.split_once(place).unwrap_or((rest, ""));
        rest = after;
        out.write_all(before.as_bytes())
    };
    upto("{{style}}", out)?;
    out.write_all(STYLE.as_bytes())?;
    upto("{{meta}}", out)?;
    // No name may end the element it stands in.
    out.write_all(meta.to_string().replace('<', "\\u003c").as_bytes())?;
    upto("{{blocks}}", out)?;
    for (name, columns) in &blocks {
        write!(out, "<script type=\"text/plain\" id=\"block-{name}\">")?;
        columns.write(out)?;
        out.write_all(b"</script>\n")?;
    }
    upto("{{app}}", out)?;
    for file in APP {
        out.write_all(file.as_bytes())?;
        out.write_all(b"\n")?;
    }
    out.write_all(rest.as_bytes())
}

/// What is not worth a column: names and figures.
fn meta(trace: &Trace, curves: &[memory::Curve], summary: Value) -> Value {
    let class = |c: &dahl_core::trace::TraceClass| {
        json!({
            "codelet": c.codelet, "implementations": c.implementations, "shapes": c.shapes,
            "flops": c.flops, "bytes": c.bytes,
        })
    };
    let graph = |g: &dahl_core::trace::TraceGraph| {
        let classes: Vec<Value> = g.classes.iter().map(class).collect();
        json!({ "sections": g.sections, "classes": classes })
    };
    let unit = |(i, u): (usize, &dahl_core::trace::TraceUnit)| {
        let fetches = has_to_fetch(trace, i as u16);
        json!({ "name": u.name, "kind": u.kind.to_string(), "node": trace.node_of(i as u16), "fetches": fetches })
    };
    let node = |n: &dahl_core::trace::TraceNode| json!({ "name": n.name, "uncertainty_ns": n.uncertainty });
    // From, to, and whether that is between nodes.
    let link = |&(from, to): &(u16, u16)| {
        let node = |m: u16| trace.memories[usize::from(m)].node;
        json!([from, to, node(from) != node(to)])
    };
    let names: Vec<&str> = trace.memories.iter().map(|m| m.name.as_str()).collect();
    json!({
        "about": trace.about,
        "simulated": trace.simulated,
        "dropped": trace.dropped,
        "nodes": trace.nodes.iter().map(node).collect::<Vec<_>>(),
        "units": trace.units.iter().enumerate().map(unit).collect::<Vec<_>>(),
        "memories": names,
        "links": pack::links(trace).iter().map(link).collect::<Vec<_>>(),
        "domains": trace.domains,
        "curves": curves.iter().map(|c| json!({ "name": c.name, "capacity": c.capacity })).collect::<Vec<_>>(),
        "graphs": trace.graphs.iter().map(graph).collect::<Vec<_>>(),
        "summary": summary,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(trace: &Trace) -> String {
        let mut out = Vec::new();
        write(trace, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_page_is_complete_and_needs_nothing_else() {
        let text = page(&crate::synthetic(500, 3, 1));
        for part in ["style", "meta", "blocks", "app"] {
            assert!(
                !text.contains(&format!("{{{{{part}}}}}")),
                "{part} is missing"
            );
        }
        for part in ["http:", "https:", " src=", "url(", "import("] {
            assert!(!text.contains(part), "{part} leads out of the page");
        }
        for block in [
            "runs",
            "launches",
            "transfers",
            "memory",
            "power",
            "edges-0",
            "accesses-0",
        ] {
            assert!(
                text.contains(&format!("id=\"block-{block}\"")),
                "{block} is missing"
            );
        }
        assert!(text.trim_end().ends_with("</html>"));
    }

    #[test]
    fn names_cannot_become_markup() {
        let mut trace = crate::synthetic(100, 1, 1);
        let name = "</script><b>bold</b>";
        trace.about.push(("command".into(), name.into()));
        trace.graphs[0].classes[0].codelet = name.into();
        trace.graphs[0].sections[1] = name.into();
        assert!(!page(&trace).contains("<b>bold"));
    }

    #[test]
    fn traces_without_tasks_have_a_page() {
        assert!(page(&crate::synthetic(0, 2, 1)).contains("</html>"));
        assert!(page(&Trace::default()).contains("</html>"));
    }
}
