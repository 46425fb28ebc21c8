//! Ctrl-C and SIGTERM: the first one asks long work to end with what it has, a second one ends the process at once.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use dahl::core::Stop;
use dahl::runtime::Canceller;

static STOP: OnceLock<Stop> = OnceLock::new();
static CANCELLER: OnceLock<Canceller> = OnceLock::new();
static CAUGHT: AtomicI32 = AtomicI32::new(0);

/// The request that signals make from now on, for work that looks at it.
pub fn stop() -> Stop {
    let stop = STOP.get_or_init(Stop::new).clone();
    #[cfg(unix)]
    // SAFETY: the handler only reads cells that were set before, writes atomic flags and may call `_exit`, all of
    // which are allowed in a signal handler; the action is a plain value made by zeroing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGINT, &action, std::ptr::null_mut());
        libc::sigaction(libc::SIGTERM, &action, std::ptr::null_mut());
    }
    stop
}

/// From now on the first signal cancels this runtime's work, too, which has nothing worth keeping.
pub fn cancels(canceller: Canceller) {
    let canceller = CANCELLER.get_or_init(|| canceller);
    stop();
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
        _ => "Ctrl-C",
    }
}

#[cfg(unix)]
extern "C" fn handler(signal: libc::c_int) {
    if CAUGHT.swap(signal, Ordering::Relaxed) != 0 {
        // SAFETY: ends the process without running anything else of it.
        unsafe { libc::_exit(128 + signal) };
    }
    if let Some(stop) = STOP.get() {
        stop.stop();
    }
    if let Some(canceller) = CANCELLER.get() {
        canceller.cancel();
    }
}
