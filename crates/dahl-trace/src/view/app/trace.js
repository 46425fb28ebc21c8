// The trace: decoded columns, and what can be asked of a run.
//
// A *run* is a task that ran, numbered by its place in the columns: by unit, then start. A *lane* is
// what one unit or one link did: a range of such numbers. Nothing here draws or remembers what is shown.

const NONE = -1;

async function readTrace(meta) {
  const launches = readLaunches(columns(await block("launches")));
  const graphs = await Promise.all(meta.graphs.map(readGraph));
  const runs = readRuns(columns(await block("runs")));
  const transfers = readTransfers(columns(await block("transfers")));
  const { from_ns: begin, to_ns: end } = meta.summary;
  const trace = { meta, launches, steps: firstOfSteps(launches), graphs, runs, transfers, begin, end };
  trace.units = lanes(runs, meta.units.map((u) => u.name));
  trace.units.forEach((lane) => {
    lane.begin = begin;
    // With one memory there is no data to wait for.
    lane.fetch = meta.units[lane.index].fetches ? DATA : OVERHEAD;
    lane.node = meta.units[lane.index].node;
  });
  trace.links = lanes(transfers, meta.links.map(([a, b]) => `${meta.memories[a]} → ${meta.memories[b]}`));
  const joined = columns(await block("messages"));
  trace.messages = { from: joined.numbers(Int32Array), to: joined.numbers(Int32Array) };
  trace.curves = await readCurves(meta);
  trace.path = columns(await block("critical")).sums(Int32Array);
  trace.onPath = new Uint8Array(runs.count);
  for (const run of trace.path) trace.onPath[run] = 1;
  indexRuns(trace);
  return trace;
}

function readLaunches(c) {
  return { step: c.numbers(), graph: c.numbers(Uint32Array), at: c.sums() };
}

/** The first launch of each step: every node of a cluster has one. */
function firstOfSteps({ step, at }) {
  const is = (_, i) => i === 0 || step[i] !== step[i - 1];
  return { step: step.filter(is), at: at.filter(is) };
}

async function readGraph(graph, i) {
  const c = columns(await block("tasks-" + i));
  return { ...graph, index: i, taskClass: c.numbers(Uint32Array), taskSection: c.numbers(Uint32Array) };
}

function readRuns(c) {
  const counts = c.numbers(Uint32Array);
  const start = c.signed(), end = c.numbers(), taken = c.numbers(), ready = c.numbers();
  for (let unit = 0, i = 0; unit < counts.length; unit++) {
    for (let last = 0, n = counts[unit]; n > 0; n--, i++) {
      start[i] += last;
      last = end[i] += start[i];
      taken[i] = start[i] - taken[i];
      ready[i] = taken[i] - ready[i];
    }
  }
  const launch = c.sums(Uint32Array), task = c.sums(Uint32Array);
  const fromLaunch = c.numbers(Int32Array), fromTask = c.signed(Int32Array);
  for (let i = 0; i < start.length; i++) {
    if (fromLaunch[i] === 0) fromLaunch[i] = fromTask[i] = NONE;
    else {
      fromLaunch[i] = launch[i] - unfold(fromLaunch[i] - 1);
      fromTask[i] = task[i] - fromTask[i];
    }
  }
  const fellBack = c.numbers(Uint8Array), messages = c.numbers();
  return { count: start.length, counts, start, end, taken, ready, launch, task, fromLaunch, fromTask, fellBack, messages };
}

function readTransfers(c) {
  const counts = c.numbers(Uint32Array), start = c.sums(), end = c.numbers();
  for (let i = 0; i < start.length; i++) end[i] += start[i];
  const bytes = c.numbers(), ahead = c.numbers(Uint8Array);
  const parts = c.numbers(), wanted = c.numbers(), whole = c.numbers(Uint8Array);
  const batch = c.numbers();
  const task = c.numbers(), launch = c.numbers();
  for (let i = 0; i < task.length; i++) task[i]--;
  return { count: start.length, counts, start, end, bytes, ahead, parts, wanted, whole, batch, task, launch };
}

