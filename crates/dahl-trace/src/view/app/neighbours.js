// What a task waited for, what waited for it, and what it touched.
//
// Edges and regions are read when somebody first asks for a task of their graph. Between launches the
// trace knows only who released whom, so of edges between launches just those are found.

const MODES = ["reads", "writes", "updates", "adds to"];

/** Edges of a graph in both directions, as offsets and ends. */
async function edgesOf(graph) {
  graph.edges ??= readEdges(graph);
  return graph.edges;
}

async function readEdges(graph) {
  const c = columns(await block("edges-" + graph.index));
  const counts = c.numbers(Uint32Array), ends = c.signed(Int32Array), n = counts.length;
  const next = { start: new Uint32Array(n + 1), ends: new Uint32Array(ends.length) };
  const before = { start: new Uint32Array(n + 1), ends: new Uint32Array(ends.length) };
  for (let task = 0, e = 0; task < n; task++) {
    for (let k = 0; k < counts[task]; k++, e++) before.start[(next.ends[e] = task + ends[e]) + 1]++;
    next.start[task + 1] = e;
  }
  for (let task = 0; task < n; task++) before.start[task + 1] += before.start[task];
  const fill = before.start.slice();
  for (let task = 0; task < n; task++) {
    for (let e = next.start[task]; e < next.start[task + 1]; e++) before.ends[fill[next.ends[e]]++] = task;
  }
  return { next, before };
}

/** The runs before and after a run, and how many of its neighbours the trace has lost. */
async function neighbours(trace, run) {
  const { runs, launches, graphs } = trace;
  const launch = runs.launch[run], task = runs.task[run];
  const { next, before } = await edgesOf(graphs[launches.graph[launch]]);
  const of = (side) => Array.from(side.ends.subarray(side.start[task], side.start[task + 1]));
  const found = (tasks) => tasks.map((t) => trace.find(launch, t));
  const releasedBy = trace.find(runs.fromLaunch[run], runs.fromTask[run]);
  const previous = found(of(before)), following = found(of(next));
  if (releasedBy !== NONE && !previous.includes(releasedBy)) previous.push(releasedBy);
  for (let i = 0; i < runs.count; i++) {
    if (runs.fromTask[i] === task && runs.fromLaunch[i] === launch && runs.launch[i] !== launch) following.push(i);
  }
  const known = (list) => list.filter((r) => r !== NONE);
  const lost = previous.concat(following).filter((r) => r === NONE).length;
  return { run, previous: known(previous), following: known(following), releasedBy, lost };
}

/** What a task touched, as lines of text. */
async function accessesOf(graph, task) {
  graph.accesses ??= readAccesses(graph);
  const { start, rows, names } = await graph.accesses;
  const c = columns(rows.subarray(start[task], start[task + 1]));
  const out = [];
  while (!c.done) {
    const mode = MODES[c.number()], name = names[c.number()];
    const from = [0, 1, 2, 3].map(c.number), to = [0, 1, 2, 3].map(c.number);
    let first = 0;
    while (first < 3 && from[first] === 0 && to[first] === 1) first++;
    const box = from.slice(first).map((f, i) => `${f}..${to[first + i]}`).join(", ");
    out.push({ mode, name, region: `[${box}]` });
  }
  return out;
}

async function readAccesses(graph) {
  const c = columns(await block("accesses-" + graph.index));
  const lengths = c.numbers(Uint32Array), start = new Uint32Array(lengths.length + 1);
  lengths.forEach((n, i) => (start[i + 1] = start[i] + n));
  const rows = c.raw();
  return { start, rows, names: JSON.parse(new TextDecoder().decode(c.raw())) };
}
