//! What people type: options of the command line.

use dahl::core::{DType, UnitKind};
use dahl::data::{Augment, DataSpec, Normalise};
use dahl::nn::keys::Given;
use dahl::nn::losses::Loss;
use dahl::nn::lower::grain::Grain;
use dahl::nn::optim::Optimizer;
use dahl::nn::schedule::Schedule;
use dahl::tune::{Units, size};

use super::{said, text, texts};
use crate::{Answer, Target};

/// A text that was understood is written so that it is understood again, alike.
fn round<T>(text: &str) -> Result<T, String>
where
    T: std::str::FromStr<Err: std::fmt::Display> + std::fmt::Display + PartialEq + std::fmt::Debug,
{
    let value: T = text.parse().map_err(|e: T::Err| e.to_string())?;
    let written = value.to_string();
    match written.parse::<T>() {
        Ok(again) => assert_eq!(again, value, "{text:?} is written as {written:?}"),
        Err(e) => panic!("{text:?} is written as {written:?}, which is refused: {e}"),
    }
    Ok(value)
}

pub(super) const GRAIN: Target = Target {
    name: "grain",
    files: &[],
    made: || {
        texts(&[
            "auto",
            "sample=8,channel=2,height=1,width=1",
            "auto/sample=2/channel=3, width = 4/auto",
        ])
    },
    words: &["auto", "tuned", "sample", "channel", "height", "width", "/"],
    parse: |_, bytes| round::<Grain>(text(bytes)?).map(drop),
};

pub(super) const UNITS: Target = Target {
    name: "units",
    files: &[],
    made: || {
        texts(&[
            "cpu",
            "cpu:2,gpu:0",
            "gpu:0+1, cpu",
            "gpu",
            "2GiB",
            "512 MiB",
            "f32",
            "fpga",
        ])
    },
    words: &["cpu", "gpu", "gpu:0", "+", "GiB", "MB", "TiB"],
    parse: units,
};

/// Units, and what is typed beside them: memory, element types, kinds of units.
fn units(_: &crate::Folder, bytes: &[u8]) -> Answer {
    let text = text(bytes)?;
    let other = [
        size(text).map(drop).map_err(said),
        round::<DType>(text).map(drop),
        round::<UnitKind>(text).map(drop),
    ];
    match text.parse::<Units>() {
        Ok(units) => {
            let _ = units.has_gpus();
            Ok(())
        }
        Err(e) => other
            .into_iter()
            .find(Result::is_ok)
            .unwrap_or(Err(said(e))),
    }
}

pub(super) const SCHEDULE: Target = Target {
    name: "schedule",
    files: &[],
    made: || {
        texts(&[
            "constant",
            "step:30:0.1",
            "cosine:0.001",
            "warmup:500+cosine",
            "step:3:0.5+warmup:5",
        ])
    },
    words: &["constant", "step:", "cosine", "warmup:"],
    parse: |_, bytes| {
        let schedule = round::<Schedule>(text(bytes)?)?;
        let steps = [0, 1, 7, 1 << 40, u64::MAX];
        for rate in [0.0, 0.1] {
            if schedule.check(rate).is_ok() {
                for step in steps {
                    let lr = schedule.lr(step, 7, 1000, rate);
                    assert!((0.0..=rate).contains(&lr), "{schedule} at {step}: {lr}");
                }
            }
        }
        Ok(())
    },
};

pub(super) const DATA: Target = Target {
    name: "data",
    files: &[],
    made: || {
        texts(&[
            "fashion-mnist-small",
            "idx:/data/mnist",
            "cifar-10:DIR",
            "folder:a b",
            "synthetic:3x32x32:5000:7",
        ])
    },
    words: &[
        "fashion-mnist",
        "idx:",
        "cifar-10:",
        "folder:",
        "synthetic:",
        "x",
    ],
    parse: |_, bytes| round::<DataSpec>(text(bytes)?).map(drop),
};

/// Pipelines of random changes, and normalisations.
pub(super) const AUGMENT: Target = Target {
    name: "augment",
    files: &[],
    made: || {
        texts(&[
            "flip,crop:4,rotate:10,brightness:0.2,contrast:0.2,erase:0.5,mixup:0.2",
            "flip:0.25",
            "0.49,0.48,0.45/0.25,0.24,0.26",
        ])
    },
    words: &[
        "flip", "crop:", "rotate:", "erase", "mixup:", "1e-3", "/", ",",
    ],
    parse: |_, bytes| {
        let text = text(bytes)?;
        round::<Augment>(text)
            .map(drop)
            .or_else(|_| round::<Normalise>(text).map(drop))
    },
};

pub(super) const LOSS: Target = Target {
    name: "loss",
    files: &[],
    made: || {
        texts(&[
            "mse",
            "cross_entropy:label_smoothing=0.1,weight=[1,2.5]",
            "smooth_l1:beta=0.5",
            "huber:delta=2",
            "adam:betas=[0.9,0.999],eps=1e-8",
            "sgd:momentum=0.9,nesterov=true",
        ])
    },
    words: &[
        "cross_entropy:",
        "label_smoothing=",
        "weight=[",
        "ignore_index=",
        "bce_with_logits",
        "nll",
        "l1",
        "huber:delta=",
        "adamw:",
        "sgd:",
        "momentum=",
        "weight_decay=",
        "nesterov=",
        "amsgrad=",
        "}",
        "{",
        "'''",
        "\"\"\"",
        "#",
        "\n[a]",
    ],
    parse: loss,
};

/// A loss, or an optimiser written alike.
fn loss(_: &crate::Folder, bytes: &[u8]) -> Answer {
    let text = text(bytes)?;
    let (name, keys) = text.split_once(':').unwrap_or((text, ""));
    if let Ok(given) = keys.parse::<Given>()
        && let Ok(optimizer) = Optimizer::parse(name, &given)
    {
        let _ = optimizer.validate().map_err(said);
        return Ok(());
    }
    let loss: Loss = text.parse().map_err(said)?;
    let written = loss.to_string();
    let again: Loss = written
        .parse()
        .unwrap_or_else(|e| panic!("{text:?} is written as {written:?}: {e}"));
    assert_eq!(again.to_string(), written);
    Ok(())
}
