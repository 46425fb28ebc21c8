//! A typed function for every codelet: a training step of a convolutional network written by hand, and
//! whatever that does not use. Also what declarations must satisfy.

use std::collections::BTreeSet;

use dahl_core::{Arena, Recorder, Tensor};
use dahl_ops::api::{
    self, Affine, BatchNorm, ClassWeights, Conv2d, Decay, Dropout, GroupNormParams,
    GroupedGradParams, GroupedParams, Momentum, Pool2d, Resampling, SmoothParams,
    SmoothTrainParams, Tile, Transposed,
};
use dahl_ops::codelets::TABLE;
use dahl_ops::window::Window;

use crate::common::{launch, numbers};

/// Convolution, normalisation, pooling, dropout and a classifier: forward, backward and update.
fn training_step(r: &Recorder, arena: &Arena) {
    let x = arena
        .from_slice([2, 3, 8, 8], &numbers::<f32>(384, 1))
        .unwrap();
    let labels = arena.from_slice([2], &[1.0f32, 0.0]).unwrap();
    let step = arena.full([], 1.0f32).unwrap();
    let mut w = arena.from_slice([4, 3, 3, 3], &numbers(108, 2)).unwrap();
    let mut bias = arena.full([4], 0.1f32).unwrap();
    let mut scale = arena.full([4], 1.0f32).unwrap();
    let shift = arena.full([4], 0.0f32).unwrap();
    let [mut mean, mut var] = [0.0f32, 1.0].map(|v| arena.full([4], v).unwrap());
    let mut weight = arena.from_slice([2, 64], &numbers(128, 3)).unwrap();
    let mut out = arena.zeros::<f32, 1>([2]).unwrap();

    let (options, pool) = (Conv2d::new().padding([1, 1]), Pool2d::new([2, 2]));
    let norm = BatchNorm {
        relu: true,
        ..BatchNorm::default()
    };
    let dropout = Dropout {
        probability: 0.25,
        seed: 7,
        layer: 3,
    };
    let c = api::conv2d(r, &x, &w, Some(&bias), options);
    let affine = Affine {
        scale: &scale,
        shift: &shift,
    };
    let (n, stats) = api::batch_norm_train(r, &c, affine, [&mut mean, &mut var], norm);
    let (p, places) = api::max_pool2d_places(r, &n, pool);
    let d = api::dropout(r, &p, &step, dropout.clone());
    let flat = d.into_shape([2, 64]).unwrap();
    let scores = api::linear(r, &flat, &weight, None);
    let loss = api::cross_entropy(r, &scores, &labels);

    let dweight = api::linear_weight_grad(r, &loss.gradient, &flat);
    let dout = api::linear_bias_grad(r, &loss.gradient);
    let dflat = api::linear_input_grad(r, &loss.gradient, &weight);
    let dd: Tensor<'_, f32> = dflat.into_shape([2, 4, 4, 4]).unwrap();
    let dp = api::dropout(r, &dd, &step, dropout);
    let dn = api::max_pool2d_grad(r, &dp, &places, pool, [8, 8]);
    let grads = api::batch_norm_grad(r, &c, &dn, &stats, &scale, Some(&n));
    let mut dw = api::conv2d_filter_grad(r, &x, &grads.input, options, [3, 3]);
    let db = api::conv2d_bias_grad(r, &grads.input);
    api::conv2d_input_grad(r, &grads.input, &w, options, [8, 8]);

    let mut squares = r.temporary::<f32, 0>([]);
    api::clip_squares_reduce(r, &dw, &mut squares);
    api::clip_norm_assign(r, &mut dw, &squares, 1.0);
    let plain = arena.from_slice([3], &[0.1f32, 0.0, 0.9]).unwrap();
    let adam = arena
        .from_slice([6], &[0.01f32, 0.9, 0.999, 1e-8, 0.0, 1.0])
        .unwrap();
    let mut held = [(); 3].map(|_| arena.zeros::<f32, 4>([4, 3, 3, 3]).unwrap());
    let [buffer, first, second] = &mut held;
    api::sgd_assign(r, &mut bias, &db, &plain);
    api::sgd_assign(r, &mut scale, &grads.scale, &plain);
    api::sgd_assign(r, &mut out, &dout, &plain);
    api::sgd_assign(r, &mut weight, &dweight, &plain);
    api::sgd_momentum_assign(r, &mut w, buffer, &dw, &plain, Momentum { nesterov: true });
    let decay = Decay { decoupled: true };
    api::adam_assign(r, &mut w, [first, second], &dw, &adam, decay);

    let weight = arena.from_slice([1], &[0.1f32]).unwrap();
    api::average_assign(r, buffer, &w, &weight);

    let mut losses = r.temporary([2]);
    let mut correct = r.temporary([]);
    let c = api::conv2d(r, &x, &w, Some(&bias), options);
    let affine = Affine {
        scale: &scale,
        shift: &shift,
    };
    api::batch_norm(r, &c, affine, [&mean, &var], norm);
    api::cross_entropy_evaluate_into(r, &scores, &labels, &mut losses, &mut correct);
    let shares = api::exp(r, &scores);
    let mut gradient = api::exp(r, &scores);
    let (a, b) = (&mut losses, &mut correct);
    api::soft_cross_entropy_into(r, &scores, &shares, 0.5, a, b, &mut gradient);
    api::soft_cross_entropy_evaluate_into(r, &scores, &shares, a, b);
}

