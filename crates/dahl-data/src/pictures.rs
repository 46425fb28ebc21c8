//! A set of pictures, wherever they lie: files of a folder, members of archives.
//!
//! What kinds of sets share is here; a [`Store`] knows where a picture is and which class it has. Nothing is decoded when a set
//! is opened: a picture is read and decoded each time it is asked for, by the thread that asks, so a set may be larger
//! than any memory.

use std::path::PathBuf;

use dahl_core::hash::Checksum;

use super::error::DataError;
use super::table::Labels;
use super::{Dataset, Split};

/// Where the pictures of a set are. Indices are below the set's length.
pub(crate) trait Store: Send + Sync {
    /// How many there are.
    fn len(&self) -> usize;

    /// The number of a picture's class.
    fn class(&self, index: usize) -> u32;

    /// Gives every picture its class in place of the number that [`Labels`] handed out.
    fn renumber(&mut self, class: &[u32]);

    /// Decodes a picture into `pixels`, or says which file is wrong, and how.
    fn decode(
        &self,
        index: usize,
        shape: [usize; 3],
        pixels: &mut [u8],
    ) -> Result<(), (PathBuf, String)>;

    /// Adds what tells a picture from others without reading it.
    fn tell(&self, index: usize, sum: &mut Checksum);
}

/// A split of a set of pictures.
pub(crate) struct Pictures<S> {
    name: String,
    shape: [usize; 3],
    len: usize,
    classes: Vec<String>,
    store: S,
}

/// What every kind of set is opened with.
pub(crate) struct Wanted {
    /// What messages call the set.
    pub(crate) name: String,
    pub(crate) split: Split,
    /// The model's input, to which pictures are brought.
    pub(crate) input: [usize; 3],
    /// Keep the first so many.
    pub(crate) limit: Option<usize>,
    /// Draws the validation images where a set has none.
    pub(crate) seed: u64,
}

impl<S: Store> Pictures<S> {
    /// The pictures of a store whose classes are numbers of these labels. `hint` says where pictures were looked for, should
    /// there be none.
    pub(crate) fn new(
        wanted: Wanted,
        labels: Labels,
        mut store: S,
        hint: &'static str,
    ) -> Result<Pictures<S>, DataError> {
        let (classes, order) = labels.sort();
        store.renumber(&order);
        let len = store.len().min(wanted.limit.unwrap_or(usize::MAX));
        if len == 0 {
            return Err(DataError::Empty {
                what: format!("{} ({})", wanted.name, wanted.split),
                hint: if store.len() == 0 { hint } else { "" },
            });
        }
        Ok(Pictures {
            name: wanted.name,
            shape: wanted.input,
            len,
            classes,
            store,
        })
    }
}

impl<S: Store> Dataset for Pictures<S> {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> usize {
        self.len
    }

    fn classes(&self) -> usize {
        self.classes.len()
    }

    fn shape(&self) -> [usize; 3] {
        self.shape
    }

    // Pictures are decoded.
    fn loaders(&self) -> usize {
        2
    }

    fn read(&self, index: usize, pixels: &mut [u8]) -> Result<usize, DataError> {
        super::check_read(self, index, pixels)?;
        let read = self.store.decode(index, self.shape, pixels);
        read.map_err(|(path, reason)| DataError::Picture {
            path,
            index,
            // Decoders end some of theirs with a new line.
            reason: reason.trim_end().to_owned(),
        })?;
        self.label(index)
    }

    fn label(&self, index: usize) -> Result<usize, DataError> {
        match index < self.len {
            true => Ok(self.store.class(index) as usize),
            false => Err(super::no_such_item(self, index)),
        }
    }

    fn class_name(&self, class: usize) -> Option<&str> {
        self.classes.get(class).map(String::as_str)
    }

    // Reading all pictures could take hours: every name and label, and some of them.
    fn content(&self) -> u64 {
        let mut sum = Checksum::default();
        for index in 0..self.len {
            self.store.tell(index, &mut sum);
            sum.add(&self.store.class(index).to_le_bytes());
        }
        sum.add(&super::identity::content(self).to_le_bytes());
        sum.finish()
    }
}
