//! What else went on while something was measured: other processes, the hypervisor, frequency, temperature.
//!
//! Reads `/proc` and `/sys`; where a file is missing the figure is. Judges against limits, and changes nothing: the
//! caller decides what to do with a disturbed run.

use std::fs;

use serde::{Deserialize, Serialize};

/// Clock ticks of `/proc` in a second: Linux has 100 of them on every architecture that Rust supports.
const TICKS: f64 = 100.0;

/// Cores that a hypervisor may take away unnoticed.
const STEAL: f64 = 0.02;

/// A frequency below this part of the one before the block says that the processor was slowed down.
const SLOWER: f64 = 0.9;

/// Readings of counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counters {
    /// CPU seconds of all processes.
    pub busy: f64,
    /// CPU seconds of ours: the peer's and this process's.
    pub own: f64,
    /// Seconds that a hypervisor gave to others.
    pub steal: f64,
    /// How often a core was throttled.
    pub throttled: u64,
}

/// What went on in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Surroundings {
    /// Cores that other processes kept busy.
    pub others: f64,
    /// Cores that the hypervisor took away.
    pub steal: f64,
    /// How often a core was throttled.
    pub throttled: u64,
    /// Mean frequency of the cores in MHz, at the end.
    pub megahertz: Option<f64>,
    /// The hottest sensor in °C, at the end.
    pub celsius: Option<f64>,
}

impl Surroundings {
    /// From readings at both ends of some seconds.
    pub(crate) fn between(before: &Counters, after: &Counters, seconds: f64) -> Surroundings {
        let rate = |x: f64| (x / seconds.max(1e-3)).max(0.0);
        Surroundings {
            others: rate((after.busy - before.busy) - (after.own - before.own)),
            steal: rate(after.steal - before.steal),
            throttled: after.throttled.saturating_sub(before.throttled),
            megahertz: None,
            celsius: None,
        }
    }

    /// Why a run among these is disturbed, if it is. `usual` is the frequency in other runs.
    pub(crate) fn disturbance(&self, others: f64, usual: Option<f64>) -> Option<String> {
        let mut reasons = Vec::new();
        if self.others > others {
            reasons.push(format!("other processes used {:.2} cores", self.others));
        }
        if self.steal > STEAL {
            reasons.push(format!("the hypervisor took {:.2} cores", self.steal));
        }
        if self.throttled > 0 {
            reasons.push(format!("cores were throttled {} times", self.throttled));
        }
        if let (Some(now), Some(usual)) = (self.megahertz, usual)
            && now < SLOWER * usual
        {
            reasons.push(format!("cores ran at {now:.0} MHz instead of {usual:.0}"));
        }
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }
}

/// Reads the counters of this machine. Ours are this process and all that it has started.
pub(crate) fn counters() -> Counters {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = stat.lines().next().unwrap_or_default();
    let fields: Vec<f64> = line
        .split_whitespace()
        .skip(1)
        .filter_map(|f| f.parse().ok())
        .collect();
    let field = |i: usize| fields.get(i).copied().unwrap_or(0.0) / TICKS;
    // user, nice, system, idle, iowait, irq, softirq, steal
    let busy = [0, 1, 2, 5, 6].iter().map(|&i| field(i)).sum();
    Counters {
        busy,
        own: tree(std::process::id()).cpu,
        steal: field(7),
        throttled: throttled(),
    }
}

/// What a process and all that it started have used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Used {
    /// CPU seconds.
    pub cpu: f64,
    /// Page faults.
    pub faults: u64,
    /// Peaks of resident memory, added up over those that still run.
    pub peak_bytes: u64,
}

/// What a process, all that it started and that still runs, and all that it has waited for have used.
pub(crate) fn tree(pid: u32) -> Used {
    let mut all = vec![pid];
    let mut next = 0;
    while next < all.len() && all.len() < 4096 {
        all.extend(children(all[next]));
        next += 1;
    }
    let mut sum = Used::default();
    for pid in all {
        let Some(stat) = Stat::read(pid) else {
            continue;
        };
        sum.cpu += stat.own + stat.waited_for;
        sum.faults += stat.faults;
        sum.peak_bytes += peak_bytes(pid).unwrap_or(0);
    }
    sum
}

