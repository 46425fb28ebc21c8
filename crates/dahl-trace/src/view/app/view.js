// The window in time: what part of the trace is shown, and how it moves.

const MARGIN = 0.02, SHORTEST = 20;

function makeView(begin, length, changed) {
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const most = length * (1 + 2 * MARGIN), whole = { from: begin - length * MARGIN, to: begin - length * MARGIN + most };
  let now = { ...whole }, moving = 0;

  const clamp = ({ from, to }) => {
    const size = Math.min(most, Math.max(SHORTEST, to - from));
    const middle = (from + to) / 2;
    const edge = size * MARGIN;
    from = Math.min(begin + length + edge - size, Math.max(begin - edge, middle - size / 2));
    return { from, to: from + size };
  };
  const set = (next) => {
    now = clamp(next);
    changed();
  };
  const stop = () => {
    cancelAnimationFrame(moving);
    moving = 0;
  };
  const glide = (next) => {
    stop();
    if (still.matches) return set(next);
    const start = { ...now }, goal = clamp(next), began = performance.now();
    const tick = (time) => {
      const t = Math.min(1, Math.max(0, time - began) / 160), eased = 1 - (1 - t) ** 3;
      // Lengths change by factors, so that long ways do not rush at one end.
      const size = (start.to - start.from) * ((goal.to - goal.from) / (start.to - start.from)) ** eased;
      const middle = (start.from + start.to) / 2, end = (goal.from + goal.to) / 2;
      const there = middle + (end - middle) * eased;
      set(t === 1 ? goal : { from: there - size / 2, to: there + size / 2 });
      moving = t < 1 ? requestAnimationFrame(tick) : 0;
    };
    moving = requestAnimationFrame(tick);
  };
  const scaled = (factor, at) => ({ from: at - (at - now.from) * factor, to: at + (now.to - at) * factor });

  return {
    get from() { return now.from; },
    get to() { return now.to; },
    get size() { return now.to - now.from; },
    get moving() { return moving !== 0; },
    set,
    fit: () => glide(whole),
    show: glide,
    /** Makes the window `factor` times as long, keeping the moment `at` in place. */
    zoom: (factor, at) => {
      stop();
      set(scaled(factor, at));
    },
    zoomSmoothly: (factor, at = (now.from + now.to) / 2) => glide(scaled(factor, at)),
    pan: (time) => {
      stop();
      set({ from: now.from + time, to: now.to + time });
    },
    panSmoothly: (share) => glide({ from: now.from + share * (now.to - now.from), to: now.to + share * (now.to - now.from) }),
  };
}
