//! Cases of what slides windows over images: convolution in all its forms, and pooling.

use dahl_core::{DType, Param};
use dahl_ops::api::Tile;
use dahl_ops::conv2d::fused::code_columns;
use dahl_ops::conv2d::transformed;

use super::cases::{int, of, row, terms};
use super::dice::Dice;
use super::operand::{Case, Content, Operand};
use Content::{Any, Codes, Halves, Whole};

/// A window and extents that belong together: input, output, and the window's parameters.
struct Windowed {
    x: [usize; 4],
    y: [usize; 4],
    window: Vec<Param>,
    kernel: [usize; 2],
}

fn windowed(kernel: [usize; 2], stride: [usize; 2], i: usize, dice: &mut Dice) -> Windowed {
    let pad: [usize; 2] = kernel.map(|k| dice.between(0, k / 2));
    let (n, c) = if i == 0 {
        (3, 18)
    } else {
        (dice.between(1, 3), dice.between(1, 9))
    };
    let outs: [usize; 2] = std::array::from_fn(|_| dice.between(1, if i == 0 { 14 } else { 8 }));
    // Inputs that the windows do not use up are fine, too.
    let ins: [usize; 2] = std::array::from_fn(|a| {
        let need = (outs[a] - 1) * stride[a] + kernel[a];
        (need.saturating_sub(2 * pad[a])).max(1) + dice.between(0, stride[a] - 1)
    });
    let window = [kernel, stride, pad]
        .concat()
        .into_iter()
        .map(int)
        .collect();
    Windowed {
        x: [n, c, ins[0], ins[1]],
        y: [n, c, outs[0], outs[1]],
        window,
        kernel,
    }
}

fn any_window(i: usize, dice: &mut Dice) -> Windowed {
    let kernel = std::array::from_fn(|_| dice.between(1, 5));
    let stride = std::array::from_fn(|_| dice.between(1, 3));
    windowed(kernel, stride, i, dice)
}

fn three(i: usize, dice: &mut Dice) -> Windowed {
    windowed([3, 3], [1, 1], i, dice)
}

/// Extents of the filter for `o` output channels.
fn filter(w: &Windowed, o: usize) -> [usize; 4] {
    [o, w.x[1], w.kernel[0], w.kernel[1]]
}

fn with_channels(mut dims: [usize; 4], channels: usize) -> [usize; 4] {
    dims[1] = channels;
    dims
}

pub(super) fn conv(name: &str, i: usize, dice: &mut Dice) -> Option<Case> {
    let w = any_window(i, dice);
    let o = if i == 0 { 70 } else { dice.between(1, 12) };
    let (f, y) = (filter(&w, o), with_channels(w.y, o));
    let few = [w.x, f, y].map(|d| d.iter().product()).into_iter().min();
    let read = |d: [usize; 4]| Operand::read(d, terms(few.unwrap_or(0)));
    let mut params = w.window.clone();
    let operands = match name {
        "conv2d" => {
            params.push(int(i % 2));
            match i % 3 {
                0 => vec![read(w.x), read(f), Operand::write(y)],
                _ => vec![read(w.x), read(f), read(row(o)), Operand::write(y)],
            }
        }
        "conv2d_input_grad" => vec![read(y), read(f), Operand::write(w.x)],
        "conv2d_filter_grad" => vec![
            read(w.x),
            read(y),
            Operand::change(f, terms(few.unwrap_or(0))),
        ],
        _ => return None,
    };
    of(operands, params)
}

/// Several groups, as many as channels among them, and gaps between kernel positions.
pub(super) fn grouped(name: &str, i: usize, dice: &mut Dice) -> Option<Case> {
    let mut w = any_window(i, dice);
    let groups = dice.between(1, 4);
    let (ins, outs) = match i % 3 {
        0 => (1, 1),
        1 => (9, 8),
        _ => (dice.between(1, 3), dice.between(1, 3)),
    };
    let dilation = if i % 2 == 1 { [1, 1] } else { [2, 3] };
    for (a, dilation) in dilation.into_iter().enumerate() {
        w.x[2 + a] += (w.kernel[a] - 1) * (dilation - 1);
    }
    let (x, o) = (with_channels(w.x, ins * groups), outs * groups);
    let (f, y) = ([o, ins, w.kernel[0], w.kernel[1]], with_channels(w.y, o));
    let few = [x, f, y].map(|d| d.iter().product()).into_iter().min();
    let content = terms(few.unwrap_or(0));
    let read = |d: [usize; 4]| Operand::read(d, content.clone());
    let mut params = w.window.clone();
    params.extend([int(dilation[0]), int(dilation[1]), int(groups)]);
    let operands = match name {
        "conv2d_grouped" => {
            params.push(int(i % 2));
            match i % 3 {
                0 => vec![read(x), read(f), Operand::write(y)],
                _ => vec![read(x), read(f), read(row(o)), Operand::write(y)],
            }
        }
        "conv2d_grouped_input_grad" => vec![read(y), read(f), Operand::write(x)],
        _ => vec![read(x), read(y), Operand::change(f, content.clone())],
    };
    of(operands, params)
}

