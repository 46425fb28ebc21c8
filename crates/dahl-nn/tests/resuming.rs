//! Going on from a checkpoint: every wrong pairing with a model, data or options is refused by name, and every
//! right one gives the bits of the unbroken run, wherever the run was stopped.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use dahl_core::{DType, Stop};
use dahl_data::{Batch, Generated, InMemory, Source};
use dahl_nn::checkpoint::{Checkpoint, CheckpointFolder, FILE};
use dahl_nn::optim::{Adam, Sgd};
use dahl_nn::step::Kernels;
use dahl_nn::train::{Event, Progress, Session, Training};
use dahl_nn::weights::{self, Weights};
use dahl_nn::{Model, Step};
use dahl_runtime::Runtime;

const SHAPE: [usize; 3] = [1, 4, 4];
const SAMPLES: usize = 22;

fn model(name: &str) -> Model {
    let model = Model::builder(name, SHAPE).conv2d(3, 3).batch_norm2d();
    model.relu().flatten().linear(4).build().unwrap()
}

fn step() -> Step {
    Step::new(model("net")).batch(4).seed(5)
}

fn training() -> Training {
    Training {
        epochs: 3,
        ..Training::default()
    }
}

fn values(samples: usize) -> Vec<f32> {
    let size: usize = SHAPE.iter().product();
    let value = |i: usize| ((i * 37 + i / 5) % 23) as f32 / 11.5 - 1.0;
    (0..samples * size).map(value).collect()
}

fn classes(samples: usize) -> Vec<usize> {
    (0..samples).map(|i| i * 7 % 4).collect()
}

fn data() -> Source {
    let data = InMemory::new(SHAPE, values(SAMPLES), classes(SAMPLES)).unwrap();
    data.named("original").into()
}

