//! Does what a program should be able to do with DAHL, and checks what comes out.
//!
//! Each function is one promise of the facade, in a few lines, without a look at DAHL's source.

mod own;

use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use dahl::core::random::Random;
use dahl::data::{Batch, Generated, InMemory, Source};
use dahl::nn::losses::{Loss, Mse};
use dahl::nn::train::Event;
use dahl::nn::weights;
use dahl::prelude::*;
use dahl::tune::{CalibrateOptions, MachineModel, PlanOptions, SimulateOptions};
use dahl::tune::{ThisMachine, TimesFrom};

type Done = Result<(), Box<dyn Error>>;

fn main() -> Done {
    let folder = std::env::temp_dir().join(format!("dahl-outside-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    shipped_model_and_data(&folder)?;
    own_model_and_data()?;
    events_stop_a_run()?;
    early_stopping()?;
    bytes_in_memory()?;
    checkpoint_and_resume(&folder)?;
    trace(&folder)?;
    calibrate_simulate_plan_follow(&folder)?;
    energy()?;
    gpu()?;
    own::layer_loss_optimizer()?;
    own::policy()?;
    own::device()?;
    own::codelet()?;
    errors_of_others()?;
    mistakes_are_told()?;
    std::fs::remove_dir_all(&folder)?;
    println!("every promise kept");
    Ok(())
}

fn small() -> Result<Data, dahl::Error> {
    Data::open_first("fashion-mnist-small", [1, 28, 28], 640, 200)
}

fn shipped_model_and_data(folder: &Path) -> Done {
    let data = small()?;
    let mut trainer = Trainer::new(models::first()).epochs(2);
    let history = trainer.fit(&data)?;
    assert_eq!(history.len(), 2);
    assert!(history[1].train.mean_loss() < history[0].train.mean_loss());
    let validation = data.validation.clone().ok_or("a validation set")?;
    let totals = trainer.evaluate(validation.clone())?;
    assert_eq!(
        totals.accuracy(),
        history[1].validation.ok_or("validated")?.accuracy()
    );

    let file = folder.join("weights.safetensors");
    trainer.save(&file)?;
    let mut again = Trainer::new(models::first());
    again.load(&file)?;
    let scores = again.predict_all(validation)?;
    assert_eq!((scores.len(), scores.row(0).len()), (200, 10));
    let other = Trainer::new(models::first())
        .init(weights::read(&file)?)
        .predict(&[0u8; 784][..])?;
    assert_eq!(other.row(0), again.predict(&[0.0f32; 784][..])?.row(0));
    Ok(())
}

/// Targets that are arrays: two sums for each sample.
fn regression() -> Done {
    let (shape, random) = ([3, 1, 1], Random::new(1, 0));
    let inputs: Vec<f32> = (0..3000).map(|i| random.uniform(i) as f32 - 0.5).collect();
    let sums = |x: &[f32]| [x[0] + x[1], x[1] - 2.0 * x[2]];
    let targets: Vec<f32> = inputs.chunks(3).flat_map(sums).collect();
    let model = Model::builder("sums", shape).flatten().linear(2).build()?;
    let data = Data::from(InMemory::new(shape, inputs, targets)?);
    let losses: [Loss; 2] = [Mse {}.into(), "l1".parse()?];
    for loss in losses {
        let mut trainer = Trainer::new(model.clone())
            .loss(loss)
            .epochs(20)
            .learning_rate(0.02);
        let history = trainer.fit(&data)?;
        assert!(
            history[19].train.mean_loss() < 0.1,
            "{:?}",
            history[19].train
        );
        assert_eq!(trainer.evaluate(data.train.clone())?.accuracy(), None);
        let scores = trainer.predict(&[0.5f32, 0.25, -0.5][..])?;
        let [a, b] = [scores.row(0)[0] - 0.75, scores.row(0)[1] - 1.25];
        assert!(a.abs() < 0.1 && b.abs() < 0.1, "{:?}", scores.row(0));
    }
    Ok(())
}

fn own_model_and_data() -> Done {
    let shape = [4, 1, 1];
    let inputs: Vec<f32> = (0..4000).map(|i| (i as f32 * 0.7).sin()).collect();
    let labels: Vec<usize> = inputs
        .chunks(4)
        .map(|x| usize::from(x[0] + x[2] > 0.0))
        .collect();
    let model = Model::builder("own", shape)
        .flatten()
        .linear(16)
        .relu()
        .linear(2)
        .build()?;
    let set = InMemory::new(shape, inputs, labels)?;
    let mut trainer = Trainer::new(model.clone()).epochs(5).optimizer(Sgd {
        momentum: 0.9,
        ..Sgd::default()
    });
    let history = trainer.fit(&Data::from((set.clone(), set.clone())))?;
    let accuracy = history[4].validation.and_then(|v| v.accuracy());
    assert!(accuracy.ok_or("validated, with classes")? > 0.9);
    regression()?;

    let batches = Generated::new(shape, 10, |epoch, batch| {
        let at = (epoch as usize * 10 + batch) as f32;
        Ok(Batch::new(
            vec![at.sin(); 4 * 8],
            vec![usize::from(at.sin() > 0.0); 8],
        ))
    });
    let history = Trainer::new(model)
        .epochs(1)
        .fit(&Data::from(Source::from(batches)))?;
    assert_eq!(history[0].train.samples, 80);
    Ok(())
}

fn events_stop_a_run() -> Done {
    let (mut steps, mut kept) = (0, None);
    let mut trainer = Trainer::new(models::first()).epochs(9);
    let history = trainer.fit_with(&small()?, |progress, epoch| {
        steps += u64::from(matches!(progress.event, Event::Step { .. }));
        match epoch {
            Some(epoch) if epoch.epoch == 2 => {
                kept = progress.weights().ok();
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    })?;
    assert_eq!((history.len(), steps), (2, 40));
    assert!(kept.ok_or("kept weights")? == trainer.weights()?);
    Ok(())
}

/// Stops when the validation loss rises, and goes back to the weights before.
fn early_stopping() -> Done {
    let (data, mut best) = (small()?, (f64::INFINITY, None));
    let mut trainer = Trainer::new(models::first())
        .epochs(50)
        .learning_rate(0.02);
    let history = trainer.fit_with(&data, |progress, epoch| {
        let loss = epoch.and_then(|e| e.validation).map(|v| v.mean_loss());
        match loss {
            Some(loss) if loss > best.0 => return ControlFlow::Break(()),
            Some(loss) => best = (loss, progress.weights().ok()),
            None => {}
        }
        ControlFlow::Continue(())
    })?;
    assert!(history.len() < 50);
    let mut kept = Trainer::new(models::first()).init(best.1.ok_or("weights")?);
    let totals = kept.evaluate(data.validation.ok_or("a validation set")?)?;
    assert_eq!(totals.mean_loss(), best.0);
    Ok(())
}

/// Bytes are pixels: what is trained on them is told apart as by floats between 0 and 1.
fn bytes_in_memory() -> Done {
    let shape = [3, 2, 2];
    let bytes: Vec<u8> = (0..12 * 200).map(|i| (i * i % 251) as u8).collect();
    let labels: Vec<u8> = bytes.chunks(12).map(|x| u8::from(x[0] > 125)).collect();
    let floats: Vec<f32> = bytes.iter().map(|&b| f32::from(b) / 255.0).collect();
    let model = Model::builder("bytes", shape).flatten().linear(2).build()?;
    let train = |data: InMemory| -> Result<_, dahl::Error> {
        let mut trainer = Trainer::new(model.clone()).epochs(3);
        trainer.fit(&Data::from(data))?;
        trainer.weights()
    };
    let of_bytes = train(InMemory::new(shape, bytes, labels.clone())?)?;
    assert!(of_bytes == train(InMemory::new(shape, floats, labels)?)?);
    Ok(())
}

/// One type of error is carried into those of others.
fn errors_of_others() -> Done {
    let fails = || -> anyhow::Result<Data> { Ok(Data::open("folder:/nowhere", [1, 2, 2])?) };
    let told = fails().err().ok_or("an error")?;
    assert!(told.downcast_ref::<dahl::Error>().is_some());
    assert!(told.to_string().contains("/nowhere"), "{told}");
    Ok(())
}

fn checkpoint_and_resume(folder: &Path) -> Done {
    let (data, checkpoint) = (small()?, folder.join("checkpoint"));
    let trainer = || Trainer::new(models::first()).epochs(2);
    let mut whole = trainer();
    whole.fit(&data)?;
    let mut first = trainer().checkpoint(&checkpoint, None);
    first.fit_with(&data, |_, epoch| match epoch {
        Some(_) => ControlFlow::Break(()),
        None => ControlFlow::Continue(()),
    })?;
    let mut second = trainer().resume(&checkpoint);
    second.fit(&data)?;
    assert!(whole.weights()? == second.weights()?);
    Ok(())
}

fn trace(folder: &Path) -> Done {
    let mut trainer = Trainer::new(models::first()).epochs(1).record(1 << 16);
    trainer.fit(&small()?)?;
    let trace = trainer.take_trace()?.ok_or("a trace")?;
    let summary = dahl::trace::Summary::of(&trace);
    assert!(
        summary.tasks > 20
            && summary.units.len() == summary.units.iter().filter(|u| u.span_ns > 0).count()
    );
    let (file, page) = (folder.join("run.trace"), folder.join("run.html"));
    dahl::trace::save(&trace, &file)?;
    assert_eq!(dahl::trace::load(&file)?, trace);
    dahl::core::file::write_atomically(&page, |out| dahl::trace::view::write(&trace, out))?;
    assert!(std::fs::read_to_string(&page)?.contains("<html"));
    Ok(())
}

fn calibrate_simulate_plan_follow(folder: &Path) -> Done {
    let this = ThisMachine::look().keeping_in(folder.join("home"));
    let step = Step::new(models::small_cnn()).batch(64).clip_norm(5.0);
    let calibrate = CalibrateOptions {
        steps: vec![step.clone()],
        seconds: 0.02,
        ..CalibrateOptions::default()
    };
    assert!(dahl::calibrate(&calibrate, &this, &mut |_| {})?.timed > 0);
    let machine = this.describe(Some(&"cpu:2".parse()?))?.machine;
    let (machine, _) = MachineModel::new(machine, &TimesFrom::Here, &this)?;
    let prediction = dahl::simulate(&step, &machine, &SimulateOptions::default())?;
    assert!(prediction.step_seconds().0 > 0.0);
    let options = PlanOptions {
        time_limit: Duration::from_secs(1),
        ..PlanOptions::default()
    };
    let planned = dahl::plan(&step, &machine, &options)?;
    let data = Data::open("synthetic:1x28x28:640", [1, 28, 28])?;
    let mut trainer = Trainer::new(step).epochs(1).follow(planned.plan);
    assert!(trainer.fit(&data)?[0].train.mean_loss().is_finite());
    Ok(())
}

fn energy() -> Done {
    let (history, energy) =
        dahl::energy::measure(|| Trainer::new(models::first()).epochs(1).fit(&small()?));
    let history = history?;
    match (energy.joules(), history[0].joules()) {
        (Some(all), Some(epoch)) => assert!(all.0 > 0.0 && epoch.0 > 0.0),
        _ => assert!(energy.source().starts_with("unavailable")),
    }
    Ok(())
}

fn gpu() -> Done {
    let mut trainer = Trainer::new(models::first())
        .epochs(1)
        .units("cpu,gpu".parse()?);
    match (dahl::tune::gpus::all().is_empty(), trainer.fit(&small()?)) {
        (true, Err(error)) => assert!(error.to_string().contains("no GPU here"), "{error}"),
        (_, result) => assert!(result?[0].train.mean_loss().is_finite()),
    }
    Ok(())
}

fn mistakes_are_told() -> Done {
    let wrong = InMemory::new([1, 28, 28], vec![0.0f32; 784], vec![10usize])?;
    let told = Trainer::new(models::first())
        .fit(&Data::from(wrong))
        .unwrap_err()
        .to_string();
    assert!(told.contains("label 10"), "{told}");
    let mut trainer = Trainer::new(models::first()).epochs(1);
    trainer.weights()?;
    let told = trainer.batch(8).fit(&small()?).unwrap_err().to_string();
    assert!(told.starts_with("batch was set after"), "{told}");
    Ok(())
}
