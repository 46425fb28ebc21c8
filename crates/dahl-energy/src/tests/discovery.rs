//! What is found in made-up trees, and what goes wrong there.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dahl_core::Seconds;

use super::super::perf_event::{Counter, Event, discover_with};
use super::super::*;
use super::made_up::Sys;

const PACKAGE: &str = "intel-rapl:0";

/// Samples a ledger at 0 s, changes the tree, samples again at 1 s.
fn over_a_second(sys: &Sys, change: impl FnOnce()) -> Report {
    let mut ledger = sys.ledger();
    ledger.sample(Seconds(0.0));
    change();
    ledger.sample(Seconds(1.0));
    ledger.report()
}

#[test]
fn nothing_at_all_is_said_source_by_source() {
    let sys = Sys::new();
    let report = over_a_second(&sys, || ());
    assert_eq!(report.energy.joules(), None);
    let source = report.energy.source();
    assert!(
        source.starts_with("unavailable (powercap: no RAPL zones here"),
        "{source}"
    );
    for part in ["perf events", "hwmon", "nvml", "modprobe"] {
        assert!(source.contains(part), "{source}");
    }
    assert!(!report.energy.is_measured());
}

#[test]
fn a_package_is_measured() {
    let sys = Sys::new();
    sys.zone(PACKAGE, "package-0", 5_000_000);
    let report = over_a_second(&sys, || sys.set(PACKAGE, 17_000_000));
    assert_eq!(report.energy.source(), "measured (rapl: package-0)");
    assert!((report.energy.joules().expect("measured").0 - 12.0).abs() < 1e-9);
    assert!((report.energy.watts().expect("measured").0 - 12.0).abs() < 1e-9);
    // 12 J at 300 g/kWh are a milligram.
    assert!((report.energy.carbon(300.0).expect("measured") - 1e-3).abs() < 1e-9);
    assert!(report.energy.is_measured());
    assert_eq!(report.samples.len(), 1);
    assert!((report.samples[0].watts.0 - 12.0).abs() < 1e-9);
}

