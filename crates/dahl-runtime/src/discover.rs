//! Discovery: what this computer has, as far as its system says.
//!
//! Reads what Linux publishes under `/proc` and `/sys`; elsewhere, and where a file is missing, the
//! answer is "unknown" and never a guess.

use std::fs;
use std::path::Path;

use serde::Serialize;

/// A computer.
#[derive(Clone, Debug, Serialize)]
pub struct Host {
    /// The processor's own name.
    pub processor: String,
    /// `x86_64`, `aarch64`…
    pub architecture: &'static str,
    /// `linux`, `macos`…
    pub system: &'static str,
    /// Vector instruction sets that kernels may use.
    pub features: Vec<&'static str>,
    /// Cores that this process may use, in the order in which workers are pinned to them.
    pub cores: Vec<usize>,
    /// Workers that a runtime has unless told: as many as these cores, or fewer if control groups grant less time.
    pub workers: usize,
    /// Bytes of memory.
    pub memory_total: Option<u64>,
    /// Bytes that could be used now.
    pub memory_available: Option<u64>,
    /// Caches of the first core.
    pub caches: Vec<Cache>,
    /// What can be measured, and how to allow what cannot.
    pub measurable: Vec<Measurable>,
}

/// A cache.
#[derive(Clone, Debug, Serialize)]
pub struct Cache {
    /// 1, 2, 3…
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Its size.
    pub bytes: u64,
    /// Bytes of a line.
    pub line: u64,
    /// The cores that share it.
    pub shared: String,
}

/// Something that can or cannot be measured.
#[derive(Clone, Debug, Serialize)]
pub struct Measurable {
    /// What.
    pub what: String,
    /// Whether it can.
    pub available: bool,
    /// How to allow it, where it cannot.
    pub remedy: String,
}

/// This computer.
pub fn host() -> Host {
    let root = Path::new("/");
    Host {
        processor: processor(root),
        architecture: std::env::consts::ARCH,
        system: std::env::consts::OS,
        features: features(),
        cores: crate::topology::order(root, &crate::pin::allowed_cores()),
        workers: default_workers(),
        memory_total: meminfo(root, "MemTotal:"),
        memory_available: meminfo(root, "MemAvailable:"),
        caches: caches(root),
        measurable: measurable(root),
    }
}

/// Workers that a runtime has unless told.
pub(crate) fn default_workers() -> usize {
    crate::topology::workers(Path::new("/"), crate::pin::allowed_cores().len())
}

/// Cores that are switched on, for any process; 0 if the system does not say.
pub fn cores_online() -> usize {
    let info = read(Path::new("/"), "proc/cpuinfo").unwrap_or_default();
    let is_core = |l: &&str| l.starts_with("processor") && l.contains(':');
    info.lines().filter(is_core).count()
}

/// What this computer is called.
pub fn host_name() -> String {
    let name = read(Path::new("/"), "proc/sys/kernel/hostname");
    name.or_else(|| std::env::var("HOSTNAME").ok())
        .unwrap_or_else(|| "a computer".into())
}

fn read(root: &Path, path: &str) -> Option<String> {
    Some(fs::read_to_string(root.join(path)).ok()?.trim().to_string())
}

fn processor(root: &Path) -> String {
    let info = read(root, "proc/cpuinfo").unwrap_or_default();
    let line = info
        .lines()
        .find(|l| l.starts_with("model name") || l.starts_with("Model"));
    let name = line
        .and_then(|l| l.split_once(':'))
        .map(|(_, name)| name.trim().to_string());
    name.unwrap_or_else(|| "unknown processor".into())
}

fn meminfo(root: &Path, key: &str) -> Option<u64> {
    let info = read(root, "proc/meminfo")?;
    let line = info.lines().find(|l| l.starts_with(key))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

fn features() -> Vec<&'static str> {
    #[allow(unused_mut)]
    let mut found = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        let all = [
            ("sse4.2", is_x86_feature_detected!("sse4.2")),
            ("avx2", is_x86_feature_detected!("avx2")),
            ("fma", is_x86_feature_detected!("fma")),
            ("avx512f", is_x86_feature_detected!("avx512f")),
        ];
        found.extend(all.iter().filter(|(_, has)| *has).map(|(name, _)| *name));
    }
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("neon") {
        found.push("neon");
    }
    found
}

/// `32K` or `2M` as bytes.
fn size(text: &str) -> Option<u64> {
    let (digits, unit) = text.split_at(
        text.find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len()),
    );
    let scale = match unit {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(scale)
}

fn caches(root: &Path) -> Vec<Cache> {
    let base = "sys/devices/system/cpu/cpu0/cache";
    let one = |i: u32| {
        let field = |name: &str| read(root, &format!("{base}/index{i}/{name}"));
        Some(Cache {
            level: field("level")?.parse().ok()?,
            kind: field("type")?,
            bytes: size(&field("size")?)?,
            line: field("coherency_line_size")?.parse().ok()?,
            shared: field("shared_cpu_list").unwrap_or_default(),
        })
    };
    (0..16).map_while(one).collect()
}

fn measurable(root: &Path) -> Vec<Measurable> {
    let mut out = Vec::new();
    let rapl = root.join("sys/class/powercap/intel-rapl:0/energy_uj");
    out.push(match fs::read_to_string(&rapl) {
        Ok(_) => Measurable {
            what: "energy of the processor (RAPL)".into(),
            available: true,
            remedy: String::new(),
        },
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => Measurable {
            what: "energy of the processor (RAPL)".into(),
            available: false,
            remedy: "sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj".into(),
        },
        Err(_) => Measurable {
            what: "energy of the processor (RAPL)".into(),
            available: false,
            remedy: "not offered here (a virtual machine, or no such counter)".into(),
        },
    });
    let paranoid =
        read(root, "proc/sys/kernel/perf_event_paranoid").and_then(|s| s.parse::<i32>().ok());
    out.push(Measurable {
        what: "hardware counters (perf events)".into(),
        available: paranoid.is_some_and(|p| p <= 2)
            && root.join("sys/bus/event_source/devices/cpu").exists(),
        remedy: match paranoid {
            None => "this system has no perf events".into(),
            Some(p) if p > 2 => "sudo sysctl kernel.perf_event_paranoid=2".into(),
            _ if !root.join("sys/bus/event_source/devices/cpu").exists() => {
                "not offered here (a virtual machine)".into()
            }
            _ => String::new(),
        },
    });
    let frequency = root
        .join("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")
        .exists();
    out.push(Measurable {
        what: "clock frequency".into(),
        available: frequency,
        remedy: if frequency {
            String::new()
        } else {
            "not offered here (a virtual machine)".into()
        },
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed() {
        assert_eq!(size("48K"), Some(48 << 10));
        assert_eq!(size("2M"), Some(2 << 20));
        assert_eq!(size("12"), Some(12));
        assert_eq!(size("x"), None);
        assert_eq!(size("99999999999999999999G"), None);
    }

    #[test]
    fn a_system_that_says_nothing_is_unknown_not_an_error() {
        let empty = Path::new("/nonexistent");
        assert_eq!(processor(empty), "unknown processor");
        assert!(caches(empty).is_empty());
        assert_eq!(meminfo(empty, "MemTotal:"), None);
        assert!(
            measurable(empty)
                .iter()
                .all(|m| !m.available && !m.remedy.is_empty())
        );
    }
}
