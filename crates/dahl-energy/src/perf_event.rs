//! RAPL through perf events: the same counters as powercap's, where those files are closed.
//!
//! The kernel lists them in `bus/event_source/devices/power`: `type`, a CPU per package in `cpumask`, and
//! per event its code, scale and unit. They count from the moment they are opened, in 64 bits, so they do
//! not wrap. Opening one for a whole package needs `perf_event_paranoid` at 0 or less, or `CAP_PERFMON`.
//! Some virtual machines list events that never count: the account notices.
//!
//! Nothing is opened for a tree that is not the machine's own: its numbers would mean other events.

use std::io;
use std::sync::Arc;

use dahl_core::Seconds;

use super::{
    Domain, Finding, Found, Meter, PLAUSIBLE, Quantity, Scope, Tree, Trouble, TroubleKind,
};

/// The name of this source.
pub(crate) const NAME: &str = "perf";

const FOLDER: &str = "bus/event_source/devices/power";

/// The command that opens the events until the next boot.
pub(crate) const REMEDY: &str = "sudo sysctl kernel.perf_event_paranoid=0";

/// An event of the kernel's, on one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// The number of the unit that counts.
    pub kind: u32,
    /// What it counts.
    pub config: u64,
    /// On which CPU.
    pub cpu: u32,
}

/// Reads a counter.
pub(crate) type Counter = Box<dyn FnMut() -> io::Result<u64> + Send>;

/// Opens a counter.
pub(crate) type Opener = Arc<dyn Fn(Event) -> io::Result<Counter>>;

struct PerfEvents {
    domains: Vec<Domain>,
    counters: Vec<Counter>,
}

impl Meter for PerfEvents {
    fn name(&self) -> &'static str {
        NAME
    }

    fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn read(&mut self, domain: usize, _: Seconds) -> Result<u64, Trouble> {
        (self.counters[domain])().map_err(|e| refusal(&self.domains[domain].name, &e))
    }
}

/// Looks for events, and opens them if the tree is the machine's own.
pub(crate) fn discover(tree: &Tree) -> Found {
    if !tree.is_the_system() {
        let text = "perf events: not asked, since the tree is not this machine's";
        return Found::nothing(NAME, Trouble::new(TroubleKind::Missing, text));
    }
    discover_with(tree, Arc::new(open))
}

/// Looks for events and opens them so.
pub(crate) fn discover_with(tree: &Tree, open: Opener) -> Found {
    let events = format!("{FOLDER}/events");
    let (kind, cpus, names) = match head(tree, &events) {
        Ok(head) => head,
        Err(t) if t.kind == TroubleKind::Missing => {
            let text = "perf events: this machine lists no power counters";
            return Found::nothing(NAME, Trouble::new(TroubleKind::Missing, text));
        }
        Err(t) => return Found::nothing(NAME, t),
    };
    let mut found = Found::default();
    let mut meter = PerfEvents {
        domains: Vec::new(),
        counters: Vec::new(),
    };
    for name in names.iter().filter(|n| !n.contains('.')) {
        let (config, joules) = match event(tree, &format!("{events}/{name}")) {
            Ok(event) => event,
            Err(why) => {
                found.findings.push(Finding::not(NAME, name, why));
                continue;
            }
        };
        for &cpu in &cpus {
            let domain = domain(name, &package(tree, cpu), joules);
            let (name, scope) = (domain.name.clone(), domain.scope.clone());
            let counter = open(Event { kind, config, cpu });
            let finding = match counter.and_then(|mut c| c().map(|_| c)) {
                Ok(counter) => {
                    meter.domains.push(domain);
                    meter.counters.push(counter);
                    Finding::readable(NAME, &name, "")
                }
                Err(e) => Finding::not(NAME, &name, refusal(&name, &e)),
            };
            found.findings.push(finding.of(scope));
        }
    }
    if !meter.domains.is_empty() {
        found.meter = Some(Box::new(meter));
    }
    found
}

/// The unit's number, a CPU per package, and the events' names.
fn head(tree: &Tree, events: &str) -> Result<(u32, Vec<u32>, Vec<String>), Trouble> {
    let names = tree.names(events)?;
    let path = tree.path(FOLDER).join("type");
    let kind = u32::try_from(tree.number(&path)?).map_err(|_| garbage(&path, "a type"))?;
    let path = tree.path(FOLDER).join("cpumask");
    let cpus = cpus(&tree.text(&path)?).ok_or_else(|| garbage(&path, "a list of CPUs"))?;
    Ok((kind, cpus, names))
}

