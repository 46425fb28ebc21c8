// From the text of a block to its bytes: base64, then deflate.
//
// Browsers inflate by themselves (DecompressionStream); `inflate` below is for those that do not, and is
// several times slower. It follows RFC 1951 and trusts its input, which was written with the page.

/** The bytes of the block called `name`, or null if the page has none. */
async function block(name) {
  const element = document.getElementById("block-" + name);
  return element && inflated(base64(element.textContent));
}

function base64(text) {
  text = text.trim();
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const value = new Uint8Array(128);
  for (let i = 0; i < 64; i++) value[digits.charCodeAt(i)] = i;
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  const out = new Uint8Array((text.length / 4) * 3 - padding);
  for (let i = 0, o = 0; i < text.length; i += 4, o += 3) {
    const bits =
      (value[text.charCodeAt(i)] << 18) | (value[text.charCodeAt(i + 1)] << 12) |
      (value[text.charCodeAt(i + 2)] << 6) | value[text.charCodeAt(i + 3)];
    out[o] = bits >> 16;
    out[o + 1] = bits >> 8;
    out[o + 2] = bits;
  }
  return out;
}

async function inflated(bytes) {
  if (!window.DecompressionStream) return inflate(bytes);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const LENGTH_BASE = [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99,
  115, 131, 163, 195, 227, 258];
const LENGTH_BITS = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
const CODE_ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

function inflate(input) {
  let out = new Uint8Array(input.length * 4 + 1024);
  let size = 0, place = 0, held = 0, count = 0;

  const bits = (n) => {
    while (count < n) {
      held |= input[place++] << count;
      count += 8;
    }
    const value = held & ((1 << n) - 1);
    held >>>= n;
    count -= n;
    return value;
  };
  const room = (n) => {
    if (size + n <= out.length) return;
    const larger = new Uint8Array(Math.max(out.length * 2, size + n));
    larger.set(out);
    out = larger;
  };
  // A canonical code: how many codes of each length, and the symbols in the order of their codes.
  const code = (lengths) => {
    const counts = new Uint16Array(16), first = new Uint16Array(16);
    for (const l of lengths) counts[l]++;
    counts[0] = 0;
    for (let l = 1; l < 16; l++) first[l] = first[l - 1] + counts[l - 1];
    const symbols = new Uint16Array(lengths.length);
    lengths.forEach((l, symbol) => { if (l) symbols[first[l]++] = symbol; });
    return { counts, symbols };
  };
  const symbol = ({ counts, symbols }) => {
    let value = 0, base = 0, index = 0;
    for (let l = 1; l < 16; l++) {
      value |= bits(1);
      if (value - counts[l] < base) return symbols[index + value - base];
      index += counts[l];
      base = (base + counts[l]) << 1;
      value <<= 1;
    }
    throw new Error("a block of this page is damaged");
  };
  const tables = () => {
    const literals = bits(5) + 257, distances = bits(5) + 1, codes = bits(4) + 4;
    const lengths = new Array(19).fill(0);
    for (let i = 0; i < codes; i++) lengths[CODE_ORDER[i]] = bits(3);
    const lengthCode = code(lengths), all = [];
    while (all.length < literals + distances) {
      const s = symbol(lengthCode);
      if (s < 16) all.push(s);
      else {
        const [value, times] =
          s === 16 ? [all[all.length - 1], 3 + bits(2)] : [0, s === 17 ? 3 + bits(3) : 11 + bits(7)];
        for (let i = 0; i < times; i++) all.push(value);
      }
    }
    return [code(all.slice(0, literals)), code(all.slice(literals))];
  };
  const fixed = () => {
    const lengths = Array.from({ length: 288 }, (_, i) => (i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8));
    return [code(lengths), code(new Array(30).fill(5))];
  };

  for (let last = 0; !last;) {
    last = bits(1);
    const kind = bits(2);
    if (kind === 0) {
      held = count = 0;
      const length = input[place] | (input[place + 1] << 8);
      room(length);
      out.set(input.subarray(place + 4, place + 4 + length), size);
      place += 4 + length;
      size += length;
      continue;
    }
    const [literals, distances] = kind === 1 ? fixed() : tables();
    for (let s = symbol(literals); s !== 256; s = symbol(literals)) {
      if (s < 256) {
        room(1);
        out[size++] = s;
        continue;
      }
      const length = LENGTH_BASE[s - 257] + bits(LENGTH_BITS[s - 257]);
      const d = symbol(distances), extra = d < 2 ? 0 : (d >> 1) - 1;
      const distance = d < 2 ? d + 1 : ((2 + (d & 1)) << extra) + 1 + bits(extra);
      room(length);
      for (let i = 0; i < length; i++, size++) out[size] = out[size - distance];
    }
  }
  return out.subarray(0, size);
}
