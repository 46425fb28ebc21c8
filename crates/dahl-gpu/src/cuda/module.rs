//! Modules: PTX, compiled or taken from the cache, loaded, and its functions.

use std::collections::HashMap;
use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;

use cudarc::driver::result as cu;
use cudarc::driver::sys::{CUfunction, CUfunction_attribute_enum as Attribute, CUmodule};
use dahl_core::DType;

use super::compile::ptx;
use super::device::{Context, Info, call};
use crate::cache;
use crate::error::GpuError;
use crate::source::{self, Language};
use crate::tuning::Tuning;

/// The kernels for one element type.
pub(super) struct Module {
    raw: CUmodule,
    functions: HashMap<&'static str, CUfunction>,
    /// Most items of a group that every kernel can be launched with.
    pub limit: usize,
    context: Arc<Context>,
}

// SAFETY: modules and functions may be used by any thread that has made the context current.
unsafe impl Send for Module {}

impl Module {
    /// Takes the PTX from the cache, or compiles it and puts it there; then loads it.
    pub(super) fn new(
        context: &Arc<Context>,
        info: &Info,
        dtype: DType,
        tuning: &Tuning,
        folder: Option<&Path>,
    ) -> Result<Self, GpuError> {
        let text = source::program(Language::Cuda, dtype, tuning);
        let target = format!("{:?}", info.capability);
        let place = folder.map(|f| cache::entry(f, &[&text, "ptx", &target]));
        if let Some(place) = &place
            && let Some(bytes) = cache::load(place)
            && let Ok(ready) = Self::load(context, info, bytes)
        {
            return Ok(ready);
        }
        let compiled = ptx(dtype, tuning, info.capability)?;
        if let Some(place) = place {
            // Without a cache, the next start compiles again.
            let _ = cache::store(&place, compiled.as_bytes());
        }
        Self::load(context, info, compiled.into_bytes())
    }

    fn load(context: &Arc<Context>, info: &Info, text: Vec<u8>) -> Result<Self, GpuError> {
        let text = CString::new(text).map_err(|e| GpuError::Unsupported(e.to_string()))?;
        // SAFETY: text that ends in a zero, which the driver checks; the context is current.
        let raw = unsafe { cu::module::load_data(text.as_ptr().cast()) };
        let mut module = Module {
            raw: call(&info.name, "loading kernels", raw)?,
            functions: HashMap::new(),
            limit: usize::MAX,
            context: context.clone(),
        };
        for name in source::kernels() {
            let c_name = CString::new(name).map_err(|e| GpuError::Unsupported(e.to_string()))?;
            // SAFETY: a module that is loaded.
            let function = unsafe { cu::module::get_function(module.raw, c_name) };
            let function = call(&info.name, &format!("finding kernel {name}"), function)?;
            let what = Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
            // SAFETY: a function of that module.
            let most = unsafe { cu::function::get_function_attribute(function, what) };
            let most = call(&info.name, &format!("asking about kernel {name}"), most)?;
            module.limit = module.limit.min(most.max(1) as usize);
            module.functions.insert(name, function);
        }
        Ok(module)
    }

    /// A kernel by name.
    pub(super) fn function(&self, name: &str) -> Result<CUfunction, GpuError> {
        let found = self.functions.get(name).copied();
        found.ok_or_else(|| GpuError::Unsupported(format!("there is no kernel {name:?}")))
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        let _ = self.context.bind();
        // SAFETY: loaded by us, released once; its kernels have been waited for.
        let _ = unsafe { cu::module::unload(self.raw) };
    }
}
