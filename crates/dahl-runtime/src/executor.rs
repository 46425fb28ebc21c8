//! The runtime as an [`Executor`].

use std::sync::Arc;

use dahl_core::{DType, ExecError, Executor, Graph, Handle, Values, ValuesMut};

use crate::runtime::Runtime;

impl Executor for Runtime {
    fn launch(&mut self, graph: &Arc<Graph>) -> Result<(), ExecError> {
        Ok(Runtime::launch(self, graph)?)
    }

    fn wait(&mut self) -> Result<(), ExecError> {
        Ok(Runtime::wait(self)?)
    }

    fn read(&mut self, array: &Handle, see: &mut dyn FnMut(Values<'_>)) -> Result<(), ExecError> {
        match array.dtype() {
            DType::F32 => see(Values::F32(&self.read_handle::<f32>(array)?)),
            DType::F64 => see(Values::F64(&self.read_handle::<f64>(array)?)),
        }
        Ok(())
    }

    fn write(
        &mut self,
        array: &Handle,
        change: &mut dyn FnMut(ValuesMut<'_>),
    ) -> Result<(), ExecError> {
        match array.dtype() {
            DType::F32 => change(ValuesMut::F32(&mut self.write_handle::<f32>(array)?)),
            DType::F64 => change(ValuesMut::F64(&mut self.write_handle::<f64>(array)?)),
        }
        Ok(())
    }
}