/// Convolution with pooling behind it. Values are multiples of one half, so that all sums are exact
/// and the places of maxima, and ties, must be the very same.
pub(super) fn fused(name: &str, dtype: DType, i: usize, dice: &mut Dice) -> Option<Case> {
    let side = dice.between(2, 3);
    let (o, narrow) = (if i == 0 { 67 } else { dice.between(1, 7) }, i > 0);
    let mut w = three(i, dice);
    let pooled = [0, 1].map(|_| dice.between(1, if narrow { 4 } else { 7 }));
    let outs = pooled.map(|p| p * side);
    let pads: Vec<i64> = w.window[4..].iter().map(as_int).collect();
    let ins: [usize; 2] =
        std::array::from_fn(|a| (outs[a] + 2).saturating_sub(2 * pads[a] as usize).max(1));
    w.x = [w.x[0], w.x[1], ins[0], ins[1]];
    let y = [w.x[0], o, pooled[0], pooled[1]];
    let codes = [y[0], o, y[2], code_columns(dtype, y[3])];
    let f = filter(&w, o);
    let read = |d: [usize; 4], content: Content| Operand::read(d, content);
    let coded = read(codes, Codes(side * side + 1));
    let mut params = w.window.clone();
    params.push(int(side));
    let operands = match name {
        "conv2d_relu_max_pool2d" => {
            let mut all = vec![read(w.x, Halves(2)), read(f, Halves(2))];
            if i.is_multiple_of(2) {
                all.push(read(row(o), Halves(2)));
            }
            all.extend([Operand::write(y), Operand::write(codes)]);
            all
        }
        "conv2d_relu_max_pool2d_filter_grad" => {
            let mut all = vec![
                read(w.x, terms(o)),
                read(y, terms(o)),
                coded,
                Operand::change(f, terms(o)),
            ];
            if i.is_multiple_of(2) {
                all.push(Operand::change(row(o), terms(o)));
            }
            all
        }
        "conv2d_relu_max_pool2d_input_grad" => {
            let few = w.x.iter().product();
            vec![
                read(y, terms(few)),
                coded,
                read(f, terms(few)),
                Operand::write(w.x),
            ]
        }
        "max_pool2d_expand" => {
            params = vec![int(side)];
            let more = [0, 1].map(|_| dice.between(0, side - 1));
            let out = [y[0], o, outs[0] + more[0], outs[1] + more[1]];
            vec![read(y, Any), coded, Operand::write(out)]
        }
        _ => return None,
    };
    of(operands, params)
}

fn as_int(p: &Param) -> i64 {
    match p {
        Param::Int(v) => *v,
        Param::Float(v) => *v as i64,
    }
}

pub(super) fn pool(name: &str, i: usize, dice: &mut Dice) -> Option<Case> {
    let w = match i % 2 {
        0 => any_window(i, dice),
        _ => windowed([2, 2], [2, 2], i, dice),
    };
    let read = |d: [usize; 4]| Operand::read(d, Halves(3));
    let places = Operand::read(w.y, Whole(0, w.kernel[0] * w.kernel[1] - 1));
    let operands = match name {
        "max_pool2d" if i.is_multiple_of(3) => vec![read(w.x), Operand::write(w.y)],
        "max_pool2d" => vec![read(w.x), Operand::write(w.y), Operand::write(w.y)],
        "max_pool2d_grad" => vec![read(w.y), places, Operand::write(w.x)],
        "avg_pool2d" => vec![read(w.x), Operand::write(w.y)],
        "avg_pool2d_grad" => vec![read(w.y), Operand::write(w.x)],
        _ => return None,
    };
    of(operands, w.window)
}

pub(super) fn wino(name: &str, i: usize, dice: &mut Dice) -> Option<Case> {
    // Transforms subtract, whatever the signs: enough results to judge errors by.
    let mut w = three(i, dice);
    for (x, y) in w.x[2..].iter_mut().zip(&mut w.y[2..]) {
        (*x, *y) = (*x + 5, *y + 5);
    }
    let (size, tile) = match i.is_multiple_of(2) {
        true => (4, Tile::Four),
        false => (2, Tile::Two),
    };
    let o = dice.between(1, 35);
    let (f, y) = (filter(&w, o), with_channels(w.y, o));
    let read = |d: [usize; 4]| Operand::read(d, Any);
    let u = |len: usize| Operand::read(row(len), Any).whole();
    let mut params = w.window.clone();
    params.push(Param::Int(size));
    let len = transformed::filter_len(tile, f);
    let len_back = transformed::filter_for_input_grad_len(tile, f);
    let du = row(transformed::filter_grad_len(tile, f));
    let operands = match name {
        "winograd_filter" => {
            params = vec![Param::Int(size), int(i / 2 % 2)];
            let len = [len, len_back][i / 2 % 2];
            vec![read(f), Operand::write(row(len)).whole()]
        }
        "conv2d_winograd" => {
            params.push(int(i % 2));
            match i % 3 {
                0 => vec![read(w.x), u(len), Operand::write(y)],
                _ => vec![read(w.x), u(len), read(row(o)), Operand::write(y)],
            }
        }
        "conv2d_winograd_input_grad" => vec![read(y), u(len_back), Operand::write(w.x)],
        "conv2d_winograd_filter_grad" => {
            vec![read(w.x), read(y), Operand::change(du, Any).whole()]
        }
        "winograd_filter_finish" => {
            params = vec![Param::Int(size)];
            vec![Operand::read(du, Any).whole(), Operand::change(f, Any)]
        }
        _ => return None,
    };
    of(operands, params)
}
