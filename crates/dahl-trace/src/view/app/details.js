// The selected task: everything the trace knows about it, and ways to its neighbours.

const LISTED = 6;

async function showDetails(app, element, near) {
  element.hidden = !near;
  if (!near) return;
  const { trace } = app, d = describe(trace, near.run);
  const accesses = await accessesOf(d.graph, d.task);
  if (app.near !== near) return;
  const time = d.end - d.start;
  const row = (name, ...value) => [make("dt", {}, name), make("dd", {}, ...value)];
  const when = (name, at, note) => row(name, make("span", { class: "number" }, exact(at)), note ? make("small", {}, note) : null);
  const speed = time > 0 && d.flops > 0 ? `${rate((d.flops / time) * 1e9, "FLOP")}, ${rate((d.bytes / time) * 1e9, "B")}` : null;
  element.replaceChildren(
    make("header", {},
      make("i", { class: "swatch", style: `background:${app.ink.slots[app.slots[near.run]]}` }),
      make("h2", {}, `${d.codelet} `, make("span", {}, `#${d.task}`)),
      make("button", { class: "plain", "aria-label": "Close", title: "Close (Esc)", onclick: () => app.select(NONE) }, "×")),
    make("p", { class: "big" }, duration(time), make("small", {}, ` on ${trace.units[d.unit].name}`)),
    make("dl", { class: "facts" },
      ...row("Implementation", d.implementation || "–"),
      ...(d.fellBack ? row("Ran on", "the CPU: the device lacked room or had failed") : []),
      ...row("Layer", d.layer || "–"),
      ...row("Step", count(d.step)),
      ...row("Shapes", d.shapes || "–"),
      ...(speed ? row("Speed", speed) : []),
      ...when("Ready", d.ready),
      ...when("Taken", d.taken, waited(d.taken - d.ready, "after ready")),
      ...when("Start", d.start, waited(d.start - d.taken, trace.units[d.unit].fetch === DATA ? "for data" : "overhead")),
      ...when("End", d.end),
      ...row("Released by", releaser(app, near)),
      ...neighbourRows(app, near, row)),
    ...accesses.length ? [make("h3", {}, "Regions"), regions(accesses)] : []);
}

/** A moment with all its digits. */
function exact(ns) {
  const [size, places, unit] = ns >= 1e9 ? [1e9, 9, "s"] : ns >= 1e6 ? [1e6, 6, "ms"] : [1e3, 3, "µs"];
  return `${(ns / size).toFixed(places)} ${unit}`;
}

function waited(ns, why) {
  return ns > 0 ? `${duration(ns)} ${why}` : null;
}

function releaser(app, near) {
  const { runs, launches } = app.trace;
  const task = runs.fromTask[near.run], launch = runs.fromLaunch[near.run];
  if (task < 0) return "the launch itself";
  if (near.releasedBy === NONE) return `#${task} of step ${launches.step[launch]} (not in the trace)`;
  return link(app, near.releasedBy, near.run);
}

/** A button that selects another run and brings it into view. */
function link(app, run, from = NONE) {
  const { trace } = app, d = describe(trace, run);
  const elsewhere = from !== NONE && trace.runs.launch[from] !== d.launch ? `, step ${count(d.step)}` : "";
  return make("button", { class: "link", onclick: () => app.goTo(run) }, `${d.codelet} #${d.task}`,
    make("small", {}, ` ${trace.units[d.unit].name}${elsewhere}`));
}

function neighbourRows(app, near, row) {
  const list = (runs) => {
    const items = runs.slice(0, LISTED).map((run) => make("li", {}, link(app, run, near.run)));
    if (runs.length > LISTED) items.push(make("li", { class: "more" }, `and ${count(runs.length - LISTED)} more`));
    return runs.length ? make("ul", {}, ...items) : "none";
  };
  return [
    ...row(`Predecessors (${count(near.previous.length)})`, list(near.previous)),
    ...row(`Successors (${count(near.following.length)})`, list(near.following)),
    ...(near.lost ? row("Not in the trace", `${count(near.lost)} of its neighbours`) : []),
  ];
}

function regions(accesses) {
  return make("table", { class: "regions" }, make("tbody", {}, ...accesses.map((a) =>
    make("tr", {}, make("td", {}, a.mode), make("td", {}, a.name), make("td", { class: "number" }, a.region)))));
}
