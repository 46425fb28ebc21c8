// Colours: what a slot looks like in light and in dark.
//
// A lane's time is divided among *slots*: one for each of the groups (codelets, layers) that take the
// most time, one for all others, and one each for what is dimmed, for waiting and for copies. The hues
// follow Paul Tol's "muted" scheme (SRON technical note 3.2), which people with the usual colour
// deficiencies can tell apart; dark hues are lifted where the page is dark, and neighbours by rank
// differ in lightness too.

const GROUP_SLOTS = 11;
const OTHER = 11, DIM = 12, OVERHEAD = 13, DATA = 14, AHEAD = 15, MESSAGES = 16, SLOTS = 17;

const HUES = {
  light: ["#5f74c4", "#7cc0df", "#3f9e8d", "#dcc36a", "#c9697a", "#8c4a86", "#a3a047", "#2f7d4f", "#e39b62",
    "#b58fcb", "#7d8a99"],
  dark: ["#7488d8", "#83c6e4", "#4db39f", "#d9c478", "#d67f8e", "#b070ab", "#a9a858", "#53a071", "#dd9a66",
    "#c3a4d8", "#8f9cab"],
};

/** Everything the canvas paints with, from the style sheet and the hues above. */
function readInk(theme) {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue("--" + name).trim();
  const names = ["bg", "lane", "text", "muted", "faint", "line", "accent", "dim", "overhead", "data", "ahead",
    "messages", "other", "hatch", "curve", "shade"];
  const ink = Object.fromEntries(names.map((n) => [n, get(n)]));
  ink.slots = [...HUES[theme], ink.other, ink.dim, ink.overhead, ink.data, ink.ahead, ink.messages];
  ink.packed = Uint32Array.from([...ink.slots, ink.lane], packed);
  ink.labels = ink.slots.map((c) => (lightness(c) > 0.58 ? "#10151c" : "#ffffff"));
  ink.work = hatched(ink.lane, ink.hatch, 1);
  ink.waits = [];
  ink.waits[DATA] = hatched(ink.lane, ink.data, -1);
  ink.waits[OVERHEAD] = hatched(ink.lane, ink.overhead, 0);
  ink.waits[MESSAGES] = hatched(ink.lane, ink.messages, -1);
  return ink;
}

function channels(hex) {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

/** A colour as a pixel of image data, which is little-endian wherever browsers run. */
function packed(hex) {
  const [r, g, b] = channels(hex);
  return (0xff << 24) | (b << 16) | (g << 8) | r;
}

function lightness(hex) {
  const [r, g, b] = channels(hex);
  return (0.299 * r + 0.587 * g + 0.114 * b) / 255;
}

/** A pattern of diagonal lines that rise (1) or fall (-1), or of dots (0). */
function hatched(ground, colour, direction) {
  const size = 8, tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const c = tile.getContext("2d");
  c.fillStyle = ground;
  c.fillRect(0, 0, size, size);
  c.strokeStyle = c.fillStyle = colour;
  if (direction === 0) {
    for (const [x, y] of [[1, 1], [5, 5]]) c.fillRect(x, y, 2, 2);
  } else {
    c.lineWidth = 1.2;
    c.beginPath();
    for (const shift of [-size, 0, size]) {
      c.moveTo(shift, direction > 0 ? size : 0);
      c.lineTo(shift + size, direction > 0 ? 0 : size);
    }
    c.stroke();
  }
  return c.createPattern(tile, "repeat");
}
