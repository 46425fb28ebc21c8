//! Transforms that move pixels, of any type, and make none.

/// Mirrors every row of so many pixels.
pub(crate) fn flip<P>(pixels: &mut [P], width: usize) {
    pixels.chunks_exact_mut(width).for_each(<[P]>::reverse);
}

/// The picture seen `[down, right]` pixels further; what was outside is `fill`.
pub(crate) fn shift<P: Copy>(
    from: &[P],
    to: &mut [P],
    [_, height, width]: [usize; 3],
    [down, right]: [i64; 2],
    fill: P,
) {
    let inside = |at: i64, n: usize| usize::try_from(at).ok().filter(|&at| at < n);
    let planes = from
        .chunks_exact(height * width)
        .zip(to.chunks_exact_mut(height * width));
    for (from, to) in planes {
        for (y, row) in to.chunks_exact_mut(width).enumerate() {
            let Some(source) = inside(y as i64 + down, height) else {
                row.fill(fill);
                continue;
            };
            let source = &from[source * width..][..width];
            for (x, p) in row.iter_mut().enumerate() {
                *p = inside(x as i64 + right, width).map_or(fill, |x| source[x]);
            }
        }
    }
}

/// Turned anticlockwise around the middle, each pixel from the nearest one; corners that were outside are `fill`.
///
/// Sine and cosine are `libm`'s, the same on every machine.
pub(crate) fn rotate<P: Copy>(
    from: &[P],
    to: &mut [P],
    [_, height, width]: [usize; 3],
    degrees: f64,
    fill: P,
) {
    let angle = degrees.to_radians();
    let (sin, cos) = (libm::sin(angle), libm::cos(angle));
    let [mid_y, mid_x] = [height, width].map(|n| (n as f64 - 1.0) / 2.0);
    let plane = height * width;
    for y in 0..height {
        for x in 0..width {
            let (dy, dx) = (y as f64 - mid_y, x as f64 - mid_x);
            let source_x = (cos * dx - sin * dy + mid_x).round_ties_even();
            let source_y = (sin * dx + cos * dy + mid_y).round_ties_even();
            let is_inside =
                (0.0..height as f64).contains(&source_y) && (0.0..width as f64).contains(&source_x);
            let source = is_inside.then(|| source_y as usize * width + source_x as usize);
            let planes = from.chunks_exact(plane).zip(to.chunks_exact_mut(plane));
            for (from, to) in planes {
                to[y * width + x] = source.map_or(fill, |at| from[at]);
            }
        }
    }
}
