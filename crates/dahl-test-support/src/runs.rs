//! Training runs that PyTorch made, to compare with: the images and first weights of `make_runs.py` (fixtures of
//! `dahl-nn`), and running a session on the real runtime.

// Fields are those of the fixtures and of settings, by their names.
#![allow(missing_docs)]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dahl_core::{DType, Executor};
use dahl_data::{DataError, DataSpec, Dataset, InMemory, Source, Split};
use dahl_nn::losses::{Loss, Targets};
use dahl_nn::model::{Model, Role};
use dahl_nn::optim::Optimizer;
use dahl_nn::step::Step;
use dahl_nn::train::{Session, Totals, Training};
use dahl_nn::weights::{Data, Tensor, Weights};
use dahl_runtime::Runtime;

/// A run that PyTorch made.
#[derive(Clone, serde::Deserialize)]
pub struct Case {
    pub name: String,
    pub toml: String,
    pub count: usize,
    pub batch: usize,
    pub epochs: u64,
    pub lr: f64,
    pub optimizer: Optimizer,
    #[serde(default)]
    pub loss: Loss,
    pub classes: usize,
    pub clip: Option<f64>,
    /// Parts that a batch is computed in; one unless given.
    pub accumulate: Option<usize>,
    /// The decay of the average of weights that is evaluated and kept.
    pub ema: Option<f64>,
    #[serde(default)]
    pub shipped: bool,
    /// Mean loss of every epoch.
    pub losses: Vec<f64>,
    /// Correct predictions in every epoch.
    pub correct: Vec<f64>,
    /// Mean loss on the same images at the end, in evaluation.
    pub evaluated: f64,
    /// For `models.json`: the precision, and what is kept of the last weights.
    pub dtype: Option<String>,
    #[serde(default)]
    pub tensors: BTreeMap<String, Digest>,
    /// One of the deepest models: a step on CPUs is enough.
    #[serde(default)]
    pub deep: bool,
}

/// As `digest` of `make_models.py`.
#[derive(Clone, serde::Deserialize)]
pub struct Digest {
    mean: f64,
    rms: f64,
    values: Vec<f64>,
}

#[derive(serde::Deserialize)]
struct File {
    torch: String,
    cases: Vec<Case>,
}

pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../dahl-nn/tests/fixtures")
}

fn read(file: &str) -> Vec<Case> {
    let text =
        std::fs::read_to_string(fixtures().join(file)).expect("fixtures are in the repository");
    let file: File = serde_json::from_str(&text).expect("the scripts write JSON");
    assert!(!file.torch.is_empty());
    file.cases
}

/// All runs of the fixtures.
pub fn cases() -> Vec<Case> {
    let cases = read("runs.json");
    assert!(cases.len() >= 10);
    cases
}

impl Digest {
    /// Of a tensor's values.
    fn of(values: &[f64]) -> Digest {
        let n = values.len() as f64;
        Digest {
            mean: values.iter().sum::<f64>() / n,
            rms: (values.iter().map(|v| v * v).sum::<f64>() / n).sqrt(),
            values: (0..8).map(|i| values[i * (values.len() - 1) / 7]).collect(),
        }
    }

    /// Root mean square of the differences from `other`, as parts of its size.
    fn apart(&self, other: &Digest) -> f64 {
        let size = other.rms.max(1e-3);
        let pairs = self.values.iter().zip(&other.values);
        let pairs = pairs.chain([(&self.mean, &other.mean), (&self.rms, &other.rms)]);
        let squares: Vec<f64> = pairs.map(|(a, b)| ((a - b) / size).powi(2)).collect();
        (squares.iter().sum::<f64>() / squares.len() as f64).sqrt()
    }
}

/// How far two sets of digests are apart: the root mean square over tensors.
fn apart(a: &BTreeMap<String, Digest>, b: &BTreeMap<String, Digest>) -> f64 {
    assert!(a.keys().eq(b.keys()), "the same tensors");
    let squares = a.iter().map(|(key, d)| d.apart(&b[key]).powi(2));
    (squares.sum::<f64>() / a.len() as f64).sqrt()
}

/// The model whose fifty batch norms of few values magnify rounding: PyTorch's single precision is as far from its double
/// precision as ours. Single, then double.
const MAGNIFIES: &str = "mobilenet-v2-32";

fn compared(deep: bool) -> Vec<(Case, DType, f64)> {
    let cases = read("models.json").into_iter();
    let all = cases.filter(|case| case.deep == deep);
    all.map(|case| match case.dtype.as_deref() {
        Some("f64") => (case, DType::F64, 1e-9),
        _ => (case, DType::F32, 1e-3),
    })
    .filter(|(case, dtype, _)| (case.name.as_str(), *dtype) != (MAGNIFIES, DType::F32))
    .collect()
}

/// Runs of the models that come with the project, with their precision and how near two runs of it are.
pub fn models() -> Vec<(Case, DType, f64)> {
    let all = compared(false);
    assert_eq!(all.len(), 15, "eight models, all but one in two precisions");
    all
}

