//! Ports and switches written by hand: what links become of them, what they share, and mistakes with their lines.

use super::*;

/// Three nodes of different cards behind one switch, a card inside the first, and a slow link of its own kind.
const CLUSTER: &str = r#"version = 1
name = "cluster"

[[node]]
name = "a"
port = { bandwidth = 1e9, latency = 10e-6, joules_per_byte = 3e-9 }

[[node]]
name = "b"
port = { bandwidth = 1e9, latency = 20e-6, joules_per_byte = 4e-9 }

[[node]]
name = "c"
[node.port]
bandwidth = 2e8

[[memory]]
name = "a"
node = "a"

[[memory]]
name = "card"
node = "a"

[[memory]]
name = "b"
node = "b"

[[memory]]
name = "c"
node = "c"

[[unit]]
name = "cpu"
kind = "cpu"

[[switch]]
name = "rack"
nodes = ["a", "c", "b"]
bandwidth = 2.5e9
latency = 1e-6
joules_per_byte = 1e-9

[[link]]
from = "a"
to = "card"
both_ways = true
bandwidth = 12e9

[[link]]
from = "c"
to = "a"
bandwidth = 1e8
via = ["rack"]
"#;

fn cluster() -> Machine {
    Machine::from_toml(CLUSTER, "m.toml").unwrap()
}

#[test]
fn a_switch_joins_its_nodes_at_the_speed_of_their_ports() {
    let m = cluster();
    let (a, card, b, c) = (MemoryId(0), MemoryId(1), MemoryId(2), MemoryId(3));
    let ends: Vec<_> = m.links.iter().map(|l| (l.from, l.to)).collect();
    // Written ones first; then pairs in the order of nodes, without what was written.
    let star = [(a, b), (b, a), (a, c), (b, c), (c, b)];
    assert_eq!(ends[..3], [(a, card), (card, a), (c, a)]);
    assert_eq!(ends[3..], star);
    let link = |from, to| m.link(from, to).unwrap();
    assert_eq!(link(a, b).bandwidth, 1e9);
    assert_eq!(link(a, b).latency, Seconds(10e-6 + 20e-6 + 1e-6));
    assert_eq!(link(a, b).joules_per_byte, Some(3e-9 + 4e-9 + 1e-9));
    assert_eq!(*link(b, a), link(a, b).reversed());
    // The slowest on its way; and what is not known of one port is not known of the link.
    assert_eq!(link(b, c).bandwidth, 2e8);
    assert_eq!(link(b, c).joules_per_byte, None);
    // What a link says of itself holds.
    assert_eq!(link(c, a).bandwidth, 1e8);
    assert_eq!(link(c, a).latency, Seconds(10e-6 + 1e-6));
    assert!(link(a, card).via.is_empty());
}

#[test]
fn links_share_the_ports_of_their_nodes_and_the_backplane() {
    let m = cluster();
    let channels = m.channels();
    let occupied = |from: u16, to: u16| -> Vec<&str> {
        let ends = (MemoryId(from), MemoryId(to));
        let place = m.links.iter().position(|l| (l.from, l.to) == ends);
        let all = channels.of_link[place.unwrap()].iter();
        all.map(|&c| &*channels.all[c as usize].name).collect()
    };
    let shared = |from: &str, to: &str| {
        let names = ["port out of node ", "port into node "];
        let [out, into] = names.map(str::to_owned);
        [out + &format!("{from:?}"), into + &format!("{to:?}")]
    };
    let [out, into] = shared("a", "b");
    assert_eq!(
        occupied(0, 2),
        ["link \"a\" to \"b\"", &out, &into, "switch \"rack\""]
    );
    let [out, into] = shared("b", "a");
    assert_eq!(
        occupied(2, 0),
        ["link \"b\" to \"a\"", &into, &out, "switch \"rack\""]
    );
    assert_eq!(occupied(0, 1), ["link \"a\" to \"card\""], "within a node");
    // 2.5 GB/s carry two transfers of 1 GB/s.
    let limits = channels.all[m.links.len()..].iter().map(|c| c.at_once);
    assert_eq!(limits.collect::<Vec<_>>(), [1, 1, 1, 1, 1, 1, 2]);
}

#[test]
fn a_switch_without_a_limit_is_no_channel_and_a_slow_one_carries_one() {
    let unlimited = CLUSTER.replacen("bandwidth = 2.5e9\n", "", 1);
    let m = Machine::from_toml(&unlimited, "m.toml").unwrap();
    assert_eq!(m.channels().all.len(), m.links.len() + 6);
    let slow = CLUSTER.replacen("2.5e9", "5e8", 1);
    let m = Machine::from_toml(&slow, "m.toml").unwrap();
    assert_eq!(m.channels().all.last().unwrap().at_once, 1);
    assert_eq!(m.link(MemoryId(0), MemoryId(2)).unwrap().bandwidth, 5e8);
}

#[test]
fn nodes_without_ports_limit_nothing() {
    let mut text = CLUSTER.to_owned();
    for line in CLUSTER.lines().filter(|l| l.starts_with("port = ")) {
        text = text.replacen(line, "", 1);
    }
    let m = Machine::from_toml(&text, "m.toml").unwrap();
    assert_eq!(
        m.channels().all.len(),
        m.links.len() + 3,
        "c's, and the switch"
    );
    // Between a and b there is only the switch; to c its port.
    assert_eq!(m.link(MemoryId(0), MemoryId(2)).unwrap().bandwidth, 2.5e9);
    assert_eq!(m.link(MemoryId(2), MemoryId(3)).unwrap().bandwidth, 2e8);
}

