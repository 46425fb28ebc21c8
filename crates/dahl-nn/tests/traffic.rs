//! What steps on several nodes send, and how their work is shared: as much as a ring, and as the shares say.

use std::sync::Arc;

use dahl_core::Graph;
use dahl_core::graph::partition::{Load, ring_bytes, steady_loads};
use dahl_nn::{Step, models};

/// The graph of a shipped model, and the bytes of its gradients.
fn step(name: &str, batch: usize) -> (Arc<Graph>, u64) {
    let step = Step::new(models::by_name(name).expect("a shipped model")).batch(batch);
    let graph = step.lower().unwrap().graph;
    (graph, step.model.parameter_count() as u64 * 4)
}

/// The load of each node with these shares, after showing it.
fn loads(name: &str, batch: usize, shares: &[f64]) -> (Vec<Load>, u64) {
    let (graph, bytes) = step(name, batch);
    let loads = steady_loads(&graph, shares).unwrap();
    let (work, ring) = (work(&loads), ring_bytes(bytes, shares.len() as u16) as f64);
    for (node, load) in loads.iter().enumerate() {
        println!(
            "{name}, batch {batch}, shares {shares:?}, node {node}: {:.1} % of the work, {} bytes in {} messages, {:.3} of a ring",
            100.0 * load.work / work,
            load.sent,
            load.messages,
            load.sent as f64 / ring
        );
    }
    (loads, bytes)
}

fn work(loads: &[Load]) -> f64 {
    loads.iter().map(|l| l.work).sum()
}

fn sent(loads: &[Load]) -> u64 {
    loads.iter().map(|l| l.sent).sum()
}

/// Layers whose blocks are as many as nodes send what a ring does, to the byte.
#[test]
fn even_shares_send_what_a_ring_does() {
    for (name, batch) in [
        ("first", 256),
        ("small-cnn", 512),
        ("lenet5", 256),
        ("vgg-small", 128),
    ] {
        for nodes in [2, 4] {
            let (loads, bytes) = loads(name, batch, &vec![1.0; nodes]);
            let all = 2 * bytes * (nodes as u64 - 1);
            assert_eq!(sent(&loads), all, "{name}, {nodes} nodes");
            for load in &loads {
                let part = load.work / work(&loads) * nodes as f64;
                assert!((part - 1.0).abs() < 0.1, "{name}, {nodes} nodes: {part}");
                // Small models have few pieces of parameters to own.
                let ring = ring_bytes(bytes, nodes as u16) as f64;
                let part = load.sent as f64 / ring;
                assert!(part < 1.35, "{name}, {nodes} nodes: {part} of a ring");
            }
        }
    }
}

/// With batch norm, statistics of the batch travel besides; deep layers have fewer blocks than the batch.
#[test]
fn resnet_sends_little_more_than_a_ring() {
    for (batch, most) in [(32, 1.0), (128, 1.05)] {
        let (loads, bytes) = loads("resnet18-32", batch, &[1.0, 1.0]);
        let ring = 2.0 * bytes as f64;
        assert!(sent(&loads) as f64 <= most * ring, "batch {batch}");
        for load in &loads {
            let part = load.work / work(&loads);
            assert!((part - 0.5).abs() < 0.05, "batch {batch}: {part}");
        }
    }
}

/// A share of three blocks and one of one: a node sends one sum for two of its three.
#[test]
fn work_follows_the_shares() {
    for (shares, most) in [(&[3.0, 1.0][..], 1.25), (&[5.0, 2.0, 1.0], 1.6)] {
        let (loads, bytes) = loads("vgg-small", 128, shares);
        let total: f64 = shares.iter().sum();
        for (load, share) in loads.iter().zip(shares) {
            let part = load.work / work(&loads) - share / total;
            assert!(part.abs() < 0.02, "shares {shares:?}: {part}");
        }
        let ring = (2 * bytes * (shares.len() as u64 - 1)) as f64;
        assert!(sent(&loads) as f64 <= most * ring, "shares {shares:?}");
    }
}
