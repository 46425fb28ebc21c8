//! A program's own layer, loss and optimiser: what somebody outside this crate can write, in files and in
//! Rust, checked by finite differences and by training with them.

mod probe;

use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

use dahl_core::Mode::{Read, Reduce, Write};
use dahl_core::view::for_rows;
use dahl_core::{Codelet, DType, Handle, Operands, Param, TaskError, UnitKind};
use dahl_data::{InMemory, Source};
use dahl_nn::Registry;
use dahl_nn::checkpoint::CheckpointFolder;
use dahl_nn::keys::{Given, Named};
use dahl_nn::layers::{Layer, ParamSpec};
use dahl_nn::losses::{Criterion, Loss, Targets};
use dahl_nn::lower::{LossTape, Tape, tiles};
use dahl_nn::model::{Extent, Fill, Model};
use dahl_nn::optim::{Optimizer, UpdateRule};
use dahl_nn::step::Step;
use dahl_nn::train::{Event, Progress, Session, Training};
use dahl_runtime::Runtime;
use dahl_test_support::arrays::{read, write};
use probe::Probe;
use serde::{Deserialize, Serialize};

type Lazy = LazyLock<Arc<Codelet>>;

fn codelet(name: &'static str, body: fn(&Operands<'_>) -> Result<(), TaskError>) -> Arc<Codelet> {
    Arc::new(Codelet::new(name).implement("plain", UnitKind::CPU, body))
}

fn number(o: &Operands<'_>) -> f64 {
    match o.params()[0] {
        Param::Float(x) => x,
        Param::Int(n) => n as f64,
    }
}

static BEND: Lazy = Lazy::new(|| {
    codelet("bend", |o| {
        let (x, gain, mut y) = (o.read::<f64>(0), o.read::<f64>(1), o.write::<f64>(2));
        let (gain, offset) = (gain.row([0; 3])[0], number(o));
        for_rows(x.dims(), |at| {
            for (y, x) in y.row(at).iter_mut().zip(x.row(at)) {
                *y = gain * (x + offset) * (x + offset);
            }
        });
        Ok(())
    })
});

static BEND_GRAD: Lazy = Lazy::new(|| {
    codelet("bend_grad", |o| {
        let (x, dy, gain) = (o.read::<f64>(0), o.read::<f64>(1), o.read::<f64>(2));
        let (mut dx, mut dgain) = (o.write::<f64>(3), o.write::<f64>(4));
        let (gain, offset) = (gain.row([0; 3])[0], number(o));
        for_rows(x.dims(), |at| {
            let dx = dx.row(at).iter_mut();
            for ((dx, x), dy) in dx.zip(x.row(at)).zip(dy.row(at)) {
                *dx = 2.0 * gain * (x + offset) * dy;
                dgain.row([0; 3])[0] += (x + offset) * (x + offset) * dy;
            }
        });
        Ok(())
    })
});

/// `gain · (x + offset)²`, the gain being trained.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Bend {
    #[serde(default)]
    offset: f64,
}

impl Named for Bend {
    const NAME: &'static str = "bend";
}

impl Layer for Bend {
    fn extent(&self, inputs: &[Extent]) -> Result<Extent, String> {
        match self.offset.is_finite() {
            true => Ok(inputs[0]),
            false => Err("offset must be finite".into()),
        }
    }

    fn params(&self, _: Extent) -> Vec<ParamSpec> {
        vec![ParamSpec::trained("gain", &[1], Fill::Constant(0.5))]
    }

    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        let (x, y, gain) = (tape.input(0), tape.new_output(), tape.param("gain"));
        for n in tape.samples(x.shape.len()) {
            let [from, to] = [&x, &y].map(|h| tiles::samples(h, n));
            let operands = [from.with(Read), gain.with(Read), to.with(Write)];
            tape.submit(&BEND, &operands, &[Param::Float(self.offset)]);
        }
        y
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        let (x, dx, gain) = (tape.input(0), tape.new_gradient(0), tape.param("gain"));
        let dgain = tape.temporary("gain gradient", &[1]);
        for n in tape.samples(x.shape.len()) {
            let [x, dy, dx] = [&x, dy, &dx].map(|h| tiles::samples(h, n));
            let operands = [
                x.with(Read),
                dy.with(Read),
                gain.with(Read),
                dx.with(Write),
                dgain.with(Reduce),
            ];
            tape.submit(&BEND_GRAD, &operands, &[Param::Float(self.offset)]);
        }
        tape.give_gradient(0, dx);
        tape.give_param_gradient("gain", dgain);
    }
}

