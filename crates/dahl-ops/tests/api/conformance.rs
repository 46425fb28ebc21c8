//! What every codelet of the table must satisfy.

use std::sync::Arc;

use dahl_core::{Arena, Codelet, Mode, Operand, Param, Recorder, Task};
use dahl_ops::codelets;
use dahl_ops::simd::Lane;

use crate::common::{LEN, SHAPE, check, launch, numbers, wide};

#[test]
fn every_codelet_can_run_somewhere() {
    let mut names = std::collections::BTreeSet::new();
    for codelet in codelets::TABLE {
        assert!(!codelet.implementations.is_empty(), "{}", codelet.name);
        assert!(
            names.insert(&codelet.name),
            "two codelets are called {}",
            codelet.name
        );
        let own: Vec<_> = codelet
            .implementations
            .iter()
            .map(|i| (i.name, i.kind))
            .collect();
        let twice = (1..own.len()).any(|i| own[..i].contains(&own[i]));
        assert!(!twice, "{}: {own:?}", codelet.name);
    }
}

/// How many operands and parameters a codelet takes.
fn arities(codelet: &Codelet) -> Vec<(usize, usize)> {
    let declared = codelet.declaration.as_ref().expect("all are declared");
    let least = declared.operands.iter().filter(|o| !o.optional).count();
    let params = declared.params.iter().map(|p| p.count.0).sum();
    (least..=declared.operands.len())
        .map(|n| (n, params))
        .collect()
}

/// What an implementation makes of operands of which the one at `changed` is changed.
fn outcome<T: Lane>(
    codelet: &Arc<Codelet>,
    pin: &str,
    (n, p): (usize, usize),
    changed: usize,
) -> Vec<f64> {
    let arena = Arena::new();
    // Positive numbers, for logarithms and powers.
    let given = |i: usize| -> Vec<T> {
        numbers::<T>(LEN, 20 + i as u64)
            .iter()
            .map(|v| T::from_f64(v.to_f64() + 2.5))
            .collect()
    };
    let arrays: Vec<_> = (0..n)
        .map(|i| arena.from_slice(SHAPE, &given(i)).unwrap())
        .collect();
    let declared = codelet.declaration.unwrap();
    let modes: Vec<Mode> = declared.given(n).map(|o| o.modes[0]).collect();
    let in_place = modes[changed] == Mode::Read;
    let mode = |i| match i == changed && in_place {
        true => Mode::ReadWrite,
        false => modes[i],
    };
    let operands: Vec<Operand<'_>> = arrays
        .iter()
        .enumerate()
        .map(|(i, a)| a.handle().with(mode(i)))
        .collect();
    let params = &[Param::Float(1.25), Param::Float(3.0)][..p];
    let recorder = Recorder::new();
    recorder.submit(
        Task::new(codelet, &operands)
            .params(params)
            .implementation(pin),
    );
    let graph = recorder.finish().unwrap();
    wide(&launch(&graph).read(&arrays[changed]).unwrap())
}

#[test]
fn elementwise_implementations_agree() {
    let elementwise = |c: &&&codelets::Listed| {
        let names: Vec<&str> = c.implementations.iter().map(|i| i.name).collect();
        let of_any_rank = |d: dahl_core::Declaration| d.operands.iter().all(|o| o.rank.is_none());
        names == ["reference", "vector"] && c.declaration.is_some_and(of_any_rank)
    };
    let all: Vec<_> = codelets::TABLE.iter().filter(elementwise).collect();
    assert!(all.len() >= 28, "{} of them", all.len());
    let activations = [
        "sigmoid",
        "sigmoid_grad",
        "tanh",
        "tanh_grad",
        "elu",
        "elu_grad",
        "gelu",
        "gelu_grad",
        "gelu_tanh",
        "gelu_tanh_grad",
        "silu",
        "silu_grad",
    ];
    for codelet in all {
        let arities = arities(codelet);
        let &(most, _) = arities
            .last()
            .unwrap_or_else(|| panic!("{} takes nothing", codelet.name));
        for &arity in &arities {
            // In place the first operand is changed, else the last.
            let changed = if arity.0 == most { most - 1 } else { 0 };
            let names: Vec<&str> = codelet.implementations.iter().map(|i| i.name).collect();
            let f32s = names
                .iter()
                .map(|n| outcome::<f32>(codelet, n, arity, changed));
            let f64s = names
                .iter()
                .map(|n| outcome::<f64>(codelet, n, arity, changed));
            // Activations have exponentials of their own, a few units in the last place from the library's,
            // and differences from one, which magnify them.
            let own = activations.contains(&codelet.name.as_str());
            let [single, double] = if own { [1e-6, 2e-15] } else { [2e-7, 4e-16] };
            for (all, eps) in [
                (f32s.collect::<Vec<_>>(), single),
                (f64s.collect::<Vec<_>>(), double),
            ] {
                for (name, other) in names.iter().zip(&all).skip(1) {
                    for (a, b) in all[0].iter().zip(other) {
                        let near = (a - b).abs() <= eps * a.abs();
                        assert!(
                            near,
                            "{} {arity:?}: {name} gives {b}, not {a}",
                            codelet.name
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn matrix_products_agree() {
    let codelet = &*dahl_ops::linalg::MATMUL;
    let arena = Arena::new();
    let a = arena
        .from_slice([19, 23], &numbers::<f64>(19 * 23, 30))
        .unwrap();
    let b = arena
        .from_slice([23, 21], &numbers::<f64>(23 * 21, 31))
        .unwrap();
    let mut all = Vec::new();
    for implementation in &codelet.implementations {
        let mut c = arena.full([19, 21], 1.0).unwrap();
        let recorder = Recorder::new();
        let operands = [a.read(), b.read(), c.read_write()];
        let task = Task::new(codelet, &operands).params(&[Param::Int(0); 2]);
        recorder.submit(task.implementation(implementation.name));
        all.push(
            launch(&recorder.finish().unwrap())
                .read(&c)
                .unwrap()
                .to_vec(),
        );
    }
    for other in &all[1..] {
        check("matmul", other, &all[0]);
    }
}
