//! NumPy's arrays as files: `.npy`, as `numpy.save` writes them (format versions 1 to 3).
//!
//! The header is a Python dictionary with three keys in any order; nothing else of Python is understood. Elements are
//! little-endian integers, floats or booleans in C order. What the header announces must be what the file holds.

/// An array: its extents and its elements, where they lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Npy<'a> {
    /// The extents of each axis.
    pub(crate) shape: [usize; 4],
    /// How many of them count.
    pub(crate) rank: usize,
    kind: Kind,
    bytes: &'a [u8],
}

/// An element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Signed(usize),
    Unsigned(usize),
    Float(usize),
}

impl<'a> Npy<'a> {
    /// Understands the content of a file.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Npy<'a>, String> {
        let no = || "it does not begin as .npy files do".to_owned();
        let rest = bytes.strip_prefix(b"\x93NUMPY").ok_or_else(no)?;
        let (version, rest) = rest.split_at_checked(2).ok_or_else(no)?;
        let wide = if version[0] >= 2 { 4 } else { 2 };
        let (length, rest) = rest.split_at_checked(wide).ok_or_else(no)?;
        let length = length
            .iter()
            .rev()
            .fold(0usize, |n, &b| n << 8 | usize::from(b));
        let (header, bytes) = rest
            .split_at_checked(length)
            .ok_or("its header is longer than the file")?;
        let header = std::str::from_utf8(header).map_err(|_| "its header is no text")?;
        let kind = kind(quoted(header, "descr")?)?;
        if value(header, "fortran_order")?.starts_with("True") {
            return Err("its order is Fortran's; save numpy.ascontiguousarray(x)".into());
        }
        let (shape, rank) = extents(value(header, "shape")?)?;
        let size = match kind {
            Kind::Signed(n) | Kind::Unsigned(n) | Kind::Float(n) => n,
        };
        let elements = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
        let expected = elements.and_then(|n| n.checked_mul(size));
        if expected != Some(bytes.len()) {
            return Err(format!(
                "its header announces {shape:?} elements of {size} bytes, {} bytes follow",
                bytes.len()
            ));
        }
        Ok(Npy {
            shape,
            rank,
            kind,
            bytes,
        })
    }

    /// Extents that count.
    pub(crate) fn extents(&self) -> &[usize] {
        &self.shape[..self.rank]
    }

    /// The elements as bytes, if that is what they are.
    pub(crate) fn as_bytes(&self) -> Option<&'a [u8]> {
        (self.kind == Kind::Unsigned(1)).then_some(self.bytes)
    }

    /// Whether elements are whole numbers.
    pub(crate) fn is_whole(&self) -> bool {
        !matches!(self.kind, Kind::Float(_))
    }

    /// Element after element, as floats: exact but for integers beyond 2⁵³.
    pub(crate) fn values(&self) -> impl Iterator<Item = f64> + 'a {
        let kind = self.kind;
        let size = match kind {
            Kind::Signed(n) | Kind::Unsigned(n) | Kind::Float(n) => n,
        };
        self.bytes.chunks_exact(size).map(move |b| {
            let raw = b.iter().rev().fold(0u64, |n, &b| n << 8 | u64::from(b));
            match kind {
                Kind::Unsigned(_) => raw as f64,
                Kind::Signed(n) => (((raw << (64 - 8 * n)) as i64) >> (64 - 8 * n)) as f64,
                Kind::Float(4) => f64::from(f32::from_bits(raw as u32)),
                Kind::Float(_) => f64::from_bits(raw),
            }
        })
    }
}

fn kind(text: &str) -> Result<Kind, String> {
    Ok(match text {
        "|u1" | "|b1" => Kind::Unsigned(1),
        "<u2" => Kind::Unsigned(2),
        "<u4" => Kind::Unsigned(4),
        "<u8" => Kind::Unsigned(8),
        "|i1" => Kind::Signed(1),
        "<i2" => Kind::Signed(2),
        "<i4" => Kind::Signed(4),
        "<i8" => Kind::Signed(8),
        "<f4" => Kind::Float(4),
        "<f8" => Kind::Float(8),
        other => {
            return Err(format!(
                "its elements are {other:?}; use uint8, integers, float32 or float64 (little-endian)"
            ));
        }
    })
}

/// What follows a key of the dictionary.
fn value<'h>(header: &'h str, key: &str) -> Result<&'h str, String> {
    let missing = || format!("its header has no `{key}`");
    let at = [format!("'{key}'"), format!("\"{key}\"")]
        .iter()
        .find_map(|k| header.find(k.as_str()).map(|at| at + k.len()));
    let rest = header[at.ok_or_else(missing)?..].trim_start();
    rest.strip_prefix(':')
        .map(str::trim_start)
        .ok_or_else(missing)
}

fn quoted<'h>(header: &'h str, key: &str) -> Result<&'h str, String> {
    let text = value(header, key)?;
    let inner = text
        .strip_prefix(['\'', '"'])
        .and_then(|t| t.split_once(['\'', '"']));
    inner
        .map(|(text, _)| text)
        .ok_or_else(|| format!("its `{key}` is no plain type; records are not read"))
}

/// A tuple such as `(60000, 28, 28)`; up to four axes.
fn extents(text: &str) -> Result<([usize; 4], usize), String> {
    let wrong = || "its `shape` is no tuple of up to four sizes".to_owned();
    let inner = text.strip_prefix('(').and_then(|t| t.split_once(')'));
    let inner = inner.ok_or_else(wrong)?.0;
    let sizes = inner.split(',').map(str::trim).filter(|t| !t.is_empty());
    let (mut shape, mut rank) = ([1; 4], 0);
    for size in sizes {
        let size = size.parse().ok().filter(|_| rank < 4).ok_or_else(wrong)?;
        shape[rank] = size;
        rank += 1;
    }
    Ok((shape, rank))
}
