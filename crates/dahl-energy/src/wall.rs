//! Meters at the wall: a file that somebody writes, or a plug that answers over HTTP.
//!
//! ```text
//! file:/run/meter/watts                                   the last number of the last line, in watts
//! file:/run/meter/log.csv#:Wh                             the same as a counter of watt-hours
//! http://192.168.1.20/rpc/Switch.GetStatus?id=0#apower:W  a number in a JSON object, by its path
//! ```
//!
//! What they count contains everything that RAPL and NVML see, so it is the whole, and nothing is added to it. A meter over
//! HTTP is asked once a second by a thread of its own: a slow answer never holds up a measurement. What this refuses:
//! TLS, passwords, and values that are older than [`OLDEST`].

mod http;

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use dahl_core::{Seconds, Watts};

use super::files::trouble;
use super::{Domain, Finding, Meter, Quantity, Scope, Trouble, TroubleKind};
use http::Url;

/// The name of this source.
pub(crate) const NAME: &str = "wall";

/// How often a meter over HTTP is asked.
const EVERY: Duration = Duration::from_secs(1);

/// A value that nobody has renewed for so long says nothing of now.
const OLDEST: Duration = Duration::from_secs(5);

/// Counts of one unit of a meter: numbers have six digits behind the point.
const COUNTS: f64 = 1e6;

/// More than a socket gives; counters of watt-hours rise in steps of some kilojoules.
const SOCKET: Watts = Watts(10_000.0);

/// Bytes of a file's end in which its last line is looked for.
const TAIL: u64 = 4096;

/// Units by name: whether a counter, and watts or joules of one.
const UNITS: &[(&str, bool, f64)] = &[
    ("W", false, 1.0),
    ("mW", false, 1e-3),
    ("kW", false, 1e3),
    ("J", true, 1.0),
    ("uJ", true, 1e-6),
    ("mJ", true, 1e-3),
    ("kJ", true, 1e3),
    ("Wh", true, 3600.0),
    ("kWh", true, 3.6e6),
];

/// Where a meter's numbers come from.
#[derive(Clone, Debug, PartialEq)]
enum Place {
    File(PathBuf),
    Http(Url),
}

/// A meter at the wall, as its user names it: `file:PATH` or `http://HOST/PATH`, then `#KEY:UNIT` where needed.
#[derive(Clone, Debug, PartialEq)]
pub struct WallMeter {
    /// What the user wrote.
    text: String,
    place: Place,
    /// Names and places in a JSON value that lead to the number; none if the text itself is one.
    key: Vec<String>,
    quantity: Quantity,
}

impl FromStr for WallMeter {
    type Err = String;

    fn from_str(text: &str) -> Result<WallMeter, String> {
        let (place, rest) = text.split_once('#').unwrap_or((text, ""));
        let (key, unit) = match rest.rsplit_once(':') {
            Some((key, unit)) => (key, unit),
            None => (rest, "W"),
        };
        let Some((_, counter, size)) = UNITS.iter().find(|u| u.0 == unit) else {
            let names: Vec<&str> = UNITS.iter().map(|u| u.0).collect();
            return Err(dahl_core::text::unknown("unit of a meter", unit, &names));
        };
        let place = match place.split_once(':') {
            Some(("file", path)) if !path.is_empty() => Place::File(path.into()),
            Some(("http", _)) => Place::Http(place.parse()?),
            Some(("https", _)) => {
                return Err(format!(
                    "{place}: meters are asked without TLS: use http, or write its values to a file and use file:"
                ));
            }
            _ => {
                return Err(format!(
                    "{text:?} is no meter: write file:PATH or http://HOST/PATH, with #KEY:UNIT where needed"
                ));
            }
        };
        let per_count = size / COUNTS;
        Ok(WallMeter {
            text: text.into(),
            place,
            key: match key.is_empty() {
                true => Vec::new(),
                false => key.split('.').map(String::from).collect(),
            },
            quantity: match counter {
                true => Quantity::Counter {
                    joules: per_count,
                    range: None,
                },
                false => Quantity::Power { watts: per_count },
            },
        })
    }
}

impl fmt::Display for WallMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl WallMeter {
    /// Reads it once, now: who names a meter wants to hear at once that it does not answer.
    pub fn check(&self) -> Result<(), Trouble> {
        let text = match &self.place {
            Place::File(path) => last_line(path)?.0,
            Place::Http(url) => url.get()?,
        };
        self.count(&text).map(drop)
    }

    /// The number in a text, in counts.
    fn count(&self, text: &str) -> Result<u64, Trouble> {
        let garbage = |what: String| {
            let start: String = text.trim().chars().take(60).collect();
            Trouble::new(TroubleKind::Garbage, format!("{self}: {what} in {start:?}"))
        };
        let value = match self.key.is_empty() {
            true => {
                let last = text.trim().rsplit([',', ';', ' ', '\t']).next();
                last.and_then(|word| word.trim().parse().ok())
                    .ok_or_else(|| garbage("no number at the end".into()))?
            }
            false => number_at(text, &self.key).map_err(garbage)?,
        };
        let counts: f64 = value * COUNTS;
        // Wall meters of solar roofs go below zero; a computer's does not.
        match (0.0..1e18).contains(&counts) {
            true => Ok(counts.round() as u64),
            false => Err(garbage(format!("{value} is no reading of a meter"))),
        }
    }

