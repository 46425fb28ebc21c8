//! What a model learns from and is judged by.

use dahl_data::{DataSpec, InMemory, Source, Split, default_roots, open};

use crate::Error;

/// A training set and, if there is one, a validation set. Cheap to clone.
#[derive(Clone)]
pub struct Data {
    /// What the model learns from.
    pub train: Source,
    /// What it is judged by after every epoch.
    pub validation: Option<Source>,
}

impl Data {
    /// Both parts of a data set by its description (`fashion-mnist-small`, `cifar-10:DIR`, `folder:DIR`…: see
    /// [`crate::data`]), as images of this many channels, rows and columns.
    pub fn open(description: &str, shape: [usize; 3]) -> Result<Data, Error> {
        Data::open_first(description, shape, None, None)
    }

    /// The same with only the first so many images of each part.
    pub fn open_first(
        description: &str,
        shape: [usize; 3],
        train: impl Into<Option<usize>>,
        validation: impl Into<Option<usize>>,
    ) -> Result<Data, Error> {
        let (spec, roots) = (DataSpec::parse(description)?, default_roots());
        let part = |split, limit| open(&spec, split, shape, limit, &roots);
        Ok(Data {
            train: part(Split::Train, train.into())?.into(),
            validation: Some(part(Split::Validation, validation.into())?.into()),
        })
    }

    /// The shipped data set: 10,000 and 2,000 images of clothes, 28×28, grey.
    pub fn fashion_mnist_small() -> Result<Data, Error> {
        Data::open("fashion-mnist-small", [1, 28, 28])
    }
}

impl From<InMemory> for Data {
    fn from(train: InMemory) -> Data {
        Data {
            train: train.into(),
            validation: None,
        }
    }
}

impl From<(InMemory, InMemory)> for Data {
    fn from((train, validation): (InMemory, InMemory)) -> Data {
        Data {
            train: train.into(),
            validation: Some(validation.into()),
        }
    }
}

impl From<Source> for Data {
    fn from(train: Source) -> Data {
        Data {
            train,
            validation: None,
        }
    }
}
