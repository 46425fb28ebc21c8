//! Pipelines train as everything else does: synchronous schedules give the bits of training without one, wherever stages run;
//! asynchronous ones compute what a plain model of them does.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dahl_core::{DType, Executor, Graph};
use dahl_nn::train::{Session, Training};
use dahl_nn::weights::Weights;
use dahl_nn::{Model, Step};
use dahl_runtime::Runtime;
use dahl_runtime::network::{LinkSpeed, LocalNode, Member, local_cluster};
use dahl_sched::policy::Orders;
use dahl_test_support::runs::{Case, case, first_weights, source};
use dahl_tune::{Pipeline, Staging};

/// Layers of several kinds, with a value that two stages read.
const SKIPS: &str = r#"
name = "skips"
input = [3, 8, 8]
layers = [
    { type = "conv2d", out_channels = 16, kernel = 3, padding = 1 },
    { type = "batch_norm2d", norm_group = 4 },
    { type = "relu", name = "a" },
    { type = "conv2d", out_channels = 16, kernel = 3, padding = 1 },
    { type = "relu" },
    { type = "conv2d", out_channels = 16, kernel = 3, padding = 1, name = "b" },
    { type = "add", from = ["b", "a"] },
    { type = "max_pool2d", kernel = 2 },
    { type = "conv2d", out_channels = 8, kernel = 3 },
    { type = "dropout", p = 0.3 },
    { type = "flatten" },
    { type = "linear", out_features = 12 },
    { type = "relu" },
    { type = "linear", out_features = 5 },
]
"#;

/// A case with so many samples, and a last batch that is smaller.
fn skips(clip: Option<f64>) -> Case {
    let mut case = case("adam");
    case.toml = SKIPS.into();
    (case.count, case.batch, case.epochs, case.clip) = (40, 16, 2, clip);
    case
}

fn step_of(case: &Case, dtype: DType) -> Step {
    let model = Model::from_toml(&case.toml, &case.name).unwrap();
    Step::new(model)
        .batch(case.batch)
        .dtype(dtype)
        .optimizer(case.optimizer.clone())
        .clip_norm(case.clip)
        .seed(7)
}

/// Weights and losses after a run.
#[derive(PartialEq)]
struct Ran {
    weights: Weights,
    losses: Vec<f64>,
}

fn session(case: &Case, step: Step) -> Session {
    let training = Training {
        epochs: case.epochs,
        rate: Some(case.lr),
        shuffle: false,
        ..Training::default()
    };
    Session::new(step, training).unwrap()
}

fn train(case: &Case, step: Step, exec: &mut dyn Executor) -> Ran {
    let mut session = session(case, step);
    let first = first_weights(session.model());
    session.set_weights(exec, &first).unwrap();
    let history = session
        .run(exec, source(case), None, &mut |_| ControlFlow::Continue(()))
        .unwrap();
    let mut losses: Vec<f64> = history.iter().map(|e| e.train.loss).collect();
    losses.push(session.evaluate(exec, source(case)).unwrap().loss);
    Ran {
        weights: session.weights(exec).unwrap(),
        losses,
    }
}

fn plain(case: &Case, step: Step) -> Ran {
    let mut runtime = Runtime::builder().workers(2).pin(false).build().unwrap();
    train(case, step, &mut runtime)
}

/// On the units of one computer.
fn on_units(case: &Case, pipeline: &Pipeline, step: &Step, workers: usize) -> Ran {
    let staging = Arc::new(Staging::new(pipeline, step).unwrap());
    let (orders, make) = staging.orders(false);
    let mut runtime = Runtime::builder()
        .workers(workers)
        .pin(false)
        .orders(orders, make)
        .build()
        .unwrap();
    train(case, step.clone(), &mut runtime)
}

