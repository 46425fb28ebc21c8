//! Linear algebra, whole and from parts.

use dahl_core::{Arena, By, Matrix, Recorder, Split, Vector};
use dahl_ops::api::{self, Transposed};
use dahl_ops::simd::Lane;

use crate::common::{check, launch, numbers, product, wide};

fn products<T: Lane>(m: usize, k: usize, n: usize) {
    let (ga, gb) = (numbers::<T>(m * k, 5), numbers::<T>(k * n, 6));
    let (wa, wb) = (wide(&ga), wide(&gb));
    let want = product(m, k, n, |i, l| wa[i * k + l], |l, j| wb[l * n + j]);
    let arena = Arena::new();
    let a = arena.from_slice([m, k], &ga).unwrap();
    let b = arena.from_slice([k, n], &gb).unwrap();
    let all = [
        Transposed::NONE,
        Transposed::A,
        Transposed::B,
        Transposed::BOTH,
    ];
    let mut outs = [(); 4].map(|_| arena.zeros::<T, 2>([m, n]).unwrap());
    let mut parts = arena.zeros::<T, 2>([m, n]).unwrap();
    let mut total = arena.zeros::<T, 2>([m, n]).unwrap();
    let r = Recorder::new();
    let (at, bt) = (api::transpose(&r, &a), api::transpose(&r, &b));
    for (how, out) in all.into_iter().zip(&mut outs) {
        let (a, b) = (if how.a { &at } else { &a }, if how.b { &bt } else { &b });
        api::copy_into(&r, &api::matmul(&r, a, b, how), out);
    }
    let rows = Split::new().axis(0, By::Count(2));
    for (a, out) in a
        .split(&rows)
        .unwrap()
        .iter()
        .zip(&mut parts.split_mut(&rows).unwrap())
    {
        api::matmul_into(&r, a, &b, Transposed::NONE, out);
    }
    let columns = Split::new().axis(1, By::Count(2));
    for (a, b) in a
        .split(&columns)
        .unwrap()
        .iter()
        .zip(&b.split(&rows).unwrap())
    {
        api::matmul_reduce(&r, a, b, Transposed::NONE, &mut total);
    }
    let graph = r.finish().unwrap();
    let runtime = launch(&graph);
    for out in outs.iter().chain([&parts, &total]) {
        check("matmul", &runtime.read(out).unwrap(), &want);
    }
}

fn vectors<T: Lane>() {
    let (gm, gv, gw) = (
        numbers::<T>(5 * 9, 7),
        numbers::<T>(9, 8),
        numbers::<T>(5, 9),
    );
    let (wm, wv, ww) = (wide(&gm), wide(&gv), wide(&gw));
    let arena = Arena::new();
    let m = arena.from_slice([5, 9], &gm).unwrap();
    let v: Vector<'_, T> = arena.from_slice([9], &gv).unwrap();
    let w: Vector<'_, T> = arena.from_slice([5], &gw).unwrap();
    let mut dots = [(); 2].map(|_| arena.zeros::<T, 0>([]).unwrap());
    let mut outer = arena.zeros::<T, 2>([5, 9]).unwrap();
    let mut mv = arena.zeros::<T, 1>([5]).unwrap();
    let mut vm = arena.zeros::<T, 1>([9]).unwrap();
    let mut around = arena.zeros::<T, 1>([9]).unwrap();
    let mut correlated: Matrix<'_, T> = arena.zeros([4, 7]).unwrap();
    let r = Recorder::new();
    api::copy_into(&r, &api::dot(&r, &v, &v), &mut dots[0]);
    for part in v.split(&Split::new().axis(0, By::Size(2))).unwrap() {
        api::dot_reduce(&r, &part, &part, &mut dots[1]);
    }
    api::copy_into(&r, &api::outer(&r, &w, &v), &mut outer);
    api::copy_into(&r, &api::matvec(&r, &m, &v), &mut mv);
    api::copy_into(&r, &api::vecmat(&r, &w, &m), &mut vm);
    api::copy_into(&r, &api::diagonal(&r, &api::diag(&r, &v)), &mut around);
    let kernel = arena.from_slice([2, 3], &gm[..6]).unwrap();
    api::copy_into(&r, &api::correlate(&r, &m, &kernel), &mut correlated);
    let graph = r.finish().unwrap();
    let runtime = launch(&graph);
    for dot in &dots {
        let want: f64 = wv.iter().map(|v| v * v).sum();
        check("dot", &runtime.read(dot).unwrap(), &[want]);
    }
    let want = product(5, 1, 9, |i, _| ww[i], |_, j| wv[j]);
    check("outer", &runtime.read(&outer).unwrap(), &want);
    let want = product(5, 9, 1, |i, l| wm[i * 9 + l], |l, _| wv[l]);
    check("matvec", &runtime.read(&mv).unwrap(), &want);
    let want = product(1, 5, 9, |_, l| ww[l], |l, j| wm[l * 9 + j]);
    check("vecmat", &runtime.read(&vm).unwrap(), &want);
    check("diag", &runtime.read(&around).unwrap(), &wv);
    let at = |i: usize, j: usize| -> f64 {
        (0..6)
            .map(|t| wm[(i + t / 3) * 9 + j + t % 3] * wm[t])
            .sum()
    };
    let want: Vec<f64> = (0..28).map(|i| at(i / 7, i % 7)).collect();
    check("correlate", &runtime.read(&correlated).unwrap(), &want);
}

#[test]
fn values() {
    vectors::<f32>();
    vectors::<f64>();
    // The register blocks, and beyond them.
    for (m, k, n) in [(2, 3, 4), (5, 17, 9), (40, 33, 37)] {
        products::<f32>(m, k, n);
        products::<f64>(m, k, n);
    }
}
