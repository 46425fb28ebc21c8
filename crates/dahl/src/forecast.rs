//! Time and joules of a whole run, said after its first steps.

use std::time::{Duration, Instant};

use dahl_core::Joules;
use dahl_energy::Energy;

/// The first steps last at least so long and are at least so many, or the figure is not worth saying.
const LONG: Duration = Duration::from_secs(2);
const MANY: u64 = 10;
/// Runs that take less have soon said it themselves.
const WORTH: f64 = 20.0;

/// Says after the first steps what all of them will take.
///
/// ```
/// use dahl::energy::Energy;
///
/// let mut forecast = dahl::Forecast::default();
/// // Until some seconds have passed it has nothing to say, and of a run that takes no longer than those it never has.
/// assert_eq!(forecast.tell(1, 1000, Energy::default), None);
/// assert_eq!(forecast.tell(20, 1000, Energy::default), None);
/// ```
#[derive(Debug, Default)]
pub struct Forecast {
    /// When, at which step and after how many joules counting began.
    first: Option<(Instant, u64, Energy)>,
    told: bool,
}

impl Forecast {
    /// After so many steps of so many; a line, once.
    pub fn tell(&mut self, done: u64, total: u64, energy: impl Fn() -> Energy) -> Option<String> {
        if self.told {
            return None;
        }
        // The first step allocates and compiles: counting begins behind it.
        let Some((since, first, before)) = &self.first else {
            self.first = Some((Instant::now(), done, energy()));
            return None;
        };
        let (elapsed, steps) = (since.elapsed(), done - first);
        if elapsed < LONG || steps < MANY {
            return None;
        }
        self.told = true;
        let part = (total - first) as f64 / steps as f64;
        let seconds = elapsed.as_secs_f64() * part;
        if seconds < WORTH {
            return None;
        }
        let used = energy().since(before);
        let joules = used.joules().map(|j| Joules(j.0 * part));
        let joules = joules.map_or(String::new(), |j| format!(" and {j} ({})", used.source()));
        let time = match seconds {
            s if s < 120.0 => format!("{s:.0} s"),
            s if s < 7200.0 => format!("{:.0} min", s / 60.0),
            s => format!("{:.1} h", s / 3600.0),
        };
        Some(format!(
            "about {time}{joules} for {total} steps, by the first {done}; validation comes on top"
        ))
    }
}