/// The same convolution by Winograd's kernels and by those with pooling.
fn other_convolutions(r: &Recorder, arena: &Arena) {
    let x = arena
        .from_slice([2, 3, 8, 8], &numbers::<f32>(384, 4))
        .unwrap();
    let w = arena.from_slice([4, 3, 3, 3], &numbers(108, 5)).unwrap();
    let options = Conv2d::new().padding([1, 1]);
    let tile = Tile::for_output(8, 8);
    let mut y = r.temporary::<f32, 4>([2, 4, 8, 8]);
    let mut dx = r.temporary::<f32, 4>([2, 3, 8, 8]);
    let mut dw = r.temporary::<f32, 4>([4, 3, 3, 3]);
    let mut db = r.temporary::<f32, 1>([4]);
    let u = api::winograd_filter(r, &w, tile, false);
    api::conv2d_winograd_into(r, &x, &u, None, options, tile, &mut y);
    let u = api::winograd_filter(r, &w, tile, true);
    api::conv2d_winograd_input_grad_into(r, &y, &u, options, tile, &mut dx);
    api::conv2d_winograd_filter_grad_reduce(r, &x, &y, options, tile, &mut dw);

    let (p, codes) = api::conv2d_relu_max_pool2d(r, &x, &w, None, options, 2);
    let dy = [&p, &codes];
    api::conv2d_relu_max_pool2d_filter_grad_reduce(r, &x, dy, options, 2, &mut dw, Some(&mut db));
    api::conv2d_relu_max_pool2d_input_grad_into(r, dy, &w, options, 2, &mut dx);
    api::max_pool2d_expand_into(r, dy, 2, &mut y);

    let pool = Pool2d::new([2, 2]);
    let a = api::avg_pool2d(r, &x, pool);
    api::avg_pool2d_grad(r, &a, pool, [8, 8]);
    let g = api::adaptive_avg_pool2d(r, &x);
    api::adaptive_avg_pool2d_grad_into(r, &g, &mut dx);

    let how = Resampling {
        bilinear: true,
        align_corners: false,
    };
    let large = api::upsample(r, &x, [16, 12], how.clone());
    api::upsample_grad(r, &large, [8, 8], how);
    let bounded = api::relu6(r, &x);
    api::relu6_grad(r, &x, &bounded);
    let (row, mut drow) = (arena.full([3], 0.5f32).unwrap(), r.temporary::<f32, 1>([3]));
    let mut scaled = api::channel_scale(r, &x, &row);
    api::channel_scale_grad_reduce(r, &x, &scaled, &mut drow);
    api::channel_shift_assign(r, &mut scaled, &row);
    let (y, stats) = api::channel_norm(r, &x, &row, &row, 1e-6);
    api::channel_norm_input_grad(r, &x, &y, &stats, &row);
    let mut dshift = r.temporary::<f32, 1>([3]);
    api::channel_norm_affine_grad_reduce(r, &x, &y, &stats, [&mut drow, &mut dshift]);
}

