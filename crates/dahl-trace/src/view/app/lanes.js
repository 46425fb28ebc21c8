// Lanes: what a unit or a link did, as coloured time.
//
// Spans too narrow to be seen alone are added up by pixel; the others are drawn one by one, with their
// names where there is room. Far out, all of it comes from the lane's pyramid.

// How many pixels make a span wide, and how many spans to a pixel are too many to look at each.
const WIDE = 2, MANY = 2;

/** What a unit without a task waits for. */
const REASONS = new Map([[NONE, "waiting for work"], [MESSAGES, "waiting for messages"], [DATA, "waiting for data"],
  [OVERHEAD, "runtime overhead"]]);

/** Paints one lane. All widths are in device pixels; `scale` is how many of them make a CSS pixel. */
function drawLane(paint, row) {
  const { c, ink, view, plot, scale, shares, rasterise } = paint;
  const { lane } = row;
  const x = Math.round(plot.x * scale), width = Math.round(plot.width * scale);
  const y = Math.round(row.y * scale), height = Math.round(row.height * scale);
  const pixel = view.size / width;
  const box = { x, y, width, height, pixel };
  const first = firstEndingAfter(lane, view.from), last = firstStartingFrom(lane, view.to);
  const dense = last - first > MANY * width && fineEnough(row.pyramid, pixel);
  const wide = [];
  if (dense) sample(row.pyramid, view.from, pixel, width, shares);
  else collect(lane, row, view, box, shares, wide, first, last);
  rasterise(c, x, y, width, height, shares, ink.packed);
  c.save();
  c.beginPath();
  c.rect(x, y, width, height);
  c.clip();
  fillOutside(c, ink, box, view, paint.trace);
  drawWide(paint, row, box, wide);
  c.restore();
  return dense ? 0 : wide.length;
}

/** Time before the trace began and after it ended is no lane. */
function fillOutside(c, ink, box, view, trace) {
  c.fillStyle = ink.bg;
  const begin = (trace.begin - view.from) / box.pixel, over = (trace.end - view.from) / box.pixel;
  if (begin > 0) c.fillRect(box.x, box.y, Math.round(begin), box.height);
  if (over < box.width) c.fillRect(box.x + Math.round(over), box.y, box.width - Math.round(over) + 1, box.height);
}

/** Sorts visible spans into wide ones and shares of pixels. */
function collect(lane, row, view, box, shares, wide, first, last) {
  const { spans } = lane, { slots } = row;
  // One more than is visible, since the gap before it may be.
  last = Math.min(lane.last, last + 1);
  shares.fill(0, 0, box.width * SLOTS);
  const toPixels = 1 / box.pixel, sums = shares.subarray(0, box.width * SLOTS);
  const add = adder(sums, 0, 1), narrow = WIDE * box.pixel;
  const put = (from, to, slot, index) => {
    if (to - from >= narrow) {
      if (to > view.from && from < view.to) wide.push({ from, to, slot, index });
    } else if (to > view.from && from < view.to) {
      add(Math.max(0, (from - view.from) * toPixels), Math.min(box.width, (to - view.from) * toPixels), slot);
    }
  };
  for (let i = first; i < last; i++) {
    if (row.kind === "unit") {
      const wait = idleBefore(lane, i);
      if (wait.work > wait.messages) put(wait.messages, wait.work, MESSAGES, ~i);
      if (wait.overhead - wait.work >= narrow) put(wait.work, wait.overhead, NONE, i);
      if (wait.data > wait.overhead) put(wait.overhead, wait.data, OVERHEAD, ~i);
      if (wait.over > wait.data) put(wait.data, wait.over, lane.fetch, ~i);
    }
    put(spans.start[i], spans.end[i], slots[i], i);
  }
  if (row.kind === "unit" && last === lane.last) {
    const free = freeBefore(lane, lane.last);
    put(free, Math.max(free, row.end), NONE, lane.last);
  }
}

function drawWide(paint, row, box, wide) {
  const { c, ink, view, scale, label } = paint;
  const name = row.kind === "unit" ? label : (i) => bytesText(row.lane.spans.bytes[i]);
  c.font = `${11 * scale}px ui-sans-serif, system-ui, sans-serif`;
  c.textBaseline = "middle";
  c.textAlign = "left";
  for (const { from, to, slot, index } of wide) {
    const a = Math.max(-8, Math.round((from - view.from) / box.pixel));
    const b = Math.min(box.width + 8, Math.round((to - view.from) / box.pixel));
    const idle = slot === NONE || ((slot === OVERHEAD || slot === DATA || slot === MESSAGES) && index < 0);
    const seam = !idle && b - a > 5 * scale ? Math.max(1, scale >> 1) : 0;
    c.fillStyle = slot === NONE ? ink.work : idle ? ink.waits[slot] : ink.slots[slot];
    c.fillRect(box.x + a, box.y, b - a - seam, box.height);
    const left = Math.max(0, a), room = Math.min(b, box.width) - left - 8 * scale;
    if (room < 22 * scale || box.height < 12 * scale) continue;
    const text = idle ? idleName(slot, to - from) : name(index);
    const shown = fitted(c, text, room, scale);
    if (!shown) continue;
    const base = { x: box.x + left + 4 * scale, y: box.y + box.height / 2 + scale / 2 };
    if (idle) {
      const length = c.measureText(shown).width;
      c.fillStyle = ink.lane;
      c.fillRect(base.x - 2 * scale, base.y - 8 * scale, length + 4 * scale, 15 * scale);
    }
    c.fillStyle = idle ? ink.muted : slot === DIM ? ink.faint : ink.labels[slot];
    c.fillText(shown, base.x, base.y);
  }
}

function idleName(slot, time) {
  return `${REASONS.get(slot)} ${duration(time)}`;
}

const widths = new Map();

/** The text if it fits, shortened if most of it does, else nothing. */
function fitted(c, text, room, scale) {
  const key = text + scale;
  if (widths.size > 5000) widths.clear();
  if (!widths.has(key)) widths.set(key, c.measureText(text).width);
  const width = widths.get(key);
  if (width <= room) return text;
  const keep = Math.floor((text.length * room) / width) - 1;
  return keep >= 4 ? text.slice(0, keep) + "…" : null;
}