fn runtime() -> Runtime {
    Runtime::builder().workers(2).in_flight(1).build().unwrap()
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("resuming")
        .join(name);
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

/// Stops a run after so many steps, or lets it end.
fn stop_after(stop: Stop, steps: Option<u64>) -> impl FnMut(&mut Progress<'_>) -> ControlFlow<()> {
    let mut seen = 0;
    move |progress| {
        if let Event::Step { .. } = progress.event {
            seen += 1;
            if steps == Some(seen) {
                stop.stop();
            }
        }
        ControlFlow::Continue(())
    }
}

/// A checkpoint in a folder, in the middle of the second epoch.
fn checkpointed(name: &str, step: Step) -> PathBuf {
    let folder = folder(name);
    let mut session = Session::new(step, training()).unwrap();
    session.computed_by("cpu A");
    session.checkpoint_to(CheckpointFolder::new(&folder));
    let stop = stop_after(session.stop_handle(), Some(8));
    run(&mut session, data(), stop).unwrap();
    assert!(session.interrupted());
    folder
}

fn run(
    session: &mut Session,
    data: Source,
    mut watch: impl FnMut(&mut Progress<'_>) -> ControlFlow<()>,
) -> Result<Weights, dahl_nn::train::TrainError> {
    let mut runtime = runtime();
    session.run(&mut runtime, data, None, &mut watch)?;
    session.weights(&mut runtime)
}

/// What going on says; nothing if it goes on.
fn resumed(folder: &Path, step: Step, training: Training, by: &str, data: Source) -> String {
    let mut runtime = runtime();
    let mut session = match Session::new(step, training) {
        Ok(session) => session,
        Err(error) => return error.to_string(),
    };
    session.computed_by(by);
    let result = session.resume_from(&mut runtime, folder).and_then(|()| {
        session.checkpoint_to(CheckpointFolder::new(folder));
        session.run(&mut runtime, data, None, &mut |_| ControlFlow::Continue(()))
    });
    result.err().map_or(String::new(), |e| e.to_string())
}

#[test]
fn every_other_option_is_refused_by_name() {
    let folder = checkpointed("options", step());
    let before = std::fs::read(folder.join(FILE)).unwrap();
    type Change = fn(Step) -> Step;
    let steps: &[(&str, Change)] = &[
        ("another model", |s| Step {
            model: Model::builder("net", SHAPE)
                .flatten()
                .linear(4)
                .build()
                .unwrap(),
            ..s
        }),
        ("batch = 4, this run has 8", |s| s.batch(8)),
        ("dtype = \"f32\", this run has \"f64\"", |s| {
            s.dtype(DType::F64)
        }),
        ("grain = ", |s| s.grain("sample=2".parse().unwrap())),
        ("optimizer", |s| s.optimizer(Sgd::default())),
        ("optimizer.eps", |s| {
            s.optimizer(Adam {
                eps: 1e-3,
                ..Adam::default()
            })
        }),
        ("clip_norm = nothing, this run has 1.0", |s| {
            s.clip_norm(1.0)
        }),
        ("accumulate", |s| s.accumulate(2)),
        ("ema", |s| s.ema(0.5)),
        ("seed = 5, this run has 6", |s| s.seed(6)),
        ("kernels = \"static costs\", this run has \"rank 1\"", |s| {
            s.kernels(Kernels::Rank(1))
        }),
    ];
    for (says, change) in steps {
        let error = resumed(&folder, change(step()), training(), "cpu A", data());
        assert!(error.contains(says), "{says}: {error}");
    }
    type Other = fn(Training) -> Training;
    let trainings: &[(&str, Other)] = &[
        ("lr = ", |t| Training {
            rate: Some(0.5),
            ..t
        }),
        ("schedule = \"constant\"", |t| Training {
            schedule: "step:1:0.5".parse().unwrap(),
            ..t
        }),
        ("schedule = \"constant\"", |t| Training {
            schedule: "cosine".parse().unwrap(),
            ..t
        }),
        ("shuffle = true, this run has false", |t| Training {
            shuffle: false,
            ..t
        }),
    ];
    for (says, change) in trainings {
        let error = resumed(&folder, step(), change(training()), "cpu A", data());
        assert!(error.contains(says), "{says}: {error}");
    }
    let error = resumed(&folder, step(), training(), "cpu B", data());
    assert!(
        error.contains("arithmetic = \"cpu A\", this run has \"cpu B\""),
        "{error}"
    );
    assert_eq!(
        std::fs::read(folder.join(FILE)).unwrap(),
        before,
        "nothing was written"
    );
    let longer = Training {
        epochs: 4,
        ..training()
    };
    assert_eq!(resumed(&folder, step(), longer, "cpu A", data()), "");
}

#[test]
fn a_schedule_over_the_whole_run_fixes_its_length() {
    let folder = folder("cosine");
    let cosine = Training {
        schedule: "cosine".parse().unwrap(),
        ..training()
    };
    let mut session = Session::new(step(), cosine.clone()).unwrap();
    session.checkpoint_to(CheckpointFolder::new(&folder));
    let stop = stop_after(session.stop_handle(), Some(8));
    run(&mut session, data(), stop).unwrap();
    drop(session);
    let longer = Training {
        epochs: 4,
        ..cosine.clone()
    };
    let error = resumed(&folder, step(), longer, "cpu", data());
    assert!(error.contains("epochs = 3, this run has 4"), "{error}");
    assert_eq!(resumed(&folder, step(), cosine, "cpu", data()), "");
}

#[test]
fn other_data_is_refused_with_both_named() {
    let folder = checkpointed("data", step());
    let before = std::fs::read(folder.join(FILE)).unwrap();
    let memory = |samples: Vec<f32>, labels: Vec<usize>| -> Source {
        let data = InMemory::new(SHAPE, samples, labels).unwrap();
        data.named("another").into()
    };
    let mut one_value = values(SAMPLES);
    one_value[100] += 1e-6;
    let mut one_label = classes(SAMPLES);
    one_label[3] = (one_label[3] + 1) % 4;
    let bytes: Vec<u8> = values(SAMPLES).iter().map(|v| (v * 100.0) as u8).collect();
    let bytes = InMemory::new(SHAPE, bytes, classes(SAMPLES)).unwrap();
    let all = values(SAMPLES);
    let generated = Generated::new(SHAPE, 6, move |_, _| {
        Ok(Batch::new(all[..16].to_vec(), vec![0usize]))
    });
    let table: Vec<(&str, Source)> = vec![
        ("the number of samples", memory(values(20), classes(20))),
        ("the samples or labels", memory(one_value, classes(SAMPLES))),
        ("the samples or labels", memory(values(SAMPLES), one_label)),
        ("the normalisation", bytes.named("another").into()),
        ("the number of samples", generated.named("another").into()),
    ];
    for (says, data) in table {
        let error = resumed(&folder, step(), training(), "cpu A", data);
        assert!(error.contains(says), "{says}: {error}");
        assert!(
            error.contains("made with original (22 samples of 1×4×4"),
            "{error}"
        );
        assert!(error.contains("this run has another ("), "{error}");
    }
    assert_eq!(
        std::fs::read(folder.join(FILE)).unwrap(),
        before,
        "nothing was written"
    );
    // A name is no content.
    let moved = memory(values(SAMPLES), classes(SAMPLES));
    assert_eq!(resumed(&folder, step(), training(), "cpu A", moved), "");
}

#[test]
fn images_are_known_by_pixels_classes_and_names() {
    let open = |spec: &str, limit: usize| -> Source {
        let spec = dahl_data::DataSpec::parse(spec).unwrap();
        let roots = dahl_data::default_roots();
        let set = dahl_data::open(
            &spec,
            dahl_data::Split::Train,
            [1, 28, 28],
            Some(limit),
            &roots,
        );
        set.unwrap().into()
    };
    let identity = |source| {
        dahl_data::Batches::<f32>::new(source, 8)
            .unwrap()
            .identity()
    };
    let clothes = identity(open("fashion-mnist-small", 64));
    assert_eq!(clothes.class_names[9], "Ankle boot");
    assert_eq!(
        clothes.difference(&identity(open("fashion-mnist-small", 64))),
        None
    );
    for (spec, limit) in [
        ("fashion-mnist-small", 65),
        ("synthetic:1x28x28:64", 64),
        ("synthetic:1x28x28:64:7", 64),
    ] {
        assert!(
            clothes.difference(&identity(open(spec, limit))).is_some(),
            "{spec} {limit}"
        );
    }
    let batches = |mean| {
        let batches = dahl_data::Batches::<f32>::new(open("fashion-mnist-small", 64), 8).unwrap();
        let by = dahl_data::Normalise::new(vec![mean], vec![0.5]).unwrap();
        batches.normalised(&by).unwrap().identity()
    };
    let differs = batches(0.5).difference(&batches(0.25));
    assert_eq!(differs.as_deref(), Some("the normalisation"));
}

/// At every step there is, with and without a validation set: what was stopped goes on to the same bits, and
/// every epoch is told once.
#[test]
fn a_run_stopped_anywhere_goes_on_to_the_same_bits() {
    let whole = {
        let mut session = Session::new(step(), training()).unwrap();
        run(&mut session, data(), stop_after(Stop::new(), None)).unwrap()
    };
    for judged in [false, true] {
        for stop_at in 0..=18 {
            let folder = folder("anywhere");
            let (mut told, mut runs) = (Vec::new(), 0);
            let weights = loop {
                runs += 1;
                let mut runtime = runtime();
                let mut session = Session::new(step(), training()).unwrap();
                session.checkpoint_to(CheckpointFolder::new(&folder));
                if runs > 1 {
                    session.resume_from(&mut runtime, &folder).unwrap();
                }
                let stop = session.stop_handle();
                if runs == 1 && stop_at == 0 {
                    stop.stop();
                }
                let mut watch = stop_after(stop, (runs == 1).then_some(stop_at));
                let validation = judged.then(data);
                let history = session
                    .run(&mut runtime, data(), validation, &mut watch)
                    .unwrap();
                told.extend(history.iter().map(|e| e.epoch));
                let saved = Checkpoint::load(&folder).unwrap();
                assert_eq!(saved.step, session.steps_done());
                if !session.interrupted() {
                    break session.weights(&mut runtime).unwrap();
                }
                assert_eq!(session.steps_done(), stop_at);
            };
            assert!(weights == whole, "stopped after {stop_at}, {judged}");
            assert_eq!(told, [1, 2, 3], "stopped after {stop_at}, {judged}");
            // Without a set to judge by, nothing was left to stop after the last step.
            let expected = if stop_at == 18 && !judged { 1 } else { 2 };
            assert_eq!(runs, expected, "stopped after {stop_at}, {judged}");
        }
    }
}

#[test]
fn a_run_cut_short_by_its_steps_reports_its_last_epoch_once() {
    let few = Training {
        steps: Some(8),
        ..training()
    };
    let mut runtime = runtime();
    let mut session = Session::new(step(), few.clone()).unwrap();
    let mut go = |session: &mut Session| {
        let history = session.run(&mut runtime, data(), None, &mut |_| {
            ControlFlow::Continue(())
        });
        history.unwrap().iter().map(|e| e.epoch).collect::<Vec<_>>()
    };
    assert_eq!(go(&mut session), [1, 2]);
    assert!(go(&mut session).is_empty());
}

#[test]
fn a_checkpoint_that_cannot_be_written_does_not_end_the_run() {
    let folder = folder("blocked");
    let mut session = Session::new(step(), training()).unwrap();
    session.checkpoint_to(CheckpointFolder::new(&folder).every(2));
    let (mut failed, mut written, mut steps) = (0, 0, 0);
    let mut runtime = runtime();
    let mut watch = |progress: &mut Progress<'_>| {
        match progress.event {
            Event::Step { .. } => {
                steps += 1;
                // A folder in its place for a while.
                if steps == 3 {
                    std::fs::remove_file(folder.join(FILE)).unwrap();
                    std::fs::create_dir(folder.join(FILE)).unwrap();
                } else if steps == 9 {
                    std::fs::remove_dir(folder.join(FILE)).unwrap();
                }
            }
            Event::CheckpointFailed => {
                failed += 1;
                let why = progress.unsaved().unwrap().to_string();
                assert!(why.contains(FILE), "{why}");
            }
            Event::Checkpoint => written += 1,
            Event::Epoch(_) => {}
        }
        ControlFlow::Continue(())
    };
    session.run(&mut runtime, data(), None, &mut watch).unwrap();
    assert!(failed > 1 && written > 2, "{failed} {written}");
    assert!(session.unsaved().is_none(), "the last one was written");
    assert_eq!(Checkpoint::load(&folder).unwrap().step, 18);
}

#[test]
fn names_of_classes_come_with_weights_and_checkpoints() {
    let folder = folder("names");
    let names: Vec<String> = ["cat", "dog", "Öre, \"Erde\"", ""].map(Into::into).into();
    let mut runtime = runtime();
    let mut session = Session::new(step(), training()).unwrap();
    session.name_classes(names.clone());
    session.checkpoint_to(CheckpointFolder::new(&folder));
    session
        .run(&mut runtime, data(), None, &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(weights::load(&folder).unwrap().class_names, names);
    let file = folder.join("w.safetensors");
    let all = session.weights(&mut runtime).unwrap();
    weights::write_named(&file, &all, session.class_names(), None).unwrap();
    let loaded = weights::load(&file).unwrap();
    assert_eq!((loaded.weights, loaded.class_names), (all, names));
    drop(session);
    let mut again = Session::new(step(), training()).unwrap();
    again.resume_from(&mut runtime, &folder).unwrap();
    assert_eq!(again.class_names()[0], "cat");
}

/// Random changes of samples are those of the unbroken run, and another pipeline is another run.
#[test]
fn augmented_runs_go_on_to_the_same_bits() {
    let soft = || step().loss(dahl_nn::losses::SoftCrossEntropy {});
    let with = |text: &str| Training {
        augment: Some(text.parse().unwrap()),
        ..training()
    };
    let all = "flip,crop:1,rotate:20,erase,mixup:0.4";
    let whole = run(
        &mut Session::new(soft(), with(all)).unwrap(),
        data(),
        stop_after(Stop::new(), None),
    );
    let whole = whole.unwrap();
    let plain = run(
        &mut Session::new(soft(), training()).unwrap(),
        data(),
        stop_after(Stop::new(), None),
    );
    assert_ne!(plain.unwrap(), whole);
    for at in [1, 6, 9] {
        let folder = folder(&format!("augmented-{at}"));
        let mut session = Session::new(soft(), with(all)).unwrap();
        session.checkpoint_to(CheckpointFolder::new(&folder));
        let stop = stop_after(session.stop_handle(), Some(at));
        run(&mut session, data(), stop).unwrap();
        let says = resumed(&folder, soft(), with("flip"), "", data());
        assert!(says.contains("augmented by flip:0.5"), "{says}");
        assert!(says.contains("what differs: the augmentation"), "{says}");
        let mut runtime = runtime();
        let mut session = Session::new(soft(), with(all)).unwrap();
        session.resume_from(&mut runtime, &folder).unwrap();
        let mut watch = |_: &mut Progress<'_>| ControlFlow::Continue(());
        session.run(&mut runtime, data(), None, &mut watch).unwrap();
        assert_eq!(session.weights(&mut runtime).unwrap(), whole, "after {at}");
    }
    // Mixed samples have no class.
    let mut session = Session::new(step(), with("mixup:1")).unwrap();
    let error = run(&mut session, data(), stop_after(Stop::new(), None)).unwrap_err();
    assert!(error.to_string().contains("soft_cross_entropy"), "{error}");
}

/// Classes that cannot be learnt: the validation loss rises while the training loss falls.
fn noise() -> Source {
    let labels: Vec<usize> = (0..SAMPLES).map(|i| (i * i + i / 3) % 4).collect();
    InMemory::new(SHAPE, values(SAMPLES + 7)[7 * 16..].to_vec(), labels)
        .unwrap()
        .into()
}

fn patient() -> Training {
    Training {
        epochs: 40,
        patience: Some(2),
        rate: Some(0.05),
        ..Training::default()
    }
}

/// Early stopping and the best checkpoint, stopped anywhere: the same epochs and the same best one.
#[test]
fn patience_ends_a_run_and_the_best_checkpoint_is_kept() {
    let begin = |name: &str| {
        let folder = folder(name);
        let mut session = Session::new(step(), patient()).unwrap();
        session.checkpoint_to(CheckpointFolder::new(&folder).keep_best(true));
        (session, folder)
    };
    let (mut session, whole) = begin("patience");
    let mut watch = |_: &mut Progress<'_>| ControlFlow::Continue(());
    let mut one = runtime();
    let history = session
        .run(&mut one, data(), Some(noise()), &mut watch)
        .unwrap();
    assert!(session.stopped_early() && !session.interrupted());
    let best = session.best().unwrap();
    assert!(history.len() < 40 && history.len() as u64 == best.epoch + 2);
    let losses: Vec<f64> = history
        .iter()
        .map(|e| e.validation.unwrap().mean_loss())
        .collect();
    assert_eq!(
        best.loss,
        losses.iter().copied().fold(f64::INFINITY, f64::min)
    );
    let kept = Checkpoint::load(&whole.join("best")).unwrap();
    assert_eq!(kept.epoch, best.epoch);
    let last = session.weights(&mut one).unwrap();
    // A run that has ended stays ended.
    assert!(
        session
            .run(&mut one, data(), Some(noise()), &mut watch)
            .unwrap()
            .is_empty()
    );
    for at in [3, 8] {
        let (mut session, folder) = begin(&format!("patience-{at}"));
        let stop = session.stop_handle();
        let mut one = runtime();
        session
            .run(
                &mut one,
                data(),
                Some(noise()),
                &mut stop_after(stop, Some(at)),
            )
            .unwrap();
        // It holds the lock of its folder.
        drop(session);
        let mut session = Session::new(step(), patient()).unwrap();
        session.resume_from(&mut one, &folder).unwrap();
        session.checkpoint_to(CheckpointFolder::new(&folder).keep_best(true));
        session
            .run(&mut one, data(), Some(noise()), &mut watch)
            .unwrap();
        assert_eq!(session.best(), Some(best));
        assert_eq!(session.weights(&mut one).unwrap(), last);
        let again = Checkpoint::load(&folder.join("best")).unwrap();
        assert_eq!(again.weights, kept.weights);
    }
}
