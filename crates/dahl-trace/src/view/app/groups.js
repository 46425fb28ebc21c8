// Groups: runs by codelet or by layer, and the slot that each run is painted with.

const NO_LAYER = "(no layer)";

/** Codelets and layers with their total times; those that take the most get a slot of their own. */
function readGroups(trace) {
  const { graphs } = trace;
  const codelet = grouping(graphs.map((g) => g.classes.map((c) => c.codelet)));
  const layer = grouping(graphs.map((g) => g.sections.map((s) => s || NO_LAYER)));
  const { runs, launches } = trace;
  for (let i = 0; i < runs.count; i++) {
    const g = launches.graph[runs.launch[i]], graph = graphs[g], task = runs.task[i];
    const time = runs.end[i] - runs.start[i];
    codelet.time[codelet.of[g][graph.taskClass[task]]] += time;
    layer.time[layer.of[g][graph.taskSection[task]]] += time;
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
function paintRuns(trace, groups, byLayer, shown) {
  const { runs, launches, graphs } = trace;
  const slots = new Uint8Array(runs.count);
  const slotsOfGraph = graphs.map((graph, g) => {
    const kinds = byLayer ? graph.taskSection : graph.taskClass;
    return Uint8Array.from(kinds, (kind) => groups.slot[groups.of[g][kind]]);
  });
  for (let i = 0; i < slots.length; i++) {
    slots[i] = shown && !shown[i] ? DIM : slotsOfGraph[launches.graph[runs.launch[i]]][runs.task[i]];
  }
  return slots;
}
