//! Ctrl-C: stops what a runtime has in flight, so that the command ends cleanly and soon.

use std::sync::OnceLock;

use dahl::runtime::Canceller;

static CANCELLER: OnceLock<Canceller> = OnceLock::new();

/// From now on the first Ctrl-C cancels this runtime's work; a second one ends the process at once.
pub fn cancels(canceller: Canceller) {
    if CANCELLER.set(canceller).is_err() {
        return; // Already installed, for a runtime of the same command.
    }
    #[cfg(unix)]
    // SAFETY: the handler only reads a cell that was set before and writes an atomic flag, both of
    // which are allowed in a signal handler; the action is a plain value made by zeroing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
        libc::sigaction(libc::SIGINT, &action, std::ptr::null_mut());
        libc::sigaction(libc::SIGTERM, &action, std::ptr::null_mut());
    }
}

#[cfg(unix)]
extern "C" fn handler(_: libc::c_int) {
    if let Some(canceller) = CANCELLER.get() {
        canceller.cancel();
    }
}