fn garbage(path: &std::path::Path, what: &str) -> Trouble {
    let text = format!("{} does not hold {what}", path.display());
    Trouble::new(TroubleKind::Garbage, text)
}

/// An event's code, and the joules of one count.
fn event(tree: &Tree, path: &str) -> Result<(u64, f64), Trouble> {
    let file = tree.path(path);
    let text = tree.text(&file)?;
    let code = text.strip_prefix("event=0x");
    let code = code.and_then(|hex| u64::from_str_radix(hex, 16).ok());
    let code = code.ok_or_else(|| garbage(&file, "an event such as event=0x02"))?;
    let file = tree.path(&format!("{path}.unit"));
    if tree.text(&file)? != "Joules" {
        return Err(garbage(&file, "Joules"));
    }
    let file = tree.path(&format!("{path}.scale"));
    let scale: Option<f64> = tree.text(&file)?.parse().ok();
    let scale = scale.filter(|s| s.is_finite() && *s > 0.0);
    Ok((code, scale.ok_or_else(|| garbage(&file, "a scale"))?))
}

/// `0,18` or `0-3` as numbers; at most 4096 of them.
fn cpus(text: &str) -> Option<Vec<u32>> {
    let mut out = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last - first > 4096 || out.len() > 4096 {
            return None;
        }
        out.extend(first..=last);
    }
    Some(out)
}

fn package(tree: &Tree, cpu: u32) -> String {
    let path = format!("devices/system/cpu/cpu{cpu}/topology/physical_package_id");
    match tree.number(&tree.path(&path)) {
        Ok(id) => format!("package-{id}"),
        Err(_) => format!("package-of-cpu-{cpu}"),
    }
}

fn domain(event: &str, package: &str, joules: f64) -> Domain {
    let inside = |part: &str| (format!("{package}/{part}"), Scope::Inside(package.into()));
    let (name, scope) = match event {
        "energy-pkg" => (package.to_string(), Scope::Package),
        "energy-psys" => ("psys".to_string(), Scope::Platform),
        "energy-ram" => (format!("{package}/dram"), Scope::Dram),
        "energy-cores" => inside("core"),
        "energy-gpu" => inside("uncore"),
        // An event that we do not know is taken for a part of the package.
        other => inside(other),
    };
    Domain {
        name,
        scope,
        quantity: Quantity::Counter {
            joules,
            range: None,
        },
        ceiling: PLAUSIBLE,
        sampled: true,
    }
}

fn refusal(domain: &str, error: &io::Error) -> Trouble {
    super::files::trouble(format!("perf event of {domain}").as_ref(), error).or_run(REMEDY)
}

/// Opens an event of this machine.
#[cfg(target_os = "linux")]
fn open(event: Event) -> io::Result<Counter> {
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::FromRawFd;

    /// The first version of the kernel's `perf_event_attr`, which every later one accepts.
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        kind: u32,
        size: u32,
        config: u64,
        sample_period: u64,
        sample_type: u64,
        read_format: u64,
        flags: u64,
        wakeup_events: u32,
        breakpoint_type: u32,
        config1: u64,
    }
    const CLOSE_ON_EXEC: libc::c_ulong = 8;

    let attributes = Attributes {
        kind: event.kind,
        size: size_of::<Attributes>() as u32,
        config: event.config,
        ..Attributes::default()
    };
    let cpu = libc::c_int::try_from(event.cpu).map_err(io::Error::other)?;
    // SAFETY: the kernel reads `size` bytes of the attributes, which are plain data and outlive the
    // call; the other arguments are numbers: any process (-1) on this CPU, no group (-1).
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            -1 as libc::pid_t,
            cpu,
            -1 as libc::c_int,
            CLOSE_ON_EXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the call just gave us this descriptor, and nobody else knows it.
    let mut file = unsafe { File::from_raw_fd(fd) };
    Ok(Box::new(move || {
        let mut count = [0; 8];
        file.read_exact(&mut count)?;
        Ok(u64::from_ne_bytes(count))
    }))
}

/// Opens an event; not possible on this system.
#[cfg(not(target_os = "linux"))]
fn open(_: Event) -> io::Result<Counter> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus() {
        assert_eq!(cpus("0"), Some(vec![0]));
        assert_eq!(cpus("0,18"), Some(vec![0, 18]));
        assert_eq!(cpus("0-2,5"), Some(vec![0, 1, 2, 5]));
        for wrong in ["", "a", "3-1", "0-99999999", "-1"] {
            assert_eq!(cpus(wrong), None, "{wrong:?}");
        }
    }
}
