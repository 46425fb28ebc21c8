// The strip above the chart: all units over the whole trace, and the window that the chart shows.

function makeOverview(canvas, app) {
  const c = canvas.getContext("2d");
  const rasterise = raster();
  let picture = null, drawnFor = "";

  /** All units added up, painted once for each size and colouring. */
  const paint = (width, height, rows) => {
    const key = [width, height, app.painted, app.theme].join();
    if (drawnFor === key) return;
    drawnFor = key;
    picture = document.createElement("canvas");
    picture.width = width;
    picture.height = height;
    const shares = new Float32Array(width * SLOTS), one = new Float32Array(width * SLOTS);
    const units = rows.filter((row) => row.kind === "unit");
    for (const row of units) {
      sample(row.pyramid, app.trace.begin, app.length / width, width, one);
      for (let i = 0; i < shares.length; i++) shares[i] += one[i] / units.length;
    }
    rasterise(picture.getContext("2d"), 0, 0, width, height, shares, app.ink.packed);
  };

  return (place, rows) => {
    const { plot } = place, scale = app.scale, height = canvas.clientHeight;
    fitCanvas(canvas, place.width, height, scale);
    const width = Math.round(plot.width * scale);
    paint(width, Math.round(height * scale), rows);
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.clearRect(0, 0, canvas.width, canvas.height);
    c.drawImage(picture, Math.round(plot.x * scale), 0);
    c.setTransform(scale, 0, 0, scale, 0, 0);
    const { begin, end } = app.trace;
    if (app.view.from <= begin && app.view.to >= end) return;
    const x = (time) => plot.x + ((Math.min(end, Math.max(begin, time)) - begin) / app.length) * plot.width;
    const a = x(app.view.from), b = Math.max(x(app.view.to), a + 2);
    c.globalAlpha = 0.72;
    c.fillStyle = app.ink.bg;
    c.fillRect(plot.x, 0, a - plot.x, height);
    c.fillRect(b, 0, plot.x + plot.width - b, height);
    c.globalAlpha = 1;
    c.strokeStyle = app.ink.accent;
    c.lineWidth = 1.5;
    c.strokeRect(a, 0.75, b - a, height - 1.5);
  };
}

/** Gives a canvas a size in CSS pixels and `scale` times as many of its own. */
function fitCanvas(canvas, width, height, scale) {
  const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== w) canvas.width = w;
  if (canvas.height !== h) canvas.height = h;
}
