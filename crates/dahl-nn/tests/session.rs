//! What programs do with a session: stop it, predict, and train on their own data.

use std::ops::ControlFlow;
use std::sync::Arc;

use dahl_core::DType;
use dahl_data::{Batch, Dataset, Generated, InMemory, Source};
use dahl_nn::train::{Event, Progress, Scores, Session, Training};
use dahl_nn::{Model, Step, weights};
use dahl_test_support::runs::{self, Case, How, case, cases, data, finish, run, session, start};

/// A watcher that never stops.
fn go_on(_: &mut Progress<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// The images of a case as bytes, and their classes.
fn bytes(case: &Case) -> (Vec<u8>, Vec<usize>) {
    let data = data(case);
    let size = data.shape().iter().product();
    let (mut all, mut labels, mut one) = (Vec::new(), Vec::new(), vec![0; size]);
    for i in 0..data.len() {
        labels.push(data.read(i, &mut one).unwrap());
        all.extend_from_slice(&one);
    }
    (all, labels)
}

/// Mean cross-entropy and correct predictions, from scores.
fn judged(scores: &Scores, labels: &[usize]) -> (f64, Option<f64>) {
    let loss = |(i, &label): (usize, &usize)| -scores.probabilities(i)[label].ln();
    let total: f64 = labels.iter().enumerate().map(loss).sum();
    let found = scores.classes();
    let right = found.iter().zip(labels).filter(|(a, b)| a == b).count();
    (total / labels.len() as f64, Some(right as f64))
}

/// Mean squared error against the values of `runs::source`.
fn squared(scores: &Scores) -> f64 {
    let all = scores.rows().flatten().enumerate();
    let errors: Vec<f64> = all.map(|(i, x)| (x - runs::value(i)).powi(2)).collect();
    errors.iter().sum::<f64>() / errors.len() as f64
}

#[test]
fn predictions_are_what_evaluation_judges_and_pytorch_gives() {
    for case in cases() {
        let (images, labels) = bytes(&case);
        for dtype in [DType::F64, DType::F32] {
            let how = How {
                dtype,
                ..How::default()
            };
            let mut runtime = how.runtime();
            let mut session = start(&case, &how, &mut runtime);
            let run = finish(&mut session, &mut runtime, &case);
            let scores = session.predict_all(&mut runtime, data(&case)).unwrap();
            assert_eq!(scores.len(), case.count, "{}", case.name);
            let tolerance = if dtype == DType::F64 { 1e-10 } else { 1e-5 };
            let evaluated = run.evaluated.mean_loss();
            // Other losses are judged by their own tests.
            let judged = match case.loss.to_string().as_str() {
                "cross_entropy" => Some(judged(&scores, &labels)),
                "mse" => Some((squared(&scores), None)),
                _ => None,
            };
            if let Some((loss, right)) = judged {
                let error = (loss - evaluated).abs();
                assert!(error < tolerance, "{}: {loss}", case.name);
                assert_eq!(right, run.evaluated.correct, "{}", case.name);
            }
            if dtype == DType::F64 {
                let error = (evaluated - case.evaluated).abs();
                assert!(error < tolerance, "{}", case.name);
            }
            // However the samples come: the same bits.
            let given = session.predict(&mut runtime, &images).unwrap();
            assert_eq!(given, scores, "{}: bytes", case.name);
            let floats: Vec<f64> = images.iter().map(|&b| f64::from(b) / 255.0).collect();
            let given = session.predict(&mut runtime, &floats).unwrap();
            assert_eq!(given, scores, "{}: floats", case.name);
            let size = images.len() / case.count;
            let few = session.predict(&mut runtime, &images[..size * 2]).unwrap();
            assert_eq!(few.len(), 2);
        }
    }
}

#[test]
fn predicting_changes_nothing_and_bad_samples_are_named() {
    let case = case("norm");
    let mut runtime = How::default().runtime();
    let mut session = start(&case, &How::default(), &mut runtime);
    let before = session.weights(&mut runtime).unwrap();
    let (images, _) = bytes(&case);
    session.predict(&mut runtime, &images).unwrap();
    assert!(session.weights(&mut runtime).unwrap() == before);
    assert!(
        session
            .predict(&mut runtime, Vec::<f32>::new())
            .unwrap()
            .is_empty()
    );
    let mut says = |samples: Vec<f32>| {
        session
            .predict(&mut runtime, samples)
            .unwrap_err()
            .to_string()
    };
    let size: usize = Model::from_toml(&case.toml, "m")
        .unwrap()
        .input
        .iter()
        .product();
    assert!(says(vec![0.0; size + 1]).contains("no whole number of samples"));
    let mut samples = vec![0.0; 3 * size];
    samples[size + 2] = f32::NAN;
    let error = says(samples);
    assert!(
        error.contains("value 2 of sample 1 is not a finite number"),
        "{error}"
    );
}

#[test]
fn a_watcher_stops_the_run_and_it_goes_on_as_if_nothing_had_happened() {
    for name in ["norm", "adam"] {
        let case = case(name);
        let how = How {
            shuffle: true,
            ..How::default()
        };
        let whole = run(&case, &how);
        let mut stops = 0;
        for stop_at in [1, 3, 4] {
            let mut runtime = how.runtime();
            let mut session = start(&case, &how, &mut runtime);
            let mut steps = 0;
            let mut epochs = session
                .run(&mut runtime, data(&case), None, &mut |progress| {
                    if let Event::Step { .. } = progress.event {
                        steps += 1;
                        if steps == stop_at {
                            return ControlFlow::Break(());
                        }
                    }
                    ControlFlow::Continue(())
                })
                .unwrap();
            assert_eq!(steps, stop_at, "nothing is launched after a stop");
            stops += usize::from(epochs.len() < whole.epochs.len());
            let rest = finish(&mut session, &mut runtime, &case);
            assert!(
                rest.weights == whole.weights,
                "{name}, stopped after {stop_at}"
            );
            epochs.truncate(whole.epochs.len() - rest.epochs.len());
            let mut all: Vec<_> = epochs.iter().map(|e| e.train).collect();
            all.extend(&rest.epochs);
            assert_eq!(all, whole.epochs, "{name}, stopped after {stop_at}");
        }
        assert_eq!(stops, 3, "{name}: every stop came before the end");
    }
}

#[test]
fn early_stopping_keeps_the_best_weights() {
    let case = case("adam");
    let mut runtime = How::default().runtime();
    let mut session = start(&case, &How::default(), &mut runtime);
    let (mut best, mut kept) = (f64::INFINITY, None);
    let validation = Some(Source::from(data(&case)));
    let history = session
        .run(&mut runtime, data(&case), validation, &mut |progress| {
            if let Some(epoch) = progress.epoch() {
                let loss = epoch
                    .validation
                    .expect("there is a validation set")
                    .mean_loss();
                if loss >= best {
                    return ControlFlow::Break(());
                }
                (best, kept) = (loss, Some(progress.weights().expect("weights")));
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(!history.is_empty());
    session
        .set_weights(&mut runtime, &kept.expect("one epoch at least"))
        .unwrap();
    let again = session.evaluate(&mut runtime, data(&case)).unwrap();
    assert_eq!(again.mean_loss(), best);
}

#[test]
fn own_data_of_any_kind_train_to_the_same_bits() {
    let case = case("residual");
    let (images, labels) = bytes(&case);
    let floats: Vec<f64> = images.iter().map(|&b| f64::from(b) / 255.0).collect();
    let shape = data(&case).shape();
    let size: usize = shape.iter().product();
    for shuffle in [false, true] {
        let how = How {
            shuffle,
            ..How::default()
        };
        let theirs = run(&case, &how);
        let trained = |source: Source| {
            let mut runtime = how.runtime();
            let mut session = start(&case, &how, &mut runtime);
            session.run(&mut runtime, source, None, &mut go_on).unwrap();
            session.weights(&mut runtime).unwrap()
        };
        let own = InMemory::new(shape, images.clone(), labels.clone()).unwrap();
        assert!(trained(own.into()) == theirs.weights, "bytes");
        let own = InMemory::new(shape, floats.clone(), labels.clone()).unwrap();
        assert!(trained(own.into()) == theirs.weights, "floats");
        if !shuffle {
            let (batch, count) = (case.batch, case.count);
            let (floats, labels) = (floats.clone(), labels.clone());
            let made = Generated::new(shape, count.div_ceil(batch), move |_, i| {
                let range = i * batch..((i + 1) * batch).min(count);
                let samples = floats[range.start * size..range.end * size].to_vec();
                Ok(Batch::new(samples, labels[range].to_vec()))
            });
            assert!(trained(made.into()) == theirs.weights, "generated");
        }
    }
}

#[test]
fn data_that_do_not_fit_are_refused_before_training() {
    let model = Model::builder("m", [1, 2, 2])
        .flatten()
        .linear(3)
        .build()
        .unwrap();
    let how = How::default();
    let mut runtime = how.runtime();
    let mut says = |source: Source| {
        let mut session = Session::new(Step::new(model.clone()), Training::default()).unwrap();
        let refused = session.run(&mut runtime, source, None, &mut go_on);
        refused.unwrap_err().to_string()
    };
    let own = |shape, labels: Vec<usize>| InMemory::new(shape, vec![0f32; 8], labels).unwrap();
    assert!(
        says(own([2, 2, 1], vec![0, 1]).into()).contains("data is 2×2×1, the model wants 1×2×2")
    );
    let error = says(own([1, 2, 2], vec![0, 3]).named("mine").into());
    assert!(
        error.contains("mine: sample 1 has label 3, but the model has 3 classes"),
        "{error}"
    );
    let values = InMemory::new([1, 2, 2], vec![0f32; 8], vec![0f32; 6]).unwrap();
    assert!(says(values.into()).contains("the loss wants class numbers"));
    let made = |labels: Vec<usize>| {
        let make = move |_, _| Ok(Batch::new(vec![0u8; 8], labels.clone()));
        Source::from(Generated::new([1, 2, 2], 2, make))
    };
    assert!(says(made(vec![0, 7])).contains("batch 0 of epoch 0: sample 1 has label 7"));
    assert!(says(made(vec![0])).contains("1 labels for 2 samples"));
    let fails = Generated::new([1, 2, 2], 2, |_, _| Err("the camera is off".into()));
    assert!(says(fails.into()).contains("the camera is off"));
    for (samples, labels, problem) in [
        (vec![0f32; 7], vec![0usize; 2], "no whole number of samples"),
        (vec![0f32; 8], vec![0; 3], "3 labels for 2 samples"),
        (
            vec![f32::INFINITY; 8],
            vec![0; 2],
            "value 0 of sample 0 is not a finite number",
        ),
        (vec![], vec![], "no images"),
    ] {
        let error = InMemory::new([1, 2, 2], samples, labels)
            .unwrap_err()
            .to_string();
        assert!(error.contains(problem), "{error}");
    }
    let error = InMemory::new([4, 1, 1], vec![0f32; 8], vec![0.0, f64::NAN]).unwrap_err();
    assert!(
        error.to_string().contains("target value 1 is NaN"),
        "{error}"
    );
}

#[test]
fn a_session_with_nothing_but_defaults_trains() {
    let model = Model::builder("m", [1, 2, 2])
        .flatten()
        .linear(2)
        .build()
        .unwrap();
    let samples: Vec<f32> = (0..64)
        .map(|i| if i % 8 < 4 { 1.0 } else { -1.0 })
        .collect();
    let labels: Vec<usize> = (0..16).map(|i| i % 2).collect();
    let own = InMemory::new([1, 2, 2], samples, labels).unwrap();
    let training = Training {
        epochs: 60,
        rate: Some(0.05),
        ..Training::default()
    };
    let mut session = Session::new(Step::new(model), training).unwrap();
    let mut runtime = How::default().runtime();
    let history = session.run(&mut runtime, own, None, &mut go_on).unwrap();
    assert_eq!(history.len(), 60);
    assert_eq!(history[59].train.accuracy(), Some(1.0));
    assert!(history[59].train.mean_loss() < history[0].train.mean_loss() / 2.0);
}

#[test]
fn weights_without_the_count_of_batches_are_taken() {
    let case = case("norm");
    let how = How::default();
    let mut runtime = how.runtime();
    let mut trained = start(&case, &how, &mut runtime);
    let run = finish(&mut trained, &mut runtime, &case);
    let mut without = run.weights.clone();
    without.retain(|key, _| !key.ends_with("num_batches_tracked"));
    assert!(without.len() < run.weights.len(), "the model normalises");
    let mut fresh = session(&case, &how);
    fresh.set_weights(&mut runtime, &without).unwrap();
    let data: Arc<dyn Dataset> = data(&case);
    assert_eq!(fresh.evaluate(&mut runtime, data).unwrap(), run.evaluated);
    weights::check(&without, fresh.model()).unwrap();
}

#[test]
fn settings_out_of_their_range_are_refused_before_training() {
    let model = || {
        Model::builder("m", [1, 2, 2])
            .flatten()
            .linear(2)
            .build()
            .unwrap()
    };
    let plain = || (Step::new(model()), Training::default());
    let set = |change: &dyn Fn(&mut Step, &mut Training)| {
        let (mut step, mut training) = plain();
        change(&mut step, &mut training);
        Session::new(step, training)
            .err()
            .map(|e| e.to_string())
            .unwrap_or_default()
    };
    assert_eq!(set(&|_, _| {}), "");
    let cosine = |_: &mut Step, t: &mut Training| t.schedule = "cosine:5".parse().unwrap();
    for (said, part) in [
        (set(&cosine), "cosine:5"),
        (set(&|s, _| s.clip_norm = Some(0.0)), "clipped to is 0"),
        (set(&|s, _| s.accumulate = 0), "0 of "),
        (
            set(&|s, _| s.accumulate = s.batch - 1),
            "and divide the batch",
        ),
        (set(&|s, _| s.ema = Some(1.0)), "average of weights is 1"),
        (
            set(&|s, _| s.ema = Some(f64::NAN)),
            "average of weights is NaN",
        ),
        (
            set(&|s, _| s.clip_norm = Some(f64::NAN)),
            "clipped to is NaN",
        ),
        (set(&|_, t| t.rate = Some(-1.0)), "learning rate is -1"),
        (set(&|_, t| t.rate = Some(f64::NAN)), "learning rate is NaN"),
        (set(&|_, t| t.epochs = 0), "epochs is 0"),
        (set(&|_, t| t.steps = Some(0)), "steps is 0"),
        (set(&|s, _| s.batch = 0), "batch is 0"),
        (
            set(&|s, _| {
                s.optimizer = dahl_nn::optim::Sgd {
                    momentum: 1.0,
                    ..Default::default()
                }
                .into()
            }),
            "momentum is 1; it must be at least 0 and below 1",
        ),
    ] {
        assert!(said.contains(part), "{part}: {said:?}");
    }
}

#[test]
fn more_steps_than_can_be_counted_are_refused_not_overflowed() {
    let model = Model::builder("m", [1, 1, 2])
        .flatten()
        .linear(2)
        .build()
        .unwrap();
    let data = || InMemory::new([1, 1, 2], vec![0.5f32; 8], vec![0usize, 1, 0, 1]).unwrap();
    let training = |steps| Training {
        epochs: 1 << 63,
        steps,
        ..Training::default()
    };
    let run = |steps| {
        let mut runtime = How::default().runtime();
        let mut session = Session::new(Step::new(model.clone()).batch(2), training(steps)).unwrap();
        session.run(&mut runtime, data(), None, &mut go_on)
    };
    let error = run(None).unwrap_err().to_string();
    assert!(error.contains("9223372036854775808"), "{error}");
    assert_eq!(run(Some(3)).unwrap().len(), 2);
}

#[test]
fn growing_rates_are_tried_until_the_loss_explodes() {
    let case = case("plain");
    let mut runtime = How::default().runtime();
    let mut session = start(&case, &How::default(), &mut runtime);
    let search = dahl_nn::train::RateSearch {
        from: 1e-4,
        to: 1e4,
        steps: 60,
    };
    let found = session
        .find_rate(&mut runtime, runs::source(&case), search)
        .unwrap();
    let (first, last) = (found.losses[0], *found.losses.last().unwrap());
    assert_eq!(first.0, 1e-4);
    assert!(found.losses.len() > 10 && found.losses.len() < 60 && last.0 < 1e4);
    assert!(found.losses.iter().all(|(_, loss)| loss.is_finite()));
    let steepest = found.steepest().unwrap();
    assert!((1e-3..10.0).contains(&steepest), "{steepest}");
    let wrong = dahl_nn::train::RateSearch { to: 1e-5, ..search };
    assert!(
        session
            .find_rate(&mut runtime, runs::source(&case), wrong)
            .is_err()
    );
}

#[test]
fn confusion_counts_every_sample_once() {
    let case = case("plain");
    let mut runtime = How::default().runtime();
    let mut session = start(&case, &How::default(), &mut runtime);
    let confusion = session
        .confusion(&mut runtime, runs::source(&case))
        .unwrap();
    let totals = session.evaluate(&mut runtime, runs::source(&case)).unwrap();
    let samples: u64 = (0..confusion.classes()).map(|c| confusion.samples(c)).sum();
    let right: u64 = (0..confusion.classes()).map(|c| confusion.row(c)[c]).sum();
    assert_eq!(
        (samples, Some(right as f64)),
        (totals.samples, totals.correct)
    );
    let wrong: u64 = confusion.mistakes().iter().map(|m| m.2).sum();
    assert_eq!(wrong, samples - right);
    assert!(confusion.mistakes().is_sorted_by(|a, b| a.2 >= b.2));
}
