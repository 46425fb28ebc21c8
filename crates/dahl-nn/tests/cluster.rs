//! Training on several nodes ends with the bits of one, whatever the shares.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dahl_core::DType;
use dahl_core::graph::partition::{Holders, pairwise, part, place_by_rows};
use dahl_data::{DataError, Dataset, Source};
use dahl_nn::train::{Progress, Session, Training};
use dahl_nn::{Step, models};
use dahl_runtime::Runtime;
use dahl_runtime::network::{LinkSpeed, LocalNode, Member, local_cluster};
use dahl_test_support::runs::{Case, How, Run, case, run, run_on, session};

/// Trains on nodes with these shares, each a runtime of its own, and returns what each ended with.
fn run_shared(case: &Case, how: &How, shares: &[f64]) -> Vec<Run> {
    let node = |transport| {
        let runtime = Runtime::builder()
            .workers(how.workers)
            .policy(how.policy)
            .pin(false)
            .network(Box::new(transport), Duration::from_secs(600))
            .build()
            .expect("a runtime");
        let shares = Some(shares.to_vec());
        let mut member = Member::with_shares(runtime, shares, Box::new(|_| ())).expect("a member");
        run_on(&mut member, &mut session(case, how), case)
    };
    std::thread::scope(|scope| {
        let cluster = local_cluster(shares.len() as u16, LinkSpeed::UNLIMITED);
        let threads: Vec<_> = cluster
            .into_iter()
            .map(|transport| scope.spawn(|| node(transport)))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

#[test]
fn any_shares_give_the_bits_of_one_node() {
    let mut dropout = case("decay");
    dropout.toml = dropout.toml.replace("p = 0.0", "p = 0.4");
    let cases = ["residual", "rectangles", "adamw", "clipped"].map(case);
    for case in cases.into_iter().chain([dropout]) {
        for dtype in [DType::F32, DType::F64] {
            let how = How {
                workers: 1,
                grain: "sample=4",
                dtype,
                ..How::default()
            };
            let alone = run(&case, &how);
            for shares in [
                &[1.0, 1.0][..],
                &[3.0, 1.0],
                &[5.0, 2.0, 1.0],
                &[0.0, 1.0, 0.3, 2.0],
            ] {
                let all = run_shared(&case, &how, shares);
                for (node, other) in all.iter().enumerate() {
                    let what = format!("{}, {dtype}, shares {shares:?}, node {node}", case.name);
                    assert!(other.weights == alone.weights, "{what}: other weights");
                    assert_eq!(other.epochs, alone.epochs, "{what}: other losses");
                    assert_eq!(other.evaluated, alone.evaluated, "{what}");
                }
            }
        }
    }
}

/// Layers of every kind of cut: Winograd's with blocks side by side and one after another, many weights, few weights.
const BLOCKS: &str = r#"
name = "blocks"
input = [3, 8, 8]
layers = [
    { type = "conv2d", out_channels = 32, kernel = 3, padding = 1 },
    { type = "batch_norm2d" },
    { type = "relu" },
    { type = "conv2d", out_channels = 32, kernel = 3, padding = 1 },
    { type = "conv2d", out_channels = 256, kernel = 3, padding = 1 },
    { type = "relu" },
    { type = "max_pool2d", kernel = 2 },
    { type = "flatten" },
    { type = "linear", out_features = 16 },
    { type = "dropout", p = 0.3 },
    { type = "linear", out_features = 8 },
]
"#;

#[test]
fn blocks_of_the_default_grain_give_the_bits_of_one_node() {
    let mut case = case("clipped");
    (case.toml, case.classes) = (BLOCKS.into(), 8);
    (case.count, case.batch, case.epochs) = (144, 64, 1);
    let how = |workers, policy| How {
        workers,
        policy,
        dtype: DType::F32,
        ..How::default()
    };
    let alone = run(&case, &how(1, "ws"));
    let other = run(&case, &how(3, "dmdas"));
    assert!(other.weights == alone.weights, "three workers");
    for (shares, policy) in [
        (&[1.0, 1.0][..], "ws"),
        (&[3.0, 1.0], "eager"),
        (&[5.0, 2.0, 1.0], "dm"),
        (&[1.0, 1.0, 1.0, 1.0], "ws"),
        (&[0.31, 0.07, 0.62], "dmdas"),
    ] {
        for (node, other) in run_shared(&case, &how(2, policy), shares)
            .iter()
            .enumerate()
        {
            let what = format!("shares {shares:?}, node {node}");
            assert!(other.weights == alone.weights, "{what}: other weights");
            assert_eq!(other.epochs, alone.epochs, "{what}: other losses");
            assert_eq!(other.evaluated, alone.evaluated, "{what}");
        }
    }
}

#[test]
fn a_node_needs_memory_for_its_share_only() {
    let model = models::by_name("lenet5").expect("a shipped model");
    let step = Step::new(model)
        .batch(64)
        .grain("sample=8".parse().unwrap());
    let graph = pairwise(&step.lower().unwrap().graph);
    for shares in [[1.0, 1.0], [3.0, 1.0]] {
        let node_of = place_by_rows(&graph, &shares).unwrap();
        let transfers = Holders::new(2).exchange(&graph, &node_of).unwrap();
        for (node, share) in shares.iter().enumerate() {
            let own = part(&graph, &node_of, &transfers, node as u16).unwrap();
            let whole = graph.memory.bytes as f64 * share / shares.iter().sum::<f64>();
            let bytes = own.graph.memory.bytes as f64;
            // Beside activations there are gradients, which do not shrink with the share.
            assert!(
                bytes < 1.35 * whole,
                "shares {shares:?}, node {node}: {bytes} of {whole}"
            );
        }
    }
}

/// Images made of their number; notes which were read.
struct Noted {
    read: Mutex<Vec<usize>>,
}

impl Dataset for Noted {
    fn name(&self) -> &str {
        "noted"
    }

    fn len(&self) -> usize {
        256
    }

    fn classes(&self) -> usize {
        10
    }

    fn shape(&self) -> [usize; 3] {
        [1, 28, 28]
    }

    fn read(&self, index: usize, pixels: &mut [u8]) -> Result<usize, DataError> {
        self.read.lock().unwrap().push(index);
        let pixel = |(i, p): (usize, &mut u8)| *p = ((i + 1) * (index + 7) % 251) as u8;
        pixels.iter_mut().enumerate().for_each(pixel);
        Ok(index % 10)
    }

    fn content(&self) -> u64 {
        1
    }
}

#[test]
fn each_node_reads_the_samples_of_its_share_alone() {
    let model = models::by_name("lenet5").expect("a shipped model");
    let step = Step::new(model)
        .batch(64)
        .grain("sample=8".parse().unwrap());
    let training = Training {
        epochs: 2,
        ..Training::default()
    };
    let node = |transport: Option<LocalNode>| {
        let builder = Runtime::builder().workers(1).pin(false);
        let shares = Some(vec![1.0, 1.0]);
        let mut member = match transport {
            None => Member::alone(builder.build().unwrap()),
            Some(t) => {
                let builder = builder.network(Box::new(t), Duration::from_secs(600));
                Member::with_shares(builder.build().unwrap(), shares, Box::new(|_| ())).unwrap()
            }
        };
        let data = Arc::new(Noted {
            read: Mutex::default(),
        });
        let mut session = Session::new(step.clone(), training.clone()).unwrap();
        session.initialise(&mut member).unwrap();
        let source: Source = data.clone().into();
        let mut go_on = |_: &mut Progress<'_>| ControlFlow::Continue(());
        session.run(&mut member, source, None, &mut go_on).unwrap();
        let weights = session.weights(&mut member).unwrap();
        member.finish().unwrap();
        let mut read = data.read.lock().unwrap().clone();
        read.sort_unstable();
        (weights, read)
    };
    let (want, _) = node(None);
    let nodes: Vec<_> = std::thread::scope(|scope| {
        let cluster = local_cluster(2, LinkSpeed::UNLIMITED).into_iter();
        let threads: Vec<_> = cluster.map(|t| scope.spawn(|| node(Some(t)))).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    // Two epochs of four batches, and some made ahead of a third that never came: half of each.
    for (weights, read) in &nodes {
        assert!(*weights == want, "other weights");
        assert_eq!(read.len() % 32, 0, "whole halves: {}", read.len());
        assert!((8..=8 + 5).contains(&(read.len() / 32)), "{}", read.len());
    }
    let mut both = [&nodes[0].1[..], &nodes[1].1].concat();
    both.sort_unstable();
    both.dedup();
    assert!(both.into_iter().eq(0..256), "every sample was read");
}
