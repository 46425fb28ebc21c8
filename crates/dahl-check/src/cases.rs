//! Cases for every codelet: random extents, small and odd, and a few that are large enough to be cut
//! into several groups.

use dahl_core::{DType, Mode, Param};

use super::dice::Dice;
use super::operand::{Case, Content, Operand};
use super::windows::{conv, fused, grouped, pool, wino};
use Content::{Any, Halves, Labels, Positive, These, Whole};

/// How many random cases each codelet gets.
const EACH: usize = 8;

/// The cases of a codelet.
pub(crate) fn cases(codelet: &str, dtype: DType, dice: &mut Dice) -> Vec<Case> {
    (0..EACH)
        .filter_map(|i| case(codelet, dtype, i, dice))
        .collect()
}

pub(super) fn of(operands: Vec<Operand>, params: Vec<Param>) -> Option<Case> {
    Some(Case { operands, params })
}

pub(super) fn int(v: usize) -> Param {
    Param::Int(v as i64)
}

/// Extents of a tensor; the first case is large.
fn extents(i: usize, dice: &mut Dice) -> [usize; 4] {
    if i == 0 {
        return [3, 5, 37, 41];
    }
    std::array::from_fn(|a| dice.between(1, [3, 5, 9, 40][a]))
}

/// Extents of a product; the first are large, the second long.
fn product(i: usize, dice: &mut Dice) -> [usize; 3] {
    match i {
        0 => [130, 70, 67],
        1 => [20, 1200, 19],
        _ => std::array::from_fn(|_| dice.between(1, 40)),
    }
}

fn written(dims: [usize; 4], i: usize) -> Operand {
    let mode = [Mode::Write, Mode::ReadWrite, Mode::Reduce][i % 3];
    Operand {
        mode,
        ..Operand::change(dims, terms(dims.iter().product()))
    }
}

/// What to add up for so many results. Where they are few, all may happen to cancel, and nothing is left
/// to judge errors by: then nothing cancels.
pub(super) fn terms(results: usize) -> Content {
    if results < 32 { Positive } else { Any }
}

fn matrix(rows: usize, cols: usize) -> [usize; 4] {
    [1, 1, rows, cols]
}

pub(super) fn row(n: usize) -> [usize; 4] {
    [1, 1, 1, n]
}

