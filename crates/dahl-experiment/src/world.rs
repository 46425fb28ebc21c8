//! What a session needs of the world, and what it computes from two looks at it.
//!
//! The machine is one world (`machine`); tests make others, with their own time and their own watts, and go through the
//! same arithmetic.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::ExperimentError;
use crate::design::Cell;
use crate::protocol::{Ended, Ready};
use crate::quiet::{Counters, Surroundings, Used};
use crate::row::{Run, Source};

/// Fewer meter readings than this in a window are marked.
pub(crate) const FEW_READINGS: u64 = 60;

/// Everything there is to see at one moment. Counters run from some beginning: only differences mean something.
#[derive(Clone, Debug, Default)]
pub(crate) struct Look {
    /// Seconds since some beginning.
    pub at: f64,
    /// Seconds of Unix time.
    pub unix: f64,
    /// Joules by domain, where a meter measures.
    pub joules: BTreeMap<String, f64>,
    /// How often the meter has been read.
    pub readings: u64,
    /// What the whole machine has done.
    pub counters: Counters,
    /// What peers have used.
    pub peers: Used,
    /// Mean frequency of the cores.
    pub megahertz: Option<f64>,
    /// The hottest sensor.
    pub celsius: Option<f64>,
}

/// Engines that run and instruments that look.
pub(crate) trait World {
    /// Looks at everything.
    fn look(&mut self) -> Look;
    /// Lets time pass.
    fn wait(&mut self, time: Duration) -> Result<(), ExperimentError>;
    /// Starts the peer of a cell and loads it.
    fn start(&mut self, cell: &Cell) -> Result<Ready, ExperimentError>;
    /// Asks the peer to run; returns when it has begun.
    fn begin(&mut self, seconds: f64) -> Result<(), ExperimentError>;
    /// Waits until it has ended.
    fn end(&mut self) -> Result<Ended, ExperimentError>;
    /// What the peer, or the job that ended last, had resident since its start.
    fn resident(&self) -> Vec<(f64, u64)> {
        Vec::new()
    }
    /// Ends the peer. Nothing of it is left.
    fn stop(&mut self);
    /// Whether the cell is a program to be measured from start to end.
    fn is_job(&self, cell: &Cell) -> bool;
    /// Whether a cell's peer is measured from its start to its end.
    fn is_whole(&self, cell: &Cell) -> bool;
    /// Runs such a program.
    fn job(&mut self, cell: &Cell) -> Result<(Look, Look, Ended), ExperimentError>;
    /// Joules of a model for so much CPU time in so many seconds, and its words; where nothing is measured.
    fn model(&self, cpu: f64, seconds: f64) -> (f64, String);
}

/// Runs a cell once: warm-up, window, and what was used in it.
pub(crate) fn run(
    world: &mut dyn World,
    cell: &Cell,
    warmup: Duration,
    window: Duration,
) -> Result<Run, ExperimentError> {
    if world.is_job(cell) {
        let (before, after, ended) = world.job(cell)?;
        return Ok(between(world, &before, &after, ended));
    }
    if world.is_whole(cell) {
        return whole(world, cell, window);
    }
    let ready = world.start(cell)?;
    let measured = (|| {
        if !warmup.is_zero() {
            world.begin(warmup.as_secs_f64())?;
            world.end()?;
        }
        world.begin(window.as_secs_f64())?;
        let before = world.look();
        let ended = world.end()?;
        let after = world.look();
        Ok(between(world, &before, &after, ended))
    })();
    world.stop();
    let run: Result<Run, ExperimentError> = measured;
    Ok(Run {
        engine: ready.engine,
        ..run?
    })
}

/// Runs a peer once, all of it measured: what it takes to start, to load and to end, too.
fn whole(world: &mut dyn World, cell: &Cell, window: Duration) -> Result<Run, ExperimentError> {
    let before = world.look();
    let ready = world.start(cell)?;
    let begun = world.begin(window.as_secs_f64());
    let ended = begun.and_then(|()| world.end());
    // A process that has ended has no memory to look at.
    let peak = world.look().peers.peak_bytes;
    world.stop();
    let mut after = world.look();
    after.peers.peak_bytes = peak;
    Ok(Run {
        engine: ready.engine,
        ..between(world, &before, &after, ended?)
    })
}

/// What happened between two looks.
fn between(world: &dyn World, before: &Look, after: &Look, ended: Ended) -> Run {
    let seconds = after.at - before.at;
    let cpu = after.peers.cpu - before.peers.cpu;
    let mut domains = joules(before, after);
    let (joules, source, by) = match domains.is_empty() {
        false => {
            let names: Vec<&str> = domains.keys().map(String::as_str).collect();
            let by = format!("measured ({})", names.join(", "));
            (Some(domains.values().sum()), Source::Measured, by)
        }
        true => {
            let (joules, by) = world.model(cpu, seconds);
            domains.insert("model".into(), joules);
            (Some(joules), Source::Modelled, by)
        }
    };
    // What an engine says of itself never takes the place of what was measured here.
    let known = |(name, value): (String, Option<f64>)| {
        let name = match crate::measure::find(&name) {
            Some(_) => format!("own_{name}"),
            None => name,
        };
        Some((name, value.filter(|v| v.is_finite())?))
    };
    Run {
        at: before.unix,
        seconds,
        steps: ended.steps,
        images: ended.images,
        loss: ended.loss.filter(|l| l.is_finite()),
        joules,
        source,
        by,
        domains,
        readings: after.readings - before.readings,
        cpu_seconds: cpu,
        peak_bytes: (after.peers.peak_bytes > 0).then_some(after.peers.peak_bytes),
        faults: Some(after.peers.faults.saturating_sub(before.peers.faults)),
        surroundings: surroundings(before, after),
        resident: world.resident(),
        measures: ended.measures.into_iter().filter_map(known).collect(),
        ..Run::default()
    }
}

/// Joules by domain between two looks, of domains that both saw.
pub(crate) fn joules(before: &Look, after: &Look) -> BTreeMap<String, f64> {
    let since = |(name, joules): (&String, &f64)| {
        let before = before.joules.get(name)?;
        Some((name.clone(), joules - before))
    };
    after.joules.iter().filter_map(since).collect()
}

/// What else went on between two looks.
pub(crate) fn surroundings(before: &Look, after: &Look) -> Surroundings {
    Surroundings {
        megahertz: after.megahertz,
        celsius: after.celsius,
        ..Surroundings::between(&before.counters, &after.counters, after.at - before.at)
    }
}
