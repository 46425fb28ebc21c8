//! How fast the light kernels are, on one thread: nanoseconds per element, and microseconds per image
//! for the whole training step of small networks.
//!
//! `cargo run --release -p dahl-ops --example light_speed [filter]`

use std::hint::black_box;
use std::time::Instant;

use dahl_core::{View, ViewMut};
use dahl_ops::batch_norm::{backward, moments, normalise};
use dahl_ops::conv2d::{conv_pool, conv_pool_grad, direct, direct_filter};
use dahl_ops::cross_entropy::kernel::{self as cross_entropy, Labels};
use dahl_ops::dropout::kernel::{self as dropout, Place};
use dahl_ops::linear::kernel as linear;
use dahl_ops::optim::sgd::{self, Sgd};
use dahl_ops::philox::Stream;
use dahl_ops::pool::average::{self, Divisor};
use dahl_ops::pool::max;
use dahl_ops::window::Window;
use dahl_ops::{elementwise, reduce};

/// The best of several repetitions, in seconds for one call.
fn best(mut f: impl FnMut()) -> f64 {
    let once = {
        f();
        let start = Instant::now();
        f();
        start.elapsed().as_secs_f64()
    };
    let calls = (0.01 / once.max(1e-9)).ceil().clamp(1.0, 1e5) as usize;
    let time = || {
        let start = Instant::now();
        (0..calls).for_each(|_| f());
        start.elapsed().as_secs_f64() / calls as f64
    };
    std::iter::repeat_with(time)
        .take(7)
        .fold(f64::INFINITY, f64::min)
}

fn numbers(n: usize) -> Vec<f32> {
    (0..n)
        .map(|i| ((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0)
        .collect()
}

fn view(data: &[f32], dims: [usize; 4]) -> View<'_, f32> {
    View::from_slice(data, dims)
}

fn cells(data: &mut [f32], dims: [usize; 4]) -> ViewMut<'_, f32> {
    ViewMut::from_slice(data, dims)
}

fn report(name: &str, seconds: f64, elements: usize, bytes: usize, flops: usize) {
    print!(
        "{name:<34} {:>9.3} ns/element",
        seconds * 1e9 / elements as f64
    );
    print!(" {:>8.1} GB/s", bytes as f64 / seconds / 1e9);
    match flops {
        0 => println!(),
        n => println!(" {:>8.1} GFLOP/s", n as f64 / seconds / 1e9),
    }
}

