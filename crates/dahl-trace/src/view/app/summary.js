// The summary beside the chart. Every figure is one of `dahl trace summary --json`; this file only
// chooses, formats and links them. Cells keep the figure itself in `data-value`.

/** Parts of a unit's time: field, name, and the colour they have in the chart. */
const PARTS = [
  ["busy_ns", "Busy", "curve"], ["transferring_ns", "Transferring", "data"], ["waiting_for_data_ns", "Waiting for data", "ahead"],
  ["overhead_ns", "Overhead", "overhead"], ["waiting_for_messages_ns", "Waiting for messages", "messages"], ["waiting_for_work_ns", "Waiting for work", "hatch"],
];

function showSummary(app, element) {
  const s = app.meta.summary;
  element.replaceChildren(
    heading("Run"), figures(s), make("p", { class: "note", id: "bound" }, `Bound by ${s.bound.says}.`),
    ...s.nodes.length ? [heading("Nodes"), nodeTable(s)] : [],
    heading("Units"), ...unitTable(app, s),
    heading("Codelets"), codeletTable(app, s),
    heading("Layers"), layerTable(app, s),
    ...s.gaps.length ? [heading("Longest gaps"), gapTable(app, s)] : [],
    ...s.critical_path.tasks ? [heading("Critical path"), ...pathTables(app, s)] : [],
    ...s.transfers.length ? [heading("Transfers"), transferTable(s)] : [],
    ...s.variation.length ? [heading("Same task, other time"), variations(s)] : []);
}

function heading(text) {
  return make("h3", {}, text);
}

function figures(s) {
  const figure = (id, name, value, shown, note) =>
    [make("div", {}, make("dt", {}, name), make("dd", { id, "data-value": value }, shown, note ? make("small", {}, note) : null))];
  const path = s.critical_path;
  return make("dl", { class: "figures" },
    ...figure("span", "Time", s.span_ns, duration(s.span_ns), several(s.launches, "step")),
    ...figure("tasks", "Tasks", s.tasks, count(s.tasks), `on ${several(s.units.length, "unit")}`),
    ...figure("efficiency", "Parallel efficiency", s.parallel_efficiency, percent(s.parallel_efficiency), "busy share of all units"),
    ...figure("path", "Critical path", path.length_ns, duration(path.length_ns), `${percent(path.share)} of the time, ${several(path.tasks, "task")}`),
    ...s.energy.flatMap((e, i) => figure(`energy-${i}`, "Energy", e.joules, joulesText(e.joules), `${digits(e.watts)} W, ${e.source}`)),
    ...s.memory.flatMap((m, i) => figure(`memory-${i}`, `Peak memory, ${m.memory}`, m.peak_bytes, bytesText(m.peak_bytes),
      m.what + (m.capacity_bytes ? ` of ${bytesText(m.capacity_bytes)}` : ""))));
}

/** A table from heads and rows of cells; all but the first column are numbers. */
function table(id, heads, rows) {
  return make("table", { id },
    make("thead", {}, make("tr", {}, ...heads.map((h, i) => make("th", { class: i ? "number" : null }, h)))),
    make("tbody", {}, ...rows));
}

function cell(value, shown, title) {
  return make("td", { class: "number", "data-value": value, title }, shown);
}

function swatch(colour) {
  return make("i", { class: "swatch", style: `background:${colour}` });
}

function unitTable(app, s) {
  const parts = PARTS.filter(([field]) => s.nodes.length || field !== "waiting_for_messages_ns");
  const share = (unit, field) => cell(unit[field], unit.span_ns ? percent(unit[field] / unit.span_ns) : "–", duration(unit[field]));
  const row = (unit) => make("tr", {}, make("td", { class: "unit" }, ...breakable(unit.unit, /(?<=\/)/)), ...parts.map(([field]) => share(unit, field)));
  const part = (unit, [field, name, colour]) =>
    make("i", { style: `width:${(unit[field] / unit.span_ns) * 100}%;background:var(--${colour})`, title: `${name} ${duration(unit[field])}` });
  const bar = make("div", { class: "bar", "aria-hidden": "true" }, ...(s.all_units.span_ns ? parts.map((p) => part(s.all_units, p)) : []));
  const keys = make("div", { class: "keys" }, ...parts.map(([, name, colour]) => make("span", {}, swatch(`var(--${colour})`), name)));
  const units = s.units.length > 1 ? [...s.units, s.all_units] : s.units;
  // Long words may be broken: with several nodes there is a column more, and names of units are longer.
  const head = (name) => name.replace("ferr", "fer\u00adr").replace("rhead", "r\u00adhead").replace("mess", "mes\u00ads");
  return [bar, keys, table("units", ["Unit", ...parts.map((p) => head(p[1]))], units.map(row))];
}

