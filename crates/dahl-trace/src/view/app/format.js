// Numbers as people read them. One unit per place, three digits that mean something.

/** A duration in nanoseconds. */
function duration(ns) {
  if (!(ns > 0)) return "0";
  if (ns < 1e3) return `${Math.round(ns)} ns`;
  if (ns < 1e6) return `${digits(ns / 1e3)} µs`;
  if (ns < 1e9) return `${digits(ns / 1e6)} ms`;
  return `${digits(ns / 1e9)} s`;
}

/** Three digits that mean something, more before the point if need be. */
function digits(x) {
  if (!Number.isFinite(x)) return "–";
  const size = Math.abs(x);
  return size >= 99.95 ? count(Math.round(x)) : x.toFixed(size >= 9.995 ? 1 : 2);
}

/** A whole number, in groups of three digits. */
function count(n) {
  return Math.round(n).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

/** A number of things: one task, two tasks. */
function several(n, thing) {
  return `${count(n)} ${thing}${n === 1 ? "" : "s"}`;
}

function percent(share) {
  return Number.isFinite(share) ? `${(share * 100).toFixed(1)} %` : "–";
}

function bytesText(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) {
    n /= 1024;
    i++;
  }
  return `${i === 0 ? count(n) : digits(n)} ${units[i]}`;
}

/** Operations or bytes a second. */
function rate(n, unit) {
  return `${digits(n / 1e9)} G${unit}/s`;
}

function joulesText(j) {
  return j >= 1000 ? `${digits(j / 1000)} kJ` : j >= 1 || j === 0 ? `${digits(j)} J` : `${digits(j * 1000)} mJ`;
}

/** A moment on an axis whose ticks are `step` apart, all ticks in the same unit and precision. */
function moment(ns, step) {
  const [size, unit] = step >= 1e8 ? [1e9, "s"] : step >= 1e5 ? [1e6, "ms"] : step >= 1e2 ? [1e3, "µs"] : [1, "ns"];
  const places = Math.max(0, -Math.floor(Math.log10(step / size) + 1e-9));
  const [whole, part] = (ns / size).toFixed(places).split(".");
  return `${count(+whole)}${part ? "." + part : ""} ${unit}`;
}

/** A distance of about `rough` that is a round number: 1, 2 or 5 times a power of ten. */
function roundStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  const factor = rough / power;
  return power * (factor <= 1 ? 1 : factor <= 2 ? 2 : factor <= 5 ? 5 : 10);
}

/** A new element with attributes and children; texts are never taken as markup. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(key, value);
  }
  element.append(...children.filter((c) => c !== null && c !== undefined));
  return element;
}
