//! Pinning threads to cores, where the system can. Which worker gets which core, `topology` says.

/// Pins the calling thread to the core of worker `n`, among those it may use. False where that is not possible: the thread
/// then runs wherever the system puts it.
#[cfg(target_os = "linux")]
pub(crate) fn to_core(n: usize) -> bool {
    use std::sync::OnceLock;
    static ORDER: OnceLock<Vec<usize>> = OnceLock::new();
    let root = std::path::Path::new("/");
    let cores = ORDER.get_or_init(|| crate::topology::order(root, &allowed_cores()));
    let Some(&core) = cores.get(n % cores.len().max(1)) else {
        return false;
    };
    // SAFETY: the set is a plain bit mask, initialised by zeroing; the call reads it and changes
    // nothing else.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) == 0
    }
}

/// Pins the calling thread to a core; not possible on this system.
#[cfg(not(target_os = "linux"))]
pub(crate) fn to_core(_: usize) -> bool {
    false
}

/// Whether this process may use only some of the cores that are there.
pub(crate) fn is_bound() -> bool {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: asks for a number.
        let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        (allowed_cores().len() as i64) < online
    }
    #[cfg(not(target_os = "linux"))]
    false
}

/// The cores this process may use.
#[cfg(not(target_os = "linux"))]
pub(crate) fn allowed_cores() -> Vec<usize> {
    (0..std::thread::available_parallelism().map_or(1, usize::from)).collect()
}

/// The cores this process may use.
#[cfg(target_os = "linux")]
pub(crate) fn allowed_cores() -> Vec<usize> {
    use std::sync::OnceLock;
    // Asked once: later a pinned thread would only see its own core.
    static CORES: OnceLock<Vec<usize>> = OnceLock::new();
    let ask = || {
        // SAFETY: the call fills the set, a plain bit mask.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
                return Vec::new();
            }
            (0..libc::CPU_SETSIZE as usize)
                .filter(|&c| libc::CPU_ISSET(c, &set))
                .collect()
        }
    };
    CORES.get_or_init(ask).clone()
}