/// Norms within a sample, a depthwise convolution with gaps, and the other losses.
fn other_layers(r: &Recorder, arena: &Arena) {
    let x = arena
        .from_slice([2, 4, 6, 6], &numbers::<f32>(288, 6))
        .unwrap();
    let whole = arena.full([4, 6, 6], 0.5f32).unwrap();
    let each = arena.full([4], 0.5f32).unwrap();
    let (y, stats) = api::layer_norm(r, &x, &whole, &whole, 1e-5);
    api::layer_norm_input_grad(r, &x, &y, &stats, &whole);
    let [mut a, mut b] = [(); 2].map(|_| r.temporary::<f32, 3>([4, 6, 6]));
    api::layer_norm_affine_grad_reduce(r, &x, &y, &stats, &mut a, &mut b);

    let params = GroupNormParams {
        groups: 2,
        epsilon: 1e-5,
    };
    let (y, stats) = api::group_norm(r, &x, &each, &each, params);
    api::group_norm_input_grad(r, &x, &y, &stats, &each, 2);
    let [mut a, mut b] = [(); 2].map(|_| r.temporary::<f32, 1>([4]));
    api::group_norm_affine_grad_reduce(r, &x, &y, &stats, 2, &mut a, &mut b);

    let filter = arena
        .from_slice([4, 1, 3, 3], &numbers::<f32>(36, 7))
        .unwrap();
    let window = Window {
        kernel: [3, 3],
        stride: [1, 1],
        shift: [2, 2],
    };
    let params = GroupedParams {
        window,
        dilation: [2, 2],
        groups: 4,
        relu: false,
    };
    let y = api::conv2d_grouped(r, &x, &filter, Some(&each), params);
    let params = GroupedGradParams {
        window,
        dilation: [2, 2],
        groups: 4,
    };
    let (mut dx, mut dfilter) = (r.temporary([2, 4, 6, 6]), r.temporary([4, 1, 3, 3]));
    api::conv2d_grouped_input_grad_into(r, &y, &filter, params.clone(), &mut dx);
    api::conv2d_grouped_filter_grad_reduce(r, &x, &y, params, &mut dfilter);

    let (mut losses, mut gradient) = (r.temporary([2]), r.temporary([2, 4, 6, 6]));
    for loss in [
        api::mse_loss_into,
        api::l1_loss_into,
        api::bce_with_logits_loss_into,
    ] {
        loss(r, &x, &y, 0.5, &mut losses, &mut gradient);
    }
    for loss in [
        api::mse_loss_evaluate_into,
        api::l1_loss_evaluate_into,
        api::bce_with_logits_loss_evaluate_into,
    ] {
        loss(r, &x, &y, &mut losses);
    }

    let scores = arena.from_slice([2, 4], &numbers::<f32>(8, 8)).unwrap();
    let labels = arena.from_slice([2], &[1.0f32, 3.0]).unwrap();
    let (mut correct, mut gradient) = (r.temporary([]), r.temporary([2, 4]));
    let mut total = r.temporary([]);
    api::class_weights_total_reduce(r, &labels, &each, &mut total);
    let weights = Some(ClassWeights {
        weights: &each,
        total: &total,
    });
    let params = SmoothTrainParams {
        smoothing: 0.1,
        batch: 2,
        scale: 0.5,
    };
    api::cross_entropy_smooth_into(
        r,
        &scores,
        &labels,
        weights,
        params,
        &mut losses,
        &mut correct,
        &mut gradient,
    );
    let params = SmoothParams {
        smoothing: 0.1,
        batch: 2,
    };
    api::cross_entropy_smooth_evaluate_into(
        r,
        &scores,
        &labels,
        None,
        params,
        &mut losses,
        &mut correct,
    );
}

