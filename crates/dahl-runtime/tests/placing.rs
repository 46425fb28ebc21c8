//! Where `dmda` puts a layer: on a fast device if its link is cheap or its data is there already, and not
//! if bringing the data takes longer than computing slowly. A CPU beside a GPU made of host memory, both of
//! set speed.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::gpu::gpu;
use dahl_core::{Arena, Codelet, Recorder, Task, UnitKind};
use dahl_runtime::Runtime;

/// Tasks of the layer.
const TASKS: usize = 6;
/// Launches until speeds are known, and launches that count.
const LEARNING: usize = 8;
const COUNTED: usize = 6;

/// A codelet whose body takes so long on each kind of unit.
fn slow(name: &str, times: &[(UnitKind, u64)]) -> Arc<Codelet> {
    let implement = |codelet: Codelet, &(kind, micros): &(UnitKind, u64)| {
        codelet.implement("reference", kind, move |ops| {
            std::thread::sleep(Duration::from_micros(micros));
            ops.write::<f32>(0).fill(1.0);
            Ok(())
        })
    };
    Arc::new(times.iter().fold(Codelet::new(name), implement))
}

/// The share of the layer's tasks that run on the GPU, which is eight times as fast, behind a link that
/// takes so long to start. The data comes from the host, or from a task on the GPU.
fn on_gpu(latency: Duration, made_there: bool) -> f64 {
    let arena = Arena::new();
    let mut arrays: Vec<_> = (0..TASKS)
        .map(|_| arena.zeros::<f32, 1>([1000]).unwrap())
        .collect();
    let layer = slow("layer", &[(UnitKind::CPU, 4000), (UnitKind::GPU, 500)]);
    let make = slow("make", &[(UnitKind::GPU, 10)]);
    let recorder = Recorder::new();
    for a in &mut arrays {
        if made_there {
            recorder.submit(Task::new(&make, &[a.write()]));
        }
        recorder.submit(Task::new(&layer, &[a.read_write()]));
    }
    let graph = recorder.finish().unwrap();
    let builder = Runtime::builder().workers(1).policy("dmda").pin(false);
    let builder = builder.watchdog(Duration::from_secs(30)).trace(1 << 12);
    let mut runtime = builder.device(gpu(1e12, latency)).build().unwrap();
    for launch in 0..LEARNING + COUNTED {
        if launch == LEARNING {
            let _ = runtime.take_trace();
        }
        for a in &mut arrays {
            // What the host has written is current nowhere else.
            runtime.write(a).unwrap()[0] = 0.0;
        }
        runtime.launch(&graph).unwrap();
        runtime.wait().unwrap();
    }
    let trace = runtime.take_trace().unwrap();
    let of_layer = || {
        let tasks = trace.tasks.iter();
        tasks.filter(|t| trace.class_of(t.id).codelet == "layer")
    };
    assert_eq!(of_layer().count(), COUNTED * TASKS);
    let there = of_layer().filter(|t| trace.units[usize::from(t.unit)].kind == UnitKind::GPU);
    there.count() as f64 / of_layer().count() as f64
}

#[test]
fn a_layer_goes_where_its_speed_and_its_data_say() {
    let cheap = on_gpu(Duration::from_micros(10), false);
    let dear = on_gpu(Duration::from_millis(40), false);
    let there = on_gpu(Duration::from_millis(40), true);
    println!(
        "on the GPU: {cheap} over a cheap link, {dear} over a dear one, {there} of what is there"
    );
    assert!(cheap >= 0.8, "{cheap} of the layer over a cheap link");
    assert!(dear <= 0.2, "{dear} of the layer over a dear link");
    assert!(there >= 0.8, "{there} of the layer, whose data is there");
}
