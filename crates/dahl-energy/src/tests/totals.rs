//! What is added up, what is not, and what the text says of it.

use std::time::Duration;

use dahl_core::{Joules, Seconds};

use super::super::energy::{settle, total};
use super::super::*;
use super::made_up::{Sys, model};

fn domain(meter: &'static str, name: &str, scope: Scope, joules: f64) -> DomainEnergy {
    DomainEnergy {
        meter,
        domain: name.into(),
        scope,
        joules: (joules > 0.0).then_some(Joules(joules)),
        counted: false,
        trouble: None,
        doubts: Vec::new(),
    }
}

fn core() -> Scope {
    Scope::Inside("package-0".into())
}

/// The total's source and joules.
fn sum(mut domains: Vec<DomainEnergy>) -> (String, f64) {
    settle(&mut domains);
    let energy = total(&domains, "W", &[], Seconds(1.0));
    (energy.source(), energy.joules().map_or(0.0, |j| j.0))
}

#[test]
fn cores_are_in_their_package_and_memory_is_not() {
    let got = sum(vec![
        domain("rapl", "package-0", Scope::Package, 10.0),
        domain("rapl", "package-0/core", core(), 7.0),
        domain("rapl", "package-0/uncore", core(), 1.0),
        domain("rapl", "package-0/dram", Scope::Dram, 2.0),
        domain("nvml", "gpu-0", Scope::Gpu, 100.0),
        domain("model", "2 cores", Scope::Modelled, 50.0),
    ]);
    let text = "measured (rapl: package-0, package-0/dram; nvml: gpu-0)";
    assert_eq!(got, (text.to_string(), 112.0));
}

/// A card without a meter is modelled, beside whatever is known of the processors; and says its watts.
#[test]
fn cards_are_modelled_where_none_is_measured() {
    let watts = WattsModel {
        busy: dahl_core::Watts(115.0),
        idle: dahl_core::Watts(12.0),
        unit: "gpu".into(),
        ..WattsModel::cores(1)
    };
    let busy = Clock::Given(std::sync::Arc::new(|| Seconds(0.0)));
    let mut meter = model::ModelMeter::of_gpus(watts, busy);
    let name = meter.domains()[0].name.clone();
    assert_eq!(name, "1 gpu: 115 W busy, 12 W idle per gpu");
    meter.read(0, Seconds(1.0)).expect("a model");
    assert_eq!(meter.read(0, Seconds(3.0)), Ok(24_000_000_000));

    let card = || domain("model", &name, Scope::ModelledGpu, 90.0);
    let cores = || domain("model", "2 cores", Scope::Modelled, 50.0);
    let package = || domain("rapl", "package-0", Scope::Package, 10.0);
    let (text, joules) = sum(vec![package(), cores(), card()]);
    let by = format!("modelled ({name})");
    assert_eq!(
        (text, joules),
        (format!("measured (rapl: package-0) + {by}"), 100.0)
    );
    let (text, joules) = sum(vec![cores(), card()]);
    assert_eq!((text, joules), (format!("modelled (W) + {by}"), 140.0));
    let measured = domain("nvml", "gpu-0", Scope::Gpu, 70.0);
    let (_, joules) = sum(vec![package(), measured, cores(), card()]);
    assert_eq!(joules, 80.0);
    let (_, joules) = sum(vec![
        domain("rapl", "psys", Scope::Platform, 200.0),
        package(),
        card(),
    ]);
    assert_eq!(joules, 200.0);

    // Of two modelled parts, each is counted from where it was itself.
    let at = |cores: f64, card: f64| Energy {
        elapsed: Seconds(cores),
        parts: [("W", cores), (&*name, card)]
            .map(|(by, joules)| Part {
                kind: PartKind::Modelled,
                joules: Joules(joules),
                by: by.into(),
            })
            .into(),
        ..Energy::default()
    };
    let since = at(50.0, 90.0).since(&at(20.0, 30.0));
    let parts: Vec<f64> = since.parts.iter().map(|p| p.joules.0).collect();
    assert_eq!(parts, [30.0, 60.0]);
}

#[test]
fn cores_count_where_their_package_is_unknown() {
    let got = sum(vec![
        domain("rapl", "package-0", Scope::Package, 0.0),
        domain("rapl", "package-0/core", core(), 7.0),
    ]);
    assert_eq!(got, ("measured (rapl: package-0/core)".to_string(), 7.0));
}

#[test]
fn the_platform_covers_all_if_it_can() {
    let parts = |psys| {
        vec![
            domain("rapl", "package-0", Scope::Package, 10.0),
            domain("rapl", "package-0/dram", Scope::Dram, 2.0),
            domain("rapl", "psys", Scope::Platform, psys),
            domain("model", "2 cores", Scope::Modelled, 50.0),
        ]
    };
    assert_eq!(
        sum(parts(20.0)),
        ("measured (rapl: psys)".to_string(), 20.0)
    );
    // Less than its parts, it is not wired to them; still, it is nothing.
    for psys in [5.0, 0.0] {
        let text = "measured (rapl: package-0, package-0/dram)".to_string();
        assert_eq!(sum(parts(psys)), (text, 12.0));
    }
}