/// What all that this process has started have used, those included that have ended.
pub(crate) fn descendants() -> Used {
    let pid = std::process::id();
    let all = tree(pid);
    let own = Stat::read(pid).unwrap_or_default();
    Used {
        cpu: all.cpu - own.own,
        faults: all.faults.saturating_sub(own.own_faults),
        peak_bytes: all.peak_bytes.saturating_sub(peak_bytes(pid).unwrap_or(0)),
    }
}

/// The processes that a process has started.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let of =
        |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).unwrap_or_default();
    let texts: Vec<String> = tasks.map(of).collect();
    let words = texts.iter().flat_map(|t| t.split_whitespace());
    words.filter_map(|c| c.parse().ok()).collect()
}

/// A process's line in `/proc`.
#[derive(Default)]
struct Stat {
    own: f64,
    waited_for: f64,
    own_faults: u64,
    faults: u64,
}

impl Stat {
    fn read(pid: u32) -> Option<Stat> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may hold anything: count from behind it.
        let rest = &stat[stat.rfind(')')? + 1..];
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |i: usize| {
            fields
                .get(i)
                .and_then(|f| f.parse::<u64>().ok())
                .unwrap_or(0)
        };
        let seconds = |i: usize| number(i) as f64 / TICKS;
        let own_faults = number(7) + number(9);
        Some(Stat {
            own: seconds(11) + seconds(12),
            waited_for: seconds(13) + seconds(14),
            own_faults,
            faults: own_faults + number(8) + number(10),
        })
    }
}

/// The most memory that this process ever had resident, as far as the system says.
pub fn peak_resident() -> u64 {
    peak_bytes(std::process::id()).unwrap_or(0)
}

/// Most memory that a process had resident.
fn peak_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    kibibytes(&status, "VmHWM:")
}

/// Bytes of a line in kB of a process's status.
pub(crate) fn kibibytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find(|l| l.starts_with(name))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

fn cpus() -> impl Iterator<Item = std::path::PathBuf> {
    let folder = fs::read_dir("/sys/devices/system/cpu")
        .into_iter()
        .flatten()
        .flatten();
    folder.map(|e| e.path()).filter(|p| {
        let name = p.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        name.strip_prefix("cpu")
            .is_some_and(|n| n.parse::<u32>().is_ok())
    })
}

fn number(path: std::path::PathBuf) -> Option<f64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn throttled() -> u64 {
    let count = |cpu: std::path::PathBuf| number(cpu.join("thermal_throttle/core_throttle_count"));
    cpus().filter_map(count).sum::<f64>() as u64
}

/// Mean frequency of the cores in MHz.
pub(crate) fn megahertz() -> Option<f64> {
    let all: Vec<f64> = cpus()
        .filter_map(|c| number(c.join("cpufreq/scaling_cur_freq")))
        .collect();
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64 / 1000.0)
}

/// The hottest sensor in °C.
pub(crate) fn celsius() -> Option<f64> {
    let zones = fs::read_dir("/sys/class/thermal")
        .into_iter()
        .flatten()
        .flatten();
    let all = zones
        .filter_map(|z| number(z.path().join("temp")))
        .map(|t| t / 1000.0);
    all.reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_what_is_left_of_the_machine() {
        let before = Counters {
            busy: 100.0,
            own: 10.0,
            steal: 1.0,
            throttled: 3,
        };
        let after = Counters {
            busy: 112.0,
            own: 20.0,
            steal: 1.1,
            throttled: 3,
        };
        let s = Surroundings::between(&before, &after, 10.0);
        assert!((s.others - 0.2).abs() < 1e-12 && (s.steal - 0.01).abs() < 1e-12);
        assert_eq!(s.disturbance(0.3, None), None);
        let why = s.disturbance(0.05, None).expect("a reason");
        assert_eq!(why, "other processes used 0.20 cores");
        let slow = Surroundings {
            megahertz: Some(2000.0),
            ..Surroundings::default()
        };
        assert_eq!(slow.disturbance(0.3, Some(2100.0)), None);
        assert!(
            slow.disturbance(0.3, Some(3000.0))
                .expect("a reason")
                .contains("MHz")
        );
    }

    #[test]
    fn this_process_has_used_time_and_memory() {
        let used = tree(std::process::id());
        assert!(used.cpu >= 0.0 && used.faults > 0 && used.peak_bytes > 1 << 16);
        assert!(counters().busy > 0.0);
    }
}
