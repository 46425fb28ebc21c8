// Search: which runs a query means.
//
// All words must hold. A word is part of a codelet's or layer's name, or a task's number (`123`, `#123`),
// or `step:N`, or `unit:NAME`.

/** One byte per run, 1 where it matches, and how many do; null for an empty query. */
function searchRuns(trace, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return null;
  const { runs } = trace;
  const match = new Uint8Array(runs.count).fill(1);
  for (const word of words) keepMatches(trace, word, match);
  let total = 0;
  for (let i = 0; i < match.length; i++) total += match[i];
  return { match, total };
}

function keepMatches(trace, word, match) {
  const { runs, launches, graphs, units } = trace;
  const [, key, value] = word.match(/^(step|unit):(.*)$/) ?? [];
  if (key === "unit") {
    for (const lane of units) {
      if (!lane.name.toLowerCase().includes(value)) match.fill(0, lane.first, lane.last);
    }
    return;
  }
  if (key === "step") {
    for (let i = 0; i < match.length; i++) if (launches.step[runs.launch[i]] !== +value) match[i] = 0;
    return;
  }
  const number = /^#?\d+$/.test(word) ? +word.replace("#", "") : NONE;
  const has = (name) => (name.toLowerCase().includes(word) ? 1 : 0);
  const named = graphs.map((graph) => {
    const classes = graph.classes.map((c) => has(c.codelet)), sections = graph.sections.map(has);
    return Uint8Array.from(graph.taskClass, (c, t) => classes[c] | sections[graph.taskSection[t]]);
  });
  for (let i = 0; i < match.length; i++) {
    const task = runs.task[i];
    if (task !== number && !named[launches.graph[runs.launch[i]]][task]) match[i] = 0;
  }
}

/** The match that starts next after `run` (before it, if `back`), around the end; the first if none. */
function nextMatch(trace, match, run, back) {
  const { start } = trace.runs, sign = back ? -1 : 1;
  const after = (a, b) => sign * (start[a] - start[b] || a - b) > 0;
  let best = NONE, first = NONE;
  for (let i = 0; i < match.length; i++) {
    if (!match[i]) continue;
    if (first === NONE || after(first, i)) first = i;
    if (run !== NONE && after(i, run) && (best === NONE || after(best, i))) best = i;
  }
  return best === NONE ? first : best;
}
