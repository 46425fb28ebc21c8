//! Grain: into how many tasks a layer's work is cut.
//!
//! `auto` is a pure function of the model, the batch and the element type, never of the machine: the
//! grain is part of what is computed (it fixes the order of additions), and default runs must give the
//! same bits everywhere. It aims at tasks that are large beside the runtime's overhead and few enough
//! that kernels stay efficient, yet more of them than a workstation has cores where there is work.

use std::str::FromStr;

use dahl_core::text::unknown;

use crate::model::Model;

/// What parts are counted along.
const DIMENSIONS: [&str; 4] = ["sample", "channel", "height", "width"];

/// Parts along each of the four dimensions.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Parts {
    /// Of the batch.
    pub sample: usize,
    /// Of a layer's output channels, or features.
    pub channel: usize,
    /// Of the output's height.
    pub height: usize,
    /// Of the output's width.
    pub width: usize,
}

impl Parts {
    /// Everything in one task.
    pub const ONE: Parts = Parts {
        sample: 1,
        channel: 1,
        height: 1,
        width: 1,
    };
}

/// How task sizes are chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Grain {
    /// From static costs.
    #[default]
    Auto,
    /// The same parts for every layer, as far as its extents go.
    Fixed(Parts),
    /// Chosen layer by layer, in the order of the model's layers, by somebody who measured; layers
    /// without parts, and those beyond the list, are left to static costs.
    Layers(Vec<Option<Parts>>),
}

/// Why a grain cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("grain `{text}`: {problem}; use auto, or for example sample=8,channel=2,height=1,width=1")]
pub struct GrainError {
    text: String,
    problem: String,
}

impl FromStr for Grain {
    type Err = GrainError;

    fn from_str(text: &str) -> Result<Self, GrainError> {
        if text == "auto" {
            return Ok(Grain::Auto);
        }
        if text.contains('/') {
            let fixed = |part: &str| match part.parse()? {
                Grain::Auto => Ok(None),
                Grain::Fixed(parts) => Ok(Some(parts)),
                Grain::Layers(_) => Err(GrainError {
                    text: text.to_string(),
                    problem: format!("`{part}` is not the grain of one layer"),
                }),
            };
            let all: Result<_, GrainError> = text.split('/').map(fixed).collect();
            return all.map(Grain::Layers);
        }
        let wrong = |problem: String| GrainError {
            text: text.to_string(),
            problem,
        };
        let mut parts = Parts::ONE;
        for item in text.split(',') {
            let (key, value) = item
                .split_once('=')
                .ok_or_else(|| wrong(format!("`{item}` has no `=`")))?;
            let n: usize = match value.trim().parse() {
                Ok(n) if n > 0 => n,
                _ => return Err(wrong(format!("`{value}` is not a number of parts"))),
            };
            match key.trim() {
                "sample" => parts.sample = n,
                "channel" => parts.channel = n,
                "height" => parts.height = n,
                "width" => parts.width = n,
                other => return Err(wrong(unknown("dimension", other, &DIMENSIONS))),
            }
        }
        Ok(Grain::Fixed(parts))
    }
}

impl std::fmt::Display for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Parts {
            sample,
            channel,
            height,
            width,
        } = self;
        write!(
            f,
            "sample={sample},channel={channel},height={height},width={width}"
        )
    }
}

/// As it is read; grains chosen by layer are listed one after another, in the order of the layers.
impl std::fmt::Display for Grain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Grain::Auto => f.write_str("auto"),
            Grain::Fixed(parts) => parts.fmt(f),
            Grain::Layers(all) => {
                let text = |p: &Option<Parts>| p.map_or("auto".into(), |p| p.to_string());
                let mut all: Vec<String> = all.iter().map(text).collect();
                if all.len() < 2 {
                    all.resize(2, "auto".into());
                }
                f.write_str(&all.join("/"))
            }
        }
    }
}

impl Grain {
    /// For people: how many kinds of cuts, where layers have their own.
    pub fn in_short(&self) -> String {
        match self {
            Grain::Layers(all) => {
                let mut kinds = all.clone();
                kinds.sort_unstable();
                kinds.dedup();
                format!("by layer, {} kinds", kinds.len())
            }
            other => other.to_string(),
        }
    }
}

/// Operations one task should have, about: some tens of microseconds on one core.
const TASK_FLOPS: f64 = 1.5e6;

