//! Signals while a program runs: survived, and passed on if somebody sent them to us.

use std::sync::atomic::{AtomicI32, Ordering};

/// The program, or 0.
static CHILD: AtomicI32 = AtomicI32::new(0);

/// A signal that is still to be passed on, or 0: it may come before the program's number is known.
static PENDING: AtomicI32 = AtomicI32::new(0);

const WATCHED: [libc::c_int; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];

/// From now on signals do not end us. A handler, unlike ignoring them, is not inherited by the
/// program; what is ignored already (`nohup`) stays so for both.
pub(super) fn watch() {
    for signal in WATCHED {
        // SAFETY: the actions are plain values made by zeroing; the handler only uses atomics
        // and calls `kill`, both of which a handler may do.
        unsafe {
            let mut old: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut old);
            if old.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

pub(super) fn pass_on_to(child: u32) {
    CHILD.store(i32::try_from(child).unwrap_or(0), Ordering::SeqCst);
    pass_on();
}

extern "C" fn handler(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the system passes a valid description of the signal.
    let sent_by_somebody = unsafe { (*info).si_code <= 0 };
    if sent_by_somebody {
        PENDING.store(signal, Ordering::SeqCst);
        pass_on();
    }
}

/// The later of the two, the signal or the program's number, sees both and passes the signal on, once.
fn pass_on() {
    let child = CHILD.load(Ordering::SeqCst);
    if child > 0 {
        let signal = PENDING.swap(0, Ordering::SeqCst);
        if signal > 0 {
            // SAFETY: sends a signal to the program, which has not been waited for while its number
            // is here, but for an instant at its end.
            unsafe { libc::kill(child, signal) };
        }
    }
}
