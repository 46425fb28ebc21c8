//! Transforms of bytes, rounded as torchvision rounds those of `uint8` images: in single precision, cut off.

/// `factor` of one value and the rest of another.
fn blend(factor: f32, a: u8, b: f32) -> u8 {
    (factor * f32::from(a) + (1.0 - factor) * b).clamp(0.0, 255.0) as u8
}

/// All values times a factor.
pub(crate) fn brightness(pixels: &mut [u8], factor: f64) {
    let factor = factor as f32;
    pixels.iter_mut().for_each(|p| *p = blend(factor, *p, 0.0));
}

/// The distance of all values from the mean grey times a factor.
pub(crate) fn contrast(pixels: &mut [u8], channels: usize, factor: f64) {
    let plane = pixels.len() / channels.max(1);
    let grey = |at: usize| match channels {
        3 => {
            let [r, g, b] = [0, 1, 2].map(|c| f32::from(pixels[c * plane + at]));
            (0.2989 * r + 0.587 * g + 0.114 * b) as u8
        }
        _ => pixels[at],
    };
    let sum: u64 = (0..plane).map(|at| u64::from(grey(at))).sum();
    let mean = (sum as f64 / plane.max(1) as f64) as f32;
    let factor = factor as f32;
    pixels.iter_mut().for_each(|p| *p = blend(factor, *p, mean));
}
