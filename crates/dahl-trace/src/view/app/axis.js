// Above the lanes: the time axis, and where steps were launched.

const FONT = "12px ui-sans-serif, system-ui, sans-serif";
const SMALL = "11px ui-sans-serif, system-ui, sans-serif";

/** Calls back with each tick in view: its time, its pixel and the distance to the next. */
function ticks(place, view, { begin, end }, visit) {
  const { plot } = place, step = roundStep((view.size / plot.width) * 110);
  for (let k = Math.ceil(Math.max(begin, view.from) / step); k * step <= Math.min(view.to, end); k++) {
    visit(k * step, Math.round(plot.x + ((k * step - view.from) / view.size) * plot.width), step);
  }
}

/** Thin lines behind the lanes. */
function drawGrid(c, ink, place, view, trace) {
  c.fillStyle = ink.line;
  ticks(place, view, trace, (time, x) => c.fillRect(x, place.top - 18, 1, place.end - CURVE_GAP - place.top + 18));
}

function drawAxis(c, ink, place, view, trace) {
  c.save();
  c.beginPath();
  c.rect(place.plot.x, 0, place.plot.width, place.top);
  c.clip();
  c.font = SMALL;
  c.textBaseline = "alphabetic";
  c.textAlign = "left";
  ticks(place, view, trace, (time, x, step) => {
    c.fillStyle = ink.line;
    c.fillRect(x, place.top - 18, 1, 14);
    c.fillStyle = ink.muted;
    const text = moment(time, step);
    if (x + 4 + c.measureText(text).width <= place.plot.x + place.plot.width) c.fillText(text, x + 4, place.top - 8);
  });
  drawStepMarks(c, ink, place, view, trace);
  c.restore();
}

/** Marks steps where they were launched, as many as have room for their names. */
function drawStepMarks(c, ink, place, view, trace) {
  const { at, step } = trace.steps, { plot } = place;
  const first = lowerBound(0, at.length, (i) => at[i] >= view.from);
  const last = lowerBound(first, at.length, (i) => at[i] > view.to);
  const room = ((last - first) * 64) / plot.width;
  let every = 1;
  while (every < room) every *= every.toString().startsWith("2") ? 2.5 : 2;
  for (let i = first, free = 0; i < last; i++) {
    if ((step[i] - step[0]) % every) continue;
    const px = Math.round(plot.x + ((at[i] - view.from) / view.size) * plot.width);
    if (px < free) continue;
    const text = `step ${count(step[i])}`, width = c.measureText(text).width;
    free = px + width + 12;
    c.fillStyle = ink.accent;
    c.fillRect(px, place.top - 38, 1, 10);
    c.fillStyle = ink.faint;
    if (px + 4 + width <= plot.x + plot.width) c.fillText(text, px + 4, place.top - 29);
  }
}
