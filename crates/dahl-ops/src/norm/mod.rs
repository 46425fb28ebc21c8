//! Normalisation within one sample: layer norm, group norm, and layer norm over the channels of each pixel.
//!
//! Files: [`layer`], [`group`] and [`channel`] declare the operations on one set of [`operands`], `kernels` has their
//! loops and the equations. All write the statistics that their gradients read; the gradients of scale and shift are
//! added to what is there, so that tasks on different samples can accumulate.

pub mod channel;
pub mod group;
pub(crate) mod kernels;
pub mod layer;
pub mod operands;

use dahl_core::{Call, Cost};

/// Several passes over the first operand, which is in the cache.
fn cost(call: &Call) -> Cost {
    Cost {
        flops: 8.0 * call.shape(0).len() as f64,
        bytes: call.bytes(),
    }
}

/// The bodies of a norm's three codelets, which differ by the loops alone: those of `$kernel`.
macro_rules! bodies {
    ($kernel:ident) => {
        fn forward<T: Lane>(ops: &dahl_core::Operands<'_>) -> Done {
            let at = Norm::at(ops.len());
            let epsilon = T::from_f64(Epsilon::of(ops.params()).epsilon);
            let (x, scale, shift) = (ops.read::<T>(at.x), ops.read(at.scale), ops.read(at.shift));
            let (y, statistics) = (ops.write(at.y), ops.write(at.statistics));
            $kernel::forward(x, scale, shift, epsilon, y, statistics);
            Ok(())
        }

        fn input_grad<T: Lane>(ops: &dahl_core::Operands<'_>) -> Done {
            let at = NormInputGrad::at(ops.len());
            let (x, dy) = (ops.read::<T>(at.x), ops.read(at.dy));
            let (statistics, scale) = (ops.read(at.statistics), ops.read(at.scale));
            $kernel::input_grad(x, dy, statistics, scale, ops.write(at.dx));
            Ok(())
        }

        fn affine_grad<T: Lane>(ops: &dahl_core::Operands<'_>) -> Done {
            let at = NormAffineGrad::at(ops.len());
            let (x, dy) = (ops.read::<T>(at.x), ops.read(at.dy));
            let (dscale, dshift) = (ops.write(at.dscale), ops.write(at.dshift));
            $kernel::affine_grad(x, dy, ops.read(at.statistics), dscale, dshift);
            Ok(())
        }
    };
}
use bodies;
