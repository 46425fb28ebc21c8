//! What can go wrong with a device.

/// Why a device could not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// No library, or none of its functions.
    #[error("{library} is not available: {why}")]
    NoLibrary {
        /// Which library.
        library: &'static str,
        /// What the loader said.
        why: String,
    },
    /// No such device.
    #[error("there is no device {asked}; {known} found")]
    NoDevice {
        /// Which was asked for.
        asked: usize,
        /// How many there are.
        known: usize,
    },
    /// The kernels do not compile.
    #[error("{device}: the kernels do not compile: {log}")]
    Build {
        /// The device.
        device: String,
        /// What the compiler said.
        log: String,
    },
    /// A call failed.
    #[error("{device}: {what} failed: {why}")]
    Call {
        /// The device.
        device: String,
        /// Which call.
        what: String,
        /// What it answered.
        why: String,
    },
    /// No room on the device.
    #[error("{device}: no room for {bytes} bytes; {used} of {limit} in use")]
    OutOfMemory {
        /// The device.
        device: String,
        /// What was asked for.
        bytes: usize,
        /// Bytes handed out.
        used: usize,
        /// Bytes the device may hand out.
        limit: usize,
    },
    /// The device failed before and takes no more work.
    #[error("{device} failed before ({first}) and is out of use")]
    Lost {
        /// The device.
        device: String,
        /// The first failure.
        first: String,
    },
    /// A task that these kernels cannot do.
    #[error("{0}")]
    Unsupported(String),
}
