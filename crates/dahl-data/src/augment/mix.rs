//! What happens after normalisation: erased rectangles, and samples mixed with their neighbours.

use dahl_core::Element;

use super::super::random::Draw;

/// Area and shape of erased rectangles: torchvision's defaults.
const AREA: [f64; 2] = [0.02, 0.33];
const RATIO: [f64; 2] = [0.3, 3.3];

/// Top, left, height and width of a rectangle to erase; none if ten attempts do not fit.
pub(super) fn rectangle(draw: &mut Draw, [_, height, width]: [usize; 3]) -> Option<[usize; 4]> {
    let log = RATIO.map(libm::log);
    for _ in 0..10 {
        let area = (height * width) as f64 * draw.between(AREA);
        let ratio = libm::exp(draw.between(log));
        let [h, w] = [area * ratio, area / ratio].map(|a| a.sqrt().round_ties_even() as usize);
        if (1..height).contains(&h) && (1..width).contains(&w) {
            let [top, left] = [height - h, width - w].map(|n| draw.below(n as u64 + 1) as usize);
            return Some([top, left, h, w]);
        }
    }
    None
}

/// Sets a rectangle of all channels to 0.
pub(super) fn erase<T: Element>(
    values: &mut [T],
    [_, height, width]: [usize; 3],
    [top, left, h, w]: [usize; 4],
) {
    for plane in values.chunks_exact_mut(height * width) {
        for row in plane.chunks_exact_mut(width).skip(top).take(h) {
            row[left..left + w].fill(T::default());
        }
    }
}

/// A number from Beta(α, α), by Jöhnk's method: two powers that add up to at most 1.
pub(crate) fn lambda(draw: &mut Draw, alpha: f64) -> f64 {
    loop {
        let [x, y] = [(); 2].map(|()| libm::pow(draw.uniform(), 1.0 / alpha));
        if x + y <= 1.0 && x + y > 0.0 {
            return x / (x + y);
        }
    }
}

/// `own` becomes λ of itself and 1−λ of another, each product and the sum rounded to the element type.
pub(crate) fn blend<T: Element>(own: &mut [T], other: &[T], lambda: f64) {
    let round = |v: f64| T::from_f64(v).to_f64();
    let (a, b) = (round(lambda), round(1.0 - lambda));
    for (x, y) in own.iter_mut().zip(other) {
        *x = T::from_f64(round(y.to_f64() * b) + round(x.to_f64() * a));
    }
}
