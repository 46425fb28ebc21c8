// Where things stand on the canvas, in CSS pixels: names to the left, time above, lanes, curves below.

const AXIS = 44, GAP = 5, SECTION = 22, CURVE_GAP = 14;

/** A curve's name beside its lane; where power comes from is too long for that. */
function curveName(curve) {
  return curve.kind === "power" ? "power" : curve.name;
}

function layout(trace, width, height, scroll, textWidth) {
  const names = [...trace.units, ...trace.links].map((lane) => lane.name).concat(trace.curves.map(curveName));
  const gutter = Math.min(170, Math.max(64, ...names.map((n) => textWidth(n) + 24), textWidth("100.0 % busy") + 18));
  const plot = { x: gutter, width: Math.max(50, width - gutter - 14) };
  const { units, links, curves } = trace;
  const curveHeight = curves.length ? Math.max(30, Math.min(160, (height * 0.34) / curves.length)) : 0;
  const below = curves.length * (curveHeight + CURVE_GAP) + (curves.length ? 8 : 0);
  const room = Math.max(60, height - AXIS - below);

  const linkGap = links.length ? SECTION : 0;
  const nodes = units.filter((lane, i) => i > 0 && lane.node !== units[i - 1].node).length;
  const nodeGap = nodes ? SECTION / 2 : 0;
  const count = units.length + links.length / 2 || 1;
  const laneHeight = Math.floor(Math.min(260, Math.max(13, (room - linkGap - nodes * nodeGap) / count - GAP)));
  const linkHeight = Math.max(11, Math.round(Math.min(40, laneHeight / 2)));
  const full = units.length * (laneHeight + GAP) + nodes * nodeGap + linkGap + links.length * (linkHeight + GAP);
  const most = Math.max(0, full - room);
  const offset = Math.min(scroll, most);

  let y = AXIS - offset;
  const rows = units.map((lane, i) => {
    if (i > 0 && lane.node !== units[i - 1].node) y += nodeGap;
    const row = { lane, kind: "unit", y, height: laneHeight };
    y += laneHeight + GAP;
    return row;
  });
  y += linkGap;
  for (const lane of links) {
    rows.push({ lane, kind: "link", y, height: linkHeight });
    y += linkHeight + GAP;
  }
  // Curves follow the lanes where there is room, else they keep to the bottom edge.
  const lanesEnd = Math.min(y, AXIS + room);
  let at = lanesEnd + CURVE_GAP;
  for (const curve of curves) {
    rows.push({ curve, kind: "curve", y: at, height: curveHeight });
    at += curveHeight + CURVE_GAP;
  }
  return { width, height, plot, rows, top: AXIS, lanesEnd, scroll: offset, most, end: at };
}