fn case(codelet: &str, dtype: DType, i: usize, dice: &mut Dice) -> Option<Case> {
    let d = extents(i, dice);
    let n: usize = d.iter().product();
    let read = |content: Content| Operand::read(d, content);
    let (write, vec) = (Operand::write(d), Vec::new);
    match codelet {
        "relu6_grad" => binary(d, Halves(16), vec(), i),
        "relu6" => unary(d, Halves(16), vec(), i),
        "add" | "sub" | "mul" | "relu_grad" => binary(d, Any, vec(), i),
        "div" => binary(d, Positive, vec(), i),
        "add_assign" => of(vec![read(Any), Operand::change(d, Any)], vec()),
        "merge" | "merge_min" | "merge_max" => {
            let mut all = vec![Operand::change(d, Any)];
            all.resize(2 + i % 3, read(Any));
            of(all, vec())
        }
        "scale" | "add_value" | "sub_value" => unary(d, Any, vec![Param::Float(0.7)], i),
        "power" => unary(
            d,
            Positive,
            vec![Param::Float(dice.pick(&[0.5, 1.0, 2.0, 3.0, -1.0, 1.7]))],
            i,
        ),
        "clip_values" => unary(d, Any, vec![Param::Float(-0.4), Param::Float(0.3)], i),
        "round" => unary(d, Halves(9), vec(), i),
        "exp" | "relu" => unary(d, Any, vec(), i),
        "sigmoid" | "tanh" | "gelu" | "gelu_tanh" | "silu" => unary(d, Halves(16), vec(), i),
        "leaky_relu" | "elu" => unary(d, Halves(16), vec![Param::Float(0.3)], i),
        "leaky_relu_grad" | "elu_grad" => binary(d, Halves(16), vec![Param::Float(0.3)], i),
        "sigmoid_grad" | "tanh_grad" => binary(d, Any, vec(), i),
        "gelu_grad" | "gelu_tanh_grad" | "silu_grad" => binary(d, Halves(16), vec(), i),
        "log" => unary(d, Positive, vec(), i),
        "fill" => of(vec![write], vec![Param::Float(-2.5)]),
        "copy" => of(vec![read(Any), write], vec()),
        "sum" => {
            let to = if i == 0 {
                [1; 4]
            } else {
                d.map(|e| if dice.flip() { 1 } else { e })
            };
            of(
                vec![read(terms(to.iter().product())), written(to, i)],
                vec(),
            )
        }
        "mean" => of(
            vec![read(Positive), written([1; 4], i)],
            if i.is_multiple_of(2) {
                vec()
            } else {
                vec![int(n + 3)]
            },
        ),
        "min" | "max" => of(vec![read(Any), written([1; 4], i % 2)], vec()),
        "dot" => of(
            vec![read(Positive), read(Positive), written([1; 4], i)],
            vec(),
        ),
        "clip_squares" => of(vec![read(Any), Operand::change([1; 4], Positive)], vec()),
        "clip" => of(
            vec![Operand::read([1; 4], Positive), Operand::change(d, Any)],
            vec![Param::Float(dice.pick(&[0.1, 10.0]))],
        ),
        "softmax" => of(vec![read(Any), write], vec()),
        "softmax_grad" => of(vec![read(Positive), read(Any), write], vec()),
        "softmax_jacobian" => of(
            vec![
                Operand::read(row(d[3]), Positive),
                Operand::write(matrix(d[3], d[3])),
            ],
            vec(),
        ),
        "transpose" => of(
            vec![read(Any), Operand::write([d[0], d[1], d[3], d[2]])],
            vec(),
        ),
        "diag" => of(
            vec![
                Operand::read(row(d[3]), Any),
                Operand::write(matrix(d[3], d[3])),
            ],
            vec(),
        ),
        "diagonal" => of(
            vec![
                Operand::read(matrix(d[2], d[3]), Any),
                Operand::write(row(d[2].min(d[3]))),
            ],
            vec(),
        ),
        "dropout" => {
            let p = dice.pick(&[0.0, 0.3, 0.5, 1.0]);
            let params = vec![Param::Float(p), Param::Int(0x1234_5678_9abc), int(7)];
            of(
                vec![read(Any), Operand::read([1; 4], These(vec![5.0])), write],
                params,
            )
        }
        "adaptive_avg_pool2d" | "adaptive_avg_pool2d_grad" | "upsample" | "upsample_grad" => {
            resized(codelet, d, i, dice)
        }
        name if name.starts_with("channel_") => channels(name, d),
        "conv2d_bias_grad" => of(
            vec![read(Positive), Operand::change(row(d[1]), Positive)],
            vec(),
        ),
        "outer" | "matvec" | "vecmat" | "matmul" | "correlate" => products(codelet, i, dice),
        name if name.starts_with("linear") => linear(name, i, dice),
        name if name.contains("winograd") => wino(name, i, dice),
        name if name.starts_with("batch_norm") => norm(name, d, i, dice),
        name if name.starts_with("layer_norm") => sample_norm(name, d, i),
        name if name.starts_with("group_norm") => sample_norm(name, d, i),
        name if name.starts_with("cross_entropy_smooth") => smooth_loss(name, i, dice),
        name if name.contains("_loss") => value_loss(name, d, i),
        "class_weights_total" => of(
            vec![
                Operand::read(row(n), Whole(0, 6)),
                Operand::read(row(7), Positive),
                Operand::change([1; 4], Positive),
            ],
            vec(),
        ),
        name if name.starts_with("cross_entropy") => loss(name, i, dice),
        name if name.starts_with("soft_cross_entropy") => soft_loss(name, i, dice),
        "average" | "sgd" | "sgd_momentum" | "adam" => optimiser(codelet, d, i),
        name if name.contains("relu_max_pool2d") || name == "max_pool2d_expand" => {
            fused(name, dtype, i, dice)
        }
        name if name.contains("pool2d") => pool(name, i, dice),
        name if name.starts_with("conv2d_grouped") => grouped(name, i, dice),
        name if name.starts_with("conv2d") => conv(name, i, dice),
        _ => None,
    }
}

