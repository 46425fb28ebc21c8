//! The functions of `shim.c`.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// A kind of task, with its performance model.
#[repr(C)]
pub(crate) struct Codelet {
    _opaque: [u8; 0],
}

/// A task of StarPU.
#[repr(C)]
pub(crate) struct Task {
    _opaque: [u8; 0],
}

/// A piece of data that StarPU knows.
#[repr(C)]
pub(crate) struct Data {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    pub(crate) fn dahl_starpu_version(version: *mut c_int);
    pub(crate) fn dahl_starpu_max_workers() -> c_int;
    pub(crate) fn dahl_starpu_policy(place: c_uint) -> *const c_char;
    pub(crate) fn dahl_starpu_start(workers: c_int, policy: *const c_char) -> c_int;
    pub(crate) fn dahl_starpu_workers() -> c_uint;
    pub(crate) fn dahl_starpu_stop();
    pub(crate) fn dahl_starpu_codelet(name: *const c_char, model: *const c_char) -> *mut Codelet;
    pub(crate) fn dahl_starpu_free(codelet: *mut Codelet);
    pub(crate) fn dahl_starpu_task(
        codelet: *mut Codelet,
        slot: *const c_void,
        priority: c_int,
        number: u32,
        count: c_uint,
        data: *const *mut Data,
        modes: *const u8,
    ) -> *mut Task;
    pub(crate) fn dahl_starpu_data(bytes: usize) -> *mut Data;
    pub(crate) fn dahl_starpu_forget(data: *mut Data);
    pub(crate) fn dahl_starpu_after(task: *mut Task, count: c_uint, before: *const *mut Task);
    pub(crate) fn dahl_starpu_submit(task: *mut Task) -> c_int;
}
