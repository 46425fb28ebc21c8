//! What people write: models, machines in either language, graph programs, placement problems, profiles of layers.

use dahl::core::{Machine, Program};
use dahl::nn::Model;
use dahl::plan::pipeline::{
    EnergyPoint, OptionTable, PipelineOptions, Platform, Profile, energy_frontier, partition,
};
use dahl::plan::placement::PlacementProblem;
use dahl::sim::simgrid;

use super::{none, said, text, texts};
use crate::{Answer, Folder, Target};

pub(super) const MODEL: Target = Target {
    name: "model",
    files: &["crates/dahl-nn/models"],
    made: none,
    words: &[
        "[[layer]]",
        "type = ",
        "from = ",
        "name = ",
        "\"conv2d\"",
        "\"linear\"",
        "\"flatten\"",
        "\"add\"",
        "\"batch_norm2d\"",
        "\"max_pool2d\"",
        "\"avg_pool2d\"",
        "\"group_norm\"",
        "\"layer_norm\"",
        "\"dropout\"",
        "kernel_size = ",
        "stride = ",
        "padding = ",
        "dilation = ",
        "groups = ",
        "out_channels = ",
        "out_features = ",
        "normalized_shape = ",
        "num_groups = ",
        "bias = false",
        "ceil_mode = true",
        "input = ",
    ],
    parse: model,
};

fn model(_: &Folder, bytes: &[u8]) -> Answer {
    let model = Model::from_toml(text(bytes)?, "model.toml").map_err(said)?;
    let written = model.to_toml();
    let again = Model::from_toml(&written, "written.toml");
    let again = again
        .unwrap_or_else(|e| panic!("a model that was read is refused as written: {e}\n{written}"));
    assert_eq!(again.fingerprint(), model.fingerprint(), "{written}");
    Ok(())
}

pub(super) const MACHINE: Target = Target {
    name: "machine",
    files: &["machines", "bench/planner/machines"],
    made: none,
    words: &[
        "[[node]]",
        "[[memory]]",
        "[[unit]]",
        "[[link]]",
        "[[unit.state]]",
        "count = ",
        "capacity = ",
        "both_ways = true",
        "bandwidth = ",
        "latency = ",
        "flops = ",
        "flops_f64 = ",
        "overhead = ",
        "busy_watts = ",
        "idle_watts = ",
        "joules_per_byte = ",
        "kind = ",
        "\"cpu\"",
        "\"gpu\"",
        "GiB",
        "speed = ",
        "watts = ",
    ],
    parse: machine,
};

fn machine(_: &Folder, bytes: &[u8]) -> Answer {
    let machine = Machine::from_toml(text(bytes)?, "machine.toml").map_err(said)?;
    let written = machine.to_toml();
    let again = Machine::from_toml(&written, "written.toml");
    let again = again.unwrap_or_else(|e| {
        panic!("a machine that was read is refused as written: {e}\n{written}")
    });
    assert_eq!(again.to_toml(), written);
    platform(&machine);
    Ok(())
}

/// A machine written as a platform is read again.
fn platform(machine: &Machine) {
    let written = simgrid::write(machine);
    if let Err(e) = simgrid::read(&written, "written.xml") {
        panic!("a machine is refused as the platform it was written as: {e}\n{written}");
    }
}

pub(super) const SIMGRID: Target = Target {
    name: "simgrid",
    files: &[],
    made: platforms,
    words: &[
        "<zone id=\"z\" routing=\"Full\">",
        "</zone>",
        "<host id=\"h\" speed=\"1Gf\"/>",
        "<link id=\"l\"",
        "<prop id=",
        "<route src=",
        "<link_ctn id=",
        "symmetrical=\"NO\"",
        "pstate=\"",
        "core=\"",
        "Gf",
        "GBps",
        "us",
        "wattage_per_state",
        "<!ENTITY a \"b\">",
        "&a;",
        "<!DOCTYPE platform",
        "<!--",
        "<![CDATA[",
        "dahl:",
    ],
    parse: |_, bytes| {
        let machine = simgrid::read(text(bytes)?, "platform.xml").map_err(said)?;
        platform(&machine);
        Ok(())
    },
};