/** The nodes of a cluster: what they computed, waited for and moved. */
function nodeTable(s) {
  const rows = s.nodes.map((n) => make("tr", {}, make("td", { class: "unit" }, n.node),
    cell(n.busy, percent(n.busy)), cell(n.waiting_for_messages, percent(n.waiting_for_messages)),
    cell(n.sent_bytes, bytesText(n.sent_bytes)), cell(n.received_bytes, bytesText(n.received_bytes)),
    cell(n.hidden, percent(n.hidden)), cell(n.uncertainty_ns, duration(n.uncertainty_ns))));
  return table("nodes", ["Node", "Busy", "Messages", "Sent", "Received", "Hidden", "Clock ±"], rows);
}

/** A row that looks for what it is about. */
function findRow(app, query, title, ...cells) {
  const go = () => {
    document.getElementById("search").value = query;
    app.search(query);
  };
  return make("tr", { class: "go", title, onclick: go }, ...cells);
}

function colourOf(app, by, name) {
  return app.colourBy === by ? swatch(app.ink.slots[slotOfName(app.groups[by], name)]) : null;
}

/** A text that may be broken where it matches. */
function breakable(text, at) {
  return text.split(at).flatMap((part) => [part, make("wbr")]);
}

/** A codelet with its implementation; long names break at their underscores. */
function codeletName(app, c) {
  const parts = breakable(c.codelet, /(?<=_)/);
  return make("td", { class: "name" }, colourOf(app, "codelet", variant(c.codelet, c.implementation)), ...parts,
    make("small", {}, ` ${c.implementation}`));
}

function codeletTable(app, s) {
  const rows = s.codelets.map((c) => findRow(app, c.codelet,
    `mean ${duration(c.mean_ns)}, longest ${duration(c.max_ns)}, ${digits(c.gflops)} GFLOP/s, ${digits(c.gbytes)} GB/s`,
    codeletName(app, c),
    cell(c.count, count(c.count)), cell(c.total_ns, duration(c.total_ns)), cell(c.share, percent(c.share)),
    cell(c.median_ns, duration(c.median_ns)), cell(c.p99_ns, duration(c.p99_ns))));
  return table("codelets", ["Codelet", "Tasks", "Total", "Share", "Median", "p99"], rows);
}

function layerTable(app, s) {
  const rows = s.layers.map((l) => findRow(app, l.layer, null,
    make("td", { class: "name" }, colourOf(app, "layer", l.layer || NO_LAYER), l.layer || NO_LAYER),
    cell(l.tasks, count(l.tasks)), cell(l.total_ns, duration(l.total_ns)), cell(l.share, percent(l.share))));
  return table("layers", ["Layer", "Tasks", "Total", "Share"], rows);
}

function gapTable(app, s) {
  const rows = s.gaps.map((g) => {
    const show = () => {
      const size = g.to_ns - g.from_ns;
      app.view.show({ from: g.from_ns - size, to: g.to_ns + size });
      const cause = g.straggler ?? g.released_by ?? g.next;
      if (cause) app.select(app.trace.find(cause.launch, cause.task));
    };
    return make("tr", { class: "go", onclick: show },
      make("td", { class: "unit" }, g.unit), make("td", { class: "note" }, g.says), cell(g.length_ns, duration(g.length_ns)));
  });
  return make("table", { id: "gaps" }, make("tbody", {}, ...rows));
}

function pathTables(app, s) {
  const path = s.critical_path;
  const parts = path.codelets.map((c) => findRow(app, c.codelet, null,
    codeletName(app, c),
    cell(c.tasks, count(c.tasks)), cell(c.total_ns, duration(c.total_ns)), cell(c.share, percent(c.share))));
  const longest = path.longest.map((t) => {
    const run = app.trace.find(t.launch, t.task);
    return make("tr", {}, make("td", { class: "name" }, run === NONE ? t.codelet : link(app, run)),
      make("td", { class: "note" }, `step ${count(t.step)}`), cell(t.duration_ns, duration(t.duration_ns)));
  });
  return [table("path-codelets", ["On it", "Tasks", "Total", "Share"], parts),
    make("h3", {}, "Its longest tasks"), make("table", { id: "longest" }, make("tbody", {}, ...longest))];
}

function transferTable(s) {
  const rows = s.transfers.map((t) => make("tr", {}, make("td", { class: "name" }, `${t.from} → ${t.to}`),
    cell(t.count, count(t.count)), cell(t.ahead, count(t.ahead)), cell(t.joined, count(t.joined)),
    cell(t.batched, count(t.batched)),
    cell(t.bytes, bytesText(t.bytes)),
    cell(t.total_ns, duration(t.total_ns)), cell(t.gbytes, digits(t.gbytes))));
  return table("transfers", ["Link", "Copies", "Ahead", "Joined", "In batches", "Bytes", "Time", "GB/s"], rows);
}

function variations(s) {
  return make("ul", { id: "variation" }, ...s.variation.map((v) => make("li", {}, v.says)));
}
