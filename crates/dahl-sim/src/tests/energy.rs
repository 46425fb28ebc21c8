//! Every joule is accounted for.

use dahl_core::{FrequencyState, Joules, Mode, Power, Watts};

use super::*;
use dahl_sched::policy::Fixed;

fn powered() -> Machine {
    let mut machine = with_device(100);
    machine.nodes[0].base = Some(Watts(10.0));
    for (unit, (idle, busy)) in machine.units.iter_mut().zip([(1.0, 4.0), (2.0, 32.0)]) {
        unit.power = Some(Power {
            idle: Watts(idle),
            busy: Watts(busy),
        });
    }
    for link in &mut machine.links {
        link.joules_per_byte = Some(0.5);
    }
    machine
}

fn graph() -> Arc<Graph> {
    let arena = Arena::new();
    let (a, b) = (array(&arena, "a", 8), array(&arena, "b", 4));
    let r = Recorder::new();
    task(&r, 2, &[a.with(Mode::ReadWrite)]);
    task(&r, 4, &[b.with(Mode::ReadWrite)]);
    r.finish().unwrap()
}

#[test]
fn energy_is_base_plus_busy_plus_idle_plus_transfers() {
    let (graph, machine) = (graph(), powered());
    assert!(machine.without_power().is_empty());
    let options = Options {
        record: true,
        ..Options::default()
    };
    let fixed = Fixed::new(2, vec![vec![0], vec![1]]).unwrap();
    let prediction =
        simulate(&graph, &machine, &times(&graph, &machine), &fixed, &options).unwrap();
    // b travels for 4 s, then 4 s on the device.
    assert_eq!(prediction.makespan, Seconds(8.0));
    assert_eq!(prediction.base, Joules(80.0));
    assert_eq!(prediction.units[0].joules, Joules(2.0 * 4.0 + 6.0 * 1.0));
    assert_eq!(prediction.units[1].joules, Joules(4.0 * 32.0 + 4.0 * 2.0));
    assert_eq!(prediction.links[0].joules, Joules(2.0));
    assert_eq!(prediction.joules(), Joules(80.0 + 14.0 + 136.0 + 2.0));
    // The trace's power, over time, is the same energy.
    let trace = prediction.to_trace(&graph, &machine);
    assert!(trace.simulated);
    assert_eq!((trace.tasks.len(), trace.transfers.len()), (2, 1));
    let mut last = 0;
    let mut joules = 0.0;
    for sample in &trace.power {
        joules += sample.watts * (sample.at - last) as f64 * 1e-9;
        last = sample.at;
    }
    assert!((joules - 232.0).abs() < 1e-3, "{joules}");
    assert!(
        trace
            .tasks
            .iter()
            .all(|t| t.ready <= t.taken && t.taken <= t.start && t.start < t.end)
    );
}

#[test]
fn frequency_states_trade_time_for_watts() {
    let (graph, mut machine) = (graph(), powered());
    machine.units.remove(1);
    machine.units[0].states = vec![FrequencyState::new(0.5, Watts(1.5))];
    let fixed = Fixed::new(2, vec![vec![0, 1]]).unwrap();
    let mut options = Options {
        states: vec![1, 0],
        ..Options::default()
    };
    let table = times(&graph, &machine);
    let prediction = simulate(&graph, &machine, &table, &fixed, &options).unwrap();
    assert_eq!(prediction.makespan, Seconds(8.0));
    assert_eq!(prediction.units[0].joules, Joules(4.0 * 1.5 + 4.0 * 4.0));
    // A change of state takes time, at the new one's watts; the first is set beforehand.
    machine.units[0].switch_seconds = Some(Seconds(0.5));
    let fixed = Fixed::new(2, vec![vec![0, 1]]).unwrap();
    let prediction = simulate(&graph, &machine, &table, &fixed, &options).unwrap();
    assert_eq!(prediction.makespan, Seconds(8.5));
    assert_eq!(prediction.units[0].joules, Joules(4.0 * 1.5 + 4.5 * 4.0));
    options.states = vec![0, 2];
    let fixed = Fixed::new(2, vec![vec![0, 1]]).unwrap();
    let error = simulate(&graph, &machine, &table, &fixed, &options).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("in frequency state 2, which unit \"cpu:0\" does not have"),
        "{error}"
    );
}

#[test]
fn durations_say_where_they_come_from() {
    use crate::TimeSource;
    use dahl_sched::model::{Key, PerfModel};
    let graph = graph();
    let mut machine = powered();
    for unit in &mut machine.units {
        unit.rated = Some(dahl_core::Rated {
            flops: 2.0,
            flops_f64: 1.0,
            bandwidth: 1.0,
        });
    }
    let mut model = PerfModel::new();
    let name = machine.timed_as(&machine.units[0]);
    let key = Key::of(&graph, 0, (&name, UnitKind::CPU), &machine.kernels).unwrap();
    model.record(&key, graph.classes[0].cost, Seconds(7.0));
    let table = Times::estimate(&graph, &machine, Some(&model), false).unwrap();
    let (cpu, gpu) = (UnitId(0), UnitId(1));
    assert_eq!(table.get(0, cpu), Some(Seconds(7.0)));
    assert_eq!(table.known(0, cpu), TimeSource::Measured);
    assert_eq!(table.known(1, cpu), TimeSource::Fitted);
    assert_eq!(
        (table.get(1, gpu), table.known(1, gpu)),
        (Some(Seconds(2.0)), TimeSource::Static)
    );
    // What only a CPU has runs elsewhere only if that is assumed.
    let arena = Arena::new();
    let a = array(&arena, "a", 4);
    let r = Recorder::new();
    r.submit(Task::new(&HOST, &[a.with(Mode::Write)]).params(&[Param::Int(6)]));
    let graph = r.finish().unwrap();
    let strict = Times::estimate(&graph, &machine, None, false).unwrap();
    assert_eq!(strict.get(0, gpu), None);
    let assumed = Times::estimate(&graph, &machine, None, true).unwrap();
    assert_eq!(
        (assumed.get(0, gpu), assumed.known(0, gpu)),
        (Some(Seconds(3.0)), TimeSource::Assumed)
    );
}
