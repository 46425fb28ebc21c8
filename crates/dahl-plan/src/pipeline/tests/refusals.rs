//! Hostile profiles get an error that names line and remedy, never a panic or a wrong answer.

use super::super::{PipelineOptions, Platform, Profile, partition};
use super::{best, chain, check, layer, read};

#[track_caller]
fn refused(text: &str, words: &[&str]) {
    let error = Profile::from_text(text).expect_err(text).to_string();
    for word in words {
        assert!(error.contains(word), "`{word}` is missing from: {error}");
    }
}

#[test]
fn lines_must_be_layers_or_edges() {
    let good = chain(&[(1.0, 2.0, 3.0); 3]);
    assert_eq!(read(&good).layers.len(), 3);
    refused("", &["no layers", "node1 -- Name"]);
    refused("\n \n", &["no layers"]);
    refused("what is this", &["line 1", "what is this", "no layer"]);
    refused(
        &format!("{good}\tnode0 - node1\n"),
        &["line 6", "no edge", "tab"],
    );
    refused(
        &format!("{good}\tnode0 -- node9\n"),
        &["line 6", "no layer node9"],
    );
    refused(
        &format!("{good}{}", layer(1, 1.0, 1.0, 1.0)),
        &["line 6", "node1", "twice"],
    );
    refused(
        &format!("{good}\tnode2 -- node0\n"),
        &["line 6", "node2 -- node0", "cycle"],
    );
    refused(
        &format!("{good}\tnode1 -- node1\n"),
        &["line 6", "node1 -> node1"],
    );
    let field = "forward_compute_time=0.25";
    for (value, shown) in [
        ("NaN", "`NaN`"),
        ("-1", "`-1`"),
        ("inf", "`inf`"),
        ("", "``"),
        ("x", "`x`"),
    ] {
        let text = good.replacen(field, &format!("forward_compute_time={value}"), 1);
        refused(
            &text,
            &[
                "line 1",
                "forward_compute_time of node0",
                shown,
                "not negative",
            ],
        );
    }
    let missing = good.replacen("activation_size", "activation", 1);
    refused(&missing, &["line 1", "node0 has no activation_size"]);
    let large = chain(&[(1.0, 1e300, 0.0); 3]);
    refused(&large, &["activation sizes", "larger unit"]);
}

#[test]
fn a_cut_off_file_is_refused_or_shorter() {
    let good = chain(&[(1.0, 2.0, 3.0); 5]);
    for end in 0..good.len() {
        match Profile::from_text(&good[..end]) {
            Ok(profile) => assert!(!profile.layers.is_empty()),
            Err(error) => assert!(error.to_string().contains("line") || end == 0, "{error}"),
        }
    }
}

#[test]
fn lists_are_summed_and_inputs_left_out() {
    let text = "node1 -- Input0 -- forward_compute_time=9, backward_compute_time=0, activation_size=1, \
                parameter_size=0\nnode2 -- A(b -- c) -- forward_compute_time=1, backward_compute_time=2, \
                activation_size=[3.0; 4.0], parameter_size=5 -- stage_id=0\nnode3 -- __getitem__(0) -- \
                forward_compute_time=0, backward_compute_time=0, activation_size=9, parameter_size=0\n\
                \tnode1 -- node2\n\tnode2 -- node3\n";
    let profile = read(text);
    assert_eq!(profile.layers.len(), 1);
    let layer = &profile.layers[0];
    assert_eq!((layer.what.as_str(), layer.activation), ("A(b -- c)", 7.0));
    assert!((layer.forward - 0.001).abs() < 1e-15 && (layer.backward - 0.002).abs() < 1e-15);
}

#[test]
fn extremes_are_answered() {
    for text in [
        chain(&[(0.0, 0.0, 0.0); 4]),
        chain(&[(1e-300, 1e-300, 1e-300); 4]),
        chain(&[(1e150, 1e150, 1e150); 4]),
        chain(&[(1.0, 1.0, 1.0)]),
        // Layers that have nothing to do with each other.
        (0..40).map(|n| layer(n, 1.0, 1.0, 1.0)).collect(),
    ] {
        for units in [1, 3, 64] {
            let platform = Platform::equal(units, 1e9, None).expect("a platform");
            check(&best(&read(&text), &platform), &platform);
        }
    }
    let profile = read(&chain(&[(1.0, 1.0, 1.0); 2]));
    assert!(Platform::equal(0, 1e9, None).is_err());
    assert!(Platform::equal(usize::MAX, 1e9, None).is_err());
    assert!(Platform::equal(2, 0.0, None).is_err());
    assert!(Platform::equal(2, f64::NAN, None).is_err());
    let none = PipelineOptions {
        micro_batches: Some(0),
        ..Default::default()
    };
    let platform = Platform::equal(2, 1e9, Some(0.0)).expect("a platform");
    assert!(partition(&profile, &platform, &none).is_err());
    let full = partition(&profile, &platform, &PipelineOptions::default());
    assert!(
        full.expect_err("no memory")
            .to_string()
            .contains("--memory")
    );
}

#[test]
fn a_network_of_many_layers_is_cut() {
    let profile = read(&chain(&vec![(1.0, 1e3, 1e3); 20_000]));
    let platform = Platform::equal(4, 1e9, None).expect("a platform");
    let plan = best(&profile, &platform);
    check(&plan, &platform);
    assert!(plan.joined && plan.gap() < 0.01, "{}", plan.gap());
}