/// On nodes of a cluster; all must agree.
fn on_nodes(
    case: &Case,
    pipeline: &Pipeline,
    step: &Step,
    nodes: u16,
    shares: Option<&[f64]>,
) -> Ran {
    let node = |transport: LocalNode| {
        let staging = Arc::new(Staging::new(pipeline, step).unwrap());
        let (orders, make) = staging.orders(true);
        let runtime = Runtime::builder()
            .workers(2)
            .pin(false)
            .orders(orders, make)
            .network(Box::new(transport), Duration::from_secs(600))
            .build()
            .unwrap();
        let shares = staging.shares(usize::from(nodes), shares).unwrap();
        let stager = move |graph: &Graph| staging.stage(graph, &shares);
        let mut member = Member::with_stages(runtime, Box::new(stager)).unwrap();
        train(case, step.clone(), &mut member)
    };
    let mut all: Vec<Ran> = std::thread::scope(|scope| {
        let cluster = local_cluster(nodes, LinkSpeed::UNLIMITED);
        let threads: Vec<_> = cluster
            .into_iter()
            .map(|transport| scope.spawn(|| node(transport)))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let first = all.remove(0);
    assert!(all.iter().all(|other| *other == first), "nodes differ");
    first
}

#[test]
fn synchronous_schedules_give_the_bits_of_plain_training() {
    let clipped = skips(Some(0.5));
    let unclipped = skips(None);
    for name in [
        "gpipe",
        "1f1b",
        "interleaved",
        "zb-h1",
        "zb-h2",
        "zb-v",
        "auto",
    ] {
        for (stages, case) in [(1, &clipped), (2, &unclipped), (4, &clipped)] {
            let pipeline: Pipeline = format!("{stages}:{name}").parse().unwrap();
            let plain_step = step_of(case, DType::F32).micro_batches(4);
            let step = pipeline.adopt(plain_step.clone(), Some(4)).unwrap();
            assert_eq!(step.fingerprint(), plain_step.fingerprint());
            let want = plain(case, plain_step);
            for workers in [1, 2, 5] {
                let got = on_units(case, &pipeline, &step, workers);
                assert!(got == want, "{pipeline} on {workers} units");
            }
            for nodes in [2, 4] {
                let got = on_nodes(case, &pipeline, &step, nodes, None);
                assert!(got == want, "{pipeline} on {nodes} nodes");
            }
        }
    }
}

#[test]
fn replicas_share_a_stage_unevenly_with_the_same_bits() {
    let case = skips(Some(0.5));
    let plain_step = step_of(&case, DType::F32).micro_batches(4);
    let want = plain(&case, plain_step.clone());
    for (replicas, shares) in [
        (vec![3, 1], &[3.0, 1.0, 2.0, 1.0][..]),
        (vec![1, 2], &[1.0, 1.0, 5.0]),
    ] {
        let mut pipeline: Pipeline = "2:1f1b".parse().unwrap();
        pipeline.replicas = replicas;
        let step = pipeline.adopt(plain_step.clone(), Some(4)).unwrap();
        let nodes = shares.len() as u16;
        let got = on_nodes(&case, &pipeline, &step, nodes, Some(shares));
        assert!(got == want, "{:?}", pipeline.replicas);
        let got = on_units(&case, &pipeline, &step, shares.len());
        assert!(got == want, "{:?} units", pipeline.replicas);
    }
}

#[test]
fn statistics_over_the_whole_batch_serialise_and_keep_their_bits() {
    let mut case = case("residual");
    (case.count, case.batch, case.epochs) = (24, 8, 1);
    let pipeline: Pipeline = "4:zb-h1".parse().unwrap();
    let step = pipeline.adopt(step_of(&case, DType::F32), Some(4)).unwrap();
    let staging = Staging::new(&pipeline, &step).unwrap();
    let warning = staging.warning().expect("batch norm over the batch");
    assert!(
        warning.contains("stem.bn") && warning.contains("norm_group = 2"),
        "{warning}"
    );
    let want = plain(&case, step.clone());
    assert!(on_units(&case, &pipeline, &step, 4) == want, "units");
    assert!(on_nodes(&case, &pipeline, &step, 4, None) == want, "nodes");
    // With groups as large as micro-batches nobody waits.
    let grouped = skips(None);
    let step = pipeline
        .adopt(step_of(&grouped, DType::F32), Some(4))
        .unwrap();
    assert_eq!(Staging::new(&pipeline, &step).unwrap().warning(), None);
}

#[test]
fn micro_batches_of_aligned_blocks_leave_the_graph_alone() {
    for name in ["vgg-small", "small-cnn-512", "mlp"] {
        let model = dahl_nn::models::find(name.as_ref()).unwrap();
        let step = Step::new(model).batch(128);
        let graph = |m: usize| {
            let graph = step.clone().micro_batches(m).lower().unwrap().graph;
            graph.fingerprint()
        };
        let pipeline: Pipeline = "2".parse().unwrap();
        let adopted = pipeline.adopt(step.clone(), None).unwrap();
        assert!(adopted.micro_batches >= 2, "{name}");
        assert_eq!(graph(adopted.micro_batches), graph(1), "{name}");
    }
}

/// A pipeline without a flush, played through by hand: fully connected layers with tanh between them, cross-entropy, SGD with
/// momentum. Step `t` reads weights that are `delay` updates older than the newest ones of each layer, forward and
/// backward.
struct Plain {
    /// By step and layer: weights and biases.
    versions: Vec<Vec<(Vec<f64>, Vec<f64>)>>,
    speeds: Vec<(Vec<f64>, Vec<f64>)>,
    delays: Vec<usize>,
    sizes: Vec<usize>,
}

impl Plain {
    fn step(&mut self, images: &[(Vec<f64>, usize)], rate: f64, momentum: f64) {
        let now = self.versions.len() - 1;
        let layers = self.delays.len();
        let read = |l: usize| &self.versions[now.saturating_sub(self.delays[l])][l];
        let mut gradients: Vec<(Vec<f64>, Vec<f64>)> = self.speeds.clone();
        for (w, b) in &mut gradients {
            w.fill(0.0);
            b.fill(0.0);
        }
        for (image, class) in images {
            let mut values = vec![image.clone()];
            for l in 0..layers {
                let ((w, b), x) = (read(l), &values[l]);
                let y = (0..self.sizes[l + 1]).map(|o| {
                    let row = &w[o * x.len()..][..x.len()];
                    let sum: f64 = row.iter().zip(x).map(|(w, x)| w * x).sum();
                    let sum = sum + b[o];
                    if l + 1 < layers { sum.tanh() } else { sum }
                });
                values.push(y.collect());
            }
            let scores = &values[layers];
            let total: f64 = scores.iter().map(|s| s.exp()).sum();
            let share = |(o, s): (usize, &f64)| {
                (s.exp() / total - f64::from(u8::from(o == *class))) / images.len() as f64
            };
            let mut dy: Vec<f64> = scores.iter().enumerate().map(share).collect();
            for l in (0..layers).rev() {
                let ((w, _), x) = (read(l), &values[l]);
                let mut dx = vec![0.0; x.len()];
                for (o, d) in dy.iter().enumerate() {
                    gradients[l].1[o] += d;
                    for (i, x) in x.iter().enumerate() {
                        gradients[l].0[o * dx.len() + i] += d * x;
                        dx[i] += d * w[o * dx.len() + i];
                    }
                }
                dy = dx.iter().zip(x).map(|(d, y)| d * (1.0 - y * y)).collect();
            }
        }
        let mut next = self.versions[now].clone();
        for l in 0..layers {
            let (speed, gradient) = (&mut self.speeds[l], &gradients[l]);
            let (weights, biases) = &mut next[l];
            let rows = [
                (weights, &mut speed.0, &gradient.0),
                (biases, &mut speed.1, &gradient.1),
            ];
            for (w, v, g) in rows {
                for i in 0..w.len() {
                    v[i] = momentum * v[i] + g[i];
                    w[i] -= rate * v[i];
                }
            }
        }
        self.versions.push(next);
    }
}

/// Four fully connected layers of about the same size.
const LAYERS: &str = r#"
name = "layers"
input = [1, 4, 4]
layers = [
    { type = "flatten" },
    { type = "linear", out_features = 16, name = "w0" },
    { type = "tanh" },
    { type = "linear", out_features = 16, name = "w1" },
    { type = "tanh" },
    { type = "linear", out_features = 16, name = "w2" },
    { type = "tanh" },
    { type = "linear", out_features = 5, name = "w3" },
]
"#;

fn layers() -> Case {
    let mut case = case("plain");
    case.toml = LAYERS.into();
    (case.count, case.batch, case.epochs, case.lr) = (48, 8, 3, 0.3);
    case.optimizer = dahl_nn::optim::Sgd {
        momentum: 0.9,
        ..dahl_nn::optim::Sgd::default()
    }
    .into();
    case
}

fn by_hand(case: &Case, step: &Step) -> Weights {
    let mut first = first_weights(&step.model);
    let names = ["w0", "w1", "w2", "w3"];
    let parts = |weights: &Weights, name: &str| {
        let part = |kind| weights[&format!("{name}.{kind}")].data.to_f64();
        (part("weight"), part("bias"))
    };
    let start: Vec<_> = names.iter().map(|n| parts(&first, n)).collect();
    let delay = |layer: usize| step.delays.get(layer).copied().unwrap_or(0);
    let mut plain = Plain {
        speeds: (start.iter())
            .map(|(w, b)| (vec![0.0; w.len()], vec![0.0; b.len()]))
            .collect(),
        versions: vec![start],
        delays: [1, 3, 5, 7].map(delay).to_vec(),
        sizes: vec![16, 16, 16, 16, 5],
    };
    let data = dahl_test_support::runs::data(case);
    let mut images = Vec::new();
    for i in 0..case.count {
        let mut pixels = [0; 16];
        let class = data.read(i, &mut pixels).unwrap();
        let image = pixels.iter().map(|&p| f64::from(p) / 255.0).collect();
        images.push((image, class));
    }
    for _ in 0..case.epochs {
        for batch in images.chunks(case.batch) {
            plain.step(batch, case.lr, 0.9);
        }
    }
    let last = plain.versions.pop().unwrap();
    for (name, (w, b)) in names.iter().zip(last) {
        for (kind, values) in [("weight", w), ("bias", b)] {
            let tensor = first.get_mut(&format!("{name}.{kind}")).unwrap();
            tensor.data = dahl_nn::weights::Data::F64(values);
        }
    }
    first
}

#[test]
fn asynchronous_pipelines_are_the_plain_model_of_them() {
    let case = layers();
    let plain_step = step_of(&case, DType::F64);
    let synchronous = plain(&case, plain_step.clone());
    for (text, delays, m) in [
        ("pipedream:4", vec![3, 2, 1, 0], 1),
        ("pipedream:2", vec![1, 1, 0, 0], 1),
        ("pipedream-vertical:4", vec![3, 3, 3, 3], 1),
        ("2bw:4", vec![1, 1, 1, 1], 4),
        ("4:2bw", vec![1, 1, 1, 1], 1),
    ] {
        let pipeline: Pipeline = text.parse().unwrap();
        let step = pipeline.adopt(plain_step.clone(), Some(m)).unwrap();
        let of = |l: usize| step.delays.get(l).copied().unwrap_or(0);
        assert_eq!([1, 3, 5, 7].map(of).to_vec(), delays, "{text}");
        let want = by_hand(&case, &step);
        let got = plain(&case, step.clone());
        dahl_test_support::runs::assert_close(text, &got.weights, &want, 1e-11);
        assert!(got.weights != synchronous.weights, "{text} has a delay");
        for workers in [1, 4] {
            let other = on_units(&case, &pipeline, &step, workers);
            assert!(other == got, "{text} on {workers} units");
        }
        for nodes in [2, 4] {
            let other = on_nodes(&case, &pipeline, &step, nodes, None);
            assert!(other == got, "{text} on {nodes} nodes");
        }
    }
}

#[test]
fn older_versions_survive_a_checkpoint() {
    let mut case = skips(Some(0.5));
    case.epochs = 3;
    for text in ["pipedream:3", "pipedream-vertical:3", "2bw:2"] {
        let pipeline: Pipeline = text.parse().unwrap();
        let step = pipeline.adopt(step_of(&case, DType::F32), Some(2)).unwrap();
        let want = plain(&case, step.clone());
        let name = text.replace(':', "-");
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pipelines-{name}"));
        let _ = std::fs::remove_dir_all(&dir);
        // Nine steps of three in an epoch; the run is stopped after each number of them.
        for stop in [1, 2, 4, 7] {
            let mut exec = Runtime::builder().workers(2).pin(false).build().unwrap();
            let mut first = session(&case, step.clone());
            let weights = first_weights(first.model());
            first.set_weights(&mut exec, &weights).unwrap();
            let folder = dir.join(stop.to_string());
            first.checkpoint_to(dahl_nn::checkpoint::CheckpointFolder::new(&folder));
            let mut steps = 0;
            let watch = &mut |p: &mut dahl_nn::train::Progress<'_>| {
                steps += u32::from(matches!(p.event, dahl_nn::train::Event::Step { .. }));
                match steps >= stop {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            };
            first.run(&mut exec, source(&case), None, watch).unwrap();
            drop(exec);
            let mut exec = Runtime::builder().workers(3).pin(false).build().unwrap();
            let mut second = session(&case, step.clone());
            second.resume_from(&mut exec, &folder).unwrap();
            second
                .run(&mut exec, source(&case), None, &mut |_| {
                    ControlFlow::Continue(())
                })
                .unwrap();
            let got = second.weights(&mut exec).unwrap();
            assert!(got == want.weights, "{text}, stopped after {stop}");
            // Another delay is another run.
            let mut other = session(&case, step.clone().delays(Vec::new()));
            let error = other.resume_from(&mut exec, &folder).unwrap_err();
            assert!(error.to_string().contains("delays"), "{error}");
        }
    }
}

#[test]
fn bad_pipelines_are_refused_with_a_remedy() {
    let says = |text: &str| text.parse::<Pipeline>().unwrap_err();
    assert!(says("4:zb-h3").contains("zb-h"), "{}", says("4:zb-h3"));
    for text in ["", "0", "four", "4:", "1000", "pipedream", "pipedream:x"] {
        let error = says(text);
        assert!(error.contains("pipedream"), "{text}: {error}");
    }
    let case = layers();
    let step = step_of(&case, DType::F32);
    let refused = |text: &str, m: Option<usize>| {
        let pipeline: Pipeline = text.parse().unwrap();
        match pipeline.adopt(step.clone(), m) {
            Err(error) => error.to_string(),
            Ok(step) => Staging::new(&pipeline, &step).err().unwrap().to_string(),
        }
    };
    for (text, m, part) in [
        ("9", Some(2), "into 8 at most"),
        ("5:zb-v", Some(2), "10 stages"),
        ("2", Some(3), "divides 8"),
        ("2", Some(16), "divides 8"),
        ("4:interleaved", Some(2), "a multiple of 4"),
    ] {
        let error = refused(text, m);
        assert!(error.contains(part), "{text}: {error}");
    }
    let pipeline: Pipeline = "2".parse().unwrap();
    let staging = Staging::new(&pipeline, &pipeline.adopt(step.clone(), None).unwrap()).unwrap();
    assert!(staging.shares(3, Some(&[1.0])).is_err());
    let zero = staging.shares(2, Some(&[1.0, 0.0])).unwrap_err();
    assert!(zero.to_string().contains("stage 1"), "{zero}");
    let orders = Orders::sized(vec![1, 1], true);
    let three = Runtime::builder()
        .workers(3)
        .pin(false)
        .orders(orders, Box::new(|_, _| None))
        .build();
    assert!(three.err().unwrap().to_string().contains("2 units"));
}
