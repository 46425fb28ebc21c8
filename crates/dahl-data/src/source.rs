//! Where batches come from: files, memory, or a program's own function.

use std::error::Error;
use std::sync::Arc;

use super::error::DataError;
use super::memory::InMemory;
use super::samples::{Expects, Labels, Samples};
use super::{Dataset, check_shape};

/// A source of samples with labels. Cheap to clone.
#[derive(Clone)]
pub enum Source {
    /// Images with classes.
    Images(Arc<dyn Dataset>),
    /// A program's own arrays.
    Memory(Arc<InMemory>),
    /// A program's own function that makes batches.
    Generated(Arc<Generated>),
}

impl From<Arc<dyn Dataset>> for Source {
    fn from(data: Arc<dyn Dataset>) -> Self {
        match data.floats() {
            Some(samples) => Source::Memory(samples),
            None => Source::Images(data),
        }
    }
}

impl From<Box<dyn Dataset>> for Source {
    fn from(data: Box<dyn Dataset>) -> Self {
        Source::from(Arc::<dyn Dataset>::from(data))
    }
}

impl<D: Dataset + 'static> From<Arc<D>> for Source {
    fn from(data: Arc<D>) -> Self {
        Source::Images(data)
    }
}

impl From<InMemory> for Source {
    fn from(data: InMemory) -> Self {
        Source::Memory(Arc::new(data))
    }
}

impl From<Generated> for Source {
    fn from(batches: Generated) -> Self {
        Source::Generated(Arc::new(batches))
    }
}

impl Source {
    /// What messages call it.
    pub(crate) fn name(&self) -> &str {
        match self {
            Source::Images(data) => data.name(),
            Source::Memory(data) => data.name(),
            Source::Generated(batches) => &batches.name,
        }
    }

    /// Channels, height and width of a sample.
    pub fn shape(&self) -> [usize; 3] {
        match self {
            Source::Images(data) => data.shape(),
            Source::Memory(data) => data.shape(),
            Source::Generated(batches) => batches.shape,
        }
    }

    /// Samples of an epoch, where they are known before they are made.
    pub fn samples(&self) -> Option<usize> {
        match self {
            Source::Images(data) => Some(data.len()),
            Source::Memory(data) => Some(data.len()),
            Source::Generated(_) => None,
        }
    }

    /// The names of its classes; empty unless all have one.
    pub fn class_names(&self) -> Vec<String> {
        let Source::Images(data) = self else {
            return Vec::new();
        };
        let names = (0..data.classes()).map(|c| data.class_name(c).map(str::to_owned));
        names.collect::<Option<_>>().unwrap_or_default()
    }

    /// How many threads should prepare batches.
    pub fn loaders(&self) -> usize {
        match self {
            Source::Images(data) => data.loaders(),
            _ => 1,
        }
    }

    /// Whether samples have the shape of a model's input.
    pub fn check_shape(&self, input: [usize; 3]) -> Result<(), DataError> {
        check_shape(self.name(), self.shape(), input)
    }

    /// Whether labels are what a loss expects, as far as they are known before batches are made.
    pub fn check_labels(&self, expects: Expects) -> Result<(), DataError> {
        match (self, expects) {
            (Source::Images(data), Expects::Classes(most) | Expects::Shares(most)) => {
                super::check_classes(&**data, most)
            }
            (Source::Images(_), Expects::Values(_)) => {
                let classes = Labels::Classes(Vec::new());
                self.name_problem(classes.check(1, expects))
            }
            (Source::Memory(data), _) => {
                let (labels, width) = data.labels();
                self.name_problem(labels.check(width, expects))
            }
            (Source::Generated(_), _) => Ok(()),
        }
    }

    fn name_problem(&self, found: Result<(), String>) -> Result<(), DataError> {
        found.map_err(|problem| DataError::Usage(format!("{}: {problem}", self.name())))
    }
}

/// One batch of a program's own.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The samples.
    pub samples: Samples<'static>,
    /// Their labels.
    pub labels: Labels,
}

impl Batch {
    /// Samples with labels, as for [`InMemory::new`].
    pub fn new(samples: impl Into<Samples<'static>>, labels: impl Into<Labels>) -> Batch {
        Batch {
            samples: samples.into(),
            labels: labels.into(),
        }
    }
}

/// What a program's own function may fail with.
type OwnError = Box<dyn Error + Send + Sync>;

/// Batches made one by one by a program's own function.
///
/// The function is given the epoch and the number of the batch in it, both from 0; they are asked for in
/// order, from the place where a run starts or resumes, by one thread, a few ahead of their use. Batches may
/// have different numbers of samples; each number that occurs costs a lowered graph.
pub struct Generated {
    name: String,
    shape: [usize; 3],
    per_epoch: usize,
    #[allow(clippy::type_complexity)]
    make: Box<dyn Fn(u64, usize) -> Result<Batch, OwnError> + Send + Sync>,
}

impl Generated {
    /// So many batches an epoch of samples of this shape.
    pub fn new(
        shape: [usize; 3],
        per_epoch: usize,
        make: impl Fn(u64, usize) -> Result<Batch, OwnError> + Send + Sync + 'static,
    ) -> Generated {
        Generated {
            name: "generated batches".into(),
            shape,
            per_epoch,
            make: Box::new(make),
        }
    }

    /// With a name for messages.
    pub fn named(mut self, name: impl Into<String>) -> Generated {
        self.name = name.into();
        self
    }

    /// Batches in an epoch.
    pub(crate) fn per_epoch(&self) -> usize {
        self.per_epoch
    }

    /// A batch with its number of samples and of numbers in a label, checked.
    pub(crate) fn make(
        &self,
        epoch: u64,
        batch: usize,
        expects: Option<Expects>,
    ) -> Result<(Batch, usize, usize), DataError> {
        let wrong = |problem: String| {
            let name = &self.name;
            DataError::Usage(format!("{name}, batch {batch} of epoch {epoch}: {problem}"))
        };
        let made = (self.make)(epoch, batch).map_err(|e| wrong(e.to_string()))?;
        let named = |e: DataError| wrong(e.to_string());
        let samples = made.samples.count(self.shape).map_err(named)?;
        if samples == 0 {
            return Err(wrong("it has no samples".into()));
        }
        let width = made.labels.width(samples).map_err(named)?;
        if let Some(expects) = expects {
            made.labels.check(width, expects).map_err(wrong)?;
        }
        Ok((made, samples, width))
    }
}
