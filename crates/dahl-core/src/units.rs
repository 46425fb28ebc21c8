//! Quantities with their unit in the type: seconds, joules, watts, bytes.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl std::ops::Add for $name {
            type Output = $name;
            fn add(self, other: $name) -> $name {
                $name(self.0 + other.0)
            }
        }

        impl std::ops::AddAssign for $name {
            fn add_assign(&mut self, other: $name) {
                self.0 += other.0;
            }
        }

        impl std::ops::Sub for $name {
            type Output = $name;
            fn sub(self, other: $name) -> $name {
                $name(self.0 - other.0)
            }
        }

        impl std::iter::Sum for $name {
            fn sum<I: Iterator<Item = $name>>(iter: I) -> $name {
                iter.fold($name::default(), |a, b| a + b)
            }
        }
    };
}

quantity!(
    /// A duration or a point in time.
    Seconds(f64)
);
quantity!(
    /// Energy.
    Joules(f64)
);
quantity!(
    /// Power.
    Watts(f64)
);
quantity!(
    /// An amount of memory.
    Bytes(u64)
);

impl std::ops::Mul<Seconds> for Watts {
    type Output = Joules;

    fn mul(self, time: Seconds) -> Joules {
        Joules(self.0 * time.0)
    }
}

/// Three significant digits with a prefix: `1.23 m`, `45.6 k`.
fn with_prefix(f: &mut fmt::Formatter<'_>, value: f64, unit: &str) -> fmt::Result {
    const PREFIXES: [(f64, &str); 7] = [
        (1e12, "T"),
        (1e9, "G"),
        (1e6, "M"),
        (1e3, "k"),
        (1.0, ""),
        (1e-3, "m"),
        (1e-6, "µ"),
    ];
    if !value.is_finite() || value == 0.0 {
        return write!(f, "{value} {unit}");
    }
    let magnitude = value.abs();
    let (scale, prefix) = PREFIXES
        .iter()
        .copied()
        .find(|&(s, _)| magnitude >= s * 0.9995)
        .unwrap_or((1e-9, "n"));
    let scaled = value / scale;
    let digits = if scaled.abs() >= 99.95 {
        0
    } else {
        usize::from(scaled.abs() < 9.995) + 1
    };
    write!(f, "{scaled:.digits$} {prefix}{unit}")
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.abs() >= 999.5 {
            write!(f, "{:.0} s", self.0)
        } else {
            with_prefix(f, self.0, "s")
        }
    }
}

impl fmt::Display for Joules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_prefix(f, self.0, "J")
    }
}

impl fmt::Display for Watts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_prefix(f, self.0, "W")
    }
}

impl Bytes {
    /// The next higher amount that is printed exactly: enough of it is enough.
    pub fn rounded_up(self) -> Bytes {
        let unit = 1024u128.pow(self.0.max(1).ilog2() / 10);
        let tenths = (u128::from(self.0) * 10).div_ceil(unit);
        Bytes(u64::try_from((tenths * unit).div_ceil(10)).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while value >= 1023.95 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        write!(f, "{value:.1} {}", UNITS[unit])
    }
}

/// So many of something, in words: `1 step`, `2 steps`, `0 copies`.
pub fn several(count: impl TryInto<u64>, what: &str) -> String {
    // A count that does not fit is one of many.
    match (count.try_into().unwrap_or(u64::MAX), what.strip_suffix('y')) {
        (1, _) => format!("1 {what}"),
        (n, Some(stem)) if !stem.ends_with(['a', 'e', 'o']) => format!("{n} {stem}ies"),
        (n, _) => format!("{n} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_well() {
        assert_eq!(Seconds(0.001234).to_string(), "1.23 ms");
        assert_eq!(Seconds(45.6).to_string(), "45.6 s");
        assert_eq!(Seconds(1e-7).to_string(), "100 ns");
        assert_eq!(Seconds(0.0).to_string(), "0 s");
        assert_eq!(Joules(123_456.0).to_string(), "123 kJ");
        assert_eq!(Bytes(1536).to_string(), "1.5 KiB");
        assert_eq!(Bytes(1537).rounded_up().to_string(), "1.6 KiB");
        assert_eq!(Bytes(1536).rounded_up().to_string(), "1.5 KiB");
        assert_eq!(Bytes(999).rounded_up(), Bytes(999));
        assert_eq!(Bytes(u64::MAX).to_string(), "16384.0 PiB");
        assert_eq!((Watts(2.0) * Seconds(3.0)), Joules(6.0));
        assert_eq!(several(1, "step"), "1 step");
        assert_eq!(several(12_usize, "step"), "12 steps");
        assert_eq!(several(0, "copy"), "0 copies");
        assert_eq!(several(2, "array"), "2 arrays");
    }
}
