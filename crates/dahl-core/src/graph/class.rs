//! Classes: tasks that are alike, and which implementation they use.
//!
//! The choice is made here, once for a class, when its first task is recorded: by the program's own word, else by
//! a profile, else by static costs. It is part of what the graph computes. Kernels of devices are not chosen here; a
//! graph does not know them ([`crate::kernels`]).

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::codelet::{Call, Codelet, Cost, Implementation};
use crate::machine::UnitKind;

use super::Task;
use super::recorder::Recording;

/// Tasks that are equal but for which data they touch: the same codelet, shapes and parameters, and so
/// the same cost and implementation.
#[derive(Clone, Debug)]
pub struct Class {
    /// Index into [`Graph::codelets`](super::Graph::codelets).
    pub codelet: u32,
    /// Shapes, modes, element type and parameters.
    pub call: Call,
    /// What one task costs.
    pub cost: Cost,
    /// For each kind of unit that the codelet itself has implementations for, the one chosen.
    pub choices: Vec<(UnitKind, u8)>,
    /// The implementation that the program asked for by name, which is then the only one.
    pub pin: Option<&'static str>,
}

impl Class {
    /// The implementation chosen for a kind of unit, as its place among the codelet's own.
    #[inline]
    pub fn choice(&self, kind: UnitKind) -> Option<u8> {
        let of_kind = self.choices.iter().find(|(k, _)| *k == kind);
        of_kind.map(|&(_, i)| i)
    }
}

/// Chooses among implementations that can execute a call: given codelet, call and the candidates'
/// names, returns the place of one, or `None` to leave it to static costs. Must be a pure function.
pub type Chooser = Arc<dyn Fn(&Codelet, &Call, UnitKind, &[&str]) -> Option<usize> + Send + Sync>;

/// No class yet.
pub(super) const NO_CLASS: u32 = u32::MAX;

impl Recording {
    /// The class of a task, made if it is the first of its kind.
    pub(super) fn class(&mut self, task: &Task<'_>) -> Result<u32, String> {
        if self.last_class != NO_CLASS && self.is_of(self.last_class, task) {
            return Ok(self.last_class);
        }
        let hash = {
            let mut h = crate::hash::FastHasher::default();
            (Arc::as_ptr(task.codelet) as usize, task.params, task.pin).hash(&mut h);
            task.operands
                .iter()
                .for_each(|o| (o.handle.shape, o.mode).hash(&mut h));
            h.finish()
        };
        let known = self.class_of.get(&hash).into_iter().flatten();
        if let Some(&c) = known
            .copied()
            .collect::<Vec<_>>()
            .iter()
            .find(|&&c| self.is_of(c, task))
        {
            self.last_class = c;
            return Ok(c);
        }
        let call = task.call();
        if let Some(i) = task
            .operands
            .iter()
            .position(|o| o.handle.dtype() != call.dtype)
        {
            let other = task.operands[i].handle.dtype();
            return Err(format!(
                "{} holds {other}, {} holds {}",
                task.operand_name(i),
                task.operand_name(0),
                call.dtype
            ));
        }
        task.codelet.check(&call, false)?;
        let codelet = self.intern(task.codelet);
        let choices = choices(task.codelet, &call, task.pin, self.chooser.as_ref());
        let pin = match (task.pin, choices.first()) {
            (None, _) => None,
            (Some(_), Some(&(_, i))) => Some(task.codelet.implementations[usize::from(i)].name),
            (Some(pin), None) => {
                return Err(format!("no implementation {pin:?} can execute this call"));
            }
        };
        let cost = (task.codelet.cost)(&call);
        self.classes.push(Class {
            codelet,
            call,
            cost,
            choices,
            pin,
        });
        self.last_class = self.classes.len() as u32 - 1;
        self.class_of.entry(hash).or_default().push(self.last_class);
        Ok(self.last_class)
    }

    /// The class of a task that the graph adds by itself, with a codelet that has one implementation for a kind.
    pub(super) fn plain_class(&mut self, codelet: &Arc<Codelet>, call: Call) -> u32 {
        let hash = {
            let mut h = crate::hash::FastHasher::default();
            (Arc::as_ptr(codelet) as usize, &call).hash(&mut h);
            h.finish()
        };
        let codelet = self.intern(codelet);
        let known = self.class_of.get(&hash).into_iter().flatten();
        let same = |c: &Class| c.codelet == codelet && c.call == call;
        if let Some(&class) = known
            .into_iter()
            .find(|&&c| same(&self.classes[c as usize]))
        {
            return class;
        }
        let of = &self.codelets[codelet as usize];
        let place = |(i, each): (usize, &Implementation)| (each.kind, i as u8);
        self.classes.push(Class {
            codelet,
            cost: (of.cost)(&call),
            choices: of.implementations.iter().enumerate().map(place).collect(),
            call,
            pin: None,
        });
        let class = self.classes.len() as u32 - 1;
        self.class_of.entry(hash).or_default().push(class);
        class
    }

    /// The index of a codelet.
    pub(super) fn intern(&mut self, codelet: &Arc<Codelet>) -> u32 {
        let known = self.codelets.iter();
        if let Some(i) = known.into_iter().position(|c| Arc::ptr_eq(c, codelet)) {
            return i as u32;
        }
        self.codelets.push(codelet.clone());
        self.codelets.len() as u32 - 1
    }

    fn is_of(&self, class: u32, task: &Task<'_>) -> bool {
        let class = &self.classes[class as usize];
        Arc::ptr_eq(&self.codelets[class.codelet as usize], task.codelet)
            && class.pin == task.pin
            && class.call.params == task.params
            && class.call.operands.len() == task.operands.len()
            && class
                .call
                .operands
                .iter()
                .zip(task.operands)
                .all(|(&(shape, mode), o)| {
                    shape == o.handle.shape
                        && mode == o.mode
                        && o.handle.dtype() == class.call.dtype
                })
    }
}

/// For every kind of unit that can execute a call, its implementation.
fn choices(
    codelet: &Codelet,
    call: &Call,
    pin: Option<&str>,
    chooser: Option<&Chooser>,
) -> Vec<(UnitKind, u8)> {
    let mut kinds: Vec<UnitKind> = codelet.implementations.iter().map(|i| i.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let one = |kind| Some((kind, choose(codelet, call, kind, pin, chooser)?));
    kinds.into_iter().filter_map(one).collect()
}

/// The implementation for a kind of unit: the pinned one, else the chooser's, else the lightest.
fn choose(
    codelet: &Codelet,
    call: &Call,
    kind: UnitKind,
    pin: Option<&str>,
    chooser: Option<&Chooser>,
) -> Option<u8> {
    let able: Vec<usize> = codelet
        .implementations
        .iter()
        .enumerate()
        .filter(|(_, i)| i.kind == kind && (i.supports)(call) && pin.is_none_or(|p| p == i.name))
        .map(|(i, _)| i)
        .collect();
    let names: Vec<&str> = able
        .iter()
        .map(|&i| codelet.implementations[i].name)
        .collect();
    let chosen = chooser
        .and_then(|c| c(codelet, call, kind, &names))
        .and_then(|i| able.get(i));
    let weight = |i: &&usize| (codelet.implementations[**i].weight)(call);
    let lightest = || able.iter().min_by(|a, b| weight(a).total_cmp(&weight(b)));
    chosen.or_else(lightest).map(|&i| i as u8)
}
