//! The search for a grain: how layers are cut into tasks.
//!
//! Cuts of the whole batch come first, then the other dimensions of the whole model, then layer by layer along all
//! four dimensions. What a grain costs is somebody else's question: planning asks the planner, tuning the simulator.
//! Here grains are lowered, and each graph is asked about once.

use std::collections::HashSet;

use dahl_nn::Step;
use dahl_nn::lower::grain::{Grain, Parts};
use dahl_nn::step::Lowered;

use crate::error::TuneError;

/// Most parts along a dimension other than the batch.
const MOST_PARTS: usize = 16;

/// What a grain costs; none if it cannot be used.
pub(crate) type Cost<'a> = dyn FnMut(&Grain, &Lowered) -> Result<Option<f64>, TuneError> + 'a;

/// A search under way.
pub(crate) struct GrainSearch<'a> {
    step: &'a Step,
    cost: &'a mut Cost<'a>,
    keep_going: &'a mut dyn FnMut() -> bool,
    /// A cost must be lower by this part to count as lower.
    margin: f64,
    /// Fingerprints of graphs that were asked about: extents bound cuts, and layers that run as one follow the
    /// first of them, so many grains give the same graph.
    seen: HashSet<u64>,
    best: Option<(f64, Grain)>,
}

impl<'a> GrainSearch<'a> {
    /// Looks for a grain of the step that costs little, while `keep_going` says so.
    pub(crate) fn new(
        step: &'a Step,
        margin: f64,
        cost: &'a mut Cost<'a>,
        keep_going: &'a mut dyn FnMut() -> bool,
    ) -> GrainSearch<'a> {
        GrainSearch {
            step,
            cost,
            keep_going,
            margin,
            seen: HashSet::new(),
            best: None,
        }
    }

    /// The best grain so far, and its cost.
    pub(crate) fn best(self) -> Option<(f64, Grain)> {
        self.best
    }

    /// Asks about a grain, unless its graph was asked about before, and keeps it if it is better.
    pub(crate) fn improves(&mut self, grain: &Grain) -> Result<bool, TuneError> {
        let lowered = self.step.clone().grain(grain.clone()).lower()?;
        if !self.seen.insert(lowered.graph.fingerprint()) {
            return Ok(false);
        }
        let Some(cost) = (self.cost)(grain, &lowered)? else {
            return Ok(false);
        };
        let better = match &self.best {
            Some((best, _)) => cost < best * (1.0 - self.margin),
            None => true,
        };
        if better {
            self.best = Some((cost, grain.clone()));
        }
        Ok(better)
    }

    /// Cuts of the whole model: the batch in up to so many parts, then the other dimensions from the best of
    /// these. Tries one cut in any case.
    pub(crate) fn whole_model(&mut self, most: usize) -> Result<(), TuneError> {
        let uniform = batch_cuts(self.step.batch.min(most)).map(Grain::Fixed);
        // Those with few tasks first, which take little time to try.
        for grain in uniform.chain([Grain::Auto]) {
            if self.best.is_some() && !(self.keep_going)() {
                return Ok(());
            }
            self.improves(&grain)?;
        }
        while let Some((_, Grain::Fixed(parts))) = self.best {
            let mut moved = false;
            for next in neighbours(parts, self.step.batch) {
                moved |= (self.keep_going)() && self.improves(&Grain::Fixed(next))?;
            }
            if !moved {
                break;
            }
        }
        Ok(())
    }

    /// From the best grain so far, each layer in turn is cut otherwise, as long as that helps.
    pub(crate) fn by_layer(&mut self) -> Result<(), TuneError> {
        let layers = self.step.model.layers.len();
        let mut now: Vec<Option<Parts>> = match self.best.as_ref().map(|b| &b.1) {
            None => return Ok(()),
            Some(Grain::Fixed(parts)) => vec![Some(*parts); layers],
            Some(Grain::Auto) => vec![None; layers],
            Some(Grain::Layers(all)) => all.clone(),
        };
        let mut moved = true;
        while std::mem::take(&mut moved) {
            for layer in 0..now.len() {
                for parts in self.others(now[layer]) {
                    if !(self.keep_going)() {
                        return Ok(());
                    }
                    let old = std::mem::replace(&mut now[layer], parts);
                    match self.improves(&Grain::Layers(now.clone()))? {
                        true => moved = true,
                        false => now[layer] = old,
                    }
                }
            }
        }
        Ok(())
    }

    /// Other cuts of a layer.
    fn others(&self, now: Option<Parts>) -> Vec<Option<Parts>> {
        match now {
            Some(parts) => {
                let near = neighbours(parts, self.step.batch).into_iter().map(Some);
                near.chain([None]).collect()
            }
            None => batch_cuts(self.step.batch.min(MOST_PARTS))
                .map(Some)
                .collect(),
        }
    }
}

/// The batch in 1, 2, 4… parts.
pub(crate) fn batch_cuts(most: usize) -> impl Iterator<Item = Parts> {
    let samples = std::iter::successors(Some(1), |s| Some(2 * s));
    samples.take_while(move |&s| s <= most).map(|sample| Parts {
        sample,
        ..Parts::ONE
    })
}

/// The parts along one dimension of a cut.
type Dimension = fn(&mut Parts) -> &mut usize;

/// The same cut with twice or half as many parts along one dimension.
fn neighbours(parts: Parts, batch: usize) -> Vec<Parts> {
    let mut all = Vec::new();
    let dimensions: [(Dimension, usize); 4] = [
        (|p| &mut p.sample, batch),
        (|p| &mut p.channel, MOST_PARTS),
        (|p| &mut p.height, MOST_PARTS),
        (|p| &mut p.width, MOST_PARTS),
    ];
    for (dimension, most) in dimensions {
        let now = *dimension(&mut parts.clone());
        for n in [now / 2, now * 2] {
            if n > 0 && n <= most {
                let mut next = parts;
                *dimension(&mut next) = n;
                all.push(next);
            }
        }
    }
    all
}