/// Elementwise operations, reductions and linear algebra.
fn array_program(r: &Recorder, arena: &Arena) {
    let m = arena.full([3, 3], 0.5f32).unwrap();
    let v = arena.full([3], 0.5f32).unwrap();
    let mut total = arena.zeros::<f32, 2>([3, 3]).unwrap();
    api::add_assign(r, &mut total, &api::add(r, &m, &m));
    for op in [api::sub, api::mul, api::div, api::relu_grad] {
        op(r, &m, &m);
    }
    for op in [api::scale, api::add_value, api::sub_value, api::power] {
        op(r, &m, 2.0);
    }
    for op in [
        api::round,
        api::exp,
        api::log,
        api::relu,
        api::copy,
        api::transpose,
    ] {
        op(r, &m);
    }
    for op in [
        api::sigmoid,
        api::tanh,
        api::gelu,
        api::gelu_tanh,
        api::silu,
    ] {
        op(r, &m);
    }
    for op in [
        api::sigmoid_grad,
        api::tanh_grad,
        api::gelu_grad,
        api::gelu_tanh_grad,
        api::silu_grad,
    ] {
        op(r, &m, &m);
    }
    for op in [api::leaky_relu, api::elu] {
        op(r, &m, 0.1);
    }
    for op in [api::leaky_relu_grad, api::elu_grad] {
        op(r, &m, &m, 0.1);
    }
    api::clip(r, &m, 0.0, 1.0);
    api::fill(r, [2], 1.0f32);
    for op in [api::sum, api::mean, api::min, api::max] {
        op(r, &m);
    }
    api::dot(r, &v, &v);
    api::outer(r, &v, &v);
    api::matvec(r, &m, &v);
    api::vecmat(r, &v, &m);
    api::matmul(r, &m, &m, Transposed::A);
    api::diagonal(r, &api::diag(r, &v));
    api::correlate(r, &m, &m);
    api::softmax_grad(r, &api::softmax(r, &m), &m);
    api::softmax_jacobian(r, &v);
}

#[test]
fn every_codelet_has_a_typed_function() {
    let mut used = BTreeSet::new();
    let programs = [
        training_step,
        other_convolutions,
        other_layers,
        array_program,
    ];
    for program in programs {
        let (recorder, arena) = (Recorder::new(), Arena::new());
        program(&recorder, &arena);
        let graph = recorder.finish().unwrap();
        used.extend(graph.codelets.iter().map(|c| c.name.clone()));
        launch(&graph);
    }
    let missing: Vec<&str> = TABLE
        .iter()
        .map(|c| c.name.as_str())
        .filter(|name| !used.contains(*name))
        .collect();
    assert!(
        missing.is_empty(),
        "no typed function of {missing:?} is used here"
    );
}

#[test]
fn declarations_are_whole() {
    for codelet in TABLE {
        let name = &codelet.name;
        let Some(declared) = codelet.declaration else {
            panic!("{name} is not declared");
        };
        assert!(!declared.operands.is_empty(), "{name}");
        let operands = declared.operands.iter().map(|o| o.name);
        let names: Vec<&str> = operands
            .chain(declared.params.iter().map(|p| p.name))
            .collect();
        let operands = declared.operands.len();
        for part in [&names[..operands], &names[operands..]] {
            let different: BTreeSet<_> = part.iter().collect();
            assert_eq!(different.len(), part.len(), "{name}: {names:?}");
        }
        for operand in declared.operands {
            assert!(
                !operand.modes.is_empty() && !operand.about.is_empty(),
                "{name}"
            );
            assert!(operand.rank.is_none_or(|r| r <= 4), "{name}");
        }
        for gradient in codelet.gradients {
            let known = TABLE.iter().any(|c| c.name == *gradient);
            assert!(known, "{name}: its gradient {gradient} is no codelet");
        }
    }
}