static CUBE: Lazy = Lazy::new(|| {
    codelet("cubed_error", |o| {
        let (output, targets) = (o.read::<f64>(0), o.read::<f64>(1));
        let (mut losses, mut correct) = (o.write::<f64>(2), o.write::<f64>(3));
        let mut gradient = (o.len() > 4).then(|| o.write::<f64>(4));
        let scale = number(o);
        correct.row([0; 3])[0] = 0.0;
        for n in 0..output.dims()[2] {
            let at = [0, 0, n];
            let distance = |(x, t): (&f64, &f64)| (x - t).abs().powi(3);
            let pairs = output.row(at).iter().zip(targets.row(at));
            losses.row([0; 3])[n] = pairs.map(distance).sum();
            if let Some(gradient) = &mut gradient {
                for (i, d) in gradient.row(at).iter_mut().enumerate() {
                    let error = output.row(at)[i] - targets.row(at)[i];
                    *d = scale * 3.0 * error * error.abs();
                }
            }
        }
        Ok(())
    })
});

/// The sum of `|output − target|³`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct CubedError;

impl Named for CubedError {
    const NAME: &'static str = "cubed_error";
}

impl Criterion for CubedError {
    fn targets(&self) -> Targets {
        Targets::Values
    }

    fn lower(&self, tape: &mut LossTape<'_>) {
        let scale = Param::Float(1.0 / tape.batch() as f64);
        for part in tape.parts() {
            let mut operands = vec![
                part.output.with(Read),
                part.targets.with(Read),
                part.losses.with(Write),
                part.correct.with(Write),
            ];
            operands.extend(part.gradient.as_ref().map(|d| d.with(Write)));
            tape.submit(&CUBE, &operands, &[scale]);
        }
    }
}

static SIGN: Lazy = Lazy::new(|| {
    codelet("sign_update", |o| {
        let (values, gradient) = (o.read::<f64>(0), o.read::<f64>(1));
        let (mut param, mut before) = (o.write::<f64>(2), o.write::<f64>(3));
        let (rate, keep) = (values.row([0; 3])[0], values.row([0; 3])[1]);
        for_rows(gradient.dims(), |at| {
            let (param, before) = (param.row(at), before.row(at));
            for (i, g) in gradient.row(at).iter().enumerate() {
                before[i] = keep * before[i] + (1.0 - keep) * g;
                param[i] -= rate * before[i].signum();
            }
        });
        Ok(())
    })
});

/// Steps of one length, in the direction of a running mean's sign.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
struct SignSgd {
    keep: f64,
}

impl Default for SignSgd {
    fn default() -> Self {
        SignSgd { keep: 0.9 }
    }
}

impl Named for SignSgd {
    const NAME: &'static str = "sign_sgd";
}

impl UpdateRule for SignSgd {
    fn default_rate(&self) -> f64 {
        0.001
    }

    fn slots(&self) -> Vec<&'static str> {
        vec!["mean"]
    }

    /// More than any optimiser of this crate reads, to see that there is room.
    fn values(&self, rate: f64, _: u64) -> Vec<f64> {
        vec![rate, self.keep, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    }

    fn codelet(&self) -> (Arc<Codelet>, Vec<Param>) {
        (SIGN.clone(), Vec::new())
    }
}

fn built() -> Model {
    Model::builder("own", [2, 5, 5])
        .conv2d(3, 3)
        .layer(Bend { offset: 0.25 })
        .named("curve")
        .flatten()
        .linear(4)
        .build()
        .unwrap()
}

fn registry() -> Registry {
    Registry::default()
        .with_layer::<Bend>()
        .with_loss::<CubedError>()
        .with_optimizer::<SignSgd>()
}

#[test]
fn files_can_name_them() {
    let text = built().to_toml();
    assert!(text.contains("type = \"bend\"\noffset = 0.25\n"), "{text}");
    let read = Model::from_toml_with(&text, "own.toml", &registry()).unwrap();
    assert_eq!(read.fingerprint(), built().fingerprint());
    assert_eq!(read.params()[2].key, "curve.gain");
    let error = Model::from_toml(&text, "own.toml").unwrap_err().to_string();
    assert!(
        error.contains("unknown type \"bend\"; there are: conv2d,"),
        "{error}"
    );
    let wrong = text.replace("offset = 0.25", "offset = \"far\"");
    let error = Model::from_toml_with(&wrong, "own.toml", &registry()).unwrap_err();
    let line = 1 + text.lines().position(|l| l.contains("offset")).unwrap();
    assert_eq!(
        error.to_string(),
        format!("bend \"curve\": `offset` must be a number (own.toml:{line})")
    );
    let given = Given::default().set("keep", Some(0.5));
    let optimizer = registry().optimizer("sign_sgd", &given).unwrap();
    assert_eq!(optimizer, Optimizer::from(SignSgd { keep: 0.5 }));
    let loss = registry().loss("cubed_error", &Given::default()).unwrap();
    assert_eq!(loss, Loss::from(CubedError));
}

