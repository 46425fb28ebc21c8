//! Ctrl-C and SIGTERM: the first one asks long work to end with what it has, a second one ends the process at once. So
//! does the first, as long as there is nothing to keep: however long it takes to read a model and to build its graph,
//! nobody waits for that to end.
//!
//! On several nodes SIGUSR1 and SIGUSR2 do what SIGTERM does: launchers pass them on without ending anything themselves.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use dahl::core::Stop;
use dahl::runtime::Canceller;

static STOP: OnceLock<Stop> = OnceLock::new();
static CANCELLER: OnceLock<Canceller> = OnceLock::new();
static CAUGHT: AtomicI32 = AtomicI32::new(0);
static KEEP: AtomicBool = AtomicBool::new(false);
static KEEPS: OnceLock<Box<dyn Fn() -> bool + Send + Sync>> = OnceLock::new();
/// Whether a second signal is a second request, and not the end of the process.
static EACH_TIME: AtomicBool = AtomicBool::new(false);

/// What is said where there is nothing to keep.
const NOTHING_YET: &str = "stopped before anything was done that could be kept\n";

/// The request that signals make from now on, for work that looks at it once it has called [`keep`].
pub fn stop() -> Stop {
    stop_if(|| KEEP.load(Ordering::Relaxed))
}

/// From now on there is something to keep.
pub fn keep() {
    KEEP.store(true, Ordering::Relaxed);
}

/// The request that signals make from now on, for work that looks at it; it has something to keep once `keeps` says so,
/// which reads atomics and does nothing else.
pub fn stop_if(keeps: impl Fn() -> bool + Send + Sync + 'static) -> Stop {
    KEEPS.get_or_init(|| Box::new(keeps));
    let stop = STOP.get_or_init(Stop::new).clone();
    #[cfg(unix)]
    // SAFETY: the handler only reads cells that were set before and atomics, writes atomic flags and may call `_exit`, all
    // of which are allowed in a signal handler; the action is a plain value made by zeroing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGINT, &action, std::ptr::null_mut());
        libc::sigaction(libc::SIGTERM, &action, std::ptr::null_mut());
        if dahl::runtime::network::launched().is_some() {
            libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
            libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut());
        }
    }
    stop
}

/// The same for work that has to end other processes first: every signal is a request, and none ends this process.
pub fn stop_each_time() -> Stop {
    EACH_TIME.store(true, Ordering::Relaxed);
    stop_if(|| true)
}

/// From now on the first signal cancels this runtime's work, too, which has nothing worth keeping.
pub fn cancels(canceller: Canceller) {
    let canceller = CANCELLER.get_or_init(|| canceller);
    stop();
    keep();
    if caught().is_some() {
        canceller.cancel();
    }
}

/// The signal that was caught, if there was one.
pub fn caught() -> Option<i32> {
    Some(CAUGHT.load(Ordering::Relaxed)).filter(|&signal| signal != 0)
}

/// The exit code of work that a signal ended: 130 for SIGINT, 143 for SIGTERM.
pub fn exit_code() -> Option<u8> {
    caught().map(|signal| 128 + signal as u8)
}

/// Its name.
pub fn name() -> &'static str {
    match caught() {
        Some(libc::SIGTERM) => "SIGTERM",
        None | Some(libc::SIGINT) => "Ctrl-C",
        Some(_) => "the launcher",
    }
}

#[cfg(unix)]
extern "C" fn handler(signal: libc::c_int) {
    let keeps = KEEPS.get().is_some_and(|keeps| keeps());
    let again = CAUGHT.swap(signal, Ordering::Relaxed) != 0;
    if !EACH_TIME.load(Ordering::Relaxed) && (again || !keeps) {
        let text = if again { "" } else { NOTHING_YET };
        // SAFETY: writes a constant and ends the process without running anything else of it.
        unsafe {
            libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
            libc::_exit(128 + signal)
        };
    }
    if let Some(stop) = STOP.get() {
        stop.stop();
    }
    if let Some(canceller) = CANCELLER.get() {
        canceller.cancel();
    }
}
