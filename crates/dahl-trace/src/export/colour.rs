//! A colour for a codelet: the same in every trace, since it follows from the name.

/// Red, green and blue, light enough for black letters on it.
pub(super) fn of(name: &str) -> [u8; 3] {
    // The hash spreads similar names over the circle of hues.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    });
    let hue = (hash >> 11) as f64 / (1u64 << 53) as f64 * 6.0;
    // Saturation 0.45, value 0.95, by the usual six segments.
    let channel = |n: f64| {
        let k = (n + hue) % 6.0;
        let part = k.min(4.0 - k).clamp(0.0, 1.0);
        (255.0 * 0.95 * (1.0 - 0.45 * part)).round() as u8
    };
    [channel(5.0), channel(3.0), channel(1.0)]
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_differ() {
        assert_eq!(super::of("conv2d"), super::of("conv2d"));
        assert_ne!(super::of("conv2d"), super::of("linear"));
        assert!(super::of("").iter().all(|c| *c > 100));
    }
}
