//! What a program adds of its own: a codelet, a layer, a loss, an optimiser, a policy, a device.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use dahl::core::Mode::{Read, Write};
use dahl::core::{Bytes, Seconds, UnitId};
use dahl::data::InMemory;
use dahl::nn::keys::Named;
use dahl::nn::layers::Layer;
use dahl::nn::losses::{Criterion, Targets};
use dahl::nn::lower::{LossTape, Tape};
use dahl::nn::model::Extent;
use dahl::nn::optim::UpdateRule;
use dahl::prelude::*;
use dahl::runtime::DeviceSpec;
use dahl::runtime::driver::{CpuDriver, Driver, DriverError, Job};
use dahl::runtime::memory::HostDevice;
use dahl::sched::policy::{Policy, TaskRef, World};
use serde::{Deserialize, Serialize};

use crate::Done;

type Lazy = LazyLock<Arc<Codelet>>;

/// to = from × the parameter.
static SCALE: Lazy = Lazy::new(|| {
    Arc::new(
        Codelet::new("own_scale").implement("reference", UnitKind::CPU, |ops| {
            let (from, mut to) = (ops.read::<f32>(0), ops.write::<f32>(1));
            let factor = ops.float(0) as f32;
            for_rows(from.dims(), |at| {
                from.row(at)
                    .iter()
                    .zip(to.row(at))
                    .for_each(|(a, b)| *b = a * factor);
            });
            Ok(())
        }),
    )
});

/// The mean of squares: output, targets, losses, correct, (gradient).
static SQUARES: Lazy = Lazy::new(|| {
    Arc::new(
        Codelet::new("own_squares").implement("reference", UnitKind::CPU, |ops| {
            let (output, targets) = (ops.read::<f32>(0), ops.read::<f32>(1));
            let (mut losses, mut correct) = (ops.write::<f32>(2), ops.write::<f32>(3));
            let mut gradient = (ops.len() == 5).then(|| ops.write::<f32>(4));
            for sample in 0..losses.dims()[3] {
                let error = output.row([0, 0, sample])[0] - targets.row([0, 0, sample])[0];
                losses.row([0; 3])[sample] = error * error;
                if let Some(gradient) = &mut gradient {
                    gradient.row([0, 0, sample])[0] = 2.0 * ops.float(0) as f32 * error;
                }
            }
            correct.row([0; 3])[0] = 0.0;
            Ok(())
        }),
    )
});

/// w -= rate × sign(g): values, gradient, weights.
static SIGN: Lazy = Lazy::new(|| {
    Arc::new(
        Codelet::new("own_sign").implement("reference", UnitKind::CPU, |ops| {
            let (values, g, mut w) = (ops.read::<f32>(0), ops.read::<f32>(1), ops.write::<f32>(2));
            let rate = values.row([0; 3])[0];
            for_rows(g.dims(), |at| {
                g.row(at)
                    .iter()
                    .zip(w.row(at))
                    .for_each(|(g, w)| *w -= rate * g.signum());
            });
            Ok(())
        }),
    )
});

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Scale {
    factor: f64,
}

impl Named for Scale {
    const NAME: &'static str = "own_scale";
}

impl Layer for Scale {
    fn extent(&self, inputs: &[Extent]) -> Result<Extent, String> {
        Ok(inputs[0])
    }

    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        let y = tape.new_output();
        tape.map(&SCALE, &[&tape.input(0)], &y, &[Param::Float(self.factor)]);
        y
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        let dx = tape.new_gradient(0);
        tape.map(&SCALE, &[dy], &dx, &[Param::Float(self.factor)]);
        tape.give_gradient(0, dx);
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Squares;

impl Named for Squares {
    const NAME: &'static str = "own_squares";
}

impl Criterion for Squares {
    fn targets(&self) -> Targets {
        Targets::Values
    }