/** Ranges of the columns, one per name. Where spans overlap, `reach` is the latest end so far. */
function lanes(spans, names) {
  let first = 0;
  return names.map((name, index) => {
    const lane = { name, index, spans, first, last: first + spans.counts[index], reach: null };
    first = lane.last;
    let latest = 0, nested = false;
    for (let i = lane.first; i < lane.last; i++) {
      nested ||= spans.end[i] < latest;
      latest = Math.max(latest, spans.end[i]);
    }
    if (nested) {
      lane.reach = spans.end.slice(lane.first, lane.last);
      for (let i = 1; i < lane.reach.length; i++) lane.reach[i] = Math.max(lane.reach[i], lane.reach[i - 1]);
    }
    return lane;
  });
}

/** Finds runs by launch and task. Launches without a run in the trace take no room. */
function indexRuns(trace) {
  const { runs, launches, graphs } = trace;
  const ran = new Uint8Array(launches.graph.length);
  for (let i = 0; i < runs.count; i++) ran[runs.launch[i]] = 1;
  const base = new Float64Array(ran.length + 1);
  launches.graph.forEach((g, i) => (base[i + 1] = base[i] + (ran[i] ? graphs[g].taskClass.length : 0)));
  const place = new Int32Array(base[ran.length]).fill(NONE);
  for (let i = 0; i < runs.count; i++) place[base[runs.launch[i]] + runs.task[i]] = i;
  trace.find = (launch, task) => (task >= 0 && ran[launch] ? place[base[launch] + task] : NONE);
}

/** The colour of each transfer: between nodes, ahead of time, or when asked. */
function transferSlots(trace) {
  const { links, transfers, meta } = trace, slots = Uint8Array.from(transfers.ahead, (a) => (a ? AHEAD : DATA));
  links.forEach((lane, i) => meta.links[i][2] && slots.fill(MESSAGES, lane.first, lane.last));
  return slots;
}

/** What a run was. */
function describe(trace, run) {
  const { runs, launches, graphs, meta } = trace;
  const launch = runs.launch[run], graph = graphs[launches.graph[launch]];
  const kind = graph.classes[graph.taskClass[runs.task[run]]];
  const unit = unitOf(trace, run);
  return {
    run, launch, graph, unit,
    task: runs.task[run],
    step: launches.step[launch],
    codelet: kind.codelet,
    implementation: kind.implementations[runs.fellBack[run] ? "cpu" : meta.units[unit].kind] ?? "",
    fellBack: runs.fellBack[run] === 1,
    layer: graph.sections[graph.taskSection[runs.task[run]]],
    shapes: kind.shapes, flops: kind.flops, bytes: kind.bytes,
    ready: runs.ready[run], taken: runs.taken[run], start: runs.start[run], end: runs.end[run],
  };
}

function unitOf(trace, run) {
  return trace.units.findIndex((lane) => run < lane.last);
}

/** The first of a lane's spans that ends after `time`; `lane.last` if none does. */
function firstEndingAfter(lane, time) {
  const ends = lane.reach ?? lane.spans.end, shift = lane.reach ? lane.first : 0;
  return lowerBound(lane.first, lane.last, (i) => ends[i - shift] > time);
}

/** The first of a lane's spans that starts at `time` or later. */
function firstStartingFrom(lane, time) {
  return lowerBound(lane.first, lane.last, (i) => lane.spans.start[i] >= time);
}

/** The first number in `low..high` for which `test` holds, given that it holds for all later ones. */
function lowerBound(low, high, test) {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (test(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** When a unit had ended what it did before a run. */
function freeBefore(lane, run) {
  if (run <= lane.first) return lane.begin;
  return lane.reach ? Math.max(lane.begin, lane.reach[run - 1 - lane.first]) : lane.spans.end[run - 1];
}

/** Why a unit was idle before a run: times at which it began to wait for messages, for work, for the runtime, for data. */
function idleBefore(lane, run) {
  const { ready, taken, start, messages } = lane.spans;
  const free = freeBefore(lane, run);
  const turned = Math.max(free, taken[run]);
  return { messages: free, work: free + messages[run], overhead: Math.min(turned, Math.max(free, ready[run])), data: turned, over: Math.max(turned, start[run]) };
}
