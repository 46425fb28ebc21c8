//! Topology: which logical CPUs share a core, and how many workers they are good for.
//!
//! Reads what Linux publishes below a root folder (`/`, or a made-up tree in tests) and orders CPUs so that workers
//! get cores of their own first. It pins nobody (`pin` does), and takes what is not published as unknown: then every
//! CPU is a core of its own.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A logical CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cpu {
    number: usize,
    /// The lowest number among the CPUs of its physical core.
    core: usize,
    /// Its NUMA node.
    node: usize,
    /// Higher is faster: what the kernel says of hybrid processors, else the highest clock.
    speed: u64,
}

/// The allowed CPUs in the order in which workers take them: one for each physical core before a second one of any,
/// fast cores before slow ones, and those of a NUMA node next to each other.
pub(crate) fn order(root: &Path, allowed: &[usize]) -> Vec<usize> {
    let nodes = nodes(root);
    let cpus: Vec<Cpu> = allowed.iter().map(|&n| cpu(root, n, &nodes)).collect();
    sorted(cpus)
}

fn sorted(mut cpus: Vec<Cpu>) -> Vec<usize> {
    cpus.sort_by_key(|c| c.number);
    let mut taken: HashMap<usize, usize> = HashMap::new();
    let mut ranked: Vec<(usize, Cpu)> = Vec::new();
    for cpu in cpus {
        let of_core = taken.entry(cpu.core).or_default();
        ranked.push((*of_core, cpu));
        *of_core += 1;
    }
    ranked.sort_by_key(|(sibling, c)| (*sibling, Reverse(c.speed), c.node, c.number));
    ranked.into_iter().map(|(_, c)| c.number).collect()
}

fn text(path: PathBuf) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn number(path: PathBuf) -> Option<u64> {
    text(path)?.parse().ok()
}

fn cpu(root: &Path, number_of: usize, nodes: &HashMap<usize, usize>) -> Cpu {
    let folder = root.join(format!("sys/devices/system/cpu/cpu{number_of}"));
    let siblings = ["core_cpus_list", "thread_siblings_list"];
    let read = |file: &&str| text(folder.join("topology").join(file));
    let siblings = siblings.iter().find_map(read);
    let core = siblings.and_then(|s| list(&s)?.into_iter().min());
    let capacity = number(folder.join("cpu_capacity"));
    let clock = || number(folder.join("cpufreq/cpuinfo_max_freq"));
    Cpu {
        number: number_of,
        core: core.unwrap_or(number_of),
        node: nodes.get(&number_of).copied().unwrap_or(0),
        speed: capacity.or_else(clock).unwrap_or(0),
    }
}

/// The NUMA node of every CPU that belongs to one.
fn nodes(root: &Path) -> HashMap<usize, usize> {
    let mut of = HashMap::new();
    let Ok(folders) = fs::read_dir(root.join("sys/devices/system/node")) else {
        return of;
    };
    for folder in folders.flatten() {
        let name = folder.file_name();
        let node = name.to_str().and_then(|n| n.strip_prefix("node"));
        let Some(node) = node.and_then(|n| n.parse::<usize>().ok()) else {
            continue;
        };
        let cpus = text(folder.path().join("cpulist")).and_then(|t| list(&t));
        of.extend(cpus.into_iter().flatten().map(|cpu| (cpu, node)));
    }
    of
}

/// Numbers as the kernel lists them: `0-3,8,10-11`. None if it is no such list.
fn list(text: &str) -> Option<Vec<usize>> {
    /// More CPUs than any kernel counts: a damaged list must not fill the memory.
    const MOST: usize = 1 << 16;
    let mut all = Vec::new();
    for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (usize, usize) = (from.parse().ok()?, to.parse().ok()?);
        if to >= MOST || from > to {
            return None;
        }
        all.extend(from..=to);
    }
    Some(all)
}

/// How many workers this process is good for: as many as CPUs that it may use, or fewer where its control groups
/// grant less time (a quota of 2.5 CPUs is good for two). At least one.
pub(crate) fn workers(root: &Path, allowed: usize) -> usize {
    let quota = quota(root).map_or(usize::MAX, |q| q.min(allowed as f64) as usize);
    allowed.min(quota).max(1)
}

/// CPUs' worth of time that control groups grant; none if they set no limit. A group's limit holds for all groups
/// inside it, so the least along the path counts.
fn quota(root: &Path) -> Option<f64> {
    let groups = text(root.join("proc/self/cgroup"))?;
    let mut least = None;
    for line in groups.lines() {
        // Hierarchy, controllers, path. Version 2 names no controllers.
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let mounts: &[&str] = if controllers.is_empty() {
            &["sys/fs/cgroup", "sys/fs/cgroup/unified"]
        } else if controllers.split(',').any(|c| c == "cpu") {
            &["sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct"]
        } else {
            continue;
        };
        let inside = Path::new(path.trim_start_matches('/'));
        for mount in mounts {
            let folders = inside.ancestors().map(|a| root.join(mount).join(a));
            let limits = folders.filter_map(|f| version_2(&f).or_else(|| version_1(&f)));
            least = limits.chain(least).min_by(f64::total_cmp);
        }
    }
    least
}

/// `cpu.max`: microseconds of CPU time, or `max`, in so many of time.
fn version_2(folder: &Path) -> Option<f64> {
    let text = text(folder.join("cpu.max"))?;
    let (quota, period) = text.split_once(' ')?;
    ratio(quota.parse().ok()?, period.trim().parse().ok()?)
}

