//! Who waits together: links that share a port or a switch, by the rule of [`dahl_core::machine::network`].
//!
//! A transfer occupies its link and everything that the link shares. Links that share something, be it by way of
//! others, form one line: of those whose link and all it shares is free, the most urgent goes first. All other
//! resources are lines of their own.

use super::problem::Problem;

/// Resources are groups of units, then links, then what links share.
#[derive(Clone, Debug)]
pub(crate) struct Sharing {
    /// For each resource that activities name, what they occupy with it.
    also: Vec<Vec<u16>>,
    /// Resources of which the most urgent goes first.
    pub lines: Vec<Vec<u16>>,
}

impl Sharing {
    /// What the links of a problem share.
    pub(crate) fn new(p: &Problem) -> Sharing {
        let (groups, links) = (p.groups.len(), p.links.len());
        let shared = |l: &super::problem::Link| {
            let all = l.shared.iter();
            all.map(|&s| (groups + links + s) as u16).collect()
        };
        let mut also = vec![Vec::new(); groups];
        also.extend(p.links.iter().map(shared));
        let mut lines: Vec<Vec<u16>> = Vec::new();
        for (r, own) in also.iter().enumerate() {
            let meets = |line: &Vec<u16>| {
                let mut all = line.iter().flat_map(|&o| &also[usize::from(o)]);
                all.any(|s| own.contains(s))
            };
            let mut joined: Vec<u16> = lines.extract_if(.., |line| meets(line)).flatten().collect();
            joined.push(r as u16);
            lines.push(joined);
        }
        lines.sort_by_key(|line| line[0]);
        Sharing { also, lines }
    }

    /// What an activity on a resource occupies besides it.
    pub(crate) fn also(&self, resource: u16) -> &[u16] {
        &self.also[usize::from(resource)]
    }

    /// The resource of a line whose turn it is: of those that could start something, the one where the most urgent waits.
    pub(crate) fn next<R: Ord>(
        &self,
        line: &[u16],
        is_free: impl Fn(u16) -> bool,
        first: impl Fn(u16) -> Option<R>,
    ) -> Option<u16> {
        let could = |r: &u16| is_free(*r) && self.also(*r).iter().all(|&s| is_free(s));
        let waits = |&r: &u16| first(r).map(|ready| (ready, r));
        let most = line.iter().filter_map(waits).filter(|(_, r)| could(r));
        most.max_by(|a, b| a.0.cmp(&b.0)).map(|(_, r)| r)
    }
}
