//! Resizing with a triangle filter that widens when shrinking: no aliasing, as Pillow's `BILINEAR`.
//!
//! Each output row is first a weighted sum of whole input rows, which vectorises because rows are
//! contiguous; that sum is then resized sideways. Both in `f32`, rounded once, and written channel by
//! channel. The arithmetic is the same on every machine: no fused multiply-add, a fixed order.

/// The input pixels that make one output pixel: the first of them, and where their weights lie.
struct Taps {
    first: usize,
    weights: std::ops::Range<usize>,
}

/// The taps of each output position along one side.
fn taps(from: usize, to: usize) -> (Vec<Taps>, Vec<f32>) {
    let scale = from as f64 / to as f64;
    let reach = scale.max(1.0);
    let (mut all, mut weights) = (Vec::with_capacity(to), Vec::new());
    for i in 0..to {
        let centre = (i as f64 + 0.5) * scale;
        let first = (centre - reach).floor().max(0.0) as usize;
        let last = ((centre + reach).ceil() as usize).min(from).max(first + 1);
        let weight = |x: usize| (1.0 - ((x as f64 + 0.5 - centre) / reach).abs()).max(0.0);
        let sum: f64 = (first..last).map(weight).sum();
        let start = weights.len();
        weights.extend((first..last).map(|x| (weight(x) / sum) as f32));
        all.push(Taps {
            first,
            weights: start..weights.len(),
        });
    }
    (all, weights)
}

/// Resizes interleaved pixels (height × width × `C` channels) into planes (`C` × height × width).
///
/// All sizes are above 0, and both slices have exactly the size that the shapes say.
pub(crate) fn resize<const C: usize>(
    input: &[u8],
    [height, width]: [usize; 2],
    [h, w]: [usize; 2],
    output: &mut [u8],
) {
    assert_eq!(input.len(), C * height * width, "the input's size");
    assert_eq!(output.len(), C * h * w, "the output's size");
    if [height, width] == [h, w] {
        for (i, pixel) in input.chunks_exact(C).enumerate() {
            for (c, &value) in pixel.iter().enumerate() {
                output[c * h * w + i] = value;
            }
        }
        return;
    }
    let (down, down_weights) = taps(height, h);
    let (right, right_weights) = taps(width, w);
    let row = width * C;
    let mut sum = vec![0f32; row];
    for (y, tap) in down.iter().enumerate() {
        sum.fill(0.0);
        let rows = input[tap.first * row..].chunks_exact(row);
        for (&weight, line) in down_weights[tap.weights.clone()].iter().zip(rows) {
            for (s, &v) in sum.iter_mut().zip(line) {
                *s += weight * f32::from(v);
            }
        }
        for (x, tap) in right.iter().enumerate() {
            let mut value = [0.5f32; C];
            let pixels = sum[tap.first * C..].chunks_exact(C);
            for (&weight, pixel) in right_weights[tap.weights.clone()].iter().zip(pixels) {
                for c in 0..C {
                    value[c] += weight * pixel[c];
                }
            }
            for (c, value) in value.into_iter().enumerate() {
                output[(c * h + y) * w + x] = value as u8;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_same_size_only_changes_the_layout() {
        let mut planes = [0; 12];
        resize::<3>(
            &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
            [2, 2],
            [2, 2],
            &mut planes,
        );
        assert_eq!(planes, [1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12]);
    }

    #[test]
    fn halving_is_a_triangle_of_four() {
        // Centre 2 with reach 2: weights 1, 3, 3, 1 over 8; at the border three of them over 7.
        let mut out = [0; 2];
        resize::<1>(&[0, 80, 160, 240], [1, 4], [1, 2], &mut out);
        assert_eq!(
            out,
            [
                ((80.0 * 3.0 + 160.0) / 7.0 + 0.5) as u8,
                ((80. + 160. * 3. + 240. * 3.) / 7. + 0.5) as u8
            ]
        );
    }

    #[test]
    fn doubling_interpolates() {
        let mut out = [0; 4];
        resize::<1>(&[0, 100], [1, 2], [1, 4], &mut out);
        assert_eq!(out, [0, 25, 75, 100]);
    }

    /// `torch.nn.functional.interpolate(mode="bilinear", antialias=True)` in double precision, of the
    /// image below, with PyTorch 2.15.
    #[rustfmt::skip]
    const TORCH: [([usize; 2], &[f64]); 3] = [
        ([3, 4], &[
            66.442, 146.446, 121.903, 116.122, 100.894, 152.342, 164.591, 147.778, 146.605, 131.463,
            124.726, 144.211,
        ]),
        ([2, 9], &[
            52.5, 83.803, 140.606, 174.591, 113.5, 141.146, 149.778, 135.591, 106.045, 97.5, 146.136,
            147.101, 126.515, 156.636, 133.515, 148.424, 155.727, 135.909,
        ]),
        ([8, 3], &[
            78.0, 95.824, 127.357, 99.062, 122.614, 125.732, 123.692, 158.129, 125.795, 99.183,
            168.827, 147.312, 103.402, 170.353, 158.339, 136.348, 162.706, 158.875, 150.411, 121.938,
            140.527, 158.786, 90.824, 126.214,
        ]),
    ];

    #[test]
    fn sizes_that_do_not_divide_agree_with_pytorch() {
        let pixel = |i: usize| {
            let (y, x) = (i / 7, i % 7);
            ((37 * y * y + 91 * x + 13 * x * y) % 251) as u8
        };
        let input: Vec<u8> = (0..35).map(pixel).collect();
        for (to, wanted) in TORCH {
            let mut out = vec![0; wanted.len()];
            resize::<1>(&input, [5, 7], to, &mut out);
            for (got, wanted) in out.into_iter().zip(wanted) {
                assert!(
                    (f64::from(got) - wanted).abs() < 0.502,
                    "{to:?}: {got}, not {wanted}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn a_flat_picture_stays_flat(
            value: u8,
            sizes in [1usize..40, 1usize..40, 1usize..40, 1usize..40],
            colour: bool,
        ) {
            let (c, [a, b, h, w]) = (if colour { 3 } else { 1 }, sizes);
            let (input, mut out) = (vec![value; c * a * b], vec![0; c * h * w]);
            let go = if colour { resize::<3> } else { resize::<1> };
            go(&input, [a, b], [h, w], &mut out);
            prop_assert!(out.iter().all(|v| v.abs_diff(value) <= 1));
        }
    }
}