/// Convolution, positive part, pooling, linear layer, cross-entropy, and back, with plain SGD.
fn small_cnn(batch: usize, side: usize) {
    let (chans, classes) = (4, 10);
    let pooled = (side - 2) / 2;
    let features = chans * pooled * pooled;
    let win = Window {
        kernel: [3, 3],
        stride: [1, 1],
        shift: [0, 0],
    };
    let (xd, wd) = ([batch, 1, side, side], [chans, 1, 3, 3]);
    let yd = [batch, chans, pooled, pooled];
    let cd = [batch, chans, pooled, conv_pool::code_columns::<f32>(pooled)];
    let (fd, ld, vd) = (
        [1, 1, batch, features],
        [1, 1, batch, classes],
        [1, 1, classes, features],
    );
    let x = numbers(batch * side * side);
    let labels: Vec<f32> = (0..batch).map(|i| (i % classes) as f32).collect();
    let mut w = numbers(36);
    let mut b = numbers(chans);
    let mut v: Vec<f32> = numbers(classes * features)
        .iter()
        .map(|x| x / features as f32)
        .collect();
    let mut c = numbers(classes);
    let (mut dw, mut db) = (vec![0.0; 36], vec![0.0; chans]);
    let (mut dv, mut dc) = (vec![0.0; classes * features], vec![0.0; classes]);
    let mut y = vec![0.0; batch * features];
    let mut dy = vec![0.0; batch * features];
    let mut codes = vec![0.0; cd.iter().product()];
    let (mut logits, mut dlogits) = (vec![0.0; batch * classes], vec![0.0; batch * classes]);
    let mut losses = vec![0.0; batch];
    let len = conv_pool::forward_scratch(xd, yd, &win, 2);
    let mut scratch = vec![0.0; len.max(conv_pool_grad::filter_grad_scratch(xd, yd, &win, 2))];
    // Scaled so that the loss falls whatever the number of features.
    let sgd = Sgd {
        rate: 0.676 / features as f32,
        decay: 0.0,
        momentum: 0.0,
        nesterov: false,
    };
    let mut spent = [0.0; 6];
    let names = [
        "conv+relu+pool",
        "linear",
        "cross-entropy",
        "linear gradients",
        "conv gradients",
        "sgd",
    ];
    let mut first_loss = None;
    let mut last_loss = 0.0;
    let whole = best(|| {
        let mut at = Instant::now();
        let mut lap = |i: usize| {
            let now = Instant::now();
            spent[i] += (now - at).as_secs_f64();
            at = now;
        };
        let (xv, bv) = (view(&x, xd), view(&b, [1, 1, 1, chans]));
        let (yv, cv) = (cells(&mut y, yd), cells(&mut codes, cd));
        conv_pool::forward(xv, view(&w, wd), Some(bv), yv, cv, &win, 2, &mut scratch);
        lap(0);
        let cv = view(&c, [1, 1, 1, classes]);
        linear::forward(view(&y, fd), view(&v, vd), Some(cv), cells(&mut logits, ld));
        lap(1);
        let of = Labels::Classes(view(&labels, [1, 1, 1, batch]));
        let (lv, gv) = (
            cells(&mut losses, [1, 1, 1, batch]),
            cells(&mut dlogits, ld),
        );
        let totals =
            cross_entropy::forward_backward(view(&logits, ld), of, 1.0 / batch as f32, lv, gv);
        last_loss = totals.loss / batch as f32;
        first_loss.get_or_insert(last_loss);
        lap(2);
        for d in [&mut dw, &mut db, &mut dv, &mut dc] {
            d.fill(0.0);
        }
        let g = view(&dlogits, ld);
        linear::weight_grad(g, view(&y, fd), cells(&mut dv, vd));
        linear::bias_grad(g, cells(&mut dc, [1, 1, 1, classes]));
        linear::input_grad(g, view(&v, vd), cells(&mut dy, fd));
        lap(3);
        let (dwv, dbv) = (cells(&mut dw, wd), cells(&mut db, [1, 1, 1, chans]));
        let (dyv, cv) = (view(&dy, yd), view(&codes, cd));
        conv_pool_grad::filter_grad(xv, dyv, cv, dwv, Some(dbv), &win, 2, &mut scratch);
        lap(4);
        for (p, d) in [(&mut w, &dw), (&mut b, &db), (&mut v, &dv), (&mut c, &dc)] {
            let dims = [1, 1, 1, d.len()];
            sgd::step(&sgd, view(d, dims), cells(p, dims));
        }
        lap(5);
    });
    println!(
        "small CNN {side}×{side}, batch {batch}: {:.3} µs/image",
        whole * 1e6 / batch as f64
    );
    println!(
        "    loss {:.4} then {last_loss:.4}",
        first_loss.unwrap_or(f32::NAN)
    );
    let total: f64 = spent.iter().sum();
    for (name, s) in names.iter().zip(spent) {
        println!("    {name:<18} {:>5.1} %", s / total * 100.0);
    }
}

fn conv(name: &str, x: [usize; 4], outs: usize, win: Window, pad: usize) {
    let out = |a: usize| (x[a + 2] + 2 * pad - win.kernel[a]) / win.stride[a] + 1;
    let yd = [x[0], outs, out(0), out(1)];
    let wd = [outs, x[1], win.kernel[0], win.kernel[1]];
    let (xs, ws) = (numbers(x.iter().product()), numbers(wd.iter().product()));
    let (bias, dys) = (numbers(outs), numbers(yd.iter().product()));
    let mut ys = vec![0.0; dys.len()];
    let mut dx = vec![0.0; xs.len()];
    let mut dw = vec![0.0; ws.len()];
    let flops = 2 * ys.len() * x[1] * win.kernel[0] * win.kernel[1];
    let bytes = 4 * (xs.len() + ys.len());
    let mut scratch = vec![0.0; direct::forward_scratch(x, yd, &win)];
    let b = Some(view(&bias, [1, 1, 1, outs]));
    let t = best(|| {
        let y = cells(&mut ys, yd);
        direct::forward(view(&xs, x), view(&ws, wd), b, true, y, &win, &mut scratch);
    });
    report(&format!("{name} forward"), t, dys.len(), bytes, flops);
    let mut scratch = vec![0.0; direct_filter::filter_grad_scratch(x, yd, &win)];
    let t = best(|| {
        let dw = cells(&mut dw, wd);
        direct_filter::filter_grad(view(&xs, x), view(&dys, yd), dw, &win, &mut scratch);
    });
    report(&format!("{name} filter grad"), t, dys.len(), bytes, flops);
    let mut scratch = vec![0.0; direct::input_grad_scratch(yd, x, &win)];
    let t = best(|| {
        let dx = cells(&mut dx, x);
        direct::input_grad(view(&dys, yd), view(&ws, wd), dx, &win, &mut scratch);
    });
    report(&format!("{name} input grad"), t, dys.len(), bytes, flops);
}

