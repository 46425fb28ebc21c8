// Level of detail: how a lane's time is divided among slots, at every scale.
//
// The bottom level cuts the whole trace into bins of equal length, about one for eight spans; each level
// above has half as many, each the mean of two. To paint a pixel the view takes the level whose bins are
// just shorter than a pixel, so a frame costs the same however many tasks it shows. Where even the
// bottom bins are longer than a pixel, few spans are left in view, and these are looked at one by one.

const SPANS_PER_BIN = 8, TOP_BINS = 1024;

function buildPyramid(lane, slots, begin, length, idle) {
  let bins = TOP_BINS;
  while (bins < (lane.last - lane.first) / SPANS_PER_BIN && bins < 1 << 18) bins *= 2;
  let level = new Float32Array(bins * SLOTS);
  const add = adder(level, begin, bins / length);
  const { start, end } = lane.spans;
  for (let i = lane.first; i < lane.last; i++) {
    add(start[i], end[i], slots[i]);
    if (!idle) continue;
    const wait = idleBefore(lane, i);
    add(wait.messages, wait.work, MESSAGES);
    add(wait.overhead, wait.data, OVERHEAD);
    add(wait.data, wait.over, lane.fetch);
  }
  const levels = [level];
  for (; bins > TOP_BINS / 16; bins /= 2) levels.push((level = halved(level)));
  return { levels, begin, length };
}

/** Adds the time from `from` to `to` to a slot of the bins it falls into; they begin at `begin`, `scale` of them per time. */
function adder(bins, begin, scale) {
  const last = bins.length / SLOTS - 1;
  return (from, to, slot) => {
    const a = (from - begin) * scale, b = (to - begin) * scale;
    if (!(b > a)) return;
    let i = Math.min(last, a | 0);
    const end = Math.min(last, b | 0);
    if (i === end) {
      bins[i * SLOTS + slot] += b - a;
      return;
    }
    bins[i * SLOTS + slot] += i + 1 - a;
    while (++i < end) bins[i * SLOTS + slot] += 1;
    bins[end * SLOTS + slot] += b - end;
  };
}

function halved(level) {
  const out = new Float32Array(level.length / 2);
  for (let i = 0; i < out.length; i += SLOTS) {
    for (let s = 0; s < SLOTS; s++) out[i + s] = (level[2 * i + s] + level[2 * i + SLOTS + s]) / 2;
  }
  return out;
}

/** Whether bins are short enough for pixels of this length. */
function fineEnough(pyramid, pixel) {
  return pyramid.length / (pyramid.levels[0].length / SLOTS) <= pixel;
}

/** Fills `out` with the shares of slots for `width` pixels that begin at `from`. */
function sample(pyramid, from, pixel, width, out) {
  const { levels, begin, length } = pyramid;
  let pick = 0;
  while (pick + 1 < levels.length && length / (levels[pick + 1].length / SLOTS) <= pixel) pick++;
  const level = levels[pick], bins = level.length / SLOTS, scale = bins / length, part = 1 / (pixel * scale);
  out.fill(0, 0, width * SLOTS);
  for (let x = 0, o = 0; x < width; x++, o += SLOTS) {
    const at = from - begin + x * pixel;
    const a = Math.max(0, at * scale), b = Math.min(bins, (at + pixel) * scale);
    for (let i = Math.floor(a); i < b; i++) {
      const weight = (Math.min(b, i + 1) - Math.max(a, i)) * part;
      for (let s = 0, k = i * SLOTS; s < SLOTS; s++, k++) out[o + s] += level[k] * weight;
    }
  }
}
