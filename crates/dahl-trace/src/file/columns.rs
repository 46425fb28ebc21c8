//! Columns of small numbers.
//!
//! A number takes seven bits a byte, lowest first, the eighth says that more follow (LEB128). A column
//! of numbers that are close to their neighbours keeps differences, with the sign in the lowest bit. Each
//! table begins with its number of rows; since a number takes at least one byte, no more rows than
//! bytes are believed.

/// Writes one table.
#[derive(Default)]
pub(super) struct Table {
    bytes: Vec<u8>,
}

impl Table {
    /// The bytes.
    pub(super) fn done(self) -> Vec<u8> {
        self.bytes
    }

    /// Begins a table of this many rows with room for so many bytes a row.
    pub(super) fn rows(&mut self, rows: usize, bytes: usize) {
        self.bytes.reserve(rows * bytes);
        self.number(rows as u64);
    }

    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// A column of numbers.
    pub(super) fn plain(&mut self, values: impl Iterator<Item = u64>) {
        values.for_each(|v| self.number(v));
    }

    /// A column of numbers close to their neighbours.
    pub(super) fn near(&mut self, values: impl Iterator<Item = u64>) {
        let mut last = 0u64;
        for v in values {
            let step = v.wrapping_sub(last) as i64;
            self.number(((step << 1) ^ (step >> 63)) as u64);
            last = v;
        }
    }

    /// A column of numbers that need all their bits.
    pub(super) fn wide(&mut self, values: impl Iterator<Item = f64>) {
        values.for_each(|v| self.bytes.extend(v.to_bits().to_le_bytes()));
    }
}

/// Reads tables.
pub(super) struct Columns<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Columns<'a> {
    /// Reads from the begin.
    pub(super) fn new(bytes: &'a [u8]) -> Columns<'a> {
        Columns { bytes, at: 0 }
    }

    /// Makes sure that nothing is left.
    pub(super) fn finish(&self) -> Result<(), String> {
        match self.bytes.len() - self.at {
            0 => Ok(()),
            n => Err(format!("{n} bytes are left over")),
        }
    }

    /// The number of rows of the next table, of at least `columns` bytes each.
    pub(super) fn rows(&mut self, columns: usize) -> Result<usize, String> {
        let rows = self.number()?;
        let most = (self.bytes.len() - self.at) / columns;
        if rows > most as u64 {
            return Err(format!("{rows} rows in bytes for at most {most}"));
        }
        Ok(rows as usize)
    }

    #[inline]
    fn number(&mut self) -> Result<u64, String> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let Some(&byte) = self.bytes.get(self.at) else {
                return Err("a column ends too early".into());
            };
            self.at += 1;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number of more than 64 bits".into())
    }

    /// Reads a column into a field of each row.
    pub(super) fn plain<R, T: TryFrom<u64>>(
        &mut self,
        rows: &mut [R],
        put: impl Fn(&mut R, T),
    ) -> Result<(), String> {
        for row in rows {
            let value = self.number()?;
            put(row, narrow(value)?);
        }
        Ok(())
    }

    /// Reads a column that [`Table::near`] wrote.
    pub(super) fn near<R, T: TryFrom<u64>>(
        &mut self,
        rows: &mut [R],
        put: impl Fn(&mut R, T),
    ) -> Result<(), String> {
        let mut last = 0u64;
        for row in rows {
            let step = self.number()?;
            last = last.wrapping_add((step >> 1) ^ (step & 1).wrapping_neg());
            put(row, narrow(last)?);
        }
        Ok(())
    }

    /// Reads a column that [`Table::wide`] wrote.
    pub(super) fn wide<R>(
        &mut self,
        rows: &mut [R],
        put: impl Fn(&mut R, f64),
    ) -> Result<(), String> {
        for row in rows {
            let Some(bytes) = self.bytes.get(self.at..self.at + 8) else {
                return Err("a column ends too early".into());
            };
            self.at += 8;
            let bits = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
            put(row, f64::from_bits(bits));
        }
        Ok(())
    }
}

fn narrow<T: TryFrom<u64>>(value: u64) -> Result<T, String> {
    T::try_from(value).map_err(|_| format!("{value} is too large for its column"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn columns_come_back(values in prop::collection::vec(any::<u64>(), 0..50)) {
            let mut table = Table::default();
            table.rows(values.len(), 2);
            table.plain(values.iter().copied());
            table.near(values.iter().copied());
            let bytes = table.done();
            let mut columns = Columns::new(&bytes);
            let mut rows = vec![(0u64, 0u64); columns.rows(2).expect("rows")];
            columns.plain(&mut rows, |r, v| r.0 = v).expect("plain");
            columns.near(&mut rows, |r, v| r.1 = v).expect("near");
            columns.finish().expect("nothing left");
            prop_assert!(rows.iter().zip(&values).all(|(r, v)| r.0 == *v && r.1 == *v));
        }
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Columns::new(&[0xff; 10]).rows(1).is_err());
        assert!(Columns::new(&[0x80]).rows(1).is_err());
        assert!(Columns::new(&[5, 0, 0]).rows(1).is_err());
        assert!(
            Columns::new(&[2])
                .plain(&mut [0u8; 2], |r, v| *r = v)
                .is_err()
        );
        let large = [0x80, 0x80, 0x04];
        assert!(
            Columns::new(&large)
                .plain(&mut [0u16], |r, v| *r = v)
                .is_err()
        );
    }
}
