// Over the lanes: the selected task with its neighbours, and the critical path.

const MOST_ARROWS = 300, MOST_LINKS = 4000, MOST_MESSAGES = 600;

/** Where a run is drawn, in CSS pixels; possibly out of sight. */
function boxOf(place, view, trace, run) {
  const row = place.rows[unitOf(trace, run)], { plot } = place;
  const x = (time) => plot.x + ((time - view.from) / view.size) * plot.width;
  const a = x(trace.runs.start[run]), b = x(trace.runs.end[run]);
  return { a, b: Math.max(b, a + 1), y: row.y, height: row.height, middle: row.y + row.height / 2 };
}

function outline(c, box, colour, width) {
  c.strokeStyle = colour;
  c.lineWidth = width;
  const a = Math.max(-20, box.a), b = Math.min(c.canvas.width + 20, box.b);
  c.strokeRect(a, box.y + 0.5, b - a, box.height - 1);
}

function drawSelection(c, ink, place, view, trace, near) {
  const here = boxOf(place, view, trace, near.run);
  const arrows = (runs, toHere) => {
    for (const run of runs.slice(0, MOST_ARROWS)) {
      const other = boxOf(place, view, trace, run);
      const strong = toHere && run === near.releasedBy;
      const [from, to] = toHere ? [other, here] : [here, other];
      arrow(c, from.b, from.middle, to.a, to.middle, toHere ? ink.text : ink.accent, strong ? 2.2 : 1.1);
      outline(c, other, toHere ? ink.text : ink.accent, 1);
    }
  };
  arrows(near.previous, true);
  arrows(near.following, false);
  outline(c, here, ink.text, 2.5);
}

/** A curve with a head, from the end of one task to the start of another. */
function arrow(c, x0, y0, x1, y1, colour, width) {
  const bend = Math.max(14, Math.min(80, Math.abs(x1 - x0) / 2));
  c.strokeStyle = c.fillStyle = colour;
  c.lineWidth = width;
  c.beginPath();
  c.moveTo(x0, y0);
  c.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1 - 4, y1);
  c.stroke();
  c.beginPath();
  c.moveTo(x1, y1);
  c.lineTo(x1 - 7, y1 - 3.5);
  c.lineTo(x1 - 7, y1 + 3.5);
  c.fill();
}

/** Joins the critical path's tasks; where they are too many to follow, dimming the others must do. */
function drawPath(c, ink, place, view, trace) {
  const { path, runs } = trace;
  const first = Math.max(0, lowerBound(0, path.length, (i) => runs.end[path[i]] > view.from) - 1);
  const last = Math.min(path.length, lowerBound(first, path.length, (i) => runs.start[path[i]] > view.to) + 1);
  if (last - first > MOST_LINKS) return;
  c.strokeStyle = ink.accent;
  c.lineWidth = 1.4;
  c.beginPath();
  for (let i = first, before = null; i < last; i++) {
    const box = boxOf(place, view, trace, path[i]);
    if (before && before.y !== box.y) {
      c.moveTo(before.b, before.middle);
      c.lineTo(box.a, box.middle);
    }
    if (box.b - box.a > 3) c.rect(box.a, box.y + 0.5, box.b - box.a - 1, box.height - 1);
    before = box;
  }
  c.stroke();
}

/** Messages from node to node: from the end of the task that made the values to the start of the one that reads them. */
function drawMessages(c, ink, place, view, trace) {
  const { messages, runs } = trace, count = messages.from.length;
  // Those that end in sight begin at most a view earlier, or they would cover everything else.
  const first = lowerBound(0, count, (i) => runs.end[messages.from[i]] > view.from - view.size);
  const last = lowerBound(first, count, (i) => runs.end[messages.from[i]] > view.to);
  if (last - first > MOST_MESSAGES) return;
  c.strokeStyle = ink.messages;
  c.lineWidth = 1.2;
  c.globalAlpha = 0.75;
  c.beginPath();
  for (let i = first; i < last; i++) {
    const from = boxOf(place, view, trace, messages.from[i]), to = boxOf(place, view, trace, messages.to[i]);
    c.moveTo(from.b, from.middle);
    c.lineTo(to.a, to.middle);
  }
  c.stroke();
  c.globalAlpha = 1;
}