    /// The meter that is read, and what was found.
    pub(crate) fn attach(&self) -> (Box<dyn Meter>, Finding) {
        let finding = match self.check() {
            Ok(()) => Finding::readable(NAME, &self.text, ""),
            Err(why) => Finding::not(NAME, &self.text, why),
        };
        let latest = Arc::new(Mutex::new(Latest::default()));
        if matches!(self.place, Place::Http(_)) {
            let (meter, shared) = (self.clone(), Arc::downgrade(&latest));
            // Without the thread there is no value, and the meter says so.
            let _ = std::thread::Builder::new()
                .name("dahl-wall".into())
                .spawn(move || ask(&meter, &shared));
        }
        let meter = Attached {
            domains: vec![Domain {
                name: self.text.clone(),
                scope: Scope::Wall,
                quantity: self.quantity,
                ceiling: SOCKET,
                sampled: true,
            }],
            meter: self.clone(),
            latest,
        };
        (Box::new(meter), finding.of(Scope::Wall))
    }
}

/// What a meter said last.
#[derive(Default)]
struct Latest {
    value: Option<Result<u64, Trouble>>,
    /// When a value came last.
    at: Option<Instant>,
    /// When the file was written, and how long it is: another pair is a new reading.
    written: Option<(SystemTime, u64)>,
    readings: u64,
}

impl Latest {
    fn keep(&mut self, value: Result<u64, Trouble>) {
        if value.is_ok() {
            self.readings += 1;
            self.at = Some(Instant::now());
        }
        self.value = Some(value);
    }

    /// What holds now, at this age of the last value.
    fn now(&self, age: Option<Duration>) -> Result<u64, Trouble> {
        match (&self.value, age) {
            (Some(Ok(value)), Some(age)) if age <= OLDEST => Ok(*value),
            (Some(Err(why)), _) => Err(why.clone()),
            (Some(Ok(_)), _) => Err(Trouble::new(
                TroubleKind::Missing,
                format!("it has said nothing for {} s", OLDEST.as_secs()),
            )),
            (None, _) => Err(Trouble::new(
                TroubleKind::Missing,
                "it has not answered yet",
            )),
        }
    }
}

/// Asks until nobody reads any more.
fn ask(meter: &WallMeter, latest: &Weak<Mutex<Latest>>) {
    let Place::Http(url) = &meter.place else {
        return;
    };
    loop {
        let began = Instant::now();
        let value = url.get().and_then(|text| meter.count(&text));
        let Some(latest) = latest.upgrade() else {
            return;
        };
        latest
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .keep(value);
        drop(latest);
        std::thread::sleep(EVERY.saturating_sub(began.elapsed()));
    }
}

/// A meter that is being read.
struct Attached {
    domains: Vec<Domain>,
    meter: WallMeter,
    latest: Arc<Mutex<Latest>>,
}

impl Meter for Attached {
    fn name(&self) -> &'static str {
        NAME
    }

    fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn read(&mut self, _: usize, _: Seconds) -> Result<u64, Trouble> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Place::File(path) = &self.meter.place {
            let (text, written) = last_line(path)?;
            let value = self.meter.count(&text)?;
            if latest.written != Some(written) {
                latest.written = Some(written);
                latest.keep(Ok(value));
            }
        }
        let age = latest.at.map(|at| at.elapsed());
        latest.now(age)
    }

    fn readings(&self) -> Option<u64> {
        let latest = self.latest.lock();
        Some(latest.unwrap_or_else(PoisonError::into_inner).readings)
    }
}

/// The last whole line of a file, when it was written and how long it is. A line without its end is whole only if it is the
/// only one: who appends may be in the middle of the next.
fn last_line(path: &Path) -> Result<(String, (SystemTime, u64)), Trouble> {
    let read = || {
        let mut file = File::open(path)?;
        let about = file.metadata()?;
        file.seek(SeekFrom::Start(about.len().saturating_sub(TAIL)))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        let written = (about.modified()?, about.len());
        Ok((String::from_utf8_lossy(&bytes).into_owned(), written))
    };
    let (text, written) = read().map_err(|e| trouble(path, &e))?;
    let whole = text.rfind('\n').map_or(text.as_str(), |end| &text[..end]);
    let line = whole.trim_end().rsplit('\n').next().unwrap_or_default();
    Ok((line.to_owned(), written))
}

/// The number at a path of names and places in a JSON text.
fn number_at(text: &str, key: &[String]) -> Result<f64, String> {
    let all: serde_json::Value =
        serde_json::from_str(text.trim()).map_err(|_| "no JSON".to_owned())?;
    let mut value = &all;
    for name in key {
        let inside = match name.parse::<usize>() {
            Ok(place) if value.is_array() => value.get(place),
            _ => value.get(name),
        };
        value = inside.ok_or_else(|| format!("no {name:?}"))?;
    }
    // Some plugs quote their numbers.
    let quoted = value.as_str().and_then(|t| t.trim().parse().ok());
    let number = value.as_f64().or(quoted);
    number.ok_or_else(|| format!("no number at {:?}", key.join(".")))
}

#[cfg(test)]
mod tests;
