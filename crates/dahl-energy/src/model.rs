//! Modelled energy, where nothing can be measured: watts per unit × busy and idle time.
//!
//! ```text
//! joules = base watts · elapsed
//!        + Σ over units ( busy watts · busy time + idle watts · (elapsed − busy time) )
//! ```
//!
//! A model knows nothing of frequencies, caches, instructions or memory. It is good for comparing runs of
//! one machine, and every figure says that it is a model's and with which watts.

use std::fmt;
use std::sync::Arc;

use dahl_core::{Joules, Seconds, Watts};
use serde::{Deserialize, Serialize};

use super::{Domain, Meter, Quantity, Scope, Trouble, TroubleKind};

/// The name of this source.
pub(crate) const NAME: &str = "model";

/// Watts of a core that computes, where no machine file says otherwise. This and [`IDLE`] are the means
/// over the processors of a large cloud, per core as the system counts them (hardware threads), of whole
/// servers under SPECpower_ssj2008, as the Cloud Carbon Footprint project's methodology gives them
/// (<https://www.cloudcarbonfootprint.org/docs/methodology/>, "Compute", AWS): 3.5 W and 0.74 W.
pub const BUSY: Watts = Watts(3.5);

/// Watts of a core that waits.
pub const IDLE: Watts = Watts(0.74);

/// What some equal units draw, and what they share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WattsModel {
    /// A unit that computes.
    pub busy: Watts,
    /// A unit that waits.
    pub idle: Watts,
    /// How many units.
    pub units: usize,
    /// What a unit is called: `core`.
    pub unit: String,
    /// What the machine draws beside them, whatever they do.
    #[serde(default)]
    pub base: Watts,
}

impl WattsModel {
    /// This many cores, with the stated defaults.
    pub fn cores(units: usize) -> Self {
        WattsModel {
            busy: BUSY,
            idle: IDLE,
            units,
            unit: "core".into(),
            base: Watts(0.0),
        }
    }

    /// Cores that draw so much each (busy, idle), and what the machine draws beside them, as a machine
    /// file says. CPU time does not say which core was busy, so unequal cores count as their mean.
    /// `None` without cores.
    pub fn of_units(each: &[(Watts, Watts)], base: Watts) -> Option<Self> {
        let n = each.len();
        let mean = |total: Watts| Watts(total.0 / n as f64);
        (n > 0).then(|| WattsModel {
            busy: mean(each.iter().map(|e| e.0).sum()),
            idle: mean(each.iter().map(|e| e.1).sum()),
            base,
            ..Self::cores(n)
        })
    }

    /// All cores of this machine, with the stated defaults.
    pub fn of_this_machine() -> Self {
        Self::cores(cores())
    }

    /// Why this cannot be meant, if it cannot.
    pub fn check(&self) -> Result<(), String> {
        let all = [
            ("busy", self.busy),
            ("idle", self.idle),
            ("base", self.base),
        ];
        for (name, Watts(watts)) in all {
            if !watts.is_finite() || watts < 0.0 {
                return Err(format!(
                    "{name} watts must be a number of at least 0, not {watts}"
                ));
            }
        }
        if self.busy < self.idle {
            return Err(format!(
                "a busy {} cannot draw less ({} W) than an idle one ({} W)",
                self.unit, self.busy.0, self.idle.0
            ));
        }
        Ok(())
    }

    /// Energy of units that together were busy for so long.
    pub fn pooled(&self, busy: Seconds, elapsed: Seconds) -> Joules {
        let most = elapsed.0 * self.units as f64;
        // CPU time is counted in ticks and may run ahead of the clock by one.
        let busy = busy.0.clamp(0.0, most.max(0.0));
        let units = Joules(self.busy.0 * busy + self.idle.0 * (most - busy));
        units + self.base * Seconds(elapsed.0.max(0.0))
    }
}

impl fmt::Display for WattsModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |watts: Watts| (watts.0 * 1e3).round() / 1e3;
        let (busy, idle, unit) = (short(self.busy), short(self.idle), &self.unit);
        write!(f, "{busy} W busy, {idle} W idle per {unit}")?;
        if self.base.0 > 0.0 {
            write!(f, ", {} W base", short(self.base))?;
        }
        Ok(())
    }
}

