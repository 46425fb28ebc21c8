//! Mistakes are kept by the recorder and say operation, operand, shapes and line.

use dahl_core::{Arena, Array, Recorder};
use dahl_ops::api::{self, Conv2d, Pool2d, Transposed};
use dahl_ops::elementwise::Unary;

/// The mistake of a program.
fn mistake(program: impl FnOnce(&Recorder, &Arena)) -> String {
    let (recorder, arena) = (Recorder::new(), Arena::new());
    program(&recorder, &arena);
    recorder.finish().unwrap_err().to_string()
}

fn ones<const R: usize>(arena: &Arena, extents: [usize; R]) -> Array<'_, f32, R> {
    arena.full(extents, 1.0).unwrap()
}

type Program = fn(&Recorder, &Arena);

/// Checks for each program, written from this line on, that its mistake says this and names a place near that line.
fn say(table: &[(u32, Program, &str)]) {
    for (line, program, want) in table {
        let got = mistake(program);
        let place = got
            .strip_prefix(want)
            .unwrap_or_else(|| panic!("{got:?} is not {want:?}"));
        let at = place
            .trim_end_matches(')')
            .rsplit(':')
            .next()
            .unwrap()
            .parse::<u32>()
            .unwrap();
        assert!(place.contains("tests/api/mistakes.rs:"), "{got}");
        assert!(
            (*line..line + 12).contains(&at),
            "{got}: asked near line {line}"
        );
    }
}

#[test]
fn images_of_other_channels() {
    say(&[
        (
            line!(),
            |r, a| {
                api::channel_scale(r, &ones(a, [2, 3, 4, 4]), &ones(a, [4]));
            },
            "channel_scale: scale has shape 4, expected 3",
        ),
        (
            line!(),
            |r, a| {
                let row = ones(a, [5]);
                api::channel_norm(r, &ones(a, [2, 3, 4, 4]), &row, &row, 1e-6);
            },
            "channel_norm: scale has shape 5, expected 3",
        ),
        (
            line!(),
            |r, a| {
                let how = api::Resampling {
                    bilinear: false,
                    align_corners: false,
                };
                let mut y = a.zeros::<f32, 4>([2, 4, 8, 8]).unwrap();
                api::upsample_into(r, &ones(a, [2, 3, 4, 4]), how, &mut y);
            },
            "upsample: y has shape 2×4×8×8, expected 2×3×8×8",
        ),
    ]);
}

#[test]
fn elementwise_operands_of_other_shapes() {
    say(&[
        (
            line!(),
            |r, a| {
                api::sub(r, &ones(a, [2, 3]), &ones(a, [3, 2]));
            },
            "sub: b has shape 3×2, a has 2×3",
        ),
        (
            line!(),
            |r, a| {
                api::relu_grad(r, &ones(a, [2]), &ones(a, [3]));
            },
            "relu_grad: y has shape 3, dy has 2",
        ),
        (
            line!(),
            |r, a| {
                api::elu_grad(r, &ones(a, [2]), &ones(a, [3]), 1.0);
            },
            "elu_grad: x has shape 3, dy has 2",
        ),
        (
            line!(),
            |r, a| {
                let x = ones(a, [4]);
                dahl_ops::elementwise::EXP.submit(
                    r,
                    Unary {
                        x: x.read(),
                        y: None,
                    },
                    (),
                );
            },
            "exp: x is given to read, expected to read and write without a result",
        ),
        (
            line!(),
            |r, a| api::exp_into(r, &ones(a, [4]), &mut ones(a, [5])),
            "exp: y has shape 5, x has 4",
        ),
        (
            line!(),
            |r, a| api::mul_assign(r, &mut ones(a, [4]), &ones(a, [5])),
            "mul: b has shape 5, a has 4",
        ),
    ]);
}

