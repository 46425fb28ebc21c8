//! Finding MPI, and the few of its functions that are used.
//!
//! Errors are returned, not fatal. Nothing here decides when to call what: that is [`crate::node`]'s business.

use std::ffi::{CStr, c_char, c_int, c_void};

use dahl_runtime::network::Launched;

use crate::MpiError;
use crate::abi::Abi;

/// Files that may be MPI, with the package that has them, by launcher.
fn candidates(by: &str) -> (Vec<&'static str>, &'static str) {
    let open = ["libmpi.so.40", "libmpi.so"];
    let mpich = ["libmpich.so.12", "libmpi.so.12", "libmpich.so"];
    match by {
        "Open MPI" => (open.to_vec(), "openmpi-bin"),
        "MPICH" => (mpich.to_vec(), "mpich"),
        // Slurm starts both.
        _ => (
            [&open[..], &mpich[..]].concat(),
            "libopenmpi3 or libmpich12",
        ),
    }
}

/// Loads the library that a launcher's processes use; `DAHL_MPI` names another.
pub(crate) fn load(launched: &Launched) -> Result<libloading::Library, MpiError> {
    let (mut files, package) = candidates(launched.by);
    let named = std::env::var("DAHL_MPI").ok();
    if let Some(file) = &named {
        files = vec![file];
    }
    let mut tried = Vec::new();
    for file in files {
        match open(file) {
            Ok(library) => return Ok(library),
            Err(error) => tried.push(match std::error::Error::source(&error) {
                Some(why) => why.to_string(),
                None => format!("{file}: {error}"),
            }),
        }
    }
    Err(MpiError::NotFound {
        by: launched.by,
        nodes: launched.nodes,
        tried: tried.join("; "),
        package,
    })
}

#[cfg(unix)]
fn open(file: &str) -> Result<libloading::Library, libloading::Error> {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    // Open MPI's plug-ins look its functions up among those of the whole process.
    // SAFETY: MPI's library does nothing when it is loaded but set up its own variables.
    unsafe { Library::open(Some(file), RTLD_NOW | RTLD_GLOBAL) }.map(Into::into)
}

#[cfg(not(unix))]
fn open(file: &str) -> Result<libloading::Library, libloading::Error> {
    // SAFETY: as above.
    unsafe { libloading::Library::new(file) }
}

type Handle<A> = <A as Abi>::Handle;

/// Sends or begins to receive: buffer, count, type, peer, tag, communicator, request.
type Transfer<A> = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    Handle<A>,
    c_int,
    c_int,
    Handle<A>,
    *mut Handle<A>,
) -> c_int;

/// Of a communicator, one number.
type Ask<A> = unsafe extern "C" fn(Handle<A>, *mut c_int) -> c_int;

/// Requests, how many have ended, which, and their states.
type TestSome<A> =
    unsafe extern "C" fn(c_int, *mut Handle<A>, *mut c_int, *mut c_int, *mut c_void) -> c_int;

type GetAttribute<A> = unsafe extern "C" fn(Handle<A>, c_int, *mut *mut c_int, *mut c_int) -> c_int;

/// MPI.
pub(crate) struct Library<A: Abi> {
    pub(crate) abi: A,
    init: unsafe extern "C" fn(*mut c_int, *mut c_void, c_int, *mut c_int) -> c_int,
    finalize: unsafe extern "C" fn() -> c_int,
    rank: Ask<A>,
    size: Ask<A>,
    duplicate: unsafe extern "C" fn(Handle<A>, *mut Handle<A>) -> c_int,
    set_errhandler: unsafe extern "C" fn(Handle<A>, Handle<A>) -> c_int,
    attribute: GetAttribute<A>,
    send: Transfer<A>,
    receive: Transfer<A>,
    test_some: TestSome<A>,
    cancel: unsafe extern "C" fn(*mut Handle<A>) -> c_int,
    error_string: unsafe extern "C" fn(c_int, *mut c_char, *mut c_int) -> c_int,
    version: unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int,
    /// Functions live as long as it does.
    _library: libloading::Library,
}

/// `MPI_THREAD_SERIALIZED`: several threads, one at a time.
const SERIALIZED: c_int = 2;

/// Longer than any text that MPI gives.
const TEXT: usize = 8192;

impl<A: Abi> Library<A> {
    pub(crate) fn new(abi: A, library: libloading::Library) -> Result<Self, MpiError> {
        fn get<F: Copy>(library: &libloading::Library, name: &str) -> Result<F, MpiError> {
            // SAFETY: each type below is that of the function of this name in MPI's standard.
            let symbol = unsafe { library.get::<F>(name.as_bytes()) };
            symbol.map(|f| *f).map_err(|e| MpiError::Failed {
                call: "loading MPI",
                why: e.to_string(),
            })
        }
        Ok(Library {
            init: get(&library, "MPI_Init_thread")?,
            finalize: get(&library, "MPI_Finalize")?,
            rank: get(&library, "MPI_Comm_rank")?,
            size: get(&library, "MPI_Comm_size")?,
            duplicate: get(&library, "MPI_Comm_dup")?,
            set_errhandler: get(&library, "MPI_Comm_set_errhandler")?,
            attribute: get(&library, "MPI_Comm_get_attr")?,
            send: get(&library, "MPI_Isend")?,
            receive: get(&library, "MPI_Irecv")?,
            test_some: get(&library, "MPI_Testsome")?,
            cancel: get(&library, "MPI_Cancel")?,
            error_string: get(&library, "MPI_Error_string")?,
            version: get(&library, "MPI_Get_library_version")?,
            abi,
            _library: library,
        })
    }

