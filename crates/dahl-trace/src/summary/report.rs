//! A summary on one screen: first the verdict, then where each unit's time went, then who is to blame.
//!
//! Only arranges what [`Summary`] says; every figure here is one of its fields.

use dahl_core::report::{Report, Table};
use dahl_core::{Bytes, Joules, Seconds, several};

use super::bubble::DEVICES;
use super::{NamedJoules, Summary, UnitTime};

impl Summary {
    /// The summary for people, with so many rows a table.
    pub fn report(&self, top: usize) -> Report {
        let (s, mut out) = (self, Report::default());
        heading(s, &mut out);
        if s.tasks == 0 {
            out.line("no task ran");
            return out;
        }
        if !s.nodes.is_empty() {
            out.paragraph(nodes(s));
        }
        out.paragraph(units(s));
        out.paragraph(codelets(s, top));
        out.paragraph(layers(s, top));
        if !s.gaps.is_empty() {
            out.paragraph(gaps(s));
        }
        if !s.variation.is_empty() {
            out.paragraph(variation(s, top));
        }
        notes(s, &mut out);
        out
    }
}

fn time(nanos: u64) -> String {
    Seconds(nanos as f64 * 1e-9).to_string()
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn heading(s: &Summary, out: &mut Report) {
    let known = s.about.iter().filter(|(k, _)| k != DEVICES);
    let about: Vec<String> = known.map(|(k, v)| format!("{k}: {v}")).collect();
    if !about.is_empty() {
        out.line(about.join(" · "));
    }
    out.line(format!(
        "{} of {} on {} in {}{}",
        several(s.tasks, "task"),
        several(s.launches, "step"),
        several(s.units.len(), "unit"),
        time(s.span_ns),
        if s.simulated { " (simulated)" } else { "" }
    ));
    if s.dropped > 0 {
        out.line(format!(
            "the oldest {} events were given up because the buffers were full: figures are of the rest",
            s.dropped
        ));
    }
    if s.tasks > 0 {
        out.line(format!(
            "\nparallel efficiency {} · bound by {}{}",
            percent(s.parallel_efficiency),
            s.bound.says,
            if s.bubble.is_some() { "" } else { "\n" }
        ));
        if let Some(bubble) = s.bubble {
            out.line(format!(
                "pipeline: bubble {} of a step: so much longer are its devices at one than the busiest computes\n",
                percent(bubble)
            ));
        }
    }
}

/// The nodes of a cluster. Times of clocks that were compared are right to within what is said here.
fn nodes(s: &Summary) -> Table {
    let mut table =
        Table::new("node|>busy|>waiting for messages|>sent|>received|>network|>hidden|>clock ±");
    for n in &s.nodes {
        let traffic = |count: u64, bytes: u64| format!("{} in {count}", Bytes(bytes));
        table.row([
            n.node.clone(),
            percent(n.busy),
            percent(n.waiting_for_messages),
            traffic(n.sent, n.sent_bytes),
            traffic(n.received, n.received_bytes),
            time(n.network_ns),
            percent(n.hidden),
            time(n.uncertainty_ns),
        ]);
    }
    table
}

fn units(s: &Summary) -> Table {
    let cluster = !s.nodes.is_empty();
    let heads = "unit|>tasks|█ busy ▓ data ▒ overhead · idle|>busy|\
        >transferring|>waiting for data|>overhead|>waiting for work";
    let messages = if cluster {
        "|>waiting for messages"
    } else {
        ""
    };
    let mut table = Table::new(&format!("{heads}{messages}"));
    let all = (s.units.len() > 1).then_some(&s.all_units);
    for u in s.units.iter().chain(all) {
        let share = |ns: u64| percent(ns as f64 / u.span_ns.max(1) as f64);
        let mut row = vec![
            u.unit.clone(),
            u.tasks.to_string(),
            bar(u),
            share(u.busy_ns),
            share(u.transferring_ns),
            share(u.waiting_for_data_ns),
            share(u.overhead_ns),
            share(u.waiting_for_work_ns),
        ];
        row.extend(cluster.then(|| share(u.waiting_for_messages_ns)));
        table.row(row);
    }
    table
}

/// A unit's time as a bar of 30 characters; rounding goes to the time without a task.
fn bar(u: &UnitTime) -> String {
    const WIDTH: usize = 30;
    let pieces = [
        ('█', u.busy_ns),
        ('▓', u.transferring_ns + u.waiting_for_data_ns),
        ('▒', u.overhead_ns),
    ];
    let mut bar = String::new();
    let (mut until, mut drawn) = (0, 0);
    for (symbol, ns) in pieces {
        until += ns;
        let end = (until as f64 / u.span_ns.max(1) as f64 * WIDTH as f64).round() as usize;
        bar.extend(std::iter::repeat_n(symbol, end.min(WIDTH) - drawn));
        drawn = end.min(WIDTH);
    }
    bar.extend(std::iter::repeat_n('·', WIDTH - drawn));
    bar
}

/// Joules of something by name in the first domain, for a column that only exists with one.
fn joules(rows: &[NamedJoules], name: &str) -> String {
    let found = rows.iter().find(|r| r.name == name);
    found.map_or(String::new(), |r| Joules(r.joules).to_string())
}

fn codelets(s: &Summary, top: usize) -> Table {
    let heads = "codelet|>time|>share|>count|>mean|>median|>p99|>spread|>GFLOP/s|>GB/s".to_owned();
    let energy = s.energy.first();
    let mut table = Table::new(&(heads + energy.map_or("", |_| "|>energy")));
    for c in s.codelets.iter().take(top) {
        let mut row = vec![
            format!("{} ({})", c.codelet, c.implementation),
            time(c.time.total_ns),
            percent(c.share),
            c.time.count.to_string(),
            Seconds(c.time.mean_ns * 1e-9).to_string(),
            time(c.time.median_ns),
            time(c.time.p99_ns),
            percent(c.time.spread),
            format!("{:.2}", c.gflops),
            format!("{:.2}", c.gbytes),
        ];
        let name = format!("{}/{}", c.codelet, c.implementation);
        row.extend(energy.map(|e| joules(&e.codelets, &name)));
        table.row(row);
    }
    more(&mut table, s.codelets.len(), top);
    table
}

fn layers(s: &Summary, top: usize) -> Table {
    let energy = s.energy.first();
    let mut table =
        Table::new(&("layer|>time|>share|>tasks".to_owned() + energy.map_or("", |_| "|>energy")));
    for l in s.layers.iter().take(top) {
        let name = if l.layer.is_empty() {
            "(none)"
        } else {
            &l.layer
        };
        let mut row = vec![
            name.to_string(),
            time(l.total_ns),
            percent(l.share),
            l.tasks.to_string(),
        ];
        row.extend(energy.map(|e| joules(&e.layers, &l.layer)));
        table.row(row);
    }
    more(&mut table, s.layers.len(), top);
    table
}

fn more(table: &mut Table, rows: usize, top: usize) {
    if rows > top {
        table.row([format!("… {} more (--top)", rows - top)]);
    }
}

fn gaps(s: &Summary) -> Table {
    let mut table = Table::new("largest gaps|>length|>from|why");
    for g in &s.gaps {
        table.row([
            g.unit.clone(),
            time(g.length_ns),
            time(g.from_ns),
            g.says.clone(),
        ]);
    }
    table
}

fn variation(s: &Summary, top: usize) -> Table {
    let mut table = Table::new("time varies at equal shapes|>median|>p99|>lost|goes along with");
    for v in s.variation.iter().take(top) {
        table.row([
            format!("{} ({}) {}", v.codelet, v.implementation, v.shapes),
            time(v.time.median_ns),
            time(v.time.p99_ns),
            time(v.lost_ns),
            v.says.clone(),
        ]);
    }
    table
}

/// What needs no table.
fn notes(s: &Summary, out: &mut Report) {
    let path = &s.critical_path;
    let parts: Vec<String> = path
        .codelets
        .iter()
        .take(4)
        .map(|c| format!("{} ({}) {}", c.codelet, c.implementation, percent(c.share)))
        .collect();
    out.line(format!(
        "critical path  {} in {}, {} of the span: {}",
        time(path.length_ns),
        several(path.tasks, "task"),
        percent(path.share),
        parts.join(", ")
    ));
    if let Some(t) = path.longest.first() {
        out.line(format!(
            "               its longest: {} ({}; step {}, task {}), {} on {}",
            t.codelet,
            t.implementation,
            t.step,
            t.task,
            time(t.duration_ns),
            t.unit
        ));
    }
    for u in s.units.iter().filter(|u| u.fell_back > 0) {
        out.line(format!(
            "fallback       {0} of {1} ran on the CPU, in the host's memory: {1} lacked room or had failed",
            several(u.fell_back, "task"),
            u.unit
        ));
    }
    if let Some(slowest) = s.steps.iter().max_by_key(|x| x.end_ns - x.start_ns) {
        out.line(format!(
            "steps          slowest of {}: step {}, {} from first start to last end",
            s.steps.len(),
            slowest.step,
            time(slowest.end_ns - slowest.start_ns)
        ));
    }
    for t in &s.transfers {
        out.line(format!(
            "transfers      {} → {}: {} in {} ({} ahead, {} of several parts, {} in batches), {:.2} GB/s",
            t.from,
            t.to,
            Bytes(t.bytes),
            several(t.count, "copy"),
            t.ahead,
            t.joined,
            t.batched,
            t.gbytes
        ));
    }
    for m in &s.memory {
        out.line(format!(
            "peak memory    {}: {} of {} at {}",
            m.memory,
            Bytes(m.peak_bytes),
            m.what,
            time(m.at_ns)
        ));
    }
    for e in &s.energy {
        out.line(format!(
            "energy         {}, {:.1} W on average, {} while no task ran; {}",
            Joules(e.joules),
            e.watts,
            Joules(e.idle_joules),
            e.source
        ));
    }
}
