// The app: what is shown, and how it changes. Everything that the page remembers is in this object.

async function start() {
  const began = performance.now();
  const find = (id) => document.getElementById(id);
  const meta = JSON.parse(find("meta").textContent);
  const trace = await readTrace(meta);
  const groups = readGroups(trace);
  const app = {
    trace, groups, meta,
    length: Math.max(1, trace.end - trace.begin),
    theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light",
    colourBy: "codelet", critical: false, query: "", found: null,
    hover: null, near: null, dragging: false, scroll: 0,
    slots: null, transferSlots: transferSlots(trace), painted: 0,
    ink: null, place: null, scale: 1, undrawn: false, drawn: 0, frames: 0, drawTime: 0, openedIn: null,
  };
  app.label = (run) => {
    const d = describe(trace, run);
    return app.colourBy === "layer" ? d.layer || d.codelet : d.codelet;
  };
  app.busyText = (unit) => {
    const time = meta.summary.units[unit];
    return time.span_ns ? `${percent(time.busy_ns / time.span_ns)} busy` : "";
  };
  app.frame = (time) => {
    app.frames++;
    app.openedIn ??= performance.now();
    app.drawTime = time;
  };

  const chart = find("chart"), overview = find("overview");
  app.draw = makeChart(app, chart, overview);
  app.view = makeView(trace.begin, app.length, () => {
    // What was under the pointer has moved away.
    if (app.hover) showTip(app, find("tip"), (app.hover = hit(app, app.hover.x, app.hover.y)));
    app.draw();
  });

  /** Gives every run its colour: all, or only those that are searched for or on the critical path. */
  app.paint = () => {
    const shown = app.found?.match ?? (app.critical ? trace.onPath : null);
    app.slots = paintRuns(trace, groups[app.colourBy], shown);
    app.painted++;
    app.draw();
  };
  app.setTheme = (theme) => {
    app.theme = document.documentElement.dataset.theme = theme;
    app.ink = readInk(theme);
    find("theme").setAttribute("aria-label", theme === "dark" ? "Light" : "Dark");
    showSummary(app, find("summary"));
    showDetails(app, find("details"), app.near);
    app.draw();
  };
  app.setColour = (by) => {
    app.colourBy = by;
    for (const button of document.querySelectorAll("[data-colour]")) {
      button.setAttribute("aria-pressed", button.dataset.colour === by);
    }
    app.paint();
    showSummary(app, find("summary"));
    showDetails(app, find("details"), app.near);
  };
  app.setCritical = (on) => {
    app.critical = on;
    find("critical").setAttribute("aria-pressed", on);
    app.paint();
  };
  app.search = (query) => {
    app.query = query;
    app.found = searchRuns(trace, query);
    find("matches").textContent = app.found ? (app.found.total === 1 ? "1 match" : `${count(app.found.total)} matches`) : "";
    app.paint();
  };
  app.nextMatch = (back) => {
    if (!app.found?.total) return;
    app.goTo(nextMatch(trace, app.found.match, app.near?.run ?? NONE, back));
  };
  app.select = async (run) => {
    const near = run === NONE ? null : await neighbours(trace, run);
    app.near = near;
    find("side").scrollTop = 0;
    app.draw();
    await showDetails(app, find("details"), near);
  };
  /** Selects a run and brings it into view, with some of what is around it. */
  app.goTo = (run) => {
    const { start, end } = trace.runs, time = end[run] - start[run], { view } = app;
    const size = Math.min(view.size, Math.max(time * 24, SHORTEST)), middle = (start[run] + end[run]) / 2;
    view.show({ from: middle - size / 2, to: middle + size / 2 });
    const row = app.place.rows[unitOf(trace, run)];
    if (row.y < app.place.top) app.scrollLanes(row.y - app.place.top);
    if (row.y + row.height > app.place.lanesEnd) app.scrollLanes(row.y + row.height - app.place.lanesEnd);
    return app.select(run);
  };
  app.showSelected = () => app.near && app.goTo(app.near.run);
  app.walk = (by) => {
    if (!app.near) return;
    const run = app.near.run + by, lane = trace.units[unitOf(trace, app.near.run)];
    if (run >= lane.first && run < lane.last) app.goTo(run);
  };
  app.scrollLanes = (by) => {
    app.scroll = Math.max(0, app.scroll + by);
    app.draw();
  };
  app.focusSearch = () => find("search").select();
  app.toggleHelp = () => (find("help").open ? find("help").close() : find("help").showModal());
  app.letGo = () => {
    if (find("help").open) find("help").close();
    else if (app.near) app.select(NONE);
    else if (app.query) {
      find("search").value = "";
      app.search("");
    }
    find("search").blur();
  };

  wire(app, find);
  app.setTheme(app.theme);
  app.setColour("codelet");
  listen(app, chart, overview, find("tip"));
  new ResizeObserver(() => app.draw()).observe(chart);
  expose(app, began);
  document.body.dataset.state = "ready";
}