/// All cores that this machine's system has online.
pub(crate) fn cores() -> usize {
    #[cfg(unix)]
    {
        // SAFETY: asks for a number.
        let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        if let Ok(online @ 1..) = usize::try_from(online) {
            return online;
        }
    }
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Who says how long units were busy.
#[derive(Clone)]
pub enum Clock {
    /// The CPU time of this process, all its threads together.
    Process,
    /// The CPU time of child processes that ended and were waited for, with their own such children.
    /// Means nothing before the end.
    Children,
    /// The total busy time of all units, given by somebody else.
    Given(Arc<dyn Fn() -> Seconds + Send + Sync>),
}

impl Clock {
    /// Busy time so far, all units together.
    pub fn busy(&self) -> Result<Seconds, Trouble> {
        match self {
            Clock::Given(tell) => Ok(tell()),
            #[cfg(unix)]
            Clock::Process => used(libc::RUSAGE_SELF),
            #[cfg(unix)]
            Clock::Children => used(libc::RUSAGE_CHILDREN),
            #[cfg(not(unix))]
            Clock::Process | Clock::Children => Err(Trouble::new(
                TroubleKind::Missing,
                "this system does not tell how much CPU time was used",
            )),
        }
    }
}

#[cfg(unix)]
fn used(who: libc::c_int) -> Result<Seconds, Trouble> {
    // SAFETY: the call fills the structure, plain numbers that are valid as zeros.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        if libc::getrusage(who, &mut usage) != 0 {
            let why = std::io::Error::last_os_error();
            let text = format!("the system does not tell CPU time: {why}");
            return Err(Trouble::new(TroubleKind::Failed, text));
        }
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    Ok(Seconds(seconds(usage.ru_utime) + seconds(usage.ru_stime)))
}

/// The model as a meter, whose counter is in nanojoules.
pub(crate) struct ModelMeter {
    watts: WattsModel,
    clock: Clock,
    /// Busy time and time of the first reading.
    start: Option<(Seconds, Seconds)>,
    domains: [Domain; 1],
}

const NANO: f64 = 1e-9;

impl ModelMeter {
    /// A meter that multiplies.
    pub(crate) fn new(watts: WattsModel, clock: Clock) -> Self {
        let domain = Domain {
            name: format!("{} {}s", watts.units, watts.unit),
            scope: Scope::Modelled,
            quantity: Quantity::Counter {
                joules: NANO,
                range: None,
            },
            ceiling: Watts(f64::INFINITY),
            sampled: !matches!(clock, Clock::Children),
        };
        ModelMeter {
            watts,
            clock,
            start: None,
            domains: [domain],
        }
    }
}

impl ModelMeter {
    /// The same of graphics cards. The domain's name states the watts.
    pub(crate) fn of_gpus(watts: WattsModel, clock: Clock) -> Self {
        let mut meter = ModelMeter::new(watts, clock);
        let [domain] = &mut meter.domains;
        let plural = if meter.watts.units == 1 { "" } else { "s" };
        let (units, unit) = (meter.watts.units, &meter.watts.unit);
        domain.name = format!("{units} {unit}{plural}: {}", meter.watts);
        domain.scope = Scope::ModelledGpu;
        meter
    }
}

impl Meter for ModelMeter {
    fn name(&self) -> &'static str {
        NAME
    }

    fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn read(&mut self, _: usize, now: Seconds) -> Result<u64, Trouble> {
        let busy = self.clock.busy()?;
        let (busy_then, then) = *self.start.get_or_insert((busy, now));
        let joules = self.watts.pooled(busy - busy_then, now - then);
        Ok((joules.0 / NANO) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_and_idle_time_add_up() {
        let mut watts = WattsModel::cores(2);
        watts.busy = Watts(8.5);
        watts.idle = Watts(2.1);
        assert_eq!(watts.to_string(), "8.5 W busy, 2.1 W idle per core");
        let expected = 8.5 * 5.0 + 2.1 * 15.0;
        let joules = |busy, elapsed| watts.pooled(Seconds(busy), Seconds(elapsed)).0;
        assert!((joules(5.0, 10.0) - expected).abs() < 1e-9);
        // Units cannot be busy for longer than the run.
        assert!((joules(0.0, 1.0) - 4.2).abs() < 1e-9);
        assert!((joules(99.0, 1.0) - 17.0).abs() < 1e-9);
    }

    #[test]
    fn unequal_cores_count_as_their_mean() {
        let each = [(Watts(8.0), Watts(2.0)), (Watts(3.0), Watts(0.5))];
        let watts = WattsModel::of_units(&each, Watts(20.0)).expect("two cores");
        let text = "5.5 W busy, 1.25 W idle per core, 20 W base";
        assert_eq!(watts.to_string(), text);
        // Both busy: the mean is exact.
        let joules = watts.pooled(Seconds(4.0), Seconds(2.0));
        assert!((joules.0 - 2.0 * (8.0 + 3.0 + 20.0)).abs() < 1e-9);
        assert_eq!(WattsModel::of_units(&[], Watts(0.0)), None);
    }

    #[test]
    fn impossible_watts_are_named() {
        let mut watts = WattsModel::cores(1);
        assert_eq!(watts.check(), Ok(()));
        watts.idle = Watts(5.0);
        assert!(watts.check().is_err_and(|e| e.contains("idle one (5 W)")));
        watts.busy = Watts(f64::NAN);
        assert!(watts.check().is_err_and(|e| e.contains("busy watts must")));
    }

    #[cfg(unix)]
    #[test]
    fn this_process_uses_time() {
        let before = Clock::Process.busy().expect("CPU time");
        let mut x = 1u64;
        while Clock::Process.busy().expect("CPU time") <= before {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
    }
}
