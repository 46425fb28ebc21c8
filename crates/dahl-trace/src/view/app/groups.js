// Groups: runs by codelet or by layer, and the slot that each run is painted with.

const NO_LAYER = "(no layer)";

/** A codelet with its implementation: what has a colour of its own. */
function variant(codelet, implementation) {
  return implementation ? `${codelet} (${implementation})` : codelet;
}

/** Codelets and layers with their total times; those that take the most get a slot of their own. */
function readGroups(trace) {
  const { graphs, runs, launches, meta } = trace;
  // Which implementation a run had follows from its class and the kind of processor.
  const kinds = [...new Set([...meta.units.map((u) => u.kind), "cpu"])];
  const ranOn = new Uint8Array(runs.count);
  trace.units.forEach((lane, u) => ranOn.fill(kinds.indexOf(meta.units[u].kind), lane.first, lane.last));
  runs.fellBack.forEach((fell, i) => fell && (ranOn[i] = kinds.indexOf("cpu")));
  const variants = (c) => kinds.map((kind) => variant(c.codelet, c.implementations[kind]));
  const codelet = grouping(graphs.map((g) => g.classes.flatMap(variants)));
  const layer = grouping(graphs.map((g) => g.sections.map((s) => s || NO_LAYER)));
  codelet.place = (graph, i) => graph.taskClass[runs.task[i]] * kinds.length + ranOn[i];
  layer.place = (graph, i) => graph.taskSection[runs.task[i]];
  for (let i = 0; i < runs.count; i++) {
    const g = launches.graph[runs.launch[i]], graph = graphs[g];
    const time = runs.end[i] - runs.start[i];
    codelet.time[codelet.of[g][codelet.place(graph, i)]] += time;
    layer.time[layer.of[g][layer.place(graph, i)]] += time;
  }
  rank(codelet);
  rank(layer);
  return { codelet, layer };
}

function grouping(namesByGraph) {
  const index = new Map();
  const of = namesByGraph.map((names) =>
    Uint32Array.from(names, (name) => {
      if (!index.has(name)) index.set(name, index.size);
      return index.get(name);
    }));
  return { index, names: [...index.keys()], of, time: new Float64Array(index.size), slot: null };
}

function rank(groups) {
  groups.slot = new Uint8Array(groups.names.length).fill(OTHER);
  const order = [...groups.time.keys()].sort((a, b) => groups.time[b] - groups.time[a]);
  order.slice(0, GROUP_SLOTS).forEach((group, place) => (groups.slot[group] = place));
}

/** The slot of a group by its name. */
function slotOfName(groups, name) {
  return groups.slot[groups.index.get(name)] ?? OTHER;
}

/** The slot of each run; those for which `shown` is zero are dimmed. */
function paintRuns(trace, groups, shown) {
  const { runs, launches, graphs } = trace;
  const slots = new Uint8Array(runs.count);
  for (let i = 0; i < slots.length; i++) {
    const g = launches.graph[runs.launch[i]];
    slots[i] = shown && !shown[i] ? DIM : groups.slot[groups.of[g][groups.place(graphs[g], i)]];
  }
  return slots;
}