/** Connects the buttons and the search field. */
function wire(app, find) {
  const { meta } = app, about = Object.fromEntries(meta.about);
  const title = [about.model, about.units, about.policy].filter(Boolean).join(", ") || about.command || "a trace";
  document.title = `${title} – DAHL trace`;
  find("title").textContent = title;
  find("about").textContent = meta.about.map(([k, v]) => `${k}: ${v}`).join("\n");
  find("about-button").title = find("about").textContent;
  find("simulated").hidden = !meta.simulated;
  find("dropped").hidden = !meta.dropped;
  find("dropped").textContent = `${count(meta.dropped)} events dropped`;
  for (const button of document.querySelectorAll("[data-colour]")) {
    button.addEventListener("click", () => app.setColour(button.dataset.colour));
  }
  find("critical").addEventListener("click", () => app.setCritical(!app.critical));
  find("theme").addEventListener("click", () => app.setTheme(app.theme === "dark" ? "light" : "dark"));
  find("help-button").addEventListener("click", app.toggleHelp);
  find("keys").append(...KEYS.flatMap(([key, what]) => [make("dt", {}, key), make("dd", {}, what)]));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (e) => app.setTheme(e.matches ? "dark" : "light"));
  const search = find("search");
  let later = 0;
  search.addEventListener("input", () => {
    clearTimeout(later);
    later = setTimeout(() => app.search(search.value), 120);
  });
  search.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    clearTimeout(later);
    if (search.value !== app.query) app.search(search.value);
    app.nextMatch(event.shiftKey);
  });
}

/** What tests may read. Nothing can be changed through it. */
function expose(app, began) {
  const { trace, meta } = app;
  const task = (run) => {
    if (!(run >= 0)) return null;
    const { graph, ...rest } = describe(trace, run);
    return rest;
  };
  const read = {
    tasks: () => trace.runs.count, units: () => trace.units.length, begin: () => trace.begin, end: () => trace.end,
    from: () => app.view.from, to: () => app.view.to, still: () => !app.view.moving && !app.undrawn,
    pointed: () => app.hover?.time ?? null, hovered: () => task(app.hover?.run), selected: () => task(app.near?.run),
    predecessors: () => app.near?.previous.map(task) ?? [], successors: () => app.near?.following.map(task) ?? [],
    matches: () => app.found?.total ?? null, critical: () => app.critical, theme: () => app.theme,
    colourBy: () => app.colourBy, frames: () => app.frames, drawn: () => app.drawn, drawTime: () => app.drawTime,
    openedIn: () => app.openedIn, decodedIn: () => app.openedIn - began, summary: () => structuredClone(meta.summary),
    path: () => trace.path.length,
    times: () => trace.units.map((lane) => unitTimes(trace, lane)),
  };
  const shown = { locate: (launch, number) => locate(app, trace.find(launch, number)) };
  for (const [name, get] of Object.entries(read)) Object.defineProperty(shown, name, { get, enumerable: true });
  Object.defineProperty(window, "dahl", { value: Object.freeze(shown) });
}

/** A unit's time as the chart draws it, to compare with the summary's. */
function unitTimes(trace, lane) {
  const sums = { busy: 0, messages: 0, work: trace.end - freeBefore(lane, lane.last), overhead: 0, data: 0 };
  for (let i = lane.first; i < lane.last; i++) {
    const wait = idleBefore(lane, i);
    sums.busy += Math.max(0, trace.runs.end[i] - wait.over);
    sums.messages += wait.work - wait.messages;
    sums.work += wait.overhead - wait.work;
    sums.overhead += wait.data - wait.overhead;
    sums[lane.fetch === DATA ? "data" : "overhead"] += wait.over - wait.data;
  }
  return sums;
}

/** Where the middle of a run is in the window, if it is in view. */
function locate(app, run) {
  if (run === NONE) return null;
  const box = boxOf(app.place, app.view, app.trace, run), frame = document.getElementById("chart").getBoundingClientRect();
  return { x: frame.left + (box.a + box.b) / 2, y: frame.top + box.middle };
}

start().catch((error) => {
  document.body.dataset.state = "failed";
  document.getElementById("loading").textContent = `This page cannot be shown: ${error.message}`;
  throw error;
});