#[test]
fn their_gradients_are_slopes_of_the_loss() {
    for grain in ["auto", "sample=2,channel=2,height=2,width=1"] {
        let step = Step::new(built()).loss(CubedError);
        let checked = Probe::new(step, grain).check(&format!("own, {grain}"));
        assert!(checked > 50, "only {checked} gradients");
    }
}

#[test]
fn a_step_with_all_three_trains() {
    let step = Step::new(built())
        .batch(8)
        .dtype(DType::F64)
        .loss(CubedError)
        .optimizer(SignSgd::default());
    let lowered = step.lower().unwrap();
    let mut runtime = Runtime::builder().workers(2).build().unwrap();
    step.rehearse(&mut runtime, &lowered).unwrap();
    let mut losses = Vec::new();
    for i in 1..=200 {
        let values = step.optimizer.values(step.optimizer.default_rate(), i);
        write(&mut runtime, &lowered.io.values, &values);
        runtime.launch(&lowered.graph).unwrap();
        runtime.wait().unwrap();
        losses.push(read(&mut runtime, &lowered.io.losses).iter().sum::<f64>());
    }
    let (first, last) = (losses[0], losses[199]);
    assert!(last < 0.1 * first, "{first} became {last}");
}

#[test]
fn their_steps_are_read_from_text() {
    let step = Step::new(built())
        .loss(CubedError)
        .optimizer(SignSgd { keep: 0.5 });
    let text = serde_json::to_string(&step).unwrap();
    let read = Step::from_json_with(&text, &registry()).unwrap();
    assert_eq!(read.fingerprint(), step.fingerprint());
    let says = |registry: Registry| {
        Step::from_json_with(&text, &registry)
            .unwrap_err()
            .to_string()
    };
    let error = says(Registry::default());
    assert!(error.contains("cubed_error"), "{error}");
    let error = says(Registry::default().with_loss::<CubedError>());
    assert!(error.contains("sign_sgd"), "{error}");
    let both = Registry::default()
        .with_loss::<CubedError>()
        .with_optimizer::<SignSgd>();
    assert!(says(both).contains("bend"));
    assert!(Step::from_json_with("{}", &registry()).is_err());
}

/// Layer, loss and optimiser are the program's; so is the optimiser's state in the checkpoint.
#[test]
fn a_run_with_all_three_is_resumed() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("own-resumed");
    let _ = std::fs::remove_dir_all(&folder);
    let inputs: Vec<f32> = (0..24 * 50).map(|i| (i % 17) as f32 / 17.0).collect();
    let targets: Vec<f32> = (0..24 * 4).map(|i| (i % 5) as f32 / 5.0).collect();
    let data = Source::from(InMemory::new([2, 5, 5], inputs, targets).unwrap());
    let train = |stop_at: Option<u64>, resume: bool| {
        let step = Step::new(built())
            .batch(4)
            .dtype(DType::F64)
            .loss(CubedError)
            .optimizer(SignSgd::default());
        let training = Training {
            epochs: 3,
            ..Training::default()
        };
        let mut runtime = Runtime::builder().workers(2).build().unwrap();
        let mut session = Session::new(step, training).unwrap();
        if resume {
            session.resume_from(&mut runtime, &folder).unwrap();
        }
        if stop_at.is_some() {
            session.checkpoint_to(CheckpointFolder::new(&folder));
        }
        let stop = session.stop_handle();
        let mut watch = |progress: &mut Progress<'_>| {
            if let Event::Step {
                epoch, step, steps, ..
            } = progress.event
                && stop_at == Some((epoch - 1) * steps + step)
            {
                stop.stop();
            }
            ControlFlow::Continue(())
        };
        session
            .run(&mut runtime, data.clone(), None, &mut watch)
            .unwrap();
        session.weights(&mut runtime).unwrap()
    };
    let whole = train(None, false);
    let part = train(Some(8), false);
    assert!(part != whole);
    assert!(train(None, true) == whole);
}

/// The slot's array must have been written: the rule keeps a mean in it.
#[test]
fn slots_are_the_rules_own() {
    let step = Step::new(built()).optimizer(SignSgd::default());
    let lowered = step.lower().unwrap();
    assert!(lowered.state.slots.iter().all(|slots| slots.len() == 1));
    assert!(lowered.io.values.shape.len() >= 8);
    let sgd = dahl_nn::optim::Sgd::default();
    let plain = Step::new(built()).optimizer(sgd).lower().unwrap();
    assert!(plain.state.slots.iter().all(Vec::is_empty));
    assert_ne!(plain.graph.fingerprint(), lowered.graph.fingerprint());
}
