// What lies under the pointer, and the small text beside it.

/** The row, moment and span at a place on the canvas; null outside the plot. */
function hit(app, x, y) {
  const { place, view, trace } = app, { plot } = place;
  if (x < plot.x || x > plot.x + plot.width || y < place.top) return null;
  const pixel = view.size / plot.width, time = view.from + (x - plot.x) * pixel;
  const here = { x, y, time, run: NONE, transfer: NONE, gap: NONE, row: null };
  const row = place.rows.find((r) => y >= r.y - GAP / 2 && y < r.y + r.height + GAP / 2);
  if (!row || row.kind === "curve" || y >= place.lanesEnd + GAP) return here;
  here.row = row;
  const { lane } = row, found = nearest(lane, time, 1.5 * pixel);
  if (row.kind === "link") here.transfer = found;
  else if (found !== NONE) here.run = found;
  else if (time >= trace.begin && time <= trace.end) here.gap = firstEndingAfter(lane, time);
  return here;
}

/** The span at a moment, or the one that is closest within `slack`. */
function nearest(lane, time, slack) {
  const { start, end } = lane.spans;
  let best = NONE, distance = slack;
  for (let i = firstEndingAfter(lane, time - slack); i < lane.last && start[i] <= time + slack; i++) {
    if (start[i] <= time && time < end[i]) return i;
    const away = Math.min(Math.abs(start[i] - time), Math.abs(end[i] - time));
    if (away < distance) [best, distance] = [i, away];
  }
  return best;
}

/** Lines about what is under the pointer: a title and pairs of name and value. */
function tipOf(app, here) {
  const { trace } = app;
  if (here.run !== NONE) {
    const d = describe(trace, here.run);
    return [`${d.codelet} #${d.task}`, [["layer", d.layer || "–"], ["step", count(d.step)],
      ["duration", duration(d.end - d.start)], ["implementation", d.implementation || "–"]]];
  }
  if (here.transfer !== NONE) {
    const t = trace.transfers, i = here.transfer, time = t.end[i] - t.start[i];
    const run = trace.find(t.launch[i], t.task[i]);
    return [bytesText(t.bytes[i]), [["from, to", here.row.lane.name], ["duration", duration(time)],
      ["rate", time ? rate((t.bytes[i] / time) * 1e9, "B") : "–"],
      ["for", run === NONE ? "the host, or to make room" : nameOf(trace, run)],
      ["asked", t.ahead[i] ? "ahead of time" : "when needed"],
      ["carries", `${count(t.parts[i])} of ${count(t.wanted[i])} parts wanted there${t.whole[i] ? ", the whole array" : ""}`],
      ...(t.batch[i] > 1 ? [["started", `with ${count(t.batch[i] - 1)} more of its batch`]] : [])]];
  }
  return here.gap === NONE ? null : gapTip(trace, here);
}

function gapTip(trace, { row, gap, time }) {
  const { lane } = row;
  if (gap >= lane.last) {
    return ["waiting for work", [["idle", duration(trace.end - freeBefore(lane, gap))], ["until", "the end of the trace"]]];
  }
  const wait = idleBefore(lane, gap), { runs } = trace;
  const reason = time < wait.work ? "waiting for messages" : time < wait.overhead ? "waiting for work" : time < wait.data || lane.fetch === OVERHEAD ? "runtime overhead" : "waiting for data";
  const releaser = trace.find(runs.fromLaunch[gap], runs.fromTask[gap]);
  const lines = [["idle", duration(wait.over - wait.messages)], ["next", nameOf(trace, gap)]];
  if (time >= wait.work && time < wait.overhead && releaser !== NONE) {
    lines.push(["which waited for", `${nameOf(trace, releaser)} on ${trace.units[unitOf(trace, releaser)].name}`]);
  }
  return [reason, lines];
}

function nameOf(trace, run) {
  const d = describe(trace, run);
  return `${d.codelet} #${d.task}`;
}

/** Shows the tip of `here` beside the pointer, or hides it. */
function showTip(app, element, here) {
  const tip = here && !app.dragging ? tipOf(app, here) : null;
  element.hidden = !tip;
  if (!tip) return;
  const [title, lines] = tip;
  element.replaceChildren(make("strong", {}, title),
    make("dl", {}, ...lines.flatMap(([k, v]) => [make("dt", {}, k), make("dd", {}, v)])));
  const frame = element.parentElement.getBoundingClientRect(), box = element.getBoundingClientRect();
  const left = here.x + 16 + box.width > frame.width ? here.x - box.width - 12 : here.x + 16;
  const top = Math.min(here.y + 16, frame.height - box.height - 6);
  element.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
}