/// The machines of the repository as platforms, and one as people write them.
fn platforms() -> Vec<Vec<u8>> {
    let machines = [
        include_str!("../../../../machines/laptop.toml"),
        include_str!("../../../../machines/rammus.toml"),
        include_str!("../../../../machines/two-nodes.toml"),
    ];
    let platform = |text: &str| {
        let machine =
            Machine::from_toml(text, "machine.toml").expect("a machine of the repository");
        simgrid::write(&machine).into_bytes()
    };
    let mut all: Vec<_> = machines.into_iter().map(platform).collect();
    all.extend(texts(&[r#"<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <zone id="world" routing="Full">
    <host id="a" speed="10Gf,5Gf" core="4" pstate="0"><prop id="wattage_per_state" value="10:20:40, 5:10:20"/></host>
    <host id="b" speed="1e9"/>
    <link id="l" bandwidth="125MBps" latency="50us" sharing_policy="SHARED"/>
    <route src="a" dst="b"><link_ctn id="l"/></route>
  </zone>
</platform>
"#]));
    all
}

pub(super) const PROGRAM: Target = Target {
    name: "program",
    files: &["examples/graph.json"],
    made: || {
        texts(&[
            r#"{"arrays":[{"name":"x","shape":[4,6],"dtype":"f32"},{"name":"t","shape":[24],"dtype":"f64","temporary":true}],
"tasks":[{"codelet":"fill","accesses":[{"array":1,"mode":"write"}],"params":[{"Int":3}],"priority":-2,"section":"a"},
{"codelet":"add","accesses":[{"array":0,"mode":"reduce","region":[[0,2],[1,6]]}]},
{"codelet":"add","accesses":[{"array":0,"mode":"reduce","region":[[0,2],[1,6]]}]},
{"codelet":"use","accesses":[{"array":0,"mode":"read","shape":[2,12]},{"array":1,"mode":"read_write","region":[[0,7]]}]}]}"#,
        ])
    },
    words: &[
        "\"arrays\"",
        "\"tasks\"",
        "\"accesses\"",
        "\"array\"",
        "\"mode\"",
        "\"region\"",
        "\"shape\"",
        "\"temporary\"",
        "\"read\"",
        "\"write\"",
        "\"read_write\"",
        "\"reduce\"",
        "\"params\"",
        "\"priority\"",
        "\"section\"",
        "\"f32\"",
    ],
    parse: program,
};

fn program(_: &Folder, bytes: &[u8]) -> Answer {
    let program = Program::from_json(text(bytes)?).map_err(said)?;
    let graph = program.record().map_err(said)?;
    let again = graph.program();
    let again = again
        .record()
        .unwrap_or_else(|e| panic!("the program of a graph is refused: {e}\n{again:?}"));
    assert_eq!(again.len(), graph.len());
    Ok(())
}

pub(super) const PLACEMENT: Target = Target {
    name: "placement",
    files: &[],
    made: || {
        texts(&[r#"{"maxSizePerFPGA":10,"maxFPGAs":2,"maxCPUs":1,"nodes":[
{"id":1,"name":"a","supportedOnFpga":1,"cpuLatency":4,"fpgaLatency":1,"isBackwardNode":0,"colorClass":7,"size":3},
{"id":2,"supportedOnFpga":true,"cpuLatency":5.5,"fpgaLatency":2,"isBackwardNode":false,"size":1},
{"id":3,"supportedOnFpga":0,"cpuLatency":2,"fpgaLatency":0,"isBackwardNode":1,"colorClass":7,"size":0}],
"edges":[{"sourceId":1,"destId":2,"cost":0.5},{"sourceId":2,"destId":3,"cost":1e-3}]}"#])
    },
    words: &[
        "\"colorClass\"",
        "\"sourceId\"",
        "\"destId\"",
        "\"cost\"",
        "\"size\"",
        "\"isBackwardNode\"",
    ],
    parse: |_, bytes| {
        PlacementProblem::from_json(text(bytes)?)
            .map(drop)
            .map_err(said)
    },
};

pub(super) const LAYERS: Target = Target {
    name: "layers",
    files: &[],
    made: || {
        texts(&[
            "node1 -- Input0 -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=0.0, \
             parameter_size=0.000\nnode2 -- Conv2d(3, 8) -- forward_compute_time=1.5, backward_compute_time=3.25, \
             activation_size=4096.0, parameter_size=864.000\nnode3 -- LSTM(8, 8) -- forward_compute_time=2.0, \
             backward_compute_time=1e1, activation_size=[64.0; 32.0], parameter_size=512.000\nnode4 -- Add -- \
             forward_compute_time=0.1, backward_compute_time=0.1, activation_size=64.0, parameter_size=0.0 -- \
             stage_id=1\n\tnode1 -- node2\n\tnode2 -- node3\n\tnode2 -- node4\n\tnode3 -- node4\n",
        ])
    },
    words: &[
        "node1",
        " -- ",
        "\n\t",
        "forward_compute_time=",
        "backward_compute_time=",
        "activation_size=",
        "parameter_size=",
        "__getitem__(0)",
        "Input",
        "[1.0; 2.0]",
    ],
    parse: |_, bytes| {
        let profile = Profile::from_text(text(bytes)?).map_err(said)?;
        let platform = Platform::equal(3, 1e9, Some(1e6)).map_err(said)?;
        let plan = partition(&profile, &platform, &PipelineOptions::default()).map_err(said)?;
        assert!(plan.lower_bound <= plan.seconds, "{plan:?}");
        assert!(
            plan.stages.iter().all(|s| s.memory_bytes <= 1e6),
            "{plan:?}"
        );
        Ok(())
    },
};

pub(super) const FREQUENCIES: Target = Target {
    name: "frequencies",
    files: &[],
    made: || {
        texts(&[
            "stage,instruction,frequency,time,energy\n0,forward,1410,0.05,24.1\n0,forward,1200,0.06,20\n\
             0,backward,1410,0.1,46\n0,backward,1200,0.12,40\n1,forward,1410,0.04,22\n1,backward,1410,0.09,44\n\
             1,backward,1000,0.14,35.5\n",
        ])
    },
    words: &[
        "stage",
        "instruction",
        "frequency",
        "time",
        "energy",
        "forward",
        "backward",
    ],
    parse: |_, bytes| {
        let table = OptionTable::from_csv(text(bytes)?).map_err(said)?;
        let frontier = energy_frontier(&table, 2, 70.0, 4).map_err(said)?;
        let above = |p: &EnergyPoint| p.lower_bound <= p.joules + 1e-9 * p.joules.abs();
        assert!(frontier.points.iter().all(above), "{frontier:?}");
        Ok(())
    },
};
