//! Failures: remembering the first one, and injecting them in tests.
//!
//! A device that failed once computes nothing more: what its memory holds is not to be trusted. Running
//! out of memory is no failure in this sense.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::error::GpuError;

/// What can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A kernel's launch: the device is out of use afterwards.
    Launch,
    /// A copy: the device is out of use afterwards.
    Copy,
    /// An allocation: there is no room, once.
    Allocate,
    /// Waiting for kernels, which have run: the device is out of use afterwards.
    Wait,
}

/// The failures of one device.
#[derive(Debug)]
pub(crate) struct Faults {
    first: OnceLock<String>,
    /// How many more of each go well; negative if all do.
    left: [AtomicI64; 4],
}

impl Default for Faults {
    fn default() -> Self {
        Faults {
            first: OnceLock::new(),
            left: [-1; 4].map(AtomicI64::new),
        }
    }
}

impl Faults {
    /// Lets one of these fail after so many have gone well.
    pub(crate) fn inject(&self, fault: Fault, after: u32) {
        self.left[fault as usize].store(i64::from(after), Ordering::Relaxed);
    }

    /// Whether the one that begins now is to fail.
    pub(crate) fn strikes(&self, fault: Fault) -> bool {
        let left = &self.left[fault as usize];
        left.load(Ordering::Relaxed) >= 0 && left.fetch_sub(1, Ordering::Relaxed) == 0
    }

    /// The first failure.
    pub(crate) fn first(&self) -> Option<String> {
        self.first.get().cloned()
    }

    /// Refuses if the device failed before.
    pub(crate) fn check(&self, device: &str) -> Result<(), GpuError> {
        match self.first.get() {
            None => Ok(()),
            Some(first) => Err(GpuError::Lost {
                device: device.into(),
                first: first.clone(),
            }),
        }
    }

    /// Remembers a failure, after which the device is out of use.
    pub(crate) fn lost<T>(&self, result: Result<T, GpuError>) -> Result<T, GpuError> {
        if let Err(e) = &result {
            let _ = self.first.set(e.to_string());
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_strikes_once_and_the_first_is_remembered() {
        let faults = Faults::default();
        assert!(!faults.strikes(Fault::Copy));
        faults.inject(Fault::Copy, 2);
        let strikes: Vec<bool> = (0..5).map(|_| faults.strikes(Fault::Copy)).collect();
        assert_eq!(strikes, [false, false, true, false, false]);
        assert!(faults.check("gpu").is_ok());
        for why in ["one", "two"] {
            let _ = faults.lost::<()>(Err(GpuError::Unsupported(why.into())));
        }
        assert!(faults.check("gpu").unwrap_err().to_string().contains("one"));
    }
}