#[test]
fn a_star_is_written_as_one() {
    let text = cluster().to_toml();
    assert!(text.contains("nodes = [\"a\", \"b\", \"c\"]"), "{text}");
    assert_eq!(text.matches("[[link]]").count(), 2, "{text}");
    assert!(text.contains("port = { bandwidth = 1e9, latency = 1e-5, joules_per_byte = 3e-9 }"));
    assert_eq!(Machine::from_toml(&text, "again"), Ok(cluster()));
    // A link that is not as its way makes it has to be written, and so have those of its switch.
    let mut other = cluster();
    other.links[4].latency = Seconds(1.0);
    let text = other.to_toml();
    assert_eq!(Machine::from_toml(&text, "again"), Ok(other), "{text}");
}

#[test]
fn mistakes_name_the_entry_and_the_line() {
    let cases = [
        (
            "port = { bandwidth = 1e9, latency = 10e-6, joules_per_byte = 3e-9 }",
            "port = 1e9",
            "node \"a\": `port` must be a table: port = { … } (m.toml:6)",
        ),
        (
            "port = { bandwidth = 1e9, latency = 10e-6, joules_per_byte = 3e-9 }",
            "port = { speed = 1e9 }",
            "node \"a\": port: `bandwidth` is missing (m.toml:6)",
        ),
        (
            "latency = 20e-6",
            "delay = 20e-6",
            "node \"b\": port: unknown key \"delay\"; there are: bandwidth, joules_per_byte, latency (m.toml:10)",
        ),
        (
            "bandwidth = 2e8",
            "bandwidth = 0",
            "node \"c\": port: bandwidth is 0: it must be more than zero (m.toml)",
        ),
        (
            "\"c\", \"b\"]",
            "\"d\"]",
            "switch \"rack\": `nodes` is \"d\", which no entry above is called; there are: a, b, c (m.toml:39)",
        ),
        (
            "\"c\", \"b\"]",
            "\"a\"]",
            "switch \"rack\": `nodes` has \"a\" twice: leave one (m.toml:39)",
        ),
        (
            "\"c\", \"b\"]",
            "3]",
            "switch \"rack\": `nodes` must be a list of texts in quotes (m.toml:39)",
        ),
        (
            "latency = 1e-6",
            "latency = -1.0",
            "switch \"rack\": latency is -1: it must be zero or more (m.toml)",
        ),
        (
            "bandwidth = 1e8",
            "bandwidth = 1e9",
            "link \"c\" to \"a\": bandwidth is 1e9, but a port or switch on its way carries 2e8: leave it out, or make it less (m.toml)",
        ),
        (
            "bandwidth = 1e8",
            "at_once = 2",
            "link \"c\" to \"a\": at_once is 2, but a port carries one transfer at a time: leave it out (m.toml)",
        ),
        (
            "via = [\"rack\"]",
            "via = [\"rack\", \"rack\"]",
            "link \"c\" to \"a\" goes via \"rack\" twice: leave one (m.toml)",
        ),
        (
            "via = [\"rack\"]",
            "via = [\"hub\"]",
            "link: `via` is \"hub\", which no entry above is called; there are: rack (m.toml:54)",
        ),
        (
            "bandwidth = 12e9",
            "latency = 1e-6",
            "link: `bandwidth` is missing (m.toml:44)",
        ),
    ];
    for (old, new, expected) in cases {
        assert!(CLUSTER.contains(old), "{old}");
        let text = CLUSTER.replacen(old, new, 1);
        let error = Machine::from_toml(&text, "m.toml").unwrap_err().to_string();
        assert_eq!(error, format!("machine: {expected}"), "{new}");
    }
}

#[test]
fn a_switch_that_cannot_join_says_why() {
    let mut text = CLUSTER.replacen("bandwidth = 2.5e9\n", "", 1);
    for line in CLUSTER.lines().filter(|l| l.starts_with("port = ")) {
        text = text.replacen(line, "", 1);
    }
    let error = Machine::from_toml(&text, "m.toml").unwrap_err().to_string();
    assert_eq!(
        error,
        "machine: switch \"rack\": nothing says how fast it joins \"a\" and \"b\": give them ports, or give it a `bandwidth` (m.toml:37)"
    );
    let empty = CLUSTER.replace("node = \"c\"", "node = \"b\"");
    let error = Machine::from_toml(&empty, "m.toml")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("switch \"rack\": node \"c\" has no memory: add one"),
        "{error}"
    );
    // What a program builds is checked, too.
    let mut m = cluster();
    m.links[3].joules_per_byte = None;
    let error = m.check().unwrap_err();
    assert!(error.contains("take their sum"), "{error}");
    m = cluster();
    m.links[3].via = vec![7];
    assert_eq!(
        m.check().unwrap_err(),
        "link \"a\" to \"b\": there is no switch 7"
    );
    let mut many = String::from("version = 1\n[[unit]]\nname = \"u\"\nkind = \"cpu\"\n");
    let names: Vec<String> = (0..300).map(|i| format!("\"n{i}\"")).collect();
    for n in &names {
        many += &format!("[[node]]\nname = {n}\nport = {{ bandwidth = 1e9 }}\n");
        many += &format!("[[memory]]\nname = {n}\nnode = {n}\n");
    }
    many += &format!("[[switch]]\nname = \"s\"\nnodes = [{}]\n", names.join(", "));
    let error = Machine::from_toml(&many, "m.toml").unwrap_err().to_string();
    assert!(
        error.contains("switch \"s\": it joins 300 nodes: use at most 244"),
        "{error}"
    );
}
