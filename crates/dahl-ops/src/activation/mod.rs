//! Activations: sigmoid, tanh, leaky ReLU, ELU, GELU in both forms and SiLU, with their gradients.
//!
//! Each is elementwise: `x` to `y`, or `x` in place. What its gradient is computed from is in its name:
//! [`sigmoid_grad`] and [`tanh_grad`] take the *output*, so that the input may be overwritten; all others
//! take the *input*, which a negative slope or a curve that goes down and up again cannot do without.
//!
//! `kernels` has the loops, `special` the functions they are made of; the reference computes each element
//! in `f64` with the standard library's functions.
//!
//! ```
//! use dahl_core::{Arena, Recorder};
//! use dahl_ops::api::{leaky_relu_grad_into, leaky_relu_into};
//!
//! let arena = Arena::new();
//! let x = arena.from_slice([3], &[-2.0f32, 0.0, 3.0])?;
//! let (dy, mut dx) = (arena.full([3], 1.0f32)?, arena.zeros::<f32, 1>([3])?);
//! let mut y = arena.zeros::<f32, 1>([3])?;
//!
//! let recorder = Recorder::new();
//! leaky_relu_into(&recorder, &x, 0.5, &mut y);
//! leaky_relu_grad_into(&recorder, &dy, &x, 0.5, &mut dx);
//! let graph = recorder.finish()?;
//!
//! let mut runtime = dahl_runtime::Runtime::builder().workers(1).build()?;
//! runtime.launch(&graph)?;
//! assert_eq!(*runtime.read(&y)?, [-1.0, 0.0, 3.0]);
//! assert_eq!(*runtime.read(&dx)?, [0.5, 0.5, 1.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod kernels;
pub(crate) mod special;

use std::f64::consts::FRAC_1_SQRT_2;

use dahl_core::{Array, Recorder};

use self::kernels::{DENSITY, GELU_CUBIC, GELU_SLOPE};
use self::special::erf_by_definition;
use crate::declare::{operands, params};
use crate::elementwise::{In, Unary, binary_forms, both, codelet, slow, unary_forms};
use crate::op::Op;
use crate::simd::Lane;

operands! {
    /// Operands of a gradient that is computed from the output.
    FromOutput {
        dy: one [Read|ReadWrite] any "the gradient by the output; without dx it is changed",
        y: one [Read] any "the output, as large",
        dx: maybe [Write] any "the gradient by the input, as large",
    }
}

operands! {
    /// Operands of a gradient that is computed from the input.
    FromInput {
        dy: one [Read|ReadWrite] any "the gradient by the output; without dx it is changed",
        x: one [Read] any "the input, as large",
        dx: maybe [Write] any "the gradient by the input, as large",
    }
}

params! {
    /// The parameter of [`LEAKY_RELU`].
    Slope {
        slope: f64, "what inputs that are not positive are multiplied by";
    }
}

params! {
    /// The parameter of [`ELU`].
    Alpha {
        alpha: f64, "minus the result for inputs far below zero";
    }
}

/// `y = 1 / (1 + e⁻ˣ)`
pub static SIGMOID: Op<Unary> = Op::new(|| {
    let fast = both!(|x, y| kernels::sigmoid(x.a, y));
    codelet::<Unary>("sigmoid", fast, |x| logistic(x.a))
        .cost(slow)
        .gradients(&["sigmoid_grad"])
});

/// `dx = dy · (1 − y) · y`
pub static SIGMOID_GRAD: Op<FromOutput> = Op::new(|| {
    let fast = both!(|x, d| kernels::sigmoid_grad(x.a, x.b, d));
    codelet::<FromOutput>("sigmoid_grad", fast, |x| x.a * (1.0 - x.b) * x.b)
});

/// `y = tanh x`
pub static TANH: Op<Unary> = Op::new(|| {
    let fast = both!(|x, y| kernels::tanh(x.a, y));
    codelet::<Unary>("tanh", fast, |x| x.a.tanh())
        .cost(slow)
        .gradients(&["tanh_grad"])
});

/// `dx = dy · (1 − y²)`
pub static TANH_GRAD: Op<FromOutput> = Op::new(|| {
    let fast = both!(|x, d| kernels::tanh_grad(x.a, x.b, d));
    codelet::<FromOutput>("tanh_grad", fast, |x| x.a * (1.0 - x.b * x.b))
});

