//! Values against torchvision's functions; random decisions against what they are meant to be.

use std::sync::Arc;

use serde_json::Value;

use super::*;
use crate::{Batches, DataSpec, Dataset, Expects, InMemory, Normalise, Split, open};

fn noise(i: u64) -> u64 {
    let z = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    crate::random::finalise(z.wrapping_add(0x632b_e59b_d9b4_e019))
}

fn image([c, h, w]: [usize; 3]) -> Vec<u8> {
    (0..(c * h * w) as u64).map(|i| noise(i) as u8).collect()
}

fn fixtures() -> Value {
    serde_json::from_str(include_str!("../tests/fixtures/augment.json")).unwrap()
}

fn floats(value: &Value) -> Vec<f64> {
    let list = value.as_array().unwrap();
    list.iter().map(|v| v.as_f64().unwrap()).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn transforms_give_the_bytes_of_torchvision() {
    let rows = fixtures();
    let rows = rows["rows"].as_array().unwrap();
    assert!(rows.len() > 30);
    for row in rows {
        let name = row["name"].as_str().unwrap();
        let numbers = floats(&row["numbers"]);
        let shape: Vec<usize> = floats(&row["shape"]).iter().map(|&n| n as usize).collect();
        let shape = [shape[0], shape[1], shape[2]];
        let (from, mut to) = (image(shape), image(shape));
        match name {
            "flip" => geometry::flip(&mut to, shape[2]),
            "crop" => {
                let by = [numbers[1] - numbers[0], numbers[2] - numbers[0]].map(|n| n as i64);
                geometry::shift(&from, &mut to, shape, by, 0);
            }
            "rotate" => geometry::rotate(&from, &mut to, shape, numbers[0], 0),
            "brightness" => colour::brightness(&mut to, numbers[0]),
            "contrast" => colour::contrast(&mut to, shape[0], numbers[0]),
            _ => {
                let mut values: Vec<f32> = from.iter().map(|&b| f32::from(b)).collect();
                let part = [0, 1, 2, 3].map(|i| numbers[i] as usize);
                mix::erase(&mut values, shape, part);
                to = values.iter().map(|&v| v as u8).collect();
            }
        }
        let expected = unhex(row["pixels"].as_str().unwrap());
        assert_eq!(to, expected, "{name} {numbers:?} of {shape:?}");
    }
}

#[test]
fn mixing_gives_the_values_of_torchvision() {
    for row in fixtures()["mixed"].as_array().unwrap() {
        let lambda = row["lambda"].as_f64().unwrap();
        let sample = |i: usize| {
            let bytes = image([1, 2, 3]).into_iter();
            bytes.map(move |b| f32::from(b) / 255.0 * (i + 1) as f32)
        };
        let batch: Vec<Vec<f32>> = (0..3).map(|i| sample(i).collect()).collect();
        let mut mixed = Vec::new();
        for i in 0..3 {
            let mut own = batch[i].clone();
            blend(&mut own, &batch[(i + 2) % 3], lambda);
            mixed.extend(own);
        }
        let expected: Vec<f32> = floats(&row["values"]).iter().map(|&v| v as f32).collect();
        assert_eq!(mixed, expected, "{lambda}");
        // Labels are mixed as samples are.
        let share = |class: usize| {
            (0..4)
                .map(|c| if c == class { 1.0 } else { 0.0 })
                .collect::<Vec<f32>>()
        };
        let mut shares = [2, 0, 1].map(share);
        let before = shares.clone();
        for (i, row) in shares.iter_mut().enumerate() {
            blend(row, &before[(i + 2) % 3], lambda);
        }
        let expected: Vec<f32> = floats(&row["labels"]).iter().map(|&v| v as f32).collect();
        assert_eq!(shares.concat(), expected, "{lambda}");
    }
}

#[test]
fn pipelines_are_read_and_printed_back() {
    let text = "flip:0.25,crop:4,rotate:10,brightness:0.2,contrast:0.3,erase:0.5,mixup:0.4";
    let all: Augment = text.parse().unwrap();
    assert_eq!(all.to_string(), text);
    assert_eq!(Augment::new(all.transforms.clone()).unwrap(), all);
    assert_eq!(all.mixup(), Some(0.4));
    assert!("".parse::<Augment>().unwrap().is_empty());
    for (text, part) in [
        ("flap", "did you mean \"flip\"?"),
        ("crop", "`crop` needs a number"),
        ("crop:1.5", "crop takes a whole number from 1 to 4096"),
        ("flip:2", "flip takes a number from 0 to 1"),
        ("rotate:nan", "rotate takes a number from 0 to 180"),
        ("erase,flip", "put them last"),
        ("mixup:0.2,erase", "mixup comes last"),
        ("mixup:0.2,mixup:0.2", "mixup comes last, and once"),
        ("flip,,crop:1", "unknown transform"),
    ] {
        let error = text.parse::<Augment>().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn lambda_has_the_moments_of_its_distribution() {
    for alpha in [0.2, 1.0, 3.0] {
        let draws: Vec<f64> = (0..20_000)
            .map(|i| lambda(&mut Draw::new(noise(i)), alpha))
            .collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let spread = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        let expected = 1.0 / (4.0 * (2.0 * alpha + 1.0));
        assert!((mean - 0.5).abs() < 0.01, "{alpha}: {mean}");
        assert!((spread / expected - 1.0).abs() < 0.05, "{alpha}: {spread}");
    }
}

/// Flip and crop as one decision of fifty, seen in where the pixels of a sample come from.
#[test]
fn flips_and_crops_are_uniform_and_depend_on_nothing() {
    const SAMPLES: usize = 100;
    let pixels: Vec<f32> = (0..49).map(|v| v as f32 + 1.0).collect();
    let samples = InMemory::new([1, 7, 7], pixels.repeat(SAMPLES), vec![0usize; SAMPLES]);
    let batches = Batches::<f32>::new(samples.unwrap(), SAMPLES).unwrap();
    let mut batches = batches
        .augmented(&"flip,crop:2".parse().unwrap(), 5)
        .unwrap();
    let mut drawn = Vec::new();
    for epoch in 0..200 {
        let (mut inputs, mut targets) = (Vec::new(), Vec::new());
        batches.fill(epoch, 0, &mut inputs, &mut targets).unwrap();
        for sample in inputs.chunks(49) {
            let middle = sample[3 * 7 + 3] as usize - 1;
            let is_flipped = sample[3 * 7 + 4] < sample[3 * 7 + 3];
            let (down, right) = (middle / 7 - 1, middle % 7 - 1);
            drawn.push((down * 5 + right) * 2 + usize::from(is_flipped));
        }
    }
    // χ² of a table of two decisions has about as many degrees of freedom as cells, and a deviation of √(2 · cells).
    let fits = |what: &str, cells: usize, pairs: &mut dyn Iterator<Item = usize>| {
        let mut seen = vec![0.0; cells];
        pairs.for_each(|cell| seen[cell] += 1.0);
        let expected = seen.iter().sum::<f64>() / cells as f64;
        let chi: f64 = seen.iter().map(|n| (n - expected).powi(2) / expected).sum();
        let cells = cells as f64;
        assert!(
            (chi - cells).abs() < 4.0 * (2.0 * cells).sqrt(),
            "{what}: {chi}"
        );
    };
    fits("one", 50, &mut drawn.iter().copied());
    for (what, apart) in [("neighbours", 1), ("epochs", SAMPLES)] {
        let pairs = drawn.iter().zip(&drawn[apart..]);
        fits(what, 2500, &mut pairs.map(|(a, b)| a * 50 + b));
    }
}

#[test]
fn erased_parts_are_inside_and_as_large_as_promised() {
    let mut areas = Vec::new();
    for i in 0..5_000 {
        let shape = [3, 32, 48];
        let [top, left, h, w] = mix::rectangle(&mut Draw::new(noise(i)), shape).unwrap();
        assert!(top + h <= 32 && left + w <= 48 && h > 0 && w > 0);
        areas.push((h * w) as f64 / (32.0 * 48.0));
    }
    let mean = areas.iter().sum::<f64>() / areas.len() as f64;
    assert!((0.14..0.19).contains(&mean), "{mean}");
    assert_eq!(mix::rectangle(&mut Draw::new(1), [1, 1, 1]), None);
}

fn clothes() -> Arc<dyn Dataset> {
    let spec = DataSpec::FashionMnistSmall;
    let data = open(&spec, Split::Train, [1, 28, 28], Some(10), &[]).unwrap();
    data.into()
}

fn batches(pipeline: &str, seed: u64) -> Batches<f32> {
    let batches = Batches::new(clothes(), 4).unwrap().shuffled(1);
    let batches = batches.expecting(Expects::Shares(10)).unwrap();
    let batches = batches.normalised(&"0.286/0.353".parse().unwrap()).unwrap();
    batches.augmented(&pipeline.parse().unwrap(), seed).unwrap()
}

const ALL: &str = "flip,crop:3,rotate:10,brightness:0.4,contrast:0.4,erase,mixup:0.4";

#[test]
fn parts_of_a_batch_are_those_of_the_whole() {
    let mut all = batches(ALL, 3);
    let (mut inputs, mut targets) = (Vec::new(), Vec::new());
    for batch in 0..3 {
        let n = all.fill(2, batch, &mut inputs, &mut targets).unwrap();
        assert_eq!(n, [4, 4, 2][batch]);
        for at in 0..n {
            let (mut one, mut label) = (Vec::new(), Vec::new());
            let part = at..at + 1;
            let mut other = batches(ALL, 3);
            other
                .fill_part(2, batch, part, &mut one, &mut label)
                .unwrap();
            assert_eq!(one, inputs[at * 784..][..784]);
            assert_eq!(label, targets[at * 10..][..10]);
        }
        // Shares add up to one, and mostly belong to two classes.
        for row in targets.chunks(10) {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6, "{row:?}");
        }
        let beyond = all.fill_part(2, batch, n..9, &mut inputs, &mut targets);
        assert_eq!((beyond.unwrap(), inputs.len()), (0, 0));
    }
}

#[test]
fn seeds_and_epochs_change_images_and_nothing_else_does() {
    let fill = |pipeline: &str, seed, epoch| {
        let (mut inputs, mut targets) = (Vec::new(), Vec::new());
        let mut batches = batches(pipeline, seed);
        batches.fill(epoch, 1, &mut inputs, &mut targets).unwrap();
        inputs
    };
    for pipeline in ALL.split(',') {
        let first = fill(pipeline, 3, 0);
        assert_eq!(first, fill(pipeline, 3, 0), "{pipeline}");
        assert_ne!(first, fill(pipeline, 3, 1), "{pipeline}");
        let others = (4..20).filter(|&seed| fill(pipeline, seed, 0) != first);
        assert!(others.count() > 8, "{pipeline}");
    }
    // A pipeline that can do nothing does nothing.
    assert_eq!(fill("flip:0,rotate:0,brightness:0", 1, 0), fill("", 1, 0));
}

#[test]
fn what_does_not_fit_is_refused() {
    let samples = InMemory::new([1, 2, 2], vec![0.5f32; 8], vec![0usize, 1]).unwrap();
    let batches = Batches::<f32>::new(samples, 2).unwrap();
    let refused = |text: &str| {
        let batches = batches.clone().augmented(&text.parse().unwrap(), 1);
        batches.err().unwrap().to_string()
    };
    assert!(refused("brightness:0.1").contains("these samples are arrays"));
    assert!(refused("mixup:0.1").contains("soft_cross_entropy"));
    assert!(
        batches
            .clone()
            .augmented(&"flip".parse().unwrap(), 1)
            .is_ok()
    );
    let identity = |b: Batches<f32>| b.identity();
    let plain = identity(batches.clone());
    let flipped = identity(batches.augmented(&"flip".parse().unwrap(), 1).unwrap());
    assert_eq!(
        plain.difference(&flipped).as_deref(),
        Some("the augmentation")
    );
    assert!(flipped.to_string().contains("augmented by flip:0.5"));
}

#[test]
fn measured_moments_are_those_of_the_pixels() {
    let data = clothes();
    let found = Normalise::measure(&*data).unwrap();
    let mut all = Vec::new();
    for i in 0..data.len() {
        let mut pixels = vec![0; 784];
        data.read(i, &mut pixels).unwrap();
        all.extend(pixels.iter().map(|&p| f64::from(p) / 255.0));
    }
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let spread = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / all.len() as f64;
    assert!((found.mean()[0] - mean).abs() <= 0.5e-4);
    assert!((found.std()[0] - spread.sqrt()).abs() <= 0.5e-4);
    assert_eq!(found.to_string().parse::<Normalise>().unwrap(), found);
    for text in ["", "1", "1/0", "nan/1", "1,2/3", "a/b", "1/1e-60"] {
        assert!(text.parse::<Normalise>().is_err(), "{text}");
    }
}