    fn lower(&self, tape: &mut LossTape<'_>) {
        let scale = [Param::Float(1.0 / tape.batch() as f64)];
        for part in tape.parts() {
            let mut operands = vec![
                part.output.with(Read),
                part.targets.with(Read),
                part.losses.with(Write),
                part.correct.with(Write),
            ];
            operands.extend(part.gradient.as_ref().map(|g| g.with(Write)));
            tape.submit(&SQUARES, &operands, &scale);
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct SignDescent;

impl Named for SignDescent {
    const NAME: &'static str = "own_sign";
}

impl UpdateRule for SignDescent {
    fn default_rate(&self) -> f64 {
        1e-3
    }

    fn slots(&self) -> Vec<&'static str> {
        Vec::new()
    }

    fn values(&self, rate: f64, _: u64) -> Vec<f64> {
        vec![rate]
    }

    fn codelet(&self) -> (Arc<Codelet>, Vec<Param>) {
        (SIGN.clone(), Vec::new())
    }
}

pub fn layer_loss_optimizer() -> Done {
    let inputs: Vec<f32> = (0..1000).map(|i| (i as f32 * 0.37).sin()).collect();
    let targets: Vec<f32> = inputs.iter().map(|x| 0.5 - 2.0 * x).collect();
    let data = Data::from(InMemory::new([1, 1, 1], inputs, targets)?);
    let start = Model::builder("own", [1, 1, 1]).flatten().linear(4);
    let model = start.layer(Scale { factor: 0.5 }).linear(1).build()?;
    let mut trainer = Trainer::new(model)
        .loss(Squares)
        .optimizer(SignDescent)
        .learning_rate(0.005)
        .epochs(20);
    let history = trainer.fit(&data)?;
    let [first, last] = [&history[0], &history[19]].map(|epoch| epoch.train.mean_loss());
    assert!(last < 0.1 * first, "{first} {last}");
    Ok(())
}

#[derive(Default)]
struct LastFirst(Mutex<Vec<TaskRef>>);

impl Policy for LastFirst {
    fn name(&self) -> &'static str {
        "last-first"
    }

    fn ready(
        &self,
        world: &dyn World,
        _: Option<UnitId>,
        tasks: &[TaskRef],
        _: Seconds,
    ) -> Option<TaskRef> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(tasks);
        tasks.iter().for_each(|_| _ = world.wake(None));
        None
    }

    fn next(&self, _: &dyn World, _: UnitId, _: Seconds) -> Option<TaskRef> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn backlog(&self) -> Vec<(String, usize)> {
        Vec::new()
    }
}

pub fn policy() -> Done {
    let data = crate::small()?;
    let trainer = || Trainer::new(models::first()).epochs(1);
    let mut usual = trainer();
    usual.fit(&data)?;
    let mut own = trainer().runtime(|builder| builder.with_policy(|_| LastFirst::default()));
    own.fit(&data)?;
    assert!(usual.weights()? == own.weights()?);
    Ok(())
}

/// Counts the tasks that it executes.
struct Counting(Arc<AtomicUsize>);

impl Driver for Counting {
    fn kind(&self) -> UnitKind {
        UnitKind::CPU
    }

    unsafe fn execute(&self, job: &Job<'_>, scratch: &mut [u8]) -> Result<(), DriverError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { CpuDriver.execute(job, scratch) }
    }
}

/// All tasks run on a unit of the program's own, whose memory is reached by copies.
pub fn device() -> Done {
    let data = crate::small()?;
    let trainer = || Trainer::new(models::first()).epochs(1);
    let mut usual = trainer();
    usual.fit(&data)?;
    let executed = Arc::new(AtomicUsize::new(0));
    let spec = DeviceSpec {
        name: "own:0".into(),
        driver: Box::new(Counting(executed.clone())),
        backing: Box::new(HostDevice::new(1e12, Duration::ZERO)),
        capacity: Bytes(1 << 30),
        links: [(1e12, Seconds(0.0)); 2],
    };
    let mut own = trainer().runtime(|builder| builder.workers(0).device(spec));
    own.fit(&data)?;
    assert!(usual.weights()? == own.weights()?);
    assert!(executed.load(Ordering::Relaxed) > 20 * 10);
    Ok(())
}

/// A graph of the program's own codelet, launched by hand.
pub fn codelet() -> Done {
    let arena = Arena::new();
    let (x, mut y) = (arena.from_slice([4], &[1.0f32, 2.0, 3.0, 4.0])?, arena.zeros::<f32, 1>([4])?);
    let recorder = Recorder::new();
    let operands = [x.read(), y.write()];
    recorder.submit(Task::new(&SCALE, &operands).params(&[Param::Float(0.5)]));
    let graph = recorder.finish()?;
    let mut runtime = Runtime::builder().build()?;
    runtime.launch(&graph)?;
    assert_eq!(*runtime.read(&y)?, [0.5, 1.0, 1.5, 2.0]);
    Ok(())
}
