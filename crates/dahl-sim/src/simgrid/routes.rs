//! Routes of platforms that others wrote: what each needs for itself becomes part of a link, what several need becomes
//! a node's port or a switch, once.
//!
//! SimGrid's `SHARED` links serve both directions together, `SPLITDUPLEX` ones each for itself, and a `FATPIPE` gives
//! its bandwidth to every transfer. What all links out of a host share with nothing else, and an equal one that all
//! links into it share, is its network card.

use std::collections::HashMap;

use dahl_core::{Link, Machine, MemoryId, Port, Switch};

use super::read::{Element, Parts, Reader, Wrong};

/// A link of the file in one direction, where these are told apart.
type Key<'e> = (&'e str, Direction);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Direction {
    Any,
    Up,
    Down,
}

/// One way from host to host.
struct Route<'e> {
    link: Link,
    parts: Vec<Key<'e>>,
}

impl Reader<'_, '_> {
    /// Adds the links of a file's routes, and what they share.
    pub(super) fn routes(
        &self,
        parts: &Parts<'_, '_>,
        memories: &HashMap<&str, MemoryId>,
        machine: &mut Machine,
    ) -> Result<(), Wrong> {
        let mut known: HashMap<&str, (Element<'_, '_>, Link)> = HashMap::new();
        for &e in &parts.links {
            known.insert(self.id(e, "id")?, (e, self.link(e)?));
        }
        let mut routes: Vec<Route<'_>> = Vec::new();
        for &e in &parts.routes {
            let route = self.route(e, &known, memories)?;
            let back = (e.attribute("symmetrical") != Some("NO")).then(|| route.reversed());
            for route in std::iter::once(route).chain(back) {
                let ends = |l: &Link| (l.from, l.to);
                let is_known = routes.iter().any(|r| ends(&r.link) == ends(&route.link));
                if route.link.from != route.link.to && !is_known {
                    routes.push(route);
                }
            }
        }
        let mut uses: Vec<(Key<'_>, Vec<usize>)> = Vec::new();
        for (i, route) in routes.iter().enumerate() {
            let shared = route.parts.iter().filter(|k| !is_fat(known[k.0].0));
            for &key in shared {
                match uses.iter_mut().find(|u| u.0 == key) {
                    Some(found) if found.1.last() == Some(&i) => {}
                    Some(found) => found.1.push(i),
                    None => uses.push((key, vec![i])),
                }
            }
        }
        uses.retain(|(_, by)| by.len() > 1);
        for (m, memory) in machine.memories.iter().enumerate() {
            let memory_id = MemoryId(m as u16);
            let of = |end: fn(&Link) -> MemoryId| -> Option<usize> {
                let ours = |i: &usize| end(&routes[*i].link) == memory_id;
                let all: Vec<usize> = (0..routes.len()).filter(ours).collect();
                uses.iter().position(|u| u.1 == all)
            };
            let (Some(out), Some(into)) = (of(|l| l.from), of(|l| l.to)) else {
                continue;
            };
            let [a, b] = [out, into].map(|u| &known[uses[u].0.0].1);
            if (a.bandwidth, a.latency) == (b.bandwidth, b.latency) {
                machine.nodes[usize::from(memory.node.0)].port = Some(Port {
                    bandwidth: a.bandwidth,
                    latency: a.latency,
                    joules_per_byte: None,
                });
                let ports = [uses[out].0, uses[into].0];
                uses.retain(|u| !ports.contains(&u.0));
            }
        }
        for (number, ((id, direction), by)) in uses.into_iter().enumerate() {
            let Ok(number) = u16::try_from(number) else {
                return self.wrong(known[id].0, "more links are shared than can be numbered");
            };
            let link = &known[id].1;
            machine.switches.push(Switch {
                name: match direction {
                    Direction::Any => id.to_owned(),
                    Direction::Up => format!("{id} up"),
                    Direction::Down => format!("{id} down"),
                },
                bandwidth: Some(link.bandwidth),
                latency: link.latency,
                joules_per_byte: None,
            });
            by.iter().for_each(|&i| routes[i].link.via.push(number));
        }
        machine.links.extend(routes.into_iter().map(|r| r.link));
        Ok(())
    }

    fn route<'e>(
        &self,
        route: Element<'e, '_>,
        known: &HashMap<&str, (Element<'_, '_>, Link)>,
        memories: &HashMap<&str, MemoryId>,
    ) -> Result<Route<'e>, Wrong> {
        let end = |key| -> Result<MemoryId, Wrong> {
            let id = self.id(route, key)?;
            match memories.get(id) {
                Some(memory) => Ok(*memory),
                None => self.wrong(route, format!("route: there is no host {id:?}")),
            }
        };
        let (from, to) = (end("src")?, end("dst")?);
        let mut whole: Option<Link> = None;
        let mut parts = Vec::new();
        for e in route.children().filter(Element::is_element) {
            let id = self.id(e, "id")?;
            let Some((_, part)) = known.get(id) else {
                return self.wrong(e, format!("route: there is no link {id:?}"));
            };
            let direction = match e.attribute("direction") {
                Some("UP") => Direction::Up,
                Some("DOWN") => Direction::Down,
                _ => Direction::Any,
            };
            parts.push((id, direction));
            whole = Some(match whole {
                None => part.clone(),
                Some(w) => behind(w, part),
            });
        }
        match whole {
            None => self.wrong(route, "route: it has no link"),
            Some(whole) => Ok(Route {
                link: Link { from, to, ..whole },
                parts,
            }),
        }
    }
}

impl<'e> Route<'e> {
    fn reversed(&self) -> Self {
        let back = |&(id, direction): &Key<'e>| match direction {
            Direction::Any => (id, Direction::Any),
            Direction::Up => (id, Direction::Down),
            Direction::Down => (id, Direction::Up),
        };
        Route {
            link: self.link.reversed(),
            parts: self.parts.iter().rev().map(back).collect(),
        }
    }
}

fn is_fat(link: Element<'_, '_>) -> bool {
    link.attribute("sharing_policy") == Some("FATPIPE")
}

/// One link behind another: the narrower bandwidth, both latencies, the joules of both.
fn behind(first: Link, second: &Link) -> Link {
    Link {
        bandwidth: first.bandwidth.min(second.bandwidth),
        latency: first.latency + second.latency,
        joules_per_byte: match (first.joules_per_byte, second.joules_per_byte) {
            (Some(a), Some(b)) => Some(a + b),
            (one, other) => one.or(other),
        },
        ..first
    }
}