#[test]
fn products_reductions_and_losses_that_do_not_fit() {
    say(&[
        (
            line!(),
            |r, a| {
                api::sum_axes(r, &ones(a, [2, 3]), [2]);
            },
            "sum: x of shape 2×3 has no axis 2",
        ),
        (
            line!(),
            |r, a| api::sum_axes_into(r, &ones(a, [2, 3]), &mut ones(a, [2, 2])),
            "sum: total has shape 2×2: along each axis 1 or as in x, 2×3",
        ),
        (
            line!(),
            |r, a| {
                api::matmul(r, &ones(a, [2, 3]), &ones(a, [4, 5]), Transposed::NONE);
            },
            "matmul: a of shape 2×3 has 3 columns, b of shape 4×5 has 4 rows",
        ),
        (
            line!(),
            |r, a| {
                api::matvec(r, &ones(a, [2, 3]), &ones(a, [4]));
            },
            "matvec: m of shape 2×3 has 3 columns, x of shape 4 has 4 elements",
        ),
        (
            line!(),
            |r, a| {
                api::dot(r, &ones(a, [3]), &ones(a, [4]));
            },
            "dot: b has shape 4, a has 3",
        ),
        (
            line!(),
            |r, a| {
                api::correlate(r, &ones(a, [3, 3]), &ones(a, [4, 2]));
            },
            "correlate: kernel of shape 4×2 is larger than x, 3×3",
        ),
        (
            line!(),
            |r, a| {
                api::softmax_grad(r, &ones(a, [3]), &ones(a, [4]));
            },
            "softmax_grad: dy has shape 4, y has 3",
        ),
        (
            line!(),
            |r, a| {
                api::cross_entropy(r, &ones(a, [3, 2]), &ones(a, [4]));
            },
            "cross_entropy: labels has shape 4, expected 3",
        ),
        (
            line!(),
            |r, a| {
                api::linear(r, &ones(a, [2, 3]), &ones(a, [4, 3]), Some(&ones(a, [3])));
            },
            "linear: bias has shape 3, expected 4",
        ),
    ]);
}

#[test]
fn windows_that_do_not_fit() {
    say(&[
        (
            line!(),
            |r, a| {
                api::conv2d(
                    r,
                    &ones(a, [1, 6, 8, 8]),
                    &ones(a, [4, 16, 3, 3]),
                    None,
                    Conv2d::new(),
                );
            },
            "conv2d: x has 6 channels, w expects 16",
        ),
        (
            line!(),
            |r, a| {
                api::conv2d(
                    r,
                    &ones(a, [1, 1, 2, 8]),
                    &ones(a, [1, 1, 3, 3]),
                    None,
                    Conv2d::new(),
                );
            },
            "conv2d: kernel 3×3 with stride 1×1 does not fit x of shape 1×1×2×8 with padding 0×0",
        ),
        (
            line!(),
            |r, a| {
                api::conv2d(
                    r,
                    &ones(a, [1, 1, 8, 8]),
                    &ones(a, [1, 1, 3, 3]),
                    None,
                    Conv2d::new().stride([0, 1]),
                );
            },
            "conv2d: kernel [3, 3] and stride [0, 1] must not be zero",
        ),
        (
            line!(),
            |r, a| {
                api::max_pool2d_into(
                    r,
                    &ones(a, [1, 1, 8, 8]),
                    Pool2d::new([2, 2]),
                    &mut ones(a, [1, 1, 3, 4]),
                )
            },
            "max_pool2d: y has shape 1×1×3×4, expected planes of 4×4 for x 1×1×8×8, kernel 2×2, stride 2×2 and padding 0×0",
        ),
        (
            line!(),
            |r, a| {
                api::avg_pool2d(
                    r,
                    &ones(a, [1, 1, 8, 8]),
                    Pool2d::new([2, 2]).padding([2, 0]),
                );
            },
            "avg_pool2d: padding [2, 0] is more than half the kernel [2, 2]",
        ),
        (
            line!(),
            |r, a| {
                let (dy, w) = (ones(a, [1, 4, 8, 8]), ones(a, [4, 2, 3, 3]));
                api::conv2d_input_grad(r, &dy, &w, Conv2d::new(), [8, 8]);
            },
            "conv2d_input_grad: dy has shape 1×4×8×8, expected planes of 6×6 for dx 1×2×8×8, kernel 3×3, stride 1×1 and padding 0×0",
        ),
    ]);
}

#[test]
fn normalisation_and_updates_that_do_not_fit() {
    say(&[
        (
            line!(),
            |r, a| {
                let (x, dy) = (ones(a, [1, 4, 8, 8]), ones(a, [1, 4, 8, 8]));
                let (stats, scale) = (ones(a, [2, 3]), ones(a, [4]));
                api::batch_norm_grad(r, &x, &dy, &stats, &scale, None);
            },
            "batch_norm_sums: statistics has shape 2×3, expected 2×4",
        ),
        (
            line!(),
            |r, a| {
                let (g, values) = (ones(a, [4]), ones(a, [2]));
                api::sgd_assign(r, &mut ones(a, [4]), &g, &values);
            },
            "sgd: values has shape 2, expected 3",
        ),
    ]);
}
