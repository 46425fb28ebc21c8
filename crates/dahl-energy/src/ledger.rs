//! The ledger of a run: all meters, an account per domain, and the total.
//!
//! Driven by a caller with a clock: the sampler's thread, or a test. It never fails: what cannot be read
//! is in the report.

use std::time::Instant;

use dahl_core::Seconds;

use super::account::Account;
use super::energy::{DomainEnergy, Energy, PowerSample, Report, settle, total};
use super::model::{Clock, ModelMeter, WattsModel};
use super::{Finding, Meter, Tree, Trouble, TroubleKind, hwmon, nvml, perf_event, rapl};

/// What a machine offers.
#[derive(Default)]
pub struct Meters {
    /// Sources that can be read.
    pub meters: Vec<Box<dyn Meter>>,
    /// What was found, readable or not.
    pub findings: Vec<Finding>,
}

impl Meters {
    /// Looks everywhere. Sources that count the same (RAPL by powercap, perf events and hwmon) are used
    /// in this order, only the first that can be read. Without `cards`, NVIDIA's library is not loaded.
    pub(crate) fn discover(tree: &Tree, cards: bool) -> Self {
        let rapl = rapl::discover(tree);
        let mut perf = perf_event::discover(tree);
        if rapl.has_processors() {
            perf.meter = None;
            for finding in perf.findings.iter_mut().filter(|f| f.trouble.is_none()) {
                finding.note = "not used: powercap measures the same".into();
            }
        }
        let sockets = !rapl.has_processors() && !perf.has_processors();
        let hwmon = hwmon::discover(tree, sockets);
        let not_asked = |why: &str| {
            let text = format!("nvml: not asked, since {why}");
            super::Found::nothing(nvml::NAME, Trouble::new(TroubleKind::Missing, text))
        };
        let nvml = match (tree.is_the_system(), cards) {
            (true, true) => nvml::discover(),
            (true, false) => not_asked("no GPU is in use"),
            (false, _) => not_asked("the tree is not this machine's"),
        };
        let mut all = Meters::default();
        for found in [rapl, perf, hwmon, nvml] {
            all.meters.extend(found.meter);
            all.findings.extend(found.findings);
        }
        all
    }
}

/// The ledger of a run.
pub struct Ledger {
    meters: Vec<Box<dyn Meter>>,
    findings: Vec<Finding>,
    /// The accounts, each with its meter and the domain's place in it.
    accounts: Vec<(usize, usize, Account)>,
    /// How the model describes itself.
    watts: String,
    start: Option<Seconds>,
    last: Seconds,
    readings: u64,
    spent: Seconds,
}

impl Ledger {
    /// A ledger over these meters, and a model for where they say nothing of processors. `interval` is
    /// how often it will be asked to sample.
    pub(crate) fn new(
        meters: Meters,
        model: Option<(WattsModel, Clock)>,
        interval: Seconds,
    ) -> Self {
        let mut all = meters.meters;
        let watts = model.as_ref().map(|(w, _)| w.to_string());
        if let Some((watts, clock)) = model {
            all.push(Box::new(ModelMeter::new(watts, clock)));
        }
        let mut accounts = Vec::new();
        for (m, meter) in all.iter().enumerate() {
            for (d, domain) in meter.domains().iter().enumerate() {
                accounts.push((m, d, Account::new(domain, interval)));
            }
        }
        Ledger {
            meters: all,
            findings: meters.findings,
            accounts,
            watts: watts.unwrap_or_default(),
            start: None,
            last: Seconds(0.0),
            readings: 0,
            spent: Seconds(0.0),
        }
    }

    /// Whether any domain is worth reading before the end.
    pub(crate) fn is_worth_sampling(&self) -> bool {
        let mut domains = self.meters.iter().flat_map(|m| m.domains());
        domains.any(|d| d.sampled)
    }

    /// Reads all domains. The first time is the beginning of the run.
    pub(crate) fn sample(&mut self, now: Seconds) {
        let began = Instant::now();
        self.start.get_or_insert(now);
        for (meter, domain, account) in &mut self.accounts {
            account.enter(now, self.meters[*meter].read(*domain, now));
        }
        self.last = now;
        self.readings += 1;
        self.spent += Seconds(began.elapsed().as_secs_f64());
    }

    /// How often all meters had something new to say: that of the slowest.
    pub(crate) fn readings(&self) -> u64 {
        let slow = self.meters.iter().filter_map(|m| m.readings());
        slow.fold(self.readings, u64::min)
    }

    /// What each domain has used until the last sample.
    pub(crate) fn domains(&self) -> Vec<DomainEnergy> {
        let elapsed = self.elapsed();
        let one = |(meter, domain, account): &(usize, usize, Account)| {
            let meter = &self.meters[*meter];
            let domain = &meter.domains()[*domain];
            DomainEnergy {
                meter: meter.name(),
                domain: domain.name.clone(),
                scope: domain.scope.clone(),
                joules: account.joules(),
                counted: false,
                trouble: account.why_not(elapsed),
                doubts: account.doubts(),
            }
        };
        let mut domains: Vec<DomainEnergy> = self.accounts.iter().map(one).collect();
        settle(&mut domains);
        domains
    }

    fn elapsed(&self) -> Seconds {
        self.last - self.start.unwrap_or(self.last)
    }

    /// The total as of the last sample.
    pub(crate) fn energy(&self) -> Energy {
        total(&self.domains(), &self.watts, &self.findings, self.elapsed())
    }

    /// Power over time, by time.
    pub(crate) fn samples(&self) -> Vec<PowerSample> {
        let mut samples = Vec::new();
        for (i, (.., account)) in self.accounts.iter().enumerate() {
            let domain = i as u16;
            samples.extend(account.samples().iter().map(|span| PowerSample {
                from: span.from,
                at: span.to,
                domain,
                watts: span.watts(),
            }));
        }
        samples.sort_by(|a, b| a.at.0.total_cmp(&b.at.0).then(a.domain.cmp(&b.domain)));
        samples
    }

    /// All that is known as of the last sample.
    pub(crate) fn report(&mut self) -> Report {
        for (.., account) in &mut self.accounts {
            account.close();
        }
        let domains = self.domains();
        let energy = total(&domains, &self.watts, &self.findings, self.elapsed());
        Report {
            energy,
            domains,
            samples: self.samples(),
            findings: self.findings.clone(),
            readings: self.readings,
            spent: self.spent,
        }
    }
}