/// Pooling, batch normalisation and dropout of a batch of planes.
fn layers() {
    let (xd, yd) = ([16, 8, 32, 32], [16, 8, 16, 16]);
    let (len, small): (usize, usize) = (xd.iter().product(), yd.iter().product());
    let (x, mut out) = (numbers(len), vec![0.0; len]);
    let (mut y, mut places) = (vec![0.0; small], vec![0.0; small]);
    let win = Window {
        kernel: [2, 2],
        stride: [2, 2],
        shift: [0, 0],
    };
    let t = best(|| {
        let p = Some(cells(&mut places, yd));
        max::forward(view(&x, xd), cells(&mut y, yd), p, &win);
    });
    report("max-pool 2×2 forward", t, len, 4 * (len + 2 * small), 0);
    let t = best(|| max::backward(view(&y, yd), view(&places, yd), cells(&mut out, xd), &win));
    report("max-pool 2×2 backward", t, len, 4 * (len + 2 * small), 0);
    let t = best(|| average::forward(view(&x, xd), cells(&mut y, yd), &win, Divisor::Kernel));
    report("average-pool 2×2 forward", t, len, 4 * (len + small), 0);
    let mut m = vec![0.0; 24];
    let t = best(|| moments::moments(view(&x, xd), cells(&mut m, [1, 1, 3, 8])));
    report("batch norm moments", t, len, 8 * len, 0);
    let mut stats = vec![0.0; 16];
    moments::finish(
        view(&m, [1, 1, 3, 8]),
        1e-5,
        cells(&mut stats, [1, 1, 2, 8]),
        None,
    );
    let sv = view(&stats, [1, 1, 2, 8]);
    let t = best(|| normalise::normalise(view(&x, xd), sv, None, true, cells(&mut out, xd)));
    report("batch norm normalise", t, len, 8 * len, 0);
    let mut sums = vec![0.0; 16];
    let t = best(|| {
        let to = cells(&mut sums, [1, 1, 2, 8]);
        backward::sums(view(&x, xd), view(&x, xd), None, sv, to);
    });
    report("batch norm gradient sums", t, len, 8 * len, 0);
    let place = Place {
        start: [0; 4],
        whole: xd,
    };
    let stream = Stream {
        seed: 1,
        step: 1,
        layer: 1,
    };
    let t = best(|| dropout::apply(view(&x, xd), cells(&mut out, xd), 0.5, stream, place));
    report("dropout", t, len, 8 * len, 0);
}

fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let wanted = |name: &str| name.contains(&filter);
    if wanted("cnn") {
        small_cnn(64, 28);
        small_cnn(10, 28);
        small_cnn(8, 512);
    }
    let win = |k: usize, p: isize| Window {
        kernel: [k, k],
        stride: [1, 1],
        shift: [p, p],
    };
    if wanted("conv") {
        conv("conv 1→4 3×3 28×28", [16, 1, 28, 28], 4, win(3, 0), 0);
        conv("conv 1→4 3×3 512×512", [1, 1, 512, 512], 4, win(3, 0), 0);
        conv("conv 1→6 5×5 pad 2 28×28", [16, 1, 28, 28], 6, win(5, 2), 2);
        conv("conv 6→16 5×5 14×14", [16, 6, 14, 14], 16, win(5, 0), 0);
        conv(
            "conv 3→32 3×3 pad 1 32×32",
            [8, 3, 32, 32],
            32,
            win(3, 1),
            1,
        );
    }
    if wanted("layers") {
        layers();
    }
    if wanted("element") {
        for (n, place) in [(4096, "L1"), (1 << 22, "memory")] {
            let dims = [1, 1, 1, n];
            let (a, b) = (numbers(n), numbers(n));
            let mut out = vec![0.0; n];
            let t = best(|| {
                elementwise::kernels::binary::add(
                    view(&a, dims),
                    view(&b, dims),
                    cells(&mut out, dims),
                )
            });
            report(&format!("add {place}"), t, n, 12 * n, n);
            let t =
                best(|| elementwise::kernels::relu::relu(view(&a, dims), cells(&mut out, dims)));
            report(&format!("relu {place}"), t, n, 8 * n, 0);
            let t =
                best(|| elementwise::kernels::unary::exp(view(&a, dims), cells(&mut out, dims)));
            report(&format!("exp {place}"), t, n, 8 * n, 0);
            let t = best(|| {
                black_box(reduce::rows::sum(view(&a, dims)));
            });
            report(&format!("sum {place}"), t, n, 4 * n, n);
            let sgd = Sgd {
                rate: 1e-3,
                decay: 1e-4,
                momentum: 0.9,
                nesterov: false,
            };
            let mut m = numbers(n);
            let t = best(|| {
                let (p, m) = (cells(&mut out, dims), cells(&mut m, dims));
                sgd::step_momentum(&sgd, view(&a, dims), p, m);
            });
            report(&format!("sgd with momentum {place}"), t, n, 20 * n, 6 * n);
        }
    }
}