fn unary(d: [usize; 4], content: Content, params: Vec<Param>, i: usize) -> Option<Case> {
    match i % 2 {
        0 => of(vec![Operand::read(d, content), Operand::write(d)], params),
        _ => of(vec![Operand::change(d, content)], params),
    }
}

fn binary(d: [usize; 4], other: Content, params: Vec<Param>, i: usize) -> Option<Case> {
    let b = Operand::read(d, other);
    match i % 2 {
        0 => of(vec![Operand::read(d, Any), b, Operand::write(d)], params),
        _ => of(vec![Operand::change(d, Any), b], params),
    }
}

fn products(name: &str, i: usize, dice: &mut Dice) -> Option<Case> {
    let [m, k, n] = product(i, dice);
    let few = match name {
        "matvec" => m,
        "vecmat" => n,
        _ => m * n,
    };
    let read = |d: [usize; 4]| Operand::read(d, terms(few));
    let turned = |d: [usize; 4], yes: bool| if yes { [1, 1, d[3], d[2]] } else { d };
    match name {
        "outer" => of(
            vec![read(row(m)), read(row(n)), written(matrix(m, n), i)],
            Vec::new(),
        ),
        "matvec" => of(
            vec![read(matrix(m, n)), read(row(n)), Operand::write(row(m))],
            Vec::new(),
        ),
        "vecmat" => of(
            vec![read(row(m)), read(matrix(m, n)), Operand::write(row(n))],
            Vec::new(),
        ),
        "matmul" => {
            let (a, b) = (i & 1 == 1, i & 2 == 2);
            let operands = vec![
                read(turned(matrix(m, k), a)),
                read(turned(matrix(k, n), b)),
                written(matrix(m, n), i),
            ];
            of(operands, vec![int(usize::from(a)), int(usize::from(b))])
        }
        _ => {
            let [a, b] = [dice.between(1, m.min(5)), dice.between(1, n.min(5))];
            let out = matrix(m - a + 1, n - b + 1);
            of(
                vec![read(matrix(m, n)), read(matrix(a, b)), Operand::write(out)],
                Vec::new(),
            )
        }
    }
}

fn linear(name: &str, i: usize, dice: &mut Dice) -> Option<Case> {
    let [b, ins, outs] = product(i, dice);
    let few = match name {
        "linear" => b * outs,
        "linear_input_grad" => b * ins,
        "linear_weight_grad" => ins * outs,
        _ => outs,
    };
    let read = |d: [usize; 4]| Operand::read(d, terms(few));
    let (x, w, y) = (matrix(b, ins), matrix(outs, ins), matrix(b, outs));
    let operands = match name {
        "linear" if i.is_multiple_of(2) => {
            vec![read(x), read(w), read(row(outs)), Operand::write(y)]
        }
        "linear" => vec![read(x), read(w), Operand::write(y)],
        "linear_input_grad" => vec![read(y), read(w), Operand::write(x)],
        "linear_weight_grad" => vec![read(y), read(x), Operand::change(w, terms(few))],
        _ => vec![read(y), Operand::change(row(outs), terms(few))],
    };
    of(operands, Vec::new())
}