    fn check(&self, call: &'static str, code: c_int) -> Result<(), MpiError> {
        if code == 0 {
            return Ok(());
        }
        let why = self.text(|text, len| {
            // SAFETY: the buffer is longer than any error's text.
            unsafe { (self.error_string)(code, text, len) }
        });
        Err(MpiError::Failed { call, why })
    }

    /// A text that MPI writes.
    fn text(&self, fill: impl FnOnce(*mut c_char, *mut c_int) -> c_int) -> String {
        let (mut text, mut len) = ([0u8; TEXT], 0);
        fill(text.as_mut_ptr().cast(), &mut len);
        let text = CStr::from_bytes_until_nul(&text);
        let text = text.map(|t| t.to_string_lossy().into_owned());
        text.unwrap_or_default().trim().to_owned()
    }

    /// What the library calls itself: the first line of it.
    pub(crate) fn version(&self) -> String {
        // SAFETY: the buffer is longer than the longest version that MPI gives.
        let text = self.text(|text, len| unsafe { (self.version)(text, len) });
        let line = text.lines().next().unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Starts MPI, for calls from any one thread at a time.
    pub(crate) fn init(&self) -> Result<(), MpiError> {
        let (no_arguments, none, mut level) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
        // SAFETY: MPI allows null for both arguments; called once per process, by `join`.
        let code = unsafe { (self.init)(no_arguments, none, SERIALIZED, &mut level) };
        self.check("MPI_Init_thread", code)?;
        if level < SERIALIZED {
            return Err(MpiError::Failed {
                call: "MPI_Init_thread",
                why: format!(
                    "{} lets only its first thread communicate (level {level}, {SERIALIZED} is needed): use a build \
                     with threads",
                    self.version()
                ),
            });
        }
        // SAFETY: both handles are MPI's own.
        let code = unsafe { (self.set_errhandler)(self.abi.world(), self.abi.errors_return()) };
        self.check("MPI_Comm_set_errhandler", code)
    }

    /// Ends MPI; all processes must.
    pub(crate) fn finalize(&self) {
        // SAFETY: called once, when nobody communicates any more. Nobody could do anything about a failure.
        unsafe { (self.finalize)() };
    }

    /// The number of this process, and how many there are.
    pub(crate) fn place(&self) -> Result<(c_int, c_int), MpiError> {
        let (mut rank, mut size, world) = (0, 0, self.abi.world());
        // SAFETY: MPI is initialised; the handle is its own.
        self.check("MPI_Comm_rank", unsafe { (self.rank)(world, &mut rank) })?;
        // SAFETY: as above.
        self.check("MPI_Comm_size", unsafe { (self.size)(world, &mut size) })?;
        Ok((rank, size))
    }

    /// A communicator of its own with all processes. All must make theirs at the same place.
    pub(crate) fn communicator(&self) -> Result<Handle<A>, MpiError> {
        let mut own = self.abi.world();
        // SAFETY: MPI is initialised; the handle is its own.
        let code = unsafe { (self.duplicate)(self.abi.world(), &mut own) };
        self.check("MPI_Comm_dup", code)?;
        Ok(own)
    }

    /// The largest tag.
    pub(crate) fn largest_tag(&self) -> Result<c_int, MpiError> {
        let (mut value, mut found) = (std::ptr::null_mut(), 0);
        let (world, key) = (self.abi.world(), self.abi.tag_limit());
        // SAFETY: MPI writes the address of a number that lives as long as it does.
        let code = unsafe { (self.attribute)(world, key, &mut value, &mut found) };
        self.check("MPI_Comm_get_attr", code)?;
        // What the standard promises at least.
        const PROMISED: c_int = 32767;
        match found != 0 && !value.is_null() {
            // SAFETY: as above.
            true => Ok(unsafe { *value }),
            false => Ok(PROMISED),
        }
    }

    /// Begins to send or receive bytes.
    ///
    /// # Safety
    /// The bytes stay in place, and are left alone as MPI demands, until the request has ended or been cancelled.
    pub(crate) unsafe fn begin(
        &self,
        sends: bool,
        bytes: (*mut u8, c_int),
        (peer, tag): (c_int, c_int),
        communicator: Handle<A>,
    ) -> Result<Handle<A>, MpiError> {
        let mut request = self.abi.no_request();
        let (call, function) = match sends {
            true => ("MPI_Isend", self.send),
            false => ("MPI_Irecv", self.receive),
        };
        let (buffer, count) = (bytes.0.cast(), bytes.1);
        // SAFETY: by the caller; handles are MPI's own.
        let code = unsafe {
            let byte = self.abi.byte();
            function(buffer, count, byte, peer, tag, communicator, &mut request)
        };
        self.check(call, code)?;
        Ok(request)
    }

    /// Which requests have ended since the last time; `places` is overwritten. Those are no requests any more.
    pub(crate) fn test(
        &self,
        requests: &mut [Handle<A>],
        places: &mut Vec<c_int>,
    ) -> Result<(), MpiError> {
        places.clear();
        if requests.is_empty() {
            return Ok(());
        }
        places.resize(requests.len(), 0);
        let (mut ended, status) = (0, self.abi.no_status());
        let count = requests.len() as c_int;
        let (first, places_at) = (requests.as_mut_ptr(), places.as_mut_ptr());
        // SAFETY: both arrays have `count` places; nobody wants to know states.
        let code = unsafe { (self.test_some)(count, first, &mut ended, places_at, status) };
        // Negative if there is no request at all.
        places.truncate(ended.max(0) as usize);
        self.check("MPI_Testsome", code)
    }

    /// Cancels a request, which still has to end.
    pub(crate) fn cancel(&self, request: &mut Handle<A>) {
        // SAFETY: a request of this library that has not ended. If it cannot be cancelled it ends by itself, or never.
        unsafe { (self.cancel)(request) };
    }
}
