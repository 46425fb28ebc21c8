//! Softmax, losses, convolution, pooling and fully connected layers.

use dahl_core::{Arena, By, Recorder, Split, Tensor};
use dahl_ops::api::{self, Conv2d, Pool2d};
use dahl_ops::simd::Lane;

use crate::common::{check, launch, numbers, product, wide};

fn losses<T: Lane>() {
    let given = numbers::<T>(3 * 5, 10);
    let arena = Arena::new();
    let x = arena.from_slice([3, 5], &given).unwrap();
    let labels = arena
        .from_slice([3], &[1.0, 4.0, 0.0].map(T::from_f64))
        .unwrap();
    let mut outs = [(); 3].map(|_| arena.zeros::<T, 2>([3, 5]).unwrap());
    let mut jacobian = arena.zeros::<T, 2>([5, 5]).unwrap();
    let mut kept = arena.zeros::<T, 0>([]).unwrap();
    let r = Recorder::new();
    let y = api::softmax(&r, &x);
    api::copy_into(&r, &y, &mut outs[0]);
    api::copy_into(&r, &api::softmax_grad(&r, &y, &x), &mut outs[1]);
    let result = api::cross_entropy(&r, &x, &labels);
    api::copy_into(&r, &result.loss, &mut kept);
    api::copy_into(&r, &result.gradient, &mut outs[2]);
    let first = arena.from_slice([5], &given[..5]).unwrap();
    api::softmax_jacobian_into(&r, &api::softmax(&r, &first), &mut jacobian);
    let graph = r.finish().unwrap();
    let runtime = launch(&graph);

    let x = wide(&given);
    let mut y = vec![0.0; 15];
    for (y, x) in y.chunks_mut(5).zip(x.chunks(5)) {
        let sum: f64 = x.iter().map(|v| v.exp()).sum();
        y.iter_mut().zip(x).for_each(|(y, x)| *y = x.exp() / sum);
    }
    check("softmax", &runtime.read(&outs[0]).unwrap(), &y);
    let slope = |row: usize, a: usize, b: usize| {
        y[row * 5 + a] * (f64::from(u8::from(a == b)) - y[row * 5 + b])
    };
    let grad = |i: usize| {
        (0..5)
            .map(|b| slope(i / 5, i % 5, b) * x[i / 5 * 5 + b])
            .sum()
    };
    let want: Vec<f64> = (0..15).map(grad).collect();
    check("softmax_grad", &runtime.read(&outs[1]).unwrap(), &want);
    let want: Vec<f64> = (0..25).map(|i| slope(0, i / 5, i % 5)).collect();
    check("softmax_jacobian", &runtime.read(&jacobian).unwrap(), &want);
    let labels = [1, 4, 0];
    let loss: f64 = (0..3).map(|s| -y[s * 5 + labels[s]].ln()).sum();
    check(
        "cross_entropy",
        &runtime.read(&kept).unwrap(),
        &[loss / 3.0],
    );
    let hit = |i: usize| f64::from(u8::from(labels[i / 5] == i % 5));
    let want: Vec<f64> = (0..15).map(|i| (y[i] - hit(i)) / 3.0).collect();
    check("its gradient", &runtime.read(&outs[2]).unwrap(), &want);
}