fn norm(name: &str, d: [usize; 4], i: usize, dice: &mut Dice) -> Option<Case> {
    let c = d[1];
    let read = |d: [usize; 4], content: Content| Operand::read(d, content);
    let stats = read(matrix(2, c), Positive);
    let (epsilon, momentum) = (Param::Float(1e-5), Param::Float(0.1));
    // The positive part, in one case of two, is cut off in one of those of two.
    let capped = (i % 4 == 3).then_some(Param::Float(0.5));
    let (operands, params) = match name {
        "batch_norm_moments" => (vec![read(d, Any), Operand::write(matrix(3, c))], vec![]),
        "batch_norm_finish" => {
            let all = [1, dice.between(1, 4), 3, c];
            let operands = vec![
                read(all, Whole(3, 9)),
                Operand::write(matrix(3, c)),
                Operand::write(matrix(2, c)),
                Operand::change(row(c), Any),
                Operand::change(row(c), Positive),
            ];
            (operands, vec![epsilon, momentum])
        }
        "batch_norm_running" => {
            let operands = vec![
                read(row(c), Any),
                read(row(c), Positive),
                Operand::write(matrix(2, c)),
            ];
            (operands, vec![epsilon])
        }
        "batch_norm" => {
            let operands = vec![
                read(d, Any),
                stats,
                read(row(c), Any),
                read(row(c), Any),
                Operand::write(d),
            ];
            let mut params = vec![int(i % 2)];
            params.extend(capped);
            (operands, params)
        }
        "batch_norm_sums" => {
            let mut all = vec![
                read(d, Any),
                read(d, Any),
                stats,
                Operand::change(matrix(2, c), Any),
            ];
            all.extend((i % 2 == 1).then(|| read(d, Any)));
            (all, capped.into_iter().collect())
        }
        "batch_norm_input_grad" => {
            let mut all = vec![
                read(d, Any),
                read(d, Any),
                stats,
                read(matrix(2, c), Any),
                read(row(c), Any),
                Operand::write(d),
            ];
            all.extend((i % 2 == 1).then(|| read(d, Any)));
            let mut params = vec![int(d[0] * d[2] * d[3] + i)];
            params.extend(capped);
            (all, params)
        }
        _ => return None,
    };
    of(operands, params)
}

fn loss(name: &str, i: usize, dice: &mut Dice) -> Option<Case> {
    let (b, classes) = match i {
        0 => (130, 300),
        _ => (dice.between(1, 20), dice.between(2, 40)),
    };
    let mut operands = vec![
        Operand::read(matrix(b, classes), Halves(6)),
        Operand::read(row(b), Labels(classes)),
        Operand::write(row(b)),
        Operand::write([1; 4]),
    ];
    if name == "cross_entropy" {
        operands.push(Operand::write(matrix(b, classes)));
        return of(operands, vec![Param::Float(1.0 / 32.0)]);
    }
    of(operands, Vec::new())
}

/// Cross-entropy with shares that need not add up to one.
fn soft_loss(name: &str, i: usize, dice: &mut Dice) -> Option<Case> {
    let plain = name.trim_start_matches("soft_");
    let Case {
        mut operands,
        params,
    } = loss(plain, i, dice)?;
    operands[1] = Operand::read(operands[0].dims, Positive);
    of(operands, params)
}

/// Images and their gradients, of another height and width.
fn resized(name: &str, d: [usize; 4], i: usize, dice: &mut Dice) -> Option<Case> {
    let to = match i % 3 {
        0 => [1, 1],
        1 => [2 * d[2], 2 * d[3]],
        _ => [dice.between(1, 20), dice.between(1, 20)],
    };
    let (other, params) = ([d[0], d[1], to[0], to[1]], vec![int(i % 2), int(i / 2 % 2)]);
    let params = if name.starts_with("upsample") {
        params
    } else {
        Vec::new()
    };
    let [from, to] = if name.ends_with("_grad") {
        [other, d]
    } else {
        [d, other]
    };
    of(
        vec![Operand::read(from, Positive), Operand::write(to)],
        params,
    )
}

/// A number for each channel, and norms over the channels of a pixel.
fn channels(name: &str, d: [usize; 4]) -> Option<Case> {
    let (x, own) = (|| Operand::read(d, Any), row(d[1]));
    let (stats, scale) = ([d[0], 2, d[2], d[3]], || Operand::read(own, Any));
    let held = || Operand::read(stats, Positive);
    let (operands, params) = match name {
        "channel_scale" => (vec![x(), scale(), Operand::write(d)], vec![]),
        "channel_shift" => (vec![Operand::change(d, Any), scale()], vec![]),
        "channel_scale_grad" => (
            vec![
                Operand::read(d, Positive),
                Operand::read(d, Positive),
                Operand::change(own, Any),
            ],
            vec![],
        ),
        "channel_norm" => (
            vec![
                x(),
                scale(),
                scale(),
                Operand::write(d),
                Operand::write(stats),
            ],
            vec![Param::Float(1e-2)],
        ),
        "channel_norm_input_grad" => (vec![x(), x(), held(), scale(), Operand::write(d)], vec![]),
        "channel_norm_affine_grad" => (
            vec![
                x(),
                Operand::read(d, Positive),
                held(),
                Operand::change(own, Any),
                Operand::change(own, Any),
            ],
            vec![],
        ),
        _ => return None,
    };
    of(operands, params)
}

