// Reads columns of numbers from the bytes of a block.
//
// A number takes seven bits a byte, lowest first; the eighth bit says that more follow. Numbers above
// 2^53 lose their lowest digits: times would have to exceed a hundred days for that.

function columns(bytes) {
  let at = 0;

  const number = () => {
    let byte = bytes[at++];
    if (byte < 128) return byte;
    let value = byte & 127;
    for (let shift = 7; shift < 28; shift += 7) {
      byte = bytes[at++];
      value |= (byte & 127) << shift;
      if (byte < 128) return value;
    }
    let scale = 2 ** 28;
    do {
      byte = bytes[at++];
      value += (byte & 127) * scale;
      scale *= 128;
    } while (byte >= 128);
    return value;
  };

  return {
    number,
    /** A column as it stands, in an array of the given type. */
    numbers(Type = Float64Array) {
      const out = new Type(number());
      for (let i = 0; i < out.length; i++) out[i] = number();
      return out;
    },
    /** A column of signed numbers. */
    signed(Type = Float64Array) {
      const out = new Type(number());
      for (let i = 0; i < out.length; i++) out[i] = unfold(number());
      return out;
    },
    /** A column of signed differences, added up. */
    sums(Type = Float64Array) {
      const out = new Type(number());
      for (let i = 0, sum = 0; i < out.length; i++) out[i] = sum += unfold(number());
      return out;
    },
    /** A column of bytes. */
    raw() {
      const length = number();
      return bytes.subarray(at, (at += length));
    },
    get done() {
      return at >= bytes.length;
    },
  };
}

/** A signed number from one that has its sign in the lowest bit. */
function unfold(n) {
  // Nearly all numbers are small, and whole-number arithmetic is much faster.
  if (n < 0x80000000) return (n >>> 1) ^ -(n & 1);
  return n % 2 ? -(n + 1) / 2 : n / 2;
}