/// The same in two files; a quota of -1 is none.
fn version_1(folder: &Path) -> Option<f64> {
    let quota = number(folder.join("cpu.cfs_quota_us"))?;
    ratio(quota, number(folder.join("cpu.cfs_period_us"))?)
}

fn ratio(quota: u64, period: u64) -> Option<f64> {
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A made-up system, gone when dropped.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str, files: &[(&str, &str)]) -> Tree {
            let folder = format!("dahl-topology-{name}-{}", std::process::id());
            let tree = Tree(std::env::temp_dir().join(folder));
            for (path, content) in files {
                let path = tree.0.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, format!("{content}\n")).unwrap();
            }
            tree
        }

        /// CPUs with the list of those on their core, their node and their speed.
        fn cpus(name: &str, cpus: &[(&str, usize, u64)]) -> Tree {
            let mut files = Vec::new();
            let mut nodes: HashMap<usize, Vec<String>> = HashMap::new();
            for (i, (siblings, node, speed)) in cpus.iter().enumerate() {
                let cpu = format!("sys/devices/system/cpu/cpu{i}");
                let topology = format!("{cpu}/topology/thread_siblings_list");
                files.push((topology, (*siblings).to_owned()));
                files.push((format!("{cpu}/cpufreq/cpuinfo_max_freq"), speed.to_string()));
                nodes.entry(*node).or_default().push(i.to_string());
            }
            for (node, cpus) in nodes {
                let path = format!("sys/devices/system/node/node{node}/cpulist");
                files.push((path, cpus.join(",")));
            }
            let files: Vec<(&str, &str)> = files.iter().map(|(a, b)| (&**a, &**b)).collect();
            Tree::new(name, &files)
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn physical_cores_come_before_their_siblings() {
        let pairs = [("0,4", 0, 3), ("1,5", 0, 3), ("2,6", 0, 3), ("3,7", 0, 3)];
        let tree = Tree::cpus("apart", &[pairs, pairs].concat());
        let all: Vec<usize> = (0..8).collect();
        assert_eq!(order(&tree.0, &all), [0, 1, 2, 3, 4, 5, 6, 7]);
        // The other way of numbering, where siblings are neighbours.
        let pairs = [("0-1", 0, 3), ("0-1", 0, 3), ("2-3", 0, 3), ("2-3", 0, 3)];
        let tree = Tree::cpus("together", &pairs);
        assert_eq!(order(&tree.0, &[0, 1, 2, 3]), [0, 2, 1, 3]);
        // Where only siblings are allowed, they are the cores.
        assert_eq!(order(&tree.0, &[1, 3]), [1, 3]);
        assert_eq!(order(&tree.0, &[3, 0, 1]), [0, 3, 1]);
    }

    #[test]
    fn nodes_stay_together_and_fast_cores_come_first() {
        let cpus = [("0", 1, 5), ("1", 0, 5), ("2", 1, 5), ("3", 0, 5)];
        let tree = Tree::cpus("nodes", &cpus);
        assert_eq!(order(&tree.0, &[0, 1, 2, 3]), [1, 3, 0, 2]);
        // Two fast cores of two threads, two slow ones of one.
        let hybrid = [
            ("0-1", 0, 5000),
            ("0-1", 0, 5000),
            ("2-3", 0, 5000),
            ("2-3", 0, 5000),
            ("4", 0, 3000),
            ("5", 0, 3000),
        ];
        let tree = Tree::cpus("hybrid", &hybrid);
        let all: Vec<usize> = (0..6).collect();
        assert_eq!(order(&tree.0, &all), [0, 2, 4, 5, 1, 3]);
    }

    #[test]
    fn a_system_that_says_nothing_has_cores_in_order() {
        let nowhere = Path::new("/nonexistent");
        assert_eq!(order(nowhere, &[2, 0, 1]), [0, 1, 2]);
        assert_eq!(workers(nowhere, 3), 3);
        assert_eq!(workers(nowhere, 0), 1);
        let damaged = Tree::cpus("damaged", &[("4-1", 0, 1), ("0-99999999999", 0, 1)]);
        assert_eq!(order(&damaged.0, &[0, 1]), [0, 1]);
    }

    #[test]
    fn quotas_of_both_versions_count_and_the_least_holds() {
        let two = Tree::new(
            "two",
            &[
                ("proc/self/cgroup", "0::/a/b"),
                ("sys/fs/cgroup/a/cpu.max", "250000 100000"),
                ("sys/fs/cgroup/a/b/cpu.max", "max 100000"),
            ],
        );
        assert_eq!(workers(&two.0, 8), 2);
        assert_eq!(workers(&two.0, 1), 1);
        let one = Tree::new(
            "one",
            &[
                ("proc/self/cgroup", "4:memory:/c\n3:cpu,cpuacct:/c\n0::/"),
                ("sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us", "50000"),
                ("sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_period_us", "100000"),
            ],
        );
        assert_eq!(workers(&one.0, 8), 1);
        let none = Tree::new(
            "none",
            &[
                ("proc/self/cgroup", "3:cpu:/c"),
                ("sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "-1"),
                ("sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000"),
            ],
        );
        assert_eq!(workers(&none.0, 8), 8);
    }
}