/// Elements one elementwise task should touch, about.
const TASK_ELEMENTS: f64 = 48e3;

/// Most tasks a layer is cut into by default.
const MOST: usize = 16;

/// Most blocks: as many as a reduction has accumulators by default, so that none of them spans two.
const MOST_BLOCKS: usize = 4;

/// Operations of a step, for each of its parameters, that a block is worth: cutting every layer once more costs some
/// microseconds for each of them, and may cost a hundredth of the step.
const BLOCK_FLOPS: f64 = 3.5e6;

/// Samples, or positions, that a block of a layer with many weights has at least: with fewer, writing and merging
/// one more sum of gradients takes longer than computing it.
const BLOCK_SAMPLES: usize = 32;

/// Tasks for this much work, a power of two: so pieces of the batch of one layer are unions of another's.
fn wanted(work: f64, per_task: f64) -> usize {
    let tasks = ((work / per_task).round() as usize).clamp(1, MOST);
    let below = power_of_two(tasks);
    // The nearer of the two by ratio.
    if tasks * tasks > 2 * below * below {
        2 * below
    } else {
        below
    }
}

/// The largest power of two that is not above.
fn power_of_two(n: usize) -> usize {
    1 << n.max(1).ilog2()
}

/// Blocks of the batch: every layer is cut into at least so many parts by samples where its weights allow, and nodes of
/// a cluster share the batch between parts. Few where a step has little work.
pub(crate) fn blocks(model: &Model, batch: usize) -> usize {
    let trained = model.params().iter().filter(|p| p.role.is_trained());
    let (mut flops, mut count) = (0.0, 0.0);
    for p in trained {
        let out = model.extents()[p.layer + 1];
        let positions = out.len() / out.channels();
        // Forward, and both gradients.
        flops += 3.0 * 2.0 * (p.len() * positions * batch) as f64;
        count += 1.0;
    }
    let worth = flops / (BLOCK_FLOPS * f64::max(count, 1.0));
    power_of_two((worth as usize).min(MOST_BLOCKS).min(batch))
}

/// Tasks of an elementwise layer over `elements` elements of a batch of so many blocks.
pub(crate) fn light(batch: usize, elements: usize, blocks: usize) -> Parts {
    let sample = wanted(elements as f64, TASK_ELEMENTS).max(blocks);
    Parts {
        sample: sample.min(power_of_two(batch)),
        ..Parts::ONE
    }
}

/// Parts of the batch that no micro-batch's border cuts: about as many as wanted, the same in every micro-batch. As many as
/// wanted where these fit already.
pub(crate) fn aligned(wanted: usize, batch: usize, micro_batches: usize) -> usize {
    if micro_batches == 1 {
        return wanted;
    }
    let samples = batch / micro_batches;
    let each = wanted.clamp(1, batch).div_ceil(micro_batches);
    let ratio = |n: usize| n.max(each) as f64 / n.min(each) as f64;
    let divisors = (1..=samples).filter(|n| samples.is_multiple_of(*n));
    let nearest = divisors.min_by(|&a, &b| ratio(a).total_cmp(&ratio(b)));
    micro_batches * nearest.unwrap_or(1)
}

/// Tasks of the loss of a batch of so many blocks.
pub(crate) fn loss(batch: usize, blocks: usize) -> usize {
    power_of_two((batch / 32).clamp(blocks, MOST))
}

/// A convolution's numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conv {
    /// Samples.
    pub batch: usize,
    /// Blocks of the batch.
    pub blocks: usize,
    /// Channels in and out.
    pub channels: [usize; 2],
    /// Kernel positions.
    pub taps: usize,
    /// Output positions per sample.
    pub positions: usize,
}

impl Conv {
    fn flops(&self) -> f64 {
        2.0 * (self.batch * self.channels[0] * self.channels[1]) as f64
            * (self.taps * self.positions) as f64
    }

    /// Parts of the batch beyond which a task has too few positions to use the filter it reads well.
    fn most_samples(&self) -> usize {
        let pairs = self.channels[0] * self.channels[1];
        let least = match pairs {
            // With few inputs, each task turns the filter round and adds as many sums at the end: a
            // third as many positions hide that. Eight parts are always allowed.
            0..1024 if self.channels[0] < 12 => {
                let enough = self.batch * self.positions / 8;
                (pairs * self.taps / 3).min(enough).max(1)
            }
            0..1024 => 1,
            1024..16384 => 128,
            _ => 512,
        };
        power_of_two((self.batch * self.positions / least).clamp(1, self.batch))
    }