/// `y = x` where it is positive, else `slope · x`.
pub static LEAKY_RELU: Op<Unary, Slope> = Op::new(|| {
    let fast = both!(|x, y| kernels::leaky_relu(x.p, x.a, y));
    let plain = |x: In<f64, f64>| if x.a > 0.0 { x.a } else { x.p * x.a };
    codelet::<Unary>("leaky_relu", fast, plain).gradients(&["leaky_relu_grad"])
});

/// `dx = dy` where `x` is positive, else `slope · dy`.
pub static LEAKY_RELU_GRAD: Op<FromInput, Slope> = Op::new(|| {
    let fast = both!(|x, d| kernels::leaky_relu_grad(x.p, x.a, x.b, d));
    let plain = |x: In<f64, f64>| if x.b > 0.0 { x.a } else { x.p * x.a };
    codelet::<FromInput>("leaky_relu_grad", fast, plain)
});

/// `y = x` where it is positive, else `alpha · (eˣ − 1)`.
pub static ELU: Op<Unary, Alpha> = Op::new(|| {
    let fast = both!(|x, y| kernels::elu(x.p, x.a, y));
    let plain = |x: In<f64, f64>| if x.a > 0.0 { x.a } else { x.p * x.a.exp_m1() };
    codelet::<Unary>("elu", fast, plain)
        .cost(slow)
        .gradients(&["elu_grad"])
});

/// `dx = dy` where `x` is positive, else `alpha · dy · eˣ`.
pub static ELU_GRAD: Op<FromInput, Alpha> = Op::new(|| {
    let fast = both!(|x, d| kernels::elu_grad(x.p, x.a, x.b, d));
    let plain = |x: In<f64, f64>| {
        if x.b > 0.0 {
            x.a
        } else {
            x.a * x.p * x.b.exp()
        }
    };
    codelet::<FromInput>("elu_grad", fast, plain).cost(slow)
});

/// `y = x · Φ(x)`, Φ being the normal distribution.
pub static GELU: Op<Unary> = Op::new(|| {
    let fast = both!(|x, y| kernels::gelu(x.a, y));
    codelet::<Unary>("gelu", fast, |x| x.a * normal(x.a))
        .cost(slow)
        .gradients(&["gelu_grad"])
});

/// `dx = dy · (Φ(x) + x · Φ′(x))`
pub static GELU_GRAD: Op<FromInput> = Op::new(|| {
    let fast = both!(|x, d| kernels::gelu_grad(x.a, x.b, d));
    let plain = |x: In<f64, f64>| x.a * (normal(x.b) + x.b * (-0.5 * x.b * x.b).exp() * DENSITY);
    codelet::<FromInput>("gelu_grad", fast, plain).cost(slow)
});

/// `y = x/2 · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))`
pub static GELU_TANH: Op<Unary> = Op::new(|| {
    let fast = both!(|x, y| kernels::gelu_tanh(x.a, y));
    let plain = |x: In<f64, f64>| 0.5 * x.a * (1.0 + bent(x.a).tanh());
    codelet::<Unary>("gelu_tanh", fast, plain)
        .cost(slow)
        .gradients(&["gelu_tanh_grad"])
});

/// `dx` of [`GELU_TANH`].
pub static GELU_TANH_GRAD: Op<FromInput> = Op::new(|| {
    let fast = both!(|x, d| kernels::gelu_tanh_grad(x.a, x.b, d));
    let plain = |x: In<f64, f64>| {
        let t = bent(x.b).tanh();
        let slope = GELU_SLOPE * (1.0 + 3.0 * GELU_CUBIC * x.b * x.b);
        x.a * (0.5 * (1.0 + t) + 0.5 * x.b * (1.0 - t * t) * slope)
    };
    codelet::<FromInput>("gelu_tanh_grad", fast, plain).cost(slow)
});

/// `y = x / (1 + e⁻ˣ)`
pub static SILU: Op<Unary> = Op::new(|| {
    let fast = both!(|x, y| kernels::silu(x.a, y));
    codelet::<Unary>("silu", fast, |x| x.a * logistic(x.a))
        .cost(slow)
        .gradients(&["silu_grad"])
});

