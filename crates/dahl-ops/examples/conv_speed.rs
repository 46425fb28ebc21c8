//! How fast the convolutions are on this machine: milliseconds, GFLOP/s and share of the speed of a
//! large matrix product, per layer and implementation. One thread, `f32`, best of several runs.
//!
//! Operations are counted as a direct convolution would need them, so Winograd may exceed 100 %.
//! Arguments, if any, select layers by substring.

use std::time::Instant;

use dahl_core::view::{View, ViewMut};
use dahl_ops::conv2d::winograd::{self, Tile};
use dahl_ops::conv2d::{gemm, packed};
use dahl_ops::linalg::matmul::{Mat, MatMut, matmul};
use dahl_ops::window::Window;

struct Layer {
    name: &'static str,
    samples: usize,
    channels: usize,
    filters: usize,
    side: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
}

const fn layer(
    name: &'static str,
    [samples, channels, filters, side]: [usize; 4],
    [kernel, stride, padding]: [usize; 3],
) -> Layer {
    Layer {
        name,
        samples,
        channels,
        filters,
        side,
        kernel,
        stride,
        padding,
    }
}

const LAYERS: &[Layer] = &[
    layer("vgg 3-32@32", [32, 3, 32, 32], [3, 1, 1]),
    layer("vgg 32-32@32", [32, 32, 32, 32], [3, 1, 1]),
    layer("vgg 32-64@16", [32, 32, 64, 16], [3, 1, 1]),
    layer("vgg 64-64@16", [32, 64, 64, 16], [3, 1, 1]),
    layer("resnet 64-64@32", [32, 64, 64, 32], [3, 1, 1]),
    layer("resnet 128-128@16", [32, 128, 128, 16], [3, 1, 1]),
    layer("resnet 256-256@8", [32, 256, 256, 8], [3, 1, 1]),
    layer("resnet 512-512@4", [32, 512, 512, 4], [3, 1, 1]),
    layer("down 64-128@32/2", [32, 64, 128, 32], [3, 2, 1]),
    layer("down 128-256@16/2", [32, 128, 256, 16], [3, 2, 1]),
    layer("down 256-512@8/2", [32, 256, 512, 8], [3, 2, 1]),
    layer("skip 64-128@32/2", [32, 64, 128, 32], [1, 2, 0]),
    layer("skip 128-256@16/2", [32, 128, 256, 16], [1, 2, 0]),
    layer("skip 256-512@8/2", [32, 256, 512, 8], [1, 2, 0]),
    layer("one sample 64-64@32", [1, 64, 64, 32], [3, 1, 1]),
    layer("wide 16-16@256", [1, 16, 16, 256], [3, 1, 1]),
    layer("lenet 6-16@14", [32, 6, 16, 14], [5, 1, 0]),
];

/// Best time of one call, in milliseconds.
fn best(mut f: impl FnMut()) -> f64 {
    f();
    let begin = Instant::now();
    let mut best = f64::INFINITY;
    for run in 0.. {
        let start = Instant::now();
        f();
        best = best.min(start.elapsed().as_secs_f64() * 1e3);
        if run >= 4 && begin.elapsed().as_secs_f64() > 0.15 {
            break;
        }
    }
    best
}

/// Elements that begin on a cache line, as those of an arena do. Leaked: a program this short may.
fn numbers(n: usize) -> &'static mut [f32] {
    let data = vec![0.0; n + 16].leak();
    let skip = data.as_ptr().align_offset(64);
    let data = &mut data[skip..skip + n];
    data.iter_mut()
        .enumerate()
        .for_each(|(i, v)| *v = ((i * 7919) % 1009) as f32 / 504.5 - 1.0);
    data
}

fn product_speed(m: usize, k: usize, n: usize) -> f64 {
    let (a, b, c) = (numbers(m * k), numbers(k * n), numbers(m * n));
    let ms = best(|| {
        matmul(
            Mat::from_slice(a, m, k, k),
            Mat::from_slice(b, k, n, n),
            MatMut::from_slice(c, m, n, n),
            false,
        )
    });
    2e-6 * (m * k * n) as f64 / ms
}

/// Operands of one layer.
struct Operands {
    x_dims: [usize; 4],
    w_dims: [usize; 4],
    y_dims: [usize; 4],
    win: Window,
    x: &'static [f32],
    w: &'static [f32],
    dy: &'static [f32],
}

impl Operands {
    fn new(l: &Layer) -> Self {
        let out = (l.side + 2 * l.padding - l.kernel) / l.stride + 1;
        let x_dims = [l.samples, l.channels, l.side, l.side];
        let w_dims = [l.filters, l.channels, l.kernel, l.kernel];
        let y_dims = [l.samples, l.filters, out, out];
        let [x, w, dy] = [x_dims, w_dims, y_dims].map(|d| &*numbers(d.iter().product()));
        let win = Window {
            kernel: [l.kernel; 2],
            stride: [l.stride; 2],
            shift: [l.padding as isize; 2],
        };
        Operands {
            x_dims,
            w_dims,
            y_dims,
            win,
            x,
            w,
            dy,
        }
    }

    fn views(&self) -> [View<'_, f32>; 3] {
        [
            View::from_slice(self.x, self.x_dims),
            View::from_slice(self.w, self.w_dims),
            View::from_slice(self.dy, self.y_dims),
        ]
    }

