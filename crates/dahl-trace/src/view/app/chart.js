// The chart: puts lanes, curves and everything over them on the canvas, once per frame at most.

function makeChart(app, canvas, overviewCanvas) {
  const c = canvas.getContext("2d", { alpha: false });
  const rasterise = raster(), drawOverview = makeOverview(overviewCanvas, app);
  let shares = new Float32Array(0);
  const pyramids = new Map();

  c.font = FONT;
  const textWidth = (text) => c.measureText(text).width;

  /** The pyramid of a lane; built anew when its colours change. */
  const dress = (row) => {
    if (row.kind === "curve") return row;
    row.slots = row.kind === "unit" ? app.slots : app.transferSlots;
    row.end = app.trace.end;
    const version = row.kind === "unit" ? app.painted : 0;
    let known = pyramids.get(row.lane);
    if (known?.version !== version) {
      known = { version, pyramid: buildPyramid(row.lane, row.slots, app.trace.begin, app.length, row.kind === "unit") };
      pyramids.set(row.lane, known);
    }
    row.pyramid = known.pyramid;
    return row;
  };

  const draw = () => {
    app.undrawn = false;
    const began = performance.now();
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width || !height) return;
    app.scale = window.devicePixelRatio || 1;
    fitCanvas(canvas, width, height, app.scale);
    c.font = FONT;
    const place = layout(app.trace, width, height, app.scroll, textWidth);
    app.scroll = place.scroll;
    app.place = place;
    place.rows.forEach(dress);
    const { ink, view, scale, trace } = app;
    const pixels = Math.round(place.plot.width * scale);
    if (shares.length < (pixels + 1) * SLOTS) shares = new Float32Array((pixels + 1) * SLOTS);
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.fillStyle = ink.bg;
    c.fillRect(0, 0, canvas.width, canvas.height);

    c.setTransform(scale, 0, 0, scale, 0, 0);
    drawGrid(c, ink, place, view, trace);
    c.setTransform(1, 0, 0, 1, 0, 0);
    const paint = { c, ink, view, plot: place.plot, scale, shares, rasterise, trace, label: app.label };
    const inside = (row) => row.kind !== "curve" && row.y + row.height > place.top && row.y < place.lanesEnd;
    app.drawn = 0;
    for (const row of place.rows.filter(inside)) app.drawn += drawLane(paint, row);
    c.setTransform(scale, 0, 0, scale, 0, 0);
    drawOver(place);
    for (const row of place.rows.filter((r) => r.kind === "curve")) drawCurve(c, ink, row, place.plot, view);
    drawCover(place);
    drawOverview(place, place.rows);
    app.frame(performance.now() - began);
  };

  /** What lies over the lanes, cut off where the lanes end. */
  const drawOver = (place) => {
    const { ink, view, trace } = app;
    c.save();
    c.beginPath();
    c.rect(place.plot.x, place.top, place.plot.width, place.lanesEnd - place.top);
    c.clip();
    if (trace.messages.from.length) drawMessages(c, ink, place, view, trace);
    if (app.critical) drawPath(c, ink, place, view, trace);
    if (app.near) drawSelection(c, ink, place, view, trace, app.near);
    if (app.hover?.run >= 0) outline(c, boxOf(place, view, trace, app.hover.run), ink.text, 1.5);
    c.restore();
  };

  /** Axis, names and the line at the pointer, over whatever scrolled beneath them. */
  const drawCover = (place) => {
    const { ink, view, trace } = app, { plot } = place;
    c.fillStyle = ink.bg;
    c.fillRect(0, 0, place.width, place.top - 4);
    c.fillRect(0, place.top - 4, plot.x, place.height);
    if (place.most > 0) c.fillRect(0, place.lanesEnd, place.width, CURVE_GAP - 4);
    drawAxis(c, ink, place, view, trace);
    c.save();
    c.beginPath();
    c.rect(0, place.top - 2, place.width, place.height);
    c.clip();
    for (const row of place.rows) drawName(row, place);
    c.restore();
    if (place.most > 0) drawThumb(place);
    if (app.hover) drawPointer(place);
  };

  /** How far the lanes are scrolled. */
  const drawThumb = (place) => {
    const room = place.lanesEnd - place.top, share = room / (room + place.most);
    const y = place.top + (place.scroll / place.most) * room * (1 - share);
    c.fillStyle = app.ink.dim;
    c.fillRect(place.width - 9, y, 4, room * share);
  };

  const drawName = (row, place) => {
    const { ink } = app, { plot } = place;
    if (row.kind !== "curve" && (row.y + row.height < place.top || row.y + row.height > place.lanesEnd + 6)) return;
    c.textAlign = "right";
    c.textBaseline = "middle";
    c.font = row.height < 14 ? SMALL : FONT;
    c.fillStyle = row.kind === "unit" ? ink.text : ink.muted;
    const name = row.lane?.name ?? curveName(row.curve);
    const note = row.kind === "curve" ? `max ${row.curve.text(row.curve.peak)}` : row.kind === "unit" ? app.busyText(row.lane.index) : "";
    const two = note && row.height >= 34;
    const middle = row.kind === "curve" ? row.y + 10 : row.y + row.height / 2 + (two ? -7.5 : 0.5);
    c.fillText(fitted(c, name, plot.x - 20, 1) ?? name, plot.x - 12, middle);
    if (!two) return;
    c.font = SMALL;
    c.fillStyle = ink.faint;
    c.fillText(note, plot.x - 12, middle + 16);
  };

  const drawPointer = (place) => {
    const { ink, hover } = app, { plot } = place;
    const x = Math.round(hover.x) + 0.5;
    if (x < plot.x || x > plot.x + plot.width) return;
    c.strokeStyle = ink.faint;
    c.lineWidth = 1;
    c.setLineDash([2, 3]);
    c.beginPath();
    c.moveTo(x, place.top - 18);
    c.lineTo(x, place.end - CURVE_GAP);
    c.stroke();
    c.setLineDash([]);
    c.font = SMALL;
    c.textBaseline = "middle";
    for (const row of place.rows) {
      const value = row.curve && valueAt(row.curve, hover.time);
      if (value === null || value === undefined) continue;
      const text = row.curve.text(value), width = textWidth(text) + 10;
      const left = x + 8 + width > plot.x + plot.width ? x - width - 8 : x + 8;
      c.fillStyle = ink.bg;
      c.fillRect(left, row.y + 2, width, 17);
      c.textAlign = "left";
      c.fillStyle = ink.text;
      c.fillText(text, left + 5, row.y + 11);
    }
  };

  return () => {
    if (!app.undrawn) requestAnimationFrame(draw);
    app.undrawn = true;
  };
}