/// `dx = dy · σ · (1 + x · (1 − σ))`, `σ = 1 / (1 + e⁻ˣ)`.
pub static SILU_GRAD: Op<FromInput> = Op::new(|| {
    let fast = both!(|x, d| kernels::silu_grad(x.a, x.b, d));
    let plain = |x: In<f64, f64>| {
        let s = logistic(x.b);
        x.a * s * (1.0 + x.b * (1.0 - s))
    };
    codelet::<FromInput>("silu_grad", fast, plain).cost(slow)
});

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The normal distribution.
fn normal(x: f64) -> f64 {
    0.5 * (1.0 + erf_by_definition(x * FRAC_1_SQRT_2))
}

/// What tanh is taken of in [`GELU_TANH`].
fn bent(x: f64) -> f64 {
    GELU_SLOPE * (x + GELU_CUBIC * x * x * x)
}

fn slope<T: Lane>(slope: T) -> Slope {
    Slope {
        slope: slope.to_f64(),
    }
}

fn alpha<T: Lane>(alpha: T) -> Alpha {
    Alpha {
        alpha: alpha.to_f64(),
    }
}

unary_forms! {
    "`1 / (1 + e⁻ˣ)`; its gradient is [`sigmoid_grad`]",
    SIGMOID: sigmoid, sigmoid_into, sigmoid_assign () ()
}
binary_forms! {
    "The gradient of `y = sigmoid(x)`, from `y`",
    SIGMOID_GRAD: sigmoid_grad, sigmoid_grad_into, sigmoid_grad_assign,
    FromOutput { dy, y, dx } () ()
}
unary_forms! {
    "`tanh x`; its gradient is [`tanh_grad`]", TANH: tanh, tanh_into, tanh_assign () ()
}
binary_forms! {
    "The gradient of `y = tanh(x)`, from `y`",
    TANH_GRAD: tanh_grad, tanh_grad_into, tanh_grad_assign, FromOutput { dy, y, dx } () ()
}
unary_forms! {
    "`x` where it is positive, else `by · x`; its gradient is [`leaky_relu_grad`]",
    LEAKY_RELU: leaky_relu, leaky_relu_into, leaky_relu_assign (by) slope(by)
}
binary_forms! {
    "The gradient of `leaky_relu(x, by)`, from `x`",
    LEAKY_RELU_GRAD: leaky_relu_grad, leaky_relu_grad_into, leaky_relu_grad_assign,
    FromInput { dy, x, dx } (by) slope(by)
}
unary_forms! {
    "`x` where it is positive, else `by · (eˣ − 1)`; its gradient is [`elu_grad`]",
    ELU: elu, elu_into, elu_assign (by) alpha(by)
}
binary_forms! {
    "The gradient of `elu(x, by)`, from `x`",
    ELU_GRAD: elu_grad, elu_grad_into, elu_grad_assign, FromInput { dy, x, dx } (by) alpha(by)
}
unary_forms! {
    "`x · Φ(x)`, Φ being the normal distribution; its gradient is [`gelu_grad`]",
    GELU: gelu, gelu_into, gelu_assign () ()
}
binary_forms! {
    "The gradient of `gelu(x)`, from `x`",
    GELU_GRAD: gelu_grad, gelu_grad_into, gelu_grad_assign, FromInput { dy, x, dx } () ()
}
unary_forms! {
    "[`gelu`] with tanh in place of the error function; its gradient is [`gelu_tanh_grad`]",
    GELU_TANH: gelu_tanh, gelu_tanh_into, gelu_tanh_assign () ()
}
binary_forms! {
    "The gradient of `gelu_tanh(x)`, from `x`",
    GELU_TANH_GRAD: gelu_tanh_grad, gelu_tanh_grad_into, gelu_tanh_grad_assign,
    FromInput { dy, x, dx } () ()
}
unary_forms! {
    "`x / (1 + e⁻ˣ)`; its gradient is [`silu_grad`]", SILU: silu, silu_into, silu_assign () ()
}
binary_forms! {
    "The gradient of `silu(x)`, from `x`",
    SILU_GRAD: silu_grad, silu_grad_into, silu_grad_assign, FromInput { dy, x, dx } () ()
}