    /// Forward, filter gradient and input gradient in milliseconds.
    fn gemm(&self) -> [f64; 3] {
        let ([x, w, dy], win) = (self.views(), &self.win);
        let scratch = numbers(gemm::scratch_len(self.x_dims, self.y_dims, win));
        let [y, dx, dw] = [self.dy, self.x, self.w].map(|v| numbers(v.len()));
        [
            best(|| {
                let y = ViewMut::from_slice(y, self.y_dims);
                gemm::forward(x, w, None, true, y, win, scratch);
            }),
            best(|| {
                gemm::filter_grad(x, dy, ViewMut::from_slice(dw, self.w_dims), win, scratch);
            }),
            best(|| {
                gemm::input_grad(dy, w, ViewMut::from_slice(dx, self.x_dims), win, scratch);
            }),
        ]
    }

    /// The same, filter packing included.
    fn packed(&self) -> [f64; 3] {
        let ([x, w, dy], win) = (self.views(), &self.win);
        let len = packed::forward_scratch_len(self.x_dims, self.y_dims, win)
            .max(packed::input_grad_scratch_len(
                self.y_dims,
                self.x_dims,
                win,
            ))
            .max(packed::filter_grad_scratch_len(
                self.x_dims,
                self.y_dims,
                win,
            ));
        let scratch = numbers(len);
        let [y, dx, dw] = [self.dy, self.x, self.w].map(|v| numbers(v.len()));
        [
            best(|| {
                packed::forward(
                    x,
                    w,
                    None,
                    true,
                    ViewMut::from_slice(y, self.y_dims),
                    win,
                    scratch,
                );
            }),
            best(|| {
                packed::filter_grad(x, dy, ViewMut::from_slice(dw, self.w_dims), win, scratch);
            }),
            best(|| {
                packed::input_grad(dy, w, ViewMut::from_slice(dx, self.x_dims), win, scratch);
            }),
        ]
    }

    /// The same, filter transforms included.
    fn winograd(&self, tile: Tile) -> [f64; 3] {
        let ([x, w, dy], win) = (self.views(), &self.win);
        let len = winograd::forward_scratch_len(tile, self.x_dims, self.y_dims)
            .max(winograd::input_grad_scratch_len(
                tile,
                self.y_dims,
                self.x_dims,
            ))
            .max(winograd::filter_grad_scratch_len(
                tile,
                self.x_dims,
                self.y_dims,
            ));
        let scratch = numbers(len);
        let u = numbers(winograd::filter_len(tile, self.w_dims));
        let turned = numbers(winograd::filter_for_input_grad_len(tile, self.w_dims));
        let du = numbers(winograd::filter_grad_len(tile, self.w_dims));
        let [y, dx, dw] = [self.dy, self.x, self.w].map(|v| numbers(v.len()));
        [
            best(|| {
                winograd::transform_filter(tile, w, u);
                let y = ViewMut::from_slice(y, self.y_dims);
                winograd::forward(tile, x, u, None, true, y, win, scratch);
            }),
            best(|| {
                du.fill(0.0);
                winograd::filter_grad_accumulate(tile, x, dy, du, win, scratch);
                winograd::filter_grad_finish(tile, du, ViewMut::from_slice(dw, self.w_dims));
            }),
            best(|| {
                winograd::transform_filter_for_input_grad(tile, w, turned);
                let dx = ViewMut::from_slice(dx, self.x_dims);
                winograd::input_grad(tile, dy, turned, dx, win, scratch);
            }),
        ]
    }
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let peak = product_speed(1024, 1024, 1024);
    println!("matrix product 1024×1024×1024: {peak:.0} GFLOP/s");
    if wanted.is_empty() {
        for (m, k, n) in [
            (32, 288, 1024),
            (64, 576, 256),
            (64, 64, 64),
            (512, 4608, 16),
            (32, 27, 1024),
        ] {
            println!(
                "matrix product {m}×{k}×{n}: {:.0} GFLOP/s",
                product_speed(m, k, n)
            );
        }
    }
    println!(
        "{:22} {:10} {:>8} {:>8} {:>8} {:>8} {:>8} {:>6}",
        "layer", "by", "forward", "filter", "input", "sum ms", "GFLOP/s", "peak"
    );
    for l in LAYERS
        .iter()
        .filter(|l| wanted.is_empty() || wanted.iter().any(|w| l.name.contains(w.as_str())))
    {
        let operands = Operands::new(l);
        let per_pass = 2e-6 * operands.dy.len() as f64 * (l.channels * l.kernel * l.kernel) as f64;
        let report = |by: &str, [f, w, x]: [f64; 3]| {
            let (sum, speed) = (f + w + x, 3.0 * per_pass / (f + w + x));
            println!(
                "{:22} {by:10} {f:8.3} {w:8.3} {x:8.3} {sum:8.3} {speed:8.0} {:5.0}%",
                l.name,
                100.0 * speed / peak
            );
        };
        report("gemm", operands.gemm());
        report("packed", operands.packed());
        if winograd::supports(&operands.win) {
            report("winograd 2", operands.winograd(Tile::Two));
            report("winograd 4", operands.winograd(Tile::Four));
        }
    }
}