fn images<T: Lane>() {
    let (gx, gw, gb) = (
        numbers::<T>(2 * 3 * 8 * 7, 11),
        numbers::<T>(4 * 3 * 9, 12),
        numbers::<T>(4, 13),
    );
    let arena = Arena::new();
    let x: Tensor<'_, T> = arena.from_slice([2, 3, 8, 7], &gx).unwrap();
    let w: Tensor<'_, T> = arena.from_slice([4, 3, 3, 3], &gw).unwrap();
    let bias = arena.from_slice([4], &gb).unwrap();
    let options = Conv2d::new().padding([1, 1]);
    let mut whole = arena.zeros::<T, 4>([2, 4, 8, 7]).unwrap();
    let mut tiled = arena.zeros::<T, 4>([2, 4, 8, 7]).unwrap();
    let mut pooled = [(); 3].map(|_| arena.zeros::<T, 4>([2, 4, 4, 3]).unwrap());
    let mut means = arena.zeros::<T, 4>([2, 4, 1, 1]).unwrap();
    let mut scores = arena.zeros::<T, 2>([2, 4]).unwrap();
    let r = Recorder::new();
    let y = api::conv2d(&r, &x, &w, Some(&bias), options);
    api::copy_into(&r, &y, &mut whole);
    let rows = Split::new().axis(2, By::Count(2));
    let halo = rows.clone().halo(2, 1, 1);
    for (x, out) in x
        .split(&halo)
        .unwrap()
        .iter()
        .zip(&mut tiled.split_mut(&rows).unwrap())
    {
        let [from, to] = [x.handle(), out.handle()].map(|h| h.region.start());
        let here = options.tile([from[2], from[3]], [to[2], to[3]]);
        api::conv2d_into(&r, x, &w, Some(&bias), here, out);
    }
    let pool = Pool2d::new([2, 2]);
    api::copy_into(&r, &api::max_pool2d(&r, &y, pool), &mut pooled[0]);
    api::copy_into(&r, &api::avg_pool2d(&r, &y, pool), &mut pooled[1]);
    api::copy_into(&r, &api::max_pool2d_places(&r, &y, pool).1, &mut pooled[2]);
    api::copy_into(&r, &api::adaptive_avg_pool2d(&r, &y), &mut means);
    let weight = arena.from_slice([4, 3], &gw[..12]).unwrap();
    let features = arena.from_slice([2, 3], &gx[..6]).unwrap();
    api::copy_into(
        &r,
        &api::linear(&r, &features, &weight, Some(&bias)),
        &mut scores,
    );
    let graph = r.finish().unwrap();
    let runtime = launch(&graph);

    let (x, w, b) = (wide(&gx), wide(&gw), wide(&gb));
    let mut y = Vec::new();
    for at in 0..2 * 4 * 56 {
        let (n, o, i, j) = (at / 224, at / 56 % 4, at / 7 % 8, at % 7);
        let mut sum = b[o];
        for t in 0..27 {
            let (c, h, v) = (t / 9, i + t / 3 % 3, j + t % 3);
            if (1..9).contains(&h) && (1..8).contains(&v) {
                sum += x[(n * 3 + c) * 56 + (h - 1) * 7 + v - 1] * w[o * 27 + t];
            }
        }
        y.push(sum);
    }
    check("conv2d", &runtime.read(&whole).unwrap(), &y);
    check("conv2d on tiles", &runtime.read(&tiled).unwrap(), &y);
    let four = |at: usize| {
        let first = at / 12 * 56 + at / 3 % 4 * 14 + at % 3 * 2;
        [0, 1, 7, 8].map(|d| y[first + d])
    };
    let largest = |v: [f64; 4]| v.into_iter().fold(f64::NEG_INFINITY, f64::max);
    let want: Vec<f64> = (0..96).map(|at| largest(four(at))).collect();
    check("max_pool2d", &runtime.read(&pooled[0]).unwrap(), &want);
    let want: Vec<f64> = (0..96)
        .map(|at| four(at).iter().sum::<f64>() / 4.0)
        .collect();
    check("avg_pool2d", &runtime.read(&pooled[1]).unwrap(), &want);
    let place = |v: [f64; 4]| v.iter().position(|&e| e == largest(v)).unwrap() as f64;
    let want: Vec<f64> = (0..96).map(|at| place(four(at))).collect();
    check(
        "max_pool2d_places",
        &runtime.read(&pooled[2]).unwrap(),
        &want,
    );
    let want: Vec<f64> = y.chunks(56).map(|p| p.iter().sum::<f64>() / 56.0).collect();
    check("adaptive_avg_pool2d", &runtime.read(&means).unwrap(), &want);
    let mut want = product(2, 3, 4, |i, l| x[i * 3 + l], |l, j| w[j * 3 + l]);
    want.iter_mut()
        .enumerate()
        .for_each(|(i, v)| *v += b[i % 4]);
    check("linear", &runtime.read(&scores).unwrap(), &want);
}

#[test]
fn values() {
    losses::<f32>();
    losses::<f64>();
    images::<f32>();
    images::<f64>();
}
