// Curves: memory and power on the lanes' time axis, as steps.
//
// Values hold from their time until the next. Where many fall into a pixel, the smallest and the largest are
// drawn, with a lighter band between them.

const CURVE_BLOCK = 64;

/** The page's curves: one per memory and one per power domain. */
async function readCurves(meta) {
  const { from_ns: since, to_ns: end } = meta.summary;
  const curves = [];
  const memory = columns(await block("memory"));
  for (const { name, capacity } of meta.curves) {
    curves.push(curve(name, "memory", memory.sums(), memory.sums(), bytesText, since, end, capacity));
  }
  const power = columns(await block("power"));
  for (const name of meta.domains) {
    const at = power.sums(), value = power.numbers();
    // A sample is the mean since the one before it: it holds from there.
    const until = at.length ? at[at.length - 1] : 0;
    at.copyWithin(1, 0);
    at[0] = 0;
    curves.push(curve(name, "power", at, value, watts, since, until));
  }
  return curves.filter((c) => c.at.length);
}

function watts(microwatts) {
  return `${digits(microwatts / 1e6)} W`;
}

function curve(name, kind, at, value, text, since, until, capacity = null) {
  const count = Math.ceil(value.length / CURVE_BLOCK);
  const highs = new Float64Array(count), lows = new Float64Array(count).fill(Infinity);
  let peak = 0;
  value.forEach((v, i) => {
    const b = Math.floor(i / CURVE_BLOCK);
    highs[b] = Math.max(highs[b], v);
    lows[b] = Math.min(lows[b], v);
    peak = Math.max(peak, v);
  });
  return { name, kind, at, value, text, capacity, since, until, highs, lows, peak };
}

/** The value at a moment, or null outside the curve. */
function valueAt(curve, time) {
  const i = lowerBound(0, curve.at.length, (k) => curve.at[k] > time) - 1;
  return i < 0 || time > curve.until || time < curve.since ? null : curve.value[i];
}

/** The smallest and the largest of the values `low..high`. */
function extremes(curve, low, high) {
  let least = Infinity, most = 0;
  for (let i = low; i < high;) {
    const whole = i % CURVE_BLOCK === 0 && i + CURVE_BLOCK <= high;
    least = Math.min(least, whole ? curve.lows[i / CURVE_BLOCK] : curve.value[i]);
    most = Math.max(most, whole ? curve.highs[i / CURVE_BLOCK] : curve.value[i]);
    i += whole ? CURVE_BLOCK : 1;
  }
  return [Math.min(least, most), most];
}

function drawCurve(c, ink, row, plot, view) {
  const { curve, y, height } = row;
  const bottom = y + height, top = curve.peak || 1;
  const yOf = (v) => bottom - (v / top) * (height - 3);
  const perPixel = view.size / plot.width;
  c.fillStyle = ink.line;
  c.fillRect(plot.x, bottom, plot.width, 1);

  const points = [];
  let i = lowerBound(0, curve.at.length, (k) => curve.at[k] > view.from);
  for (let x = 0; x < plot.width; x++) {
    const from = view.from + x * perPixel, to = from + perPixel;
    let next = i;
    while (next < curve.at.length && curve.at[next] <= to) {
      // Skip whole pixels' worth of values without looking at each.
      next = curve.at[Math.min(curve.at.length, next + CURVE_BLOCK) - 1] <= to ? Math.min(curve.at.length, next + CURVE_BLOCK) : next + 1;
    }
    const inside = next > 0 && from <= curve.until && to >= curve.since;
    points.push(inside ? extremes(curve, Math.max(0, i - 1), next).map(yOf) : null);
    i = next;
  }
  drawSteps(c, points, plot.x, bottom, ink);
  drawCaption(c, ink, row, plot);
}

/** What the curve is of, in its lower left corner. */
function drawCaption(c, ink, row, plot) {
  const { curve } = row;
  c.font = SMALL;
  c.textAlign = "left";
  c.textBaseline = "middle";
  const text = curve.kind === "power" ? curve.name : curve.capacity ? `of ${bytesText(curve.capacity)}` : "";
  const shown = text && fitted(c, text, plot.width - 20, 1);
  if (!shown) return;
  c.fillStyle = ink.bg;
  c.globalAlpha = 0.75;
  c.fillRect(plot.x + 4, row.y + row.height - 20, c.measureText(shown).width + 10, 16);
  c.globalAlpha = 1;
  c.fillStyle = ink.muted;
  c.fillText(shown, plot.x + 9, row.y + row.height - 11.5);
}

function drawSteps(c, points, x0, bottom, ink) {
  const trace = (visit) => {
    for (let x = 0; x < points.length; x++) if (points[x]) visit(x0 + x, ...points[x], !points[x - 1]);
  };
  c.fillStyle = ink.shade;
  trace((x, low) => c.fillRect(x, low, 1, bottom - low));
  c.fillStyle = ink.curve;
  c.globalAlpha = 0.18;
  trace((x, low, high) => c.fillRect(x, high, 1, low - high));
  c.globalAlpha = 1;
  c.strokeStyle = ink.curve;
  c.lineWidth = 1.25;
  // One line where a pixel has one value, else one along the top and one along the bottom of the band.
  for (const side of [0, 1]) {
    c.beginPath();
    trace((x, low, high, first) => {
      const y = side ? high : low;
      if (first) c.moveTo(x, y);
      else c.lineTo(x, y);
      c.lineTo(x + 1, y);
    });
    c.stroke();
  }
}
