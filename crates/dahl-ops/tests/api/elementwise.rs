//! Elementwise operations in every form, whole and on parts.

use dahl_core::{Arena, Array, Recorder};
use dahl_ops::api;
use dahl_ops::simd::Lane;

use crate::common::{LEN, SHAPE, check, cut, launch, numbers};

struct Unary<T> {
    name: &'static str,
    alloc: for<'r> fn(&'r Recorder, &Array<'_, T, 3>) -> Array<'r, T, 3>,
    into: fn(&Recorder, &Array<'_, T, 3>, &mut Array<'_, T, 3>),
    assign: fn(&Recorder, &mut Array<'_, T, 3>),
    want: fn(f64) -> f64,
}

fn unary<T: Lane>() -> Vec<Unary<T>> {
    fn t<T: Lane>(v: f64) -> T {
        T::from_f64(v)
    }
    vec![
        Unary {
            name: "scale",
            alloc: |r, x| api::scale(r, x, t(1.5)),
            into: |r, x, y| api::scale_into(r, x, t(1.5), y),
            assign: |r, x| api::scale_assign(r, x, t(1.5)),
            want: |x| 1.5 * x,
        },
        Unary {
            name: "add_value",
            alloc: |r, x| api::add_value(r, x, t(0.5)),
            into: |r, x, y| api::add_value_into(r, x, t(0.5), y),
            assign: |r, x| api::add_value_assign(r, x, t(0.5)),
            want: |x| x + 0.5,
        },
        Unary {
            name: "sub_value",
            alloc: |r, x| api::sub_value(r, x, t(0.5)),
            into: |r, x, y| api::sub_value_into(r, x, t(0.5), y),
            assign: |r, x| api::sub_value_assign(r, x, t(0.5)),
            want: |x| x - 0.5,
        },
        Unary {
            name: "power",
            alloc: |r, x| api::power(r, x, t(3.0)),
            into: |r, x, y| api::power_into(r, x, t(3.0), y),
            assign: |r, x| api::power_assign(r, x, t(3.0)),
            want: |x| x.powi(3),
        },
        Unary {
            name: "clip",
            alloc: |r, x| api::clip(r, x, t(-0.5), t(1.0)),
            into: |r, x, y| api::clip_into(r, x, t(-0.5), t(1.0), y),
            assign: |r, x| api::clip_assign(r, x, t(-0.5), t(1.0)),
            want: |x| x.clamp(-0.5, 1.0),
        },
        Unary {
            name: "round",
            alloc: |r, x| api::round(r, x),
            into: |r, x, y| api::round_into(r, x, y),
            assign: |r, x| api::round_assign(r, x),
            want: f64::round_ties_even,
        },
        Unary {
            name: "relu",
            alloc: |r, x| api::relu(r, x),
            into: |r, x, y| api::relu_into(r, x, y),
            assign: |r, x| api::relu_assign(r, x),
            want: |x| x.max(0.0),
        },
        Unary {
            name: "exp",
            alloc: |r, x| api::exp(r, x),
            into: |r, x, y| api::exp_into(r, x, y),
            assign: |r, x| api::exp_assign(r, x),
            want: f64::exp,
        },
        Unary {
            // Logarithms need positive numbers: those of the exponentials.
            name: "log",
            alloc: |r, x| api::log(r, &api::exp(r, x)),
            into: |r, x, y| api::log_into(r, &api::exp(r, x), y),
            assign: |r, x| {
                api::exp_assign(r, x);
                api::log_assign(r, x);
            },
            want: |x| x,
        },
    ]
}

fn one_array<T: Lane>() {
    let given = numbers::<T>(LEN, 1);
    for op in unary::<T>() {
        let arena = Arena::new();
        let x = arena.from_slice(SHAPE, &given).unwrap();
        let mut outs = [(); 3].map(|_| arena.zeros::<T, 3>(SHAPE).unwrap());
        let mut places = [(); 2].map(|_| arena.from_slice(SHAPE, &given).unwrap());
        let r = Recorder::new();
        let made = (op.alloc)(&r, &x);
        api::copy_into(&r, &made, &mut outs[0]);
        (op.into)(&r, &x, &mut outs[1]);
        let mut parts = outs[2].split_mut(&cut()).unwrap();
        for (x, out) in x.split(&cut()).unwrap().iter().zip(&mut parts) {
            (op.into)(&r, x, out);
        }
        (op.assign)(&r, &mut places[0]);
        for part in &mut places[1].split_mut(&cut()).unwrap() {
            (op.assign)(&r, part);
        }
        let graph = r.finish().unwrap();
        let runtime = launch(&graph);
        let want: Vec<f64> = given.iter().map(|x| (op.want)(x.to_f64())).collect();
        for array in outs.iter().chain(&places) {
            check(op.name, &runtime.read(array).unwrap(), &want);
        }
    }
}

struct Binary<T> {
    name: &'static str,
    alloc: for<'r> fn(&'r Recorder, &Array<'_, T, 3>, &Array<'_, T, 3>) -> Array<'r, T, 3>,
    into: fn(&Recorder, &Array<'_, T, 3>, &Array<'_, T, 3>, &mut Array<'_, T, 3>),
    assign: fn(&Recorder, &mut Array<'_, T, 3>, &Array<'_, T, 3>),
    want: fn(f64, f64) -> f64,
}

fn two_arrays<T: Lane>() {
    let table: [Binary<T>; 5] = [
        Binary {
            name: "add",
            alloc: |r, a, b| api::add(r, a, b),
            into: |r, a, b, c| api::add_into(r, a, b, c),
            assign: |r, a, b| api::add_assign(r, a, b),
            want: |a, b| a + b,
        },
        Binary {
            name: "sub",
            alloc: |r, a, b| api::sub(r, a, b),
            into: |r, a, b, c| api::sub_into(r, a, b, c),
            assign: |r, a, b| api::sub_assign(r, a, b),
            want: |a, b| a - b,
        },
        Binary {
            name: "mul",
            alloc: |r, a, b| api::mul(r, a, b),
            into: |r, a, b, c| api::mul_into(r, a, b, c),
            assign: |r, a, b| api::mul_assign(r, a, b),
            want: |a, b| a * b,
        },
        Binary {
            name: "div",
            alloc: |r, a, b| api::div(r, a, b),
            into: |r, a, b, c| api::div_into(r, a, b, c),
            assign: |r, a, b| api::div_assign(r, a, b),
            want: |a, b| a / b,
        },
        Binary {
            name: "relu_grad",
            alloc: |r, a, b| api::relu_grad(r, a, b),
            into: |r, a, b, c| api::relu_grad_into(r, a, b, c),
            assign: |r, a, b| api::relu_grad_assign(r, a, b),
            want: |a, b| if b > 0.0 { a } else { 0.0 },
        },
    ];
    let (ga, gb) = (numbers::<T>(LEN, 2), numbers::<T>(LEN, 3));
    for op in table {
        let arena = Arena::new();
        let a = arena.from_slice(SHAPE, &ga).unwrap();
        let b = arena.from_slice(SHAPE, &gb).unwrap();
        let mut outs = [(); 3].map(|_| arena.zeros::<T, 3>(SHAPE).unwrap());
        let mut places = [(); 2].map(|_| arena.from_slice(SHAPE, &ga).unwrap());
        let r = Recorder::new();
        let made = (op.alloc)(&r, &a, &b);
        api::copy_into(&r, &made, &mut outs[0]);
        (op.into)(&r, &a, &b, &mut outs[1]);
        (op.assign)(&r, &mut places[0], &b);
        let (a, b) = (a.split(&cut()).unwrap(), b.split(&cut()).unwrap());
        for (i, out) in outs[2].split_mut(&cut()).unwrap().iter_mut().enumerate() {
            (op.into)(&r, &a[i], &b[i], out);
        }
        for (part, b) in places[1].split_mut(&cut()).unwrap().iter_mut().zip(&b) {
            (op.assign)(&r, part, b);
        }
        let graph = r.finish().unwrap();
        let runtime = launch(&graph);
        let pairs = ga.iter().zip(&gb);
        let want: Vec<f64> = pairs
            .map(|(a, b)| (op.want)(a.to_f64(), b.to_f64()))
            .collect();
        for array in outs.iter().chain(&places) {
            check(op.name, &runtime.read(array).unwrap(), &want);
        }
    }
}

#[test]
fn values() {
    one_array::<f32>();
    one_array::<f64>();
    two_arrays::<f32>();
    two_arrays::<f64>();
}
