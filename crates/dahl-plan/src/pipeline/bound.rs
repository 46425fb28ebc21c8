//! A time that no pipeline of any cut is faster than, for profiles whose cuts are too many to list.
//!
//! Either one stage has all layers, which costs what it costs, or there is a cut. All units together cannot compute
//! faster than their speeds add up to, and what is sent over the cheapest cut, which is at least the smallest
//! activation that is read, shares at most all units but one.

use super::cost::{Line, Stage};
use super::cuts::Cuts;
use super::{Platform, Profile};

/// Seconds per batch.
pub(super) fn simple(
    profile: &Profile,
    platform: &Platform,
    cuts: &Cuts,
    most_replicas: usize,
) -> f64 {
    let work = cuts.all[cuts.end()].seconds / platform.speed();
    let longest = profile.layers.iter().map(|l| l.forward + l.backward);
    let longest = longest.fold(0.0, f64::max);
    let fastest = platform.units.iter().map(|u| u.speed).fold(0.0, f64::max);
    // The longest layer is in one stage, on at most so many units.
    let replicas = most_replicas.min(platform.units.len());
    let alone = longest / (fastest * replicas as f64).min(platform.speed());
    let mut read = vec![false; profile.layers.len()];
    for &u in profile.reads.iter().flatten() {
        read[u as usize] = true;
    }
    let outputs = profile.layers.iter().zip(&read).filter(|(_, read)| **read);
    let smallest = outputs
        .map(|(l, _)| l.activation)
        .fold(f64::INFINITY, f64::min);
    let others = platform.units.len().saturating_sub(1).min(replicas);
    let bandwidth = platform.inside.max(platform.between);
    // Parts that do not read each other are cut for nothing.
    let connected = profile.reads.iter().skip(1).all(|r| !r.is_empty());
    let cut = match (others, connected) {
        (0, _) => f64::INFINITY,
        (_, false) => 0.0,
        _ => 2.0 * smallest / (bandwidth * others as f64),
    };
    let whole = one_stage(platform, cuts, replicas);
    work.max(alone).max(cut.min(whole))
}

/// The best that one stage of all layers can do, if exchanging were as fast as the fastest link.
fn one_stage(platform: &Platform, cuts: &Cuts, replicas: usize) -> f64 {
    let mut fast = platform.clone();
    fast.units.sort_by(|a, b| b.speed.total_cmp(&a.speed));
    fast.inside = fast.inside.max(fast.between);
    fast.between = fast.inside;
    let order: Vec<usize> = (0..fast.units.len()).collect();
    let line = Line::new(&fast, &order);
    let seconds = (1..=replicas).map(|replicas| {
        let stage = Stage {
            first: 0,
            last: cuts.end(),
            place: 0,
            replicas,
            from_inside: false,
            to_inside: false,
        };
        line.seconds(cuts, &stage)
    });
    seconds.fold(f64::INFINITY, f64::min)
}
