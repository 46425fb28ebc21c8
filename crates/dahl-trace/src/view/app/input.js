// Wheel, drag and keys. Turns what hands do into calls of the app; draws nothing.

const KEYS = [
  ["wheel", "zoom at the pointer"],
  ["drag", "move; on the strip above, choose what is shown"],
  ["shift + wheel", "scroll the lanes"],
  ["← → or A D", "move in time"],
  ["↑ ↓", "scroll the lanes"],
  ["+ − or W S", "zoom in and out"],
  ["0", "show everything"],
  ["F", "show the selected task"],
  ["[ ]", "the task before and after on the same unit"],
  ["C", "critical path"],
  ["L", "colour by layer or by codelet"],
  ["/", "search; Enter and Shift + Enter go through matches"],
  ["T", "light or dark"],
  ["Esc", "let go of the selection, then of the search"],
  ["?", "this help"],
];

function listen(app, canvas, overview, tip) {
  const at = (event, element = canvas) => {
    const box = element.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const point = (here) => {
    app.hover = app.dragging ? null : here;
    showTip(app, tip, here);
    canvas.style.cursor = app.dragging ? "grabbing" : here?.run >= 0 ? "pointer" : "";
    app.draw();
  };

  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? canvas.clientHeight : 1;
    const dx = event.deltaX * unit, dy = event.deltaY * unit;
    const { plot } = app.place;
    if (event.shiftKey) app.scrollLanes(dx + dy);
    else if (Math.abs(dx) > Math.abs(dy)) app.view.pan((dx / plot.width) * app.view.size);
    else {
      const [x] = at(event), share = Math.min(1, Math.max(0, (x - plot.x) / plot.width));
      app.view.zoom(Math.exp(dy * 0.0022), app.view.from + share * app.view.size);
    }
  }, { passive: false });

  let grip = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const [x, y] = at(event);
    grip = { x, y, from: app.view.from, scroll: app.scroll };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = at(event);
    if (grip && Math.hypot(x - grip.x, y - grip.y) > 4) app.dragging = true;
    if (app.dragging) {
      const from = grip.from - ((x - grip.x) / app.place.plot.width) * app.view.size;
      app.view.set({ from, to: from + app.view.size });
      app.scrollLanes(grip.scroll - (y - grip.y) - app.scroll);
    }
    point(hit(app, x, y));
  });
  const drop = (event) => {
    const clicked = grip && !app.dragging && event.type === "pointerup";
    grip = null;
    app.dragging = false;
    if (clicked) app.select(hit(app, ...at(event))?.run ?? NONE);
  };
  canvas.addEventListener("pointerup", drop);
  canvas.addEventListener("pointercancel", drop);
  canvas.addEventListener("pointerleave", () => point(null));
  canvas.addEventListener("dblclick", () => app.showSelected());

  const look = (event) => {
    if (!(event.buttons & 1)) return;
    const { plot } = app.place, [x] = at(event, overview);
    const middle = app.trace.begin + ((x - plot.x) / plot.width) * app.length, half = Math.min(app.view.size, app.length * 0.96) / 2;
    app.view.set({ from: middle - half, to: middle + half });
  };
  overview.addEventListener("pointerdown", (event) => {
    overview.setPointerCapture(event.pointerId);
    look(event);
  });
  overview.addEventListener("pointermove", look);
  document.addEventListener("keydown", (event) => pressed(app, event));
}

function pressed(app, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.matches("input, textarea, select");
  if (event.key === "Escape") app.letGo();
  else if (typing) return;
  else {
    const action = {
      ArrowLeft: () => app.view.panSmoothly(-0.25), a: () => app.view.panSmoothly(-0.25),
      ArrowRight: () => app.view.panSmoothly(0.25), d: () => app.view.panSmoothly(0.25),
      ArrowUp: () => app.scrollLanes(-60), ArrowDown: () => app.scrollLanes(60),
      "+": () => app.view.zoomSmoothly(0.5), "=": () => app.view.zoomSmoothly(0.5), w: () => app.view.zoomSmoothly(0.5),
      "-": () => app.view.zoomSmoothly(2), s: () => app.view.zoomSmoothly(2),
      0: () => app.view.fit(), f: () => app.showSelected(),
      "[": () => app.walk(-1), "]": () => app.walk(1),
      c: () => app.setCritical(!app.critical), l: () => app.setColour(app.colourBy === "layer" ? "codelet" : "layer"),
      "/": () => app.focusSearch(), t: () => app.setTheme(app.theme === "dark" ? "light" : "dark"),
      "?": () => app.toggleHelp(),
    }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action) return;
    action();
  }
  event.preventDefault();
}