#[test]
fn a_closed_counter_says_how_to_open_it() {
    let sys = Sys::new();
    sys.zone(PACKAGE, "package-0", 0);
    let refuse = |path: &Path, buffer: &mut [u8]| {
        if path.ends_with("energy_uj") {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let text = std::fs::read(path)?;
        buffer[..text.len()].copy_from_slice(&text);
        Ok(text.len())
    };
    let tree = Tree::with_reader(sys.root(), Arc::new(refuse));
    let mut ledger = Ledger::new(Meters::discover(&tree, true), None, Seconds(0.1));
    ledger.sample(Seconds(0.0));
    let source = ledger.energy().source();
    assert!(
        source.contains(
            "permission denied; run sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj"
        ),
        "{source}"
    );
}

#[test]
fn garbage_is_quoted_and_not_counted() {
    for (garbage, said) in [
        ("banana", "banana"),
        ("-5", "-5"),
        ("", "\"\""),
        ("99999999999999999999999", "99999999999999999999999"),
    ] {
        let sys = Sys::new();
        sys.zone(PACKAGE, "package-0", 0);
        sys.write("class/powercap/intel-rapl:0/energy_uj", garbage);
        let source = over_a_second(&sys, || ()).energy.source();
        assert!(source.contains(said), "{source}");
        assert!(source.contains("where a number should be"), "{source}");
    }
    // Not text at all, longer than any number, and a folder in the place of the file.
    let sys = Sys::new();
    sys.zone(PACKAGE, "package-0", 0);
    let file = sys.root().join("class/powercap/intel-rapl:0/energy_uj");
    std::fs::write(&file, [0xff; 100]).expect("a file");
    let source = over_a_second(&sys, || ()).energy.source();
    assert!(source.contains("is not text"), "{source}");
    std::fs::write(&file, "1".repeat(5000)).expect("a file");
    let source = over_a_second(&sys, || ()).energy.source();
    assert!(source.contains("where a number should be"), "{source}");
    std::fs::remove_file(&file).expect("it was there");
    std::fs::create_dir(&file).expect("a folder");
    let source = over_a_second(&sys, || ()).energy.source();
    assert!(
        source.contains("unavailable") && source.contains("energy_uj: "),
        "{source}"
    );
}

#[test]
fn missing_files_leave_the_rest_readable() {
    let sys = Sys::new();
    sys.zone(PACKAGE, "package-0", 0);
    sys.zone("intel-rapl:1", "package-1", 0);
    // A zone without a name, and a counter without a range.
    std::fs::remove_file(sys.root().join("class/powercap/intel-rapl:1/name")).expect("file");
    std::fs::remove_file(
        sys.root()
            .join("class/powercap/intel-rapl:0/max_energy_range_uj"),
    )
    .expect("file");
    let report = over_a_second(&sys, || sys.set(PACKAGE, 3_000_000));
    assert_eq!(report.energy.source(), "measured (rapl: package-0)");
    let why = report.findings.iter().find(|f| f.what == "intel-rapl:1");
    let why = why.and_then(|f| f.trouble.as_ref()).expect("a finding");
    assert!(why.text.contains("name does not exist"), "{why}");
}

#[test]
fn an_unplugged_package_keeps_its_figure_and_is_marked() {
    let sys = Sys::new();
    sys.zone(PACKAGE, "package-0", 0);
    let mut ledger = sys.ledger();
    ledger.sample(Seconds(0.0));
    sys.set(PACKAGE, 2_000_000);
    ledger.sample(Seconds(1.0));
    sys.remove("class/powercap/intel-rapl:0");
    ledger.sample(Seconds(2.0));
    let energy = ledger.energy();
    assert!((energy.joules().expect("so far").0 - 2.0).abs() < 1e-9);
    let source = energy.source();
    assert!(
        source
            .starts_with("measured (rapl: package-0), uncertain: package-0: counted until 2.0 s: "),
        "{source}"
    );
    assert!(source.contains("does not exist"), "{source}");
    assert!(!energy.is_measured());
}

#[test]
fn power_limits_bound_what_is_believed() {
    let sys = Sys::new();
    sys.zone(PACKAGE, "package-0", 0);
    sys.write(
        "class/powercap/intel-rapl:0/constraint_0_power_limit_uw",
        "15000000",
    );
    // 15 W limit: 100 J in a second is a lie.
    let energy = over_a_second(&sys, || sys.set(PACKAGE, 100_000_000)).energy;
    assert_eq!(energy.joules(), None);
    assert!(energy.source().contains("jumped"), "{}", energy.source());
    sys.set(PACKAGE, 0);
    let energy = over_a_second(&sys, || sys.set(PACKAGE, 20_000_000)).energy;
    assert!(energy.is_measured(), "{}", energy.source());
}

#[test]
fn a_second_way_to_the_same_package_is_left_alone() {
    let sys = Sys::new();
    sys.zone(PACKAGE, "package-0", 0);
    sys.zone("intel-rapl-mmio:0", "package-0", 0);
    sys.write("class/powercap/intel-rapl/enabled", "1");
    let report = over_a_second(&sys, || {
        sys.set(PACKAGE, 1_000_000);
        sys.set("intel-rapl-mmio:0", 1_000_000);
    });
    assert_eq!(report.domains.len(), 1);
}

/// The files of the power counters.
fn perf_tree(sys: &Sys) {
    let folder = "bus/event_source/devices/power";
    sys.write(&format!("{folder}/type"), "9");
    sys.write(&format!("{folder}/cpumask"), "0,8");
    for (event, code) in [("energy-pkg", 2), ("energy-cores", 1)] {
        let path = format!("{folder}/events/{event}");
        sys.write(&path, &format!("event=0x0{code}"));
        sys.write(&format!("{path}.unit"), "Joules");
        sys.write(&format!("{path}.scale"), "2.3283064365386962890625e-10");
    }
    for (cpu, package) in [(0, 0), (8, 1)] {
        let path = format!("devices/system/cpu/cpu{cpu}/topology/physical_package_id");
        sys.write(&path, &package.to_string());
    }
}

fn ledger_of(found: Found) -> Ledger {
    let meters = Meters {
        meters: found.meter.into_iter().collect(),
        findings: found.findings,
    };
    Ledger::new(meters, None, Seconds(0.1))
}

#[test]
fn perf_events_count_where_powercap_does_not() {
    let sys = Sys::new();
    perf_tree(&sys);
    let open = |event: Event| -> io::Result<Counter> {
        assert_eq!(event.kind, 9);
        let reads = AtomicU64::new(0);
        // A joule per reading on CPU 0, two on CPU 8; nothing for cores.
        let step = match (event.config, event.cpu) {
            (2, 0) => 1,
            (2, 8) => 2,
            _ => 0,
        };
        Ok(Box::new(move || {
            Ok((reads.fetch_add(1, Ordering::Relaxed) * step) << 32)
        }))
    };
    let mut ledger = ledger_of(discover_with(&sys.tree(), Arc::new(open)));
    for i in 0..=4 {
        ledger.sample(Seconds(f64::from(i)));
    }
    let energy = ledger.energy();
    assert_eq!(energy.source(), "measured (perf: package-0, package-1)");
    assert!((energy.joules().expect("measured").0 - 12.0).abs() < 1e-6);
}

#[test]
fn perf_events_that_are_closed_say_how_to_open_them() {
    let sys = Sys::new();
    perf_tree(&sys);
    let open = |_: Event| -> io::Result<Counter> { Err(io::ErrorKind::PermissionDenied.into()) };
    let mut ledger = ledger_of(discover_with(&sys.tree(), Arc::new(open)));
    ledger.sample(Seconds(0.0));
    let source = ledger.energy().source();
    assert!(
        source.contains("permission denied; run sudo sysctl kernel.perf_event_paranoid=0"),
        "{source}"
    );
}

#[test]
fn perf_garbage_is_named() {
    for (file, text) in [
        ("type", "x"),
        ("cpumask", "zero"),
        ("events/energy-pkg", "umask=3"),
        ("events/energy-pkg.scale", "-1"),
        ("events/energy-pkg.unit", "Calories"),
    ] {
        let sys = Sys::new();
        perf_tree(&sys);
        sys.write(&format!("bus/event_source/devices/power/{file}"), text);
        let open = |_: Event| -> io::Result<Counter> { Ok(Box::new(|| Ok(0))) };
        let found = discover_with(&sys.tree(), Arc::new(open));
        let name = file.rsplit('/').next().expect("a name");
        let named = found.findings.iter().filter_map(|f| f.trouble.as_ref());
        assert!(
            named.clone().any(|t| t.text.contains(name)),
            "{file}: {:?}",
            found.findings
        );
    }
}

#[test]
fn amd_sockets_and_cards_are_read() {
    let sys = Sys::new();
    sys.write("class/hwmon/hwmon0/name", "nvme");
    sys.write("class/hwmon/hwmon1/name", "amd_energy");
    for (i, label) in [(1, "Ecore000"), (2, "Esocket0")] {
        sys.write(&format!("class/hwmon/hwmon1/energy{i}_label"), label);
        sys.write(&format!("class/hwmon/hwmon1/energy{i}_input"), "1000000");
    }
    sys.write("class/hwmon/hwmon2/name", "amdgpu");
    sys.write("class/hwmon/hwmon2/power1_average", "30000000");
    sys.write("class/hwmon/hwmon2/power1_cap", "200000000");
    let report = over_a_second(&sys, || {
        sys.write("class/hwmon/hwmon1/energy2_input", "9000000");
        sys.write("class/hwmon/hwmon2/power1_average", "50000000");
    });
    assert_eq!(
        report.energy.source(),
        "measured (hwmon: socket-0, amdgpu-0)"
    );
    assert!((report.energy.joules().expect("measured").0 - 48.0).abs() < 1e-9);
}

#[test]
fn amd_sockets_are_not_read_beside_rapl_and_chips_not_added_to_it() {
    let sys = Sys::new();
    sys.zone(PACKAGE, "package-0", 0);
    sys.write("class/hwmon/hwmon1/name", "amd_energy");
    sys.write("class/hwmon/hwmon1/energy1_label", "Esocket0");
    sys.write("class/hwmon/hwmon1/energy1_input", "0");
    // Graphics in the processor: no cap.
    sys.write("class/hwmon/hwmon2/name", "amdgpu");
    sys.write("class/hwmon/hwmon2/power1_input", "9000000");
    let report = over_a_second(&sys, || sys.set(PACKAGE, 10_000_000));
    assert_eq!(report.energy.source(), "measured (rapl: package-0)");
    assert!((report.energy.joules().expect("measured").0 - 10.0).abs() < 1e-9);
    let chip = report.domains.iter().find(|d| d.domain == "amdgpu-0");
    assert!(chip.is_some_and(|d| !d.counted && d.joules.is_some()));
}
