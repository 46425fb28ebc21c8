//! DeviceKernels: what devices can execute, as plain data.
//!
//! A CPU executes the codelets' own implementations; which one is fixed in the graph. A device of another kind has
//! kernels of its own, and a graph knows nothing of them: the device's driver lists them in a [`KernelSet`]. The
//! runtime, the simulator and the planner ask the same lists who can run what ([`Machine::kernels`]). Nothing here
//! executes.
//!
//! [`Machine::kernels`]: crate::Machine::kernels

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::codelet::Call;
use crate::graph::Graph;
use crate::machine::UnitKind;

/// How a device executes a codelet.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// The name of the codelet.
    pub codelet: &'static str,
    /// Its own name: durations are recorded under it, and traces show it.
    pub name: &'static str,
    /// Whether it can execute this call.
    pub supports: fn(&Call) -> bool,
}

/// DeviceKernels are the same if their names are; the functions cannot be compared.
impl PartialEq for Kernel {
    fn eq(&self, other: &Kernel) -> bool {
        (self.codelet, self.name) == (other.codelet, other.name)
    }
}

impl Kernel {
    /// A kernel that can execute every call of a codelet.
    pub const fn new(codelet: &'static str, name: &'static str) -> Self {
        Kernel {
            codelet,
            name,
            supports: |_| true,
        }
    }
}

/// The kernels of a device. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelSet(Arc<[Kernel]>);

impl FromIterator<Kernel> for KernelSet {
    fn from_iter<I: IntoIterator<Item = Kernel>>(kernels: I) -> Self {
        KernelSet(kernels.into_iter().collect())
    }
}

impl KernelSet {
    /// The first kernel that can execute a call of a codelet: its place in the set, by which its driver knows it,
    /// and the kernel.
    pub fn find(&self, codelet: &str, call: &Call) -> Option<(usize, &Kernel)> {
        let fits = |(_, k): &(usize, &Kernel)| k.codelet == codelet && (k.supports)(call);
        self.0.iter().enumerate().find(fits)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Kernel> {
        self.0.iter()
    }
}

/// The kernels of each kind of unit that has its own. A kind that is listed executes these and nothing else; a kind
/// that is not executes the codelets' own implementations.
///
/// There is one set for a kind: which unit of a kind runs a task must not decide what it computes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceKernels(BTreeMap<UnitKind, KernelSet>);

/// What executes the tasks of a class on a kind of unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeId {
    /// The codelet's own implementation at this place.
    Own(u8),
    /// The kernel at this place of the kind's set.
    Kernel(u32),
}

impl DeviceKernels {
    /// Adds the set of a kind of unit. False, and nothing is added, if the kind has another one.
    #[must_use]
    pub fn add(&mut self, kind: UnitKind, kernels: KernelSet) -> bool {
        *self.0.entry(kind).or_insert_with(|| kernels.clone()) == kernels
    }

    /// What executes a class of a graph's tasks on a kind of unit; none if nothing can.
    pub fn choice(&self, graph: &Graph, class: u32, kind: UnitKind) -> Option<CodeId> {
        let class = &graph.classes[class as usize];
        match self.0.get(&kind) {
            None => class.choice(kind).map(CodeId::Own),
            // The program wants an implementation that this kind does not have.
            Some(_) if class.pin.is_some() => None,
            Some(set) => {
                let codelet = &graph.codelets[class.codelet as usize].name;
                let (place, _) = set.find(codelet, &class.call)?;
                Some(CodeId::Kernel(place as u32))
            }
        }
    }

    /// The name of what executes a class of a graph's tasks on a kind of unit; none if nothing can.
    pub fn name_of(&self, graph: &Graph, class: u32, kind: UnitKind) -> Option<&'static str> {
        Some(match self.choice(graph, class, kind)? {
            CodeId::Kernel(place) => self.0.get(&kind)?.0[place as usize].name,
            CodeId::Own(place) => {
                let codelet = graph.classes[class as usize].codelet;
                graph.codelets[codelet as usize].implementations[usize::from(place)].name
            }
        })
    }

    /// [`DeviceKernels::name_of`] for every kind that can run a class.
    pub(crate) fn names(&self, graph: &Graph, class: u32) -> BTreeMap<UnitKind, &'static str> {
        let own = graph.classes[class as usize].choices.iter().map(|c| c.0);
        let kinds = own.chain(self.0.keys().copied());
        let named = |kind| Some((kind, self.name_of(graph, class, kind)?));
        kinds.filter_map(named).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arena, Codelet, Recorder, Task};

    const FPGA: UnitKind = UnitKind::new("fpga");

    fn graph(pin: Option<&str>) -> Arc<Graph> {
        let both = Codelet::new("both").implement("plain", UnitKind::CPU, |_| Ok(()));
        let both = Arc::new(both.implement("body", FPGA, |_| Ok(())));
        let other = Arc::new(Codelet::new("other").implement("plain", UnitKind::CPU, |_| Ok(())));
        let arena = Arena::new();
        let mut x = arena.zeros::<f32, 1>([4]).unwrap();
        let recorder = Recorder::new();
        for codelet in [&both, &other] {
            let operands = [x.write()];
            let task = Task::new(codelet, &operands);
            recorder.submit(pin.map_or(task, |pin| task.implementation(pin)));
        }
        recorder.finish().unwrap()
    }

    fn set(name: &'static str) -> KernelSet {
        [Kernel::new("other", name)].into_iter().collect()
    }

    #[test]
    fn a_kind_has_its_kernels_or_the_codelets_own() {
        let graph = graph(None);
        let mut kernels = DeviceKernels::default();
        let names = |k: &DeviceKernels| [0, 1].map(|class| k.name_of(&graph, class, FPGA));
        assert_eq!(names(&kernels), [Some("body"), None]);
        assert!(kernels.add(FPGA, set("bitstream")));
        assert_eq!(names(&kernels), [None, Some("bitstream")]);
        assert_eq!(kernels.choice(&graph, 1, FPGA), Some(CodeId::Kernel(0)));
        let all = kernels.names(&graph, 1);
        assert_eq!(
            all.into_iter().collect::<Vec<_>>(),
            [(UnitKind::CPU, "plain"), (FPGA, "bitstream")]
        );
        assert!(kernels.add(FPGA, set("bitstream")));
        assert!(!kernels.add(FPGA, set("another")));
    }

    #[test]
    fn a_pinned_task_runs_only_where_that_implementation_is() {
        let graph = graph(Some("plain"));
        let mut kernels = DeviceKernels::default();
        assert!(kernels.add(FPGA, set("bitstream")));
        let kinds = |class| kernels.names(&graph, class).into_keys().collect::<Vec<_>>();
        assert_eq!([kinds(0), kinds(1)], [[UnitKind::CPU], [UnitKind::CPU]]);
    }

    #[test]
    fn calls_that_a_kernel_does_not_support_are_not_its() {
        let picky = Kernel {
            supports: |call| call.shape(0).len() > 4,
            ..Kernel::new("other", "large")
        };
        let small = Kernel::new("other", "small");
        let graph = graph(None);
        let mut kernels = DeviceKernels::default();
        assert!(kernels.add(FPGA, [picky, small].into_iter().collect()));
        assert_eq!(kernels.choice(&graph, 1, FPGA), Some(CodeId::Kernel(1)));
        let mut only = DeviceKernels::default();
        assert!(only.add(FPGA, [picky].into_iter().collect()));
        assert_eq!(only.choice(&graph, 1, FPGA), None);
    }
}
