//! Bytes and numbers that every node gives and all, or the first, get: as values of an ordinary graph ([`Rows`]).

use dahl_core::{ExecError, Executor, Handle, Values};

use super::agree::Rows;
use super::member::Member;

impl Member {
    /// Every node gives some bytes and gets those of all, by number. All nodes must call it at the same place.
    pub fn gather(&mut self, own: &[u8]) -> Result<Vec<Vec<u8>>, ExecError> {
        if self.nodes() == 1 {
            return Ok(vec![own.to_vec()]);
        }
        let (lengths, words) = self.as_words(own)?;
        Ok(as_bytes(self.exchange(&words)?, &lengths))
    }

    /// Every node gives some bytes, and the first node gets those of all; the others get nothing. All nodes must call it
    /// at the same place.
    pub fn collect(&mut self, own: &[u8]) -> Result<Option<Vec<Vec<u8>>>, ExecError> {
        if self.nodes() == 1 {
            return Ok(Some(vec![own.to_vec()]));
        }
        let (lengths, words) = self.as_words(own)?;
        let rows = Rows::new(self.nodes(), words.len(), 1)?;
        rows.give(words.into_iter());
        self.launch_placed(&rows.graph, rows.placement.clone())?;
        if self.node() != 0 {
            self.runtime.wait()?;
            return Ok(None);
        }
        // The others lack most of it, and need not know that it is read.
        let all = read_rows(&mut self.runtime, &rows.array)?;
        Ok(Some(as_bytes(all, &lengths)))
    }

    /// Bytes as numbers, as many on all nodes, and the lengths of all.
    fn as_words(&mut self, own: &[u8]) -> Result<(Vec<usize>, Vec<f64>), ExecError> {
        let lengths = self.exchange(&[own.len() as f64])?;
        let lengths: Vec<usize> = lengths.iter().map(|l| l[0] as usize).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let mut words: Vec<f64> = own
            .chunks(8)
            .map(|chunk| {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                f64::from_le_bytes(word)
            })
            .collect();
        words.resize(longest.div_ceil(8).max(1), 0.0);
        Ok((lengths, words))
    }

    /// Every node gives as many numbers and gets those of all.
    pub(super) fn exchange(&mut self, own: &[f64]) -> Result<Vec<Vec<f64>>, ExecError> {
        let rows = Rows::new(self.nodes(), own.len(), self.nodes())?;
        rows.give(own.iter().copied());
        self.launch_placed(&rows.graph, rows.placement.clone())?;
        read_rows(self, &rows.array)
    }
}

/// The rows of an array of numbers.
pub(super) fn read_rows(
    from: &mut dyn Executor,
    array: &Handle,
) -> Result<Vec<Vec<f64>>, ExecError> {
    let (width, mut all) = (array.shape[1], Vec::new());
    from.read(array, &mut |v| {
        if let Values::F64(v) = v {
            all = v.chunks(width).map(<[f64]>::to_vec).collect();
        }
    })?;
    Ok(all)
}

/// Rows of numbers as the bytes that they carry.
fn as_bytes(rows: Vec<Vec<f64>>, lengths: &[usize]) -> Vec<Vec<u8>> {
    let bytes = |(row, &len): (Vec<f64>, &usize)| {
        let mut bytes: Vec<u8> = row.into_iter().flat_map(f64::to_le_bytes).collect();
        bytes.truncate(len);
        bytes
    };
    rows.into_iter().zip(lengths).map(bytes).collect()
}