/// The same of the deepest ones.
pub fn deep_models() -> Vec<(Case, DType, f64)> {
    let all = compared(true);
    assert_eq!(all.len(), 8, "four models in two precisions");
    all
}

/// A run whose steps magnify rounding: as PyTorch made it in single and in double precision.
pub fn magnified() -> [Case; 2] {
    let of = |dtype: &str| {
        let mut cases = read("models.json").into_iter();
        cases.find(|c| c.name == MAGNIFIES && c.dtype.as_deref() == Some(dtype))
    };
    ["f32", "f64"].map(|dtype| of(dtype).expect("make_models.py made it"))
}

/// How far a run's weights are from a case's.
pub fn run_apart(run: &Run, case: &Case) -> f64 {
    let digests = run.weights.iter();
    let digests = digests.map(|(key, t)| (key.clone(), Digest::of(&t.data.to_f64())));
    apart(&digests.collect(), &case.tensors)
}

/// How far two cases' weights are apart.
pub fn cases_apart(a: &Case, b: &Case) -> f64 {
    apart(&a.tensors, &b.tensors)
}

pub fn case(name: &str) -> Case {
    cases()
        .into_iter()
        .find(|c| c.name == name)
        .expect("a case of make_runs.py")
}

/// As `noise` of `make_runs.py`.
pub fn noise(stream: u64, i: u64) -> u64 {
    let mut z = stream
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .wrapping_add(i.wrapping_mul(0xD1B5_4A32_D192_ED03))
        .wrapping_add(0x632B_E59B_D9B4_E019);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// As `images` of `make_runs.py`.
struct Bands {
    shape: [usize; 3],
    count: usize,
    classes: usize,
}

impl Dataset for Bands {
    fn name(&self) -> &str {
        "bands"
    }

    fn len(&self) -> usize {
        self.count
    }

    fn classes(&self) -> usize {
        self.classes
    }

    fn shape(&self) -> [usize; 3] {
        self.shape
    }

    fn read(&self, index: usize, pixels: &mut [u8]) -> Result<usize, DataError> {
        let label = (noise(1, index as u64) >> 8) as usize % self.classes;
        let (size, width) = (pixels.len(), self.shape[2]);
        for (j, pixel) in pixels.iter_mut().enumerate() {
            let band = (j / width) % self.classes == label;
            *pixel = (noise(2, (index * size + j) as u64) & 127) as u8 + if band { 128 } else { 0 };
        }
        Ok(label)
    }
}

/// As `set_weights` of `make_runs.py`.
pub fn first_weights(model: &Model) -> Weights {
    let mut weights = Weights::new();
    for (place, param) in model.params().iter().enumerate() {
        let n: usize = param.shape.iter().product();
        let inputs: usize = param.shape.iter().skip(1).product();
        let mut bound = 1.0;
        while bound * bound * inputs as f64 > 4.0 {
            bound /= 2.0;
        }
        let scale = param.shape.len() == 1 && param.key.ends_with("weight");
        let value = |i| {
            ((noise(16 + place as u64, i) >> 40) as f64 / 16_777_216.0 - 0.5) * bound
                + f64::from(u8::from(scale))
        };
        let data = match param.role {
            Role::Buffer => Data::F64(vec![f64::from(u8::from(param.name == "running_var")); n]),
            Role::Counter => Data::I64(vec![0]),
            Role::Trained => Data::F64((0..n as u64).map(value).collect()),
        };
        weights.insert(
            param.key.clone(),
            Tensor::new(param.shape.clone(), data).expect("as many as the shape says"),
        );
    }
    weights
}

/// How to execute.
#[derive(Clone)]
pub struct How {
    pub workers: usize,
    pub policy: &'static str,
    pub grain: &'static str,
    pub dtype: DType,
    pub shuffle: bool,
}

impl Default for How {
    fn default() -> Self {
        How {
            workers: 2,
            policy: "ws",
            grain: "auto",
            dtype: DType::F64,
            shuffle: false,
        }
    }
}

impl How {
    pub fn runtime(&self) -> Runtime {
        Runtime::builder()
            .workers(self.workers)
            .policy(self.policy)
            .build()
            .expect("a runtime")
    }
}

/// As `values` of `make_runs.py`.
pub fn value(i: usize) -> f64 {
    (noise(4, i as u64) >> 40) as f64 / 16_777_216.0
}

/// The case's images with what its loss compares their outputs with.
pub fn source(case: &Case) -> Source {
    let images = data(case);
    if case.loss.targets() == Targets::Classes {
        return images.into();
    }
    let (shape, size) = (images.shape(), images.shape().iter().product::<usize>());
    let mut pixels = vec![0u8; case.count * size];
    for (i, sample) in pixels.chunks_exact_mut(size).enumerate() {
        images.read(i, sample).expect("an image");
    }
    let model = Model::from_toml(&case.toml, &case.name).expect("a model");
    let values: Vec<f64> = (0..case.count * model.classes()).map(value).collect();
    InMemory::new(shape, pixels, values)
        .expect("as many values")
        .into()
}

pub fn data(case: &Case) -> Arc<dyn Dataset> {
    let model = Model::from_toml(&case.toml, &case.name).expect("a model");
    if !case.shipped {
        return Arc::new(Bands {
            shape: model.input,
            count: case.count,
            classes: case.classes,
        });
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dahl-data/fashion-mnist-small");
    let spec = DataSpec::parse(&format!("idx:{}", folder.display())).expect("a specification");
    Arc::from(
        dahl_data::open(&spec, Split::Train, model.input, Some(case.count), &[])
            .expect("the shipped images"),
    )
}

/// A session of a case, its weights not yet set.
pub fn session(case: &Case, how: &How) -> Session {
    let model = Model::from_toml(&case.toml, &case.name).expect("a model");
    let step = Step::new(model)
        .batch(case.batch)
        .dtype(how.dtype)
        .grain(how.grain.parse().expect("a grain"))
        .optimizer(case.optimizer.clone())
        .loss(case.loss.clone())
        .clip_norm(case.clip)
        .accumulate(case.accumulate.unwrap_or(1))
        .ema(case.ema)
        .seed(7);
    let training = Training {
        epochs: case.epochs,
        rate: Some(case.lr),
        shuffle: how.shuffle,
        ..Training::default()
    };
    Session::new(step, training).expect("a session")
}

/// What a run leaves.
pub struct Run {
    pub epochs: Vec<Totals>,
    pub evaluated: Totals,
    pub weights: Weights,
}

/// Trains from the case's first weights.
pub fn run(case: &Case, how: &How) -> Run {
    run_on(&mut how.runtime(), &mut session(case, how), case)
}

/// As [`run`], on the caller's executor.
pub fn run_on(runtime: &mut dyn Executor, session: &mut Session, case: &Case) -> Run {
    let first = first_weights(session.model());
    session
        .set_weights(runtime, &first)
        .expect("the weights fit");
    finish(session, runtime, case)
}

/// Trains to the end.
pub fn finish(session: &mut Session, runtime: &mut dyn Executor, case: &Case) -> Run {
    let history = session
        .run(runtime, source(case), None, &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let evaluated = session
        .evaluate(runtime, source(case))
        .expect("an evaluation");
    Run {
        epochs: history.iter().map(|e| e.train).collect(),
        evaluated,
        weights: session.weights(runtime).expect("weights"),
    }
}

/// Starts like [`run`] but leaves the session to the caller.
pub fn start(case: &Case, how: &How, runtime: &mut Runtime) -> Session {
    let mut session = session(case, how);
    let first = first_weights(session.model());
    session
        .set_weights(runtime, &first)
        .expect("the weights fit");
    session
}

/// Panics unless the weights are the same to `tolerance`, relative for values above one.
pub fn assert_close(name: &str, got: &Weights, want: &Weights, tolerance: f64) {
    assert_eq!(
        got.keys().collect::<Vec<_>>(),
        want.keys().collect::<Vec<_>>(),
        "{name}"
    );
    for (key, want) in want {
        let got = &got[key];
        assert_eq!(got.shape, want.shape, "{name}: {key}");
        for (i, (g, w)) in got.data.to_f64().iter().zip(want.data.to_f64()).enumerate() {
            let error = (g - w).abs() / w.abs().max(1.0);
            assert!(
                error <= tolerance,
                "{name}: {key}[{i}] is {g}, not {w}: {error:e}"
            );
        }
    }
}

/// Panics unless a run of a model is what PyTorch made of it: losses, and what is kept of the weights, compared
/// with the size of the values of each tensor.
pub fn assert_as_kept(name: &str, got: &Run, case: &Case, tolerance: f64) {
    let near = |what: &str, got: f64, want: f64, size: f64| {
        let error = (got - want).abs();
        // What is not a number is not near.
        let is_near = error <= tolerance * size;
        assert!(
            is_near,
            "{name}: {what} is {got}, not {want}: {error:e} of {size}"
        );
    };
    let losses: Vec<f64> = got.epochs.iter().map(Totals::mean_loss).collect();
    assert_eq!(losses.len(), case.losses.len(), "{name}");
    for (loss, &want) in losses.into_iter().zip(&case.losses) {
        near("the loss", loss, want, want);
    }
    let evaluated = got.evaluated.mean_loss();
    near(
        "the loss at the end",
        evaluated,
        case.evaluated,
        case.evaluated,
    );
    let keys = |all: &mut dyn Iterator<Item = &String>| all.cloned().collect::<Vec<_>>();
    let mut kept = case.tensors.keys();
    assert_eq!(keys(&mut got.weights.keys()), keys(&mut kept), "{name}");
    for (key, want) in &case.tensors {
        let values = got.weights[key].data.to_f64();
        let (ours, size) = (Digest::of(&values), want.rms.max(1e-3));
        near(&format!("{key}'s mean"), ours.mean, want.mean, size);
        near(&format!("{key}'s size"), ours.rms, want.rms, size);
        for (i, (&ours, &w)) in ours.values.iter().zip(&want.values).enumerate() {
            let at = i * (values.len() - 1) / 7;
            near(&format!("{key}[{at}]"), ours, w, size);
        }
    }
}