    /// Parts for the forward pass, with `others` channels to cut (the output's, or for the input's
    /// gradient the input's).
    pub(crate) fn parts(&self, others: usize) -> Parts {
        let tasks = wanted(self.flops(), TASK_FLOPS);
        let sample = tasks.max(self.blocks).min(self.most_samples());
        let channel = (tasks / sample).clamp(1, (others / 64).max(1));
        Parts {
            sample,
            channel,
            ..Parts::ONE
        }
    }

    /// Parts for the filter's gradient. Cutting by channel needs no accumulators; worth it as soon as
    /// the filter is large.
    pub(crate) fn filter_parts(&self) -> Parts {
        let tasks = wanted(self.flops(), TASK_FLOPS);
        let weights = self.channels[0] * self.channels[1] * self.taps;
        let channel = if weights >= 64 << 10 {
            power_of_two((self.channels[1] / 32).clamp(1, 8)).min(tasks)
        } else {
            1
        };
        let sample = tasks.div_ceil(channel).min(self.most_samples());
        Parts {
            sample,
            channel,
            ..Parts::ONE
        }
    }
}

/// Tasks of a fully connected layer: small weights are shared by parts of the batch, large ones are cut, too, and have no
/// more parts by samples than there are blocks. However many those are, parts by features stay narrow: with few samples
/// and many features, a product takes longer to arrange than to compute.
pub(crate) fn linear(batch: usize, features: [usize; 2], blocks: usize) -> Parts {
    let weights = features[0] * features[1];
    let tasks = wanted(2.0 * (batch * weights) as f64, TASK_FLOPS);
    if weights < 64 << 10 {
        return Parts {
            sample: tasks.max(blocks).min(power_of_two(batch)),
            ..Parts::ONE
        };
    }
    let sample = power_of_two(batch / BLOCK_SAMPLES).min(blocks);
    Parts {
        sample,
        channel: tasks.min((features[1] / 16).max(1)),
        ..Parts::ONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grains_are_read() {
        assert_eq!("auto".parse(), Ok(Grain::Auto));
        let parts = Parts {
            sample: 8,
            channel: 2,
            height: 1,
            width: 3,
        };
        assert_eq!(
            "sample=8, channel=2,width=3".parse(),
            Ok(Grain::Fixed(parts))
        );
        assert_eq!(parts.to_string().parse(), Ok(Grain::Fixed(parts)));
        let layers = Grain::Layers(vec![None, Some(parts), None]);
        assert_eq!(layers.to_string().parse(), Ok(layers));
        for (text, says) in [
            ("auto/x", "no `=`"),
            ("x", "no `=`"),
            ("sample=0", "not a number"),
            ("depth=2", "unknown dimension"),
        ] {
            let error = text.parse::<Grain>().unwrap_err().to_string();
            assert!(
                error.contains(says) && error.contains("sample=8"),
                "{error}"
            );
        }
    }

    #[test]
    fn small_layers_are_one_task_and_large_ones_many() {
        assert_eq!(linear(10, [676, 10], 1), Parts::ONE);
        let conv = Conv {
            batch: 32,
            blocks: 1,
            channels: [64, 64],
            taps: 9,
            positions: 1024,
        };
        assert_eq!(conv.parts(64).sample, 16);
        // The second convolution of LeNet-5, and the small CNN's: the first has many weights.
        let narrow = Conv {
            batch: 64,
            blocks: 1,
            channels: [6, 16],
            taps: 25,
            positions: 100,
        };
        assert_eq!(narrow.parts(16).sample, 8);
        let light = Conv {
            batch: 64,
            blocks: 1,
            channels: [1, 4],
            taps: 9,
            positions: 676,
        };
        assert_eq!(light.parts(4).sample, 2);
        let deep = Conv {
            batch: 32,
            blocks: 1,
            channels: [512, 512],
            taps: 9,
            positions: 16,
        };
        assert_eq!((deep.parts(512).sample, deep.parts(512).channel), (1, 8));
        assert!(deep.filter_parts().channel > 1);
    }
}
