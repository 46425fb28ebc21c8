// Paints columns of shares as pixels: in each column the slots stand on one another, idle time above.

/** A painter that keeps its image from one lane to the next of the same size. */
function raster() {
  let image = null, pixels = null;
  return (context, x, y, width, height, shares, packed) => {
    if (!image || image.width !== width || image.height !== height) {
      image = new ImageData(width, height);
      pixels = new Uint32Array(image.data.buffer);
    }
    pixels.fill(packed[SLOTS]);
    for (let column = 0, o = 0; column < width; column++, o += SLOTS) {
      let total = 0;
      for (let s = 0; s < SLOTS; s++) total += shares[o + s];
      if (total <= 0) continue;
      const scale = height / Math.max(1, total);
      // A sliver that is never drawn would make a busy lane look idle.
      if (total * scale < 1) {
        let most = 0;
        for (let s = 1; s < SLOTS; s++) if (shares[o + s] > shares[o + most]) most = s;
        pixels[(height - 1) * width + column] = packed[most];
        continue;
      }
      let sum = 0, row = height;
      for (let s = 0; s < SLOTS; s++) {
        if (shares[o + s] === 0) continue;
        sum += shares[o + s] * scale;
        const top = height - Math.round(sum);
        for (; row > top; row--) pixels[(row - 1) * width + column] = packed[s];
      }
    }
    context.putImageData(image, x, y);
  };
}