/// Layer norm of whole samples or rows, and group norm of one or several channels together.
fn sample_norm(name: &str, d: [usize; 4], i: usize) -> Option<Case> {
    let (groups, samples, size, params) = match name.starts_with("layer_norm") {
        true if i.is_multiple_of(2) => (1, d[0], [1, d[1], d[2], d[3]], vec![]),
        true => (1, d[0] * d[1] * d[2], row(d[3]), vec![]),
        false => {
            let groups = if i.is_multiple_of(2) { 1 } else { d[1] };
            (groups, d[0], row(d[1]), vec![int(groups)])
        }
    };
    let read = |d: [usize; 4], content: Content| Operand::read(d, content);
    let stats = matrix(samples, 2 * groups);
    let epsilon = [params.clone(), vec![Param::Float(1e-2)]].concat();
    match name.split_once("_norm").map(|n| n.1) {
        Some("") => of(
            vec![
                read(d, Any),
                read(size, Any),
                read(size, Any),
                Operand::write(d),
                Operand::write(stats),
            ],
            epsilon,
        ),
        Some("_input_grad") => of(
            vec![
                read(d, Any),
                read(d, Any),
                read(stats, Positive),
                read(size, Any),
                Operand::write(d),
            ],
            params,
        ),
        _ => of(
            vec![
                read(d, Any),
                read(d, Positive),
                read(stats, Positive),
                Operand::change(size, Any),
                Operand::change(size, Positive),
            ],
            params,
        ),
    }
}

/// Images or rows of features.
fn value_loss(name: &str, d: [usize; 4], i: usize) -> Option<Case> {
    let (d, samples) = match i % 2 {
        0 => (d, d[0]),
        _ => (matrix(d[2], d[3]), d[2]),
    };
    let mut operands = vec![
        Operand::read(d, Halves(9)),
        Operand::read(d, Positive),
        Operand::write(row(samples)),
    ];
    if name.ends_with("_evaluate") {
        return of(operands, Vec::new());
    }
    operands.push(Operand::write(d));
    of(operands, vec![Param::Float(1.0 / 32.0)])
}

/// Without weights, with weights, and with weights and their total.
fn smooth_loss(name: &str, i: usize, dice: &mut Dice) -> Option<Case> {
    let plain = name.trim_start_matches("cross_entropy_smooth");
    let plain = ["cross_entropy", plain].concat();
    let Case {
        mut operands,
        params,
    } = loss(&plain, i, dice)?;
    let classes = operands[0].dims[3];
    let weights = [
        Operand::read(row(classes), Positive),
        Operand::read([1; 4], Positive),
    ];
    operands.splice(2..2, weights.into_iter().take(i % 3));
    let smoothing = Param::Float(if i.is_multiple_of(4) { 0.0 } else { 0.1 });
    of(operands, [vec![smoothing, int(40)], params].concat())
}

fn optimiser(name: &str, d: [usize; 4], i: usize) -> Option<Case> {
    let (grad, param) = (Operand::read(d, Any), Operand::change(d, Any));
    let values = |v: &[f64]| Operand::read(row(v.len()), These(v.to_vec()));
    let decay = if i.is_multiple_of(2) { 0.0 } else { 0.01 };
    match name {
        "average" => of(
            vec![values(&[0.1 + 0.25 * i as f64]), grad, param],
            Vec::new(),
        ),
        "sgd" => of(vec![values(&[0.1, decay, 0.9]), grad, param], Vec::new()),
        "sgd_momentum" => {
            let operands = vec![
                values(&[0.1, decay, 0.9]),
                grad,
                param,
                Operand::change(d, Any),
            ];
            of(operands, vec![int(i / 2 % 2)])
        }
        _ => {
            let values = values(&[0.01, 0.9, 0.999, 1e-8, decay, 1.0 + i as f64]);
            let (mean, square) = (Operand::change(d, Any), Operand::change(d, Positive));
            of(
                vec![values, grad, param, mean, square],
                vec![int(i / 2 % 2)],
            )
        }
    }
}
