//! Most of the time that transfers take is hidden behind computing, in virtual time.

use dahl_core::graph::partition::steady_loads;
use dahl_nn::{Step, models};
use dahl_tune::{SimulateOptions, simulate_cluster};

/// Two computers of one core, with a link of so many bytes per second.
fn machine(bandwidth: f64) -> dahl_core::Machine {
    let mut text = "version = 1\nname = \"two\"\n".to_string();
    for node in ["a", "b"] {
        text += &format!(
            "[[node]]\nname = \"{node}\"\nport = {{ bandwidth = {bandwidth:e}, latency = 25e-6 }}\n\
             [[memory]]\nname = \"{node}\"\nnode = \"{node}\"\n\
             [[unit]]\nname = \"{node}-cpu\"\nkind = \"cpu\"\nmemory = \"{node}\"\nflops = 8e9\nbandwidth = 4e9\n"
        );
    }
    text += "[[switch]]\nname = \"switch\"\nnodes = [\"a\", \"b\"]\n";
    dahl_core::Machine::from_toml(&text, "two.toml").unwrap()
}

/// Transfers take half as long as computing.
#[test]
fn four_fifths_of_transfers_are_hidden() {
    for (name, batch) in [
        ("lenet5", 256),
        ("vgg-small", 32),
        ("small-cnn", 2048),
        ("vgg-small", 128),
    ] {
        let step = Step::new(models::by_name(name).expect("a shipped model")).batch(batch);
        let even = [1.0, 1.0];
        let seconds = |bandwidth| {
            let options = SimulateOptions {
                policy: "ws".into(),
                steps: 16,
                ..SimulateOptions::default()
            };
            let machine = machine(bandwidth).into();
            let all = simulate_cluster(&step, &machine, Some(&even), &options).unwrap();
            all.step_seconds().0
        };
        let loads = steady_loads(&step.lower().unwrap().graph, &even).unwrap();
        let bytes = loads.iter().map(|l| l.sent).max().expect("two nodes") as f64;
        let computing = seconds(1e15);
        let transfers = computing / 2.0;
        let hidden = 1.0 - (seconds(bytes / transfers) - computing) / transfers;
        assert!(hidden >= 0.8, "{name} {batch}: {:.1} %", 100.0 * hidden);
    }
}