#[test]
fn measured_and_modelled_are_told_apart_in_a_sum() {
    let got = sum(vec![
        domain("nvml", "gpu-0", Scope::Gpu, 100.0),
        domain("model", "2 cores", Scope::Modelled, 50.0),
    ]);
    let text = "measured (nvml: gpu-0) + modelled (W)";
    assert_eq!(got, (text.to_string(), 150.0));
}

#[test]
fn a_processor_that_is_left_out_is_named() {
    let mut domains = vec![
        domain("rapl", "package-0", Scope::Package, 10.0),
        domain("rapl", "package-1", Scope::Package, 0.0),
    ];
    domains[1].trouble = Some(Trouble::new(TroubleKind::Failed, "did not move"));
    settle(&mut domains);
    let denied = Trouble::new(TroubleKind::Denied, "permission denied").or_run("sudo x");
    let findings = [Finding::not("rapl", "package-2", denied).of(Scope::Package)];
    let energy = total(&domains, "", &findings, Seconds(1.0));
    assert_eq!(
        energy.source(),
        "measured (rapl: package-0), uncertain: package-2 is not in it: permission denied; run sudo x; \
         package-1 is not in it: did not move"
    );
}

#[test]
fn the_model_stands_in_and_steps_back() {
    // Nothing measured: one of two cores is busy for four seconds.
    let sys = Sys::new();
    let meters = || Meters::discover(&sys.tree(), true);
    let run = |mut ledger: Ledger| {
        for i in 0..=4 {
            ledger.sample(Seconds(f64::from(i)));
        }
        ledger.report()
    };
    let report = run(Ledger::new(meters(), model(), Seconds(0.1)));
    assert_eq!(
        report.energy.source(),
        "modelled (10 W busy, 1 W idle per core)"
    );
    assert!((report.energy.joules().expect("modelled").0 - 44.0).abs() < 1e-6);
    assert!(!report.energy.is_measured());
    assert_eq!(report.domains[0].source(), "modelled (2 cores)");
    // A counter that is there and never moves measures nothing: still the model, never a zero.
    sys.zone("intel-rapl:0", "psys", 0);
    let report = run(Ledger::new(meters(), model(), Seconds(0.1)));
    assert!(
        report.energy.source().starts_with("modelled"),
        "{}",
        report.energy
    );
    let psys = report.domains[0].source();
    assert!(
        psys.contains("unavailable (rapl: psys: it can be read, but did not move in 4.00 s)"),
        "{psys}"
    );
}

#[test]
fn epochs_are_differences() {
    let sys = Sys::new();
    sys.zone("intel-rapl:0", "package-0", 0);
    let mut ledger = Ledger::new(Meters::discover(&sys.tree(), true), model(), Seconds(0.1));
    ledger.sample(Seconds(0.0));
    // The counter has not moved yet, so the first figure is the model's.
    ledger.sample(Seconds(0.5));
    let first = ledger.energy();
    assert!(first.source().starts_with("modelled"));
    sys.set("intel-rapl:0", 5_000_000);
    ledger.sample(Seconds(1.0));
    let second = ledger.energy();
    let epoch = second.since(&first);
    assert_eq!(epoch.source(), "measured (rapl: package-0)");
    assert_eq!(epoch.elapsed, Seconds(0.5));
    assert!((epoch.joules().expect("measured").0 - 5.0).abs() < 1e-9);
    sys.set("intel-rapl:0", 6_000_000);
    ledger.sample(Seconds(2.0));
    let third = ledger.energy().since(&second);
    assert!((third.joules().expect("measured").0 - 1.0).abs() < 1e-9);
    assert!((third.watts().expect("measured").0 - 1.0).abs() < 1e-9);
}

#[test]
fn the_thread_samples_until_it_is_stopped() {
    let sys = Sys::new();
    sys.zone("intel-rapl:0", "package-0", 0);
    let options = Options {
        sysfs: sys.root().into(),
        interval: Duration::from_millis(5),
        ..Options::default()
    };
    let sampler = options.start();
    // The model has samples, too: these are the counter's.
    let sampled = || sampler.samples().iter().filter(|s| s.domain == 0).count();
    while sampled() < 10 {
        std::thread::sleep(Duration::from_millis(5));
    }
    // Written beside and renamed, so that the thread never sees half a file.
    let beside = sys.root().join("counter");
    std::fs::write(&beside, "7000000").expect("a file");
    std::fs::rename(
        &beside,
        sys.root().join("class/powercap/intel-rapl:0/energy_uj"),
    )
    .expect("a rename");
    assert!((sampler.snapshot().joules().expect("measured").0 - 7.0).abs() < 1e-9);
    let report = sampler.finish();
    assert_eq!(
        report.energy.source(),
        "measured (rapl: package-0)",
        "{report:?}"
    );
    assert!(report.readings >= 10, "{}", report.readings);
    let curve: f64 = report
        .samples
        .iter()
        .filter(|s| s.domain == 0)
        .map(|s| s.watts.0 * (s.at - s.from).0)
        .sum();
    assert!((curve - 7.0).abs() < 1e-6, "{curve} J in the samples");
    assert!(report.samples.windows(2).all(|w| w[0].at <= w[1].at));
}
