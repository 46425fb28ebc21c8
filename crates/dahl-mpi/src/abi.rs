//! The two binary interfaces of MPI: what a handle is, and the values of constants.
//!
//! Open MPI's handles are addresses of objects in its library. MPICH's are numbers, fixed since 2014 by an agreement that
//! Intel MPI, Cray MPI and MVAPICH share. All functions have the same names and the same order of arguments.

use std::ffi::{c_int, c_void};

use crate::MpiError;

/// What differs between the two.
pub(crate) trait Abi: Send + Sync + 'static {
    /// A communicator, data type, request or error handler.
    type Handle: Copy + PartialEq + Send + 'static;

    /// All processes.
    fn world(&self) -> Self::Handle;
    /// Bytes.
    fn byte(&self) -> Self::Handle;
    /// No request.
    fn no_request(&self) -> Self::Handle;
    /// Errors are returned.
    fn errors_return(&self) -> Self::Handle;
    /// The key of the largest tag.
    fn tag_limit(&self) -> c_int;
    /// In place of a status, or of several, that nobody wants.
    fn no_status(&self) -> *mut c_void;
}

/// Open MPI, versions 4 and 5.
pub(crate) struct OpenMpi {
    world: Address,
    byte: Address,
    no_request: Address,
    errors_return: Address,
}

/// The address of an object in the library, which is never unloaded.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Address(*mut c_void);

// SAFETY: an address that is only handed back to the library, by one thread at a time.
unsafe impl Send for Address {}
// SAFETY: as above; it is never followed here.
unsafe impl Sync for Address {}

/// An object by which Open MPI is recognised.
const WORLD: &[u8] = b"ompi_mpi_comm_world\0";

/// Whether a library is Open MPI's.
pub(crate) fn is_open_mpi(library: &libloading::Library) -> bool {
    address(library, WORLD).is_ok()
}

fn address(library: &libloading::Library, name: &'static [u8]) -> Result<Address, MpiError> {
    // SAFETY: only the address of the symbol is taken.
    let symbol = unsafe { library.get::<*mut c_void>(name) };
    let symbol = symbol.map_err(|e| MpiError::Failed {
        call: "loading MPI",
        why: e.to_string(),
    })?;
    // SAFETY: an address; the library stays loaded, since nobody unloads it.
    let raw = unsafe { symbol.into_raw() };
    Ok(Address(raw.as_raw_ptr()))
}

impl OpenMpi {
    pub(crate) fn new(library: &libloading::Library) -> Result<OpenMpi, MpiError> {
        Ok(OpenMpi {
            world: address(library, WORLD)?,
            byte: address(library, b"ompi_mpi_byte\0")?,
            no_request: address(library, b"ompi_request_null\0")?,
            errors_return: address(library, b"ompi_mpi_errors_return\0")?,
        })
    }
}

impl Abi for OpenMpi {
    type Handle = Address;

    fn world(&self) -> Address {
        self.world
    }

    fn byte(&self) -> Address {
        self.byte
    }

    fn no_request(&self) -> Address {
        self.no_request
    }

    fn errors_return(&self) -> Address {
        self.errors_return
    }

    fn tag_limit(&self) -> c_int {
        0
    }

    fn no_status(&self) -> *mut c_void {
        std::ptr::null_mut()
    }
}

/// MPICH and what shares its binary interface.
pub(crate) struct Mpich;

impl Abi for Mpich {
    type Handle = c_int;

    fn world(&self) -> c_int {
        0x4400_0000
    }

    fn byte(&self) -> c_int {
        0x4c00_010d
    }

    fn no_request(&self) -> c_int {
        0x2c00_0000
    }

    fn errors_return(&self) -> c_int {
        0x5400_0001
    }

    fn tag_limit(&self) -> c_int {
        0x6440_0001
    }

    fn no_status(&self) -> *mut c_void {
        std::ptr::without_provenance_mut(1)
    }
}
