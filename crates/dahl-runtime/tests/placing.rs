//! Where `dmda` puts a layer: on a fast device if its link is cheap or its data is there already, and not
//! if bringing the data takes longer than computing slowly. A CPU beside a GPU made of host memory, with durations
//! that are known.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::gpu::gpu;
use common::known::known;
use dahl_core::{Arena, Codelet, Recorder, Task, UnitKind};
use dahl_runtime::Runtime;

/// Tasks of the layer.
const TASKS: usize = 6;

/// A codelet for these kinds of units.
fn codelet(name: &str, kinds: &[UnitKind]) -> Arc<Codelet> {
    let implement = |codelet: Codelet, &kind: &UnitKind| {
        codelet.implement("reference", kind, move |ops| {
            ops.write::<f32>(0).fill(1.0);
            Ok(())
        })
    };
    Arc::new(kinds.iter().fold(Codelet::new(name), implement))
}

/// How many of the layer's tasks run on the GPU, which is known to be eight times as fast, behind a link that
/// takes so long to start. The data comes from the host, or from a task on the GPU.
fn on_gpu(latency: Duration, made_there: bool) -> usize {
    let arena = Arena::new();
    let mut arrays: Vec<_> = (0..TASKS)
        .map(|_| arena.zeros::<f32, 1>([1000]).unwrap())
        .collect();
    let layer = codelet("layer", &[UnitKind::CPU, UnitKind::GPU]);
    let make = codelet("make", &[UnitKind::GPU]);
    let recorder = Recorder::new();
    for a in &mut arrays {
        if made_there {
            recorder.submit(Task::new(&make, &[a.write()]));
        }
        recorder.submit(Task::new(&layer, &[a.read_write()]));
    }
    let graph = recorder.finish().unwrap();
    let builder = || {
        let builder = Runtime::builder().workers(1).policy("dmda").pin(false);
        let builder = builder.watchdog(Duration::from_secs(30)).trace(1 << 12);
        builder.device(gpu(1e12, latency))
    };
    let machine = builder().build().unwrap().machine().clone();
    // Queued one behind the other on the GPU, the whole layer is done before one task on the CPU.
    let model = known(&graph, &machine, |name, unit| match name {
        "make" => 1e-5,
        _ if unit.kind == UnitKind::GPU => 5e-4,
        _ => 4e-3,
    });
    let mut runtime = builder().perf_model(model).build().unwrap();
    runtime.launch(&graph).unwrap();
    runtime.wait().unwrap();
    let trace = runtime.take_trace().unwrap();
    let of_layer = || {
        let tasks = trace.tasks.iter();
        tasks.filter(|t| trace.class_of(t.id).codelet == "layer")
    };
    assert_eq!(of_layer().count(), TASKS);
    let there = of_layer().filter(|t| trace.units[usize::from(t.unit)].kind == UnitKind::GPU);
    there.count()
}

#[test]
fn a_layer_goes_where_its_speed_and_its_data_say() {
    let (soon, late) = (Duration::from_micros(10), Duration::from_millis(40));
    assert_eq!(on_gpu(soon, false), TASKS, "over a cheap link");
    assert_eq!(on_gpu(late, false), 0, "over a dear link");
    assert_eq!(on_gpu(late, true), TASKS, "where its data is");
}
