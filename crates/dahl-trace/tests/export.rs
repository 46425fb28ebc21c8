//! Exports agree with the summary, and are what their formats demand.

mod common;

use std::collections::{HashMap, HashSet};

use common::lopsided;
use dahl_core::trace::Trace;
use dahl_test_support::skip;
use dahl_trace::export::{csv, dot, paje, perfetto};
use dahl_trace::{Index, Summary, synthetic};

/// Nanoseconds by unit and codelet.
type Sums = HashMap<(String, String), u64>;

fn sums(trace: &Trace) -> Sums {
    let mut sums = Sums::new();
    for t in &trace.tasks {
        let unit = trace.units[usize::from(t.unit)].name.clone();
        let codelet = trace.class_of(t.id).codelet.clone();
        *sums.entry((unit, codelet)).or_default() += t.end - t.start;
    }
    sums
}

fn traces() -> Vec<Trace> {
    let mut odd = lopsided();
    odd.graphs[0].classes[0].codelet = "s,l\"o\"w\n%".into();
    odd.units[0].name = "cpu, \"0\"".into();
    vec![
        synthetic(0, 1, 1),
        synthetic(700, 2, 3),
        synthetic(3000, 4, 5),
        lopsided(),
        odd,
    ]
}

fn text(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut out = vec![];
    write(&mut out).expect("written");
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn the_summary_has_the_same_sums() {
    for trace in traces() {
        let s = Summary::of(&trace);
        let sums = sums(&trace);
        for u in &s.units {
            let busy: u64 = sums.iter().filter(|s| s.0.0 == u.unit).map(|s| s.1).sum();
            assert_eq!(busy, u.busy_ns);
        }
        for c in &s.codelets {
            let same = |x: &&dahl_trace::summary::CodeletTime| x.codelet == c.codelet;
            let time: u64 = s
                .codelets
                .iter()
                .filter(same)
                .map(|c| c.time.total_ns)
                .sum();
            let want: u64 = sums
                .iter()
                .filter(|s| s.0.1 == c.codelet)
                .map(|s| s.1)
                .sum();
            assert_eq!(time, want);
        }
    }
}

/// Cells of each line, quotes undone.
fn cells(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell) = (vec![], vec![], String::new());
    let (mut quoted, mut chars) = (false, text.chars().peekable());
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => cell.extend(chars.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            c => cell.push(c),
        }
    }
    rows
}

#[test]
fn csv_has_a_line_for_each_task_and_the_same_sums() {
    for trace in traces() {
        let rows = cells(&text(|out| csv::write(&trace, out)));
        let column = |name: &str| rows[0].iter().position(|c| c == name).expect("a column");
        let (unit, codelet, time) = (column("unit"), column("codelet"), column("duration_ns"));
        let mut found = Sums::new();
        let mut copied = 0;
        for row in &rows[1..] {
            assert_eq!(row.len(), rows[0].len());
            if row[0] == "task" {
                let key = (row[unit].clone(), row[codelet].clone());
                *found.entry(key).or_default() += row[time].parse::<u64>().expect("a number");
            } else {
                copied += row[column("bytes")].parse::<u64>().expect("a number");
                assert!(row[column("task")].parse::<u32>().is_ok());
            }
        }
        assert_eq!(found, sums(&trace));
        assert_eq!(copied, trace.transfers.iter().map(|t| t.bytes).sum::<u64>());
        assert_eq!(rows.len(), 1 + trace.tasks.len() + trace.transfers.len());
    }
}

/// What Paje cannot say in a text.
fn tame(name: &str) -> String {
    name.replace('"', "'").replace('\n', " ").replace(',', ";")
}

fn tamed(sums: Sums) -> Sums {
    sums.into_iter()
        .map(|((u, c), n)| ((tame(&u), tame(&c)), n))
        .collect()
}

fn nanos(seconds: &str) -> u64 {
    let (whole, part) = seconds.split_once('.').expect("a decimal point");
    assert_eq!(part.len(), 9, "{seconds}");
    whole.parse::<u64>().expect("digits") * 1_000_000_000 + part.parse::<u64>().expect("digits")
}

/// Words of a Paje line: quoted or not.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![];
    for (i, part) in line.split('"').enumerate() {
        if i % 2 == 1 {
            words.push(part.to_string());
        } else {
            words.extend(part.split_whitespace().map(str::to_string));
        }
    }
    words
}

#[test]
fn paje_is_in_order_and_has_the_same_sums() {
    for trace in traces() {
        let text = text(|out| paje::write(&trace, out));
        let mut names: HashMap<String, String> = HashMap::new();
        let mut stacks: HashMap<String, Vec<(String, u64)>> = HashMap::new();
        let (mut found, mut last, mut links) = (Sums::new(), 0, HashSet::new());
        for line in text.lines().filter(|l| !l.starts_with('%')) {
            let w = words(line);
            if let "5" | "6" | "7" | "8" | "9" | "10" | "11" = w[0].as_str() {
                assert!(nanos(&w[1]) >= last, "{line}");
                last = nanos(&w[1]);
            }
            match w[0].as_str() {
                "4" => drop(names.insert(w[1].clone(), w[3].clone())),
                "5" => drop(names.insert(w[2].clone(), w[5].clone())),
                "7" => stacks
                    .entry(w[3].clone())
                    .or_default()
                    .push((w[4].clone(), last)),
                "8" => {
                    let stack = stacks.get_mut(&w[3]).expect("pushed");
                    let (value, from) = stack.pop().expect("pushed");
                    assert!(stack.is_empty(), "one task at a time: {line}");
                    let key = (names[&w[3]].clone(), names[&value].clone());
                    *found.entry(key).or_default() += last - from;
                }
                "10" => assert!(links.insert((w[2].clone(), w[6].clone())), "{line}"),
                "11" => assert!(links.remove(&(w[2].clone(), w[6].clone())), "{line}"),
                _ => {}
            }
        }
        assert!(links.is_empty() && stacks.values().all(Vec::is_empty));
        assert_eq!(found, tamed(sums(&trace)));
    }
}

#[test]
fn pj_dump_reads_the_same_sums() {
    let folder = std::env::temp_dir().join(format!("dahl-paje-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    for (i, trace) in traces().iter().enumerate() {
        let file = folder.join(format!("{i}.paje"));
        std::fs::write(&file, text(|out| paje::write(trace, out))).expect("written");
        let dump = std::process::Command::new("pj_dump")
            .args(["-l", "9"])
            .arg(&file)
            .output();
        let Ok(dump) = dump else {
            skip!("pj_dump is not installed", "apt install pajeng");
        };
        let errors = String::from_utf8_lossy(&dump.stderr).into_owned();
        assert!(dump.status.success() && errors.is_empty(), "{errors}");
        let mut found = Sums::new();
        let (mut copies, mut tasks) = (0, 0);
        for line in String::from_utf8(dump.stdout).expect("UTF-8").lines() {
            // State, container, type, start, end, duration, nesting, value.
            let w: Vec<&str> = line.split(", ").collect();
            match (w[0], w.get(2)) {
                ("State", Some(&"Task")) => {
                    let key = (w[1].to_string(), w[7].to_string());
                    *found.entry(key).or_default() += nanos(w[4]) - nanos(w[3]);
                    tasks += 1;
                }
                ("Link", Some(&"Transfer")) => copies += 1,
                _ => {}
            }
        }
        assert_eq!((tasks, copies), (trace.tasks.len(), trace.transfers.len()));
        assert_eq!(found, tamed(sums(trace)));
    }
    std::fs::remove_dir_all(&folder).expect("removable");
}

/// A field of a protocol buffer.
#[derive(Debug)]
enum Value<'a> {
    Number(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, in order.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Value<'_>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            value |= u64::from(bytes[0] & 0x7f) << shift;
            let more = bytes[0] >= 0x80;
            *bytes = &bytes[1..];
            if !more {
                break;
            }
        }
        value
    }
    let mut found = vec![];
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let length = match tag & 7 {
            0 => {
                found.push((tag >> 3, Value::Number(varint(&mut bytes))));
                continue;
            }
            1 => 8,
            2 => varint(&mut bytes) as usize,
            other => panic!("wire type {other}"),
        };
        let (value, rest) = bytes.split_at(length);
        bytes = rest;
        found.push((
            tag >> 3,
            match tag & 7 {
                1 => Value::Fixed(u64::from_le_bytes(value.try_into().expect("eight bytes"))),
                _ => Value::Bytes(value),
            },
        ));
    }
    found
}

fn number(fields: &[(u64, Value)], field: u64) -> Option<u64> {
    fields.iter().find_map(|f| match f {
        (n, Value::Number(v)) if *n == field => Some(*v),
        _ => None,
    })
}

fn inside<'a>(fields: &'a [(u64, Value<'a>)], field: u64) -> Vec<&'a [u8]> {
    let bytes = |f: &(u64, Value<'a>)| match f {
        (n, Value::Bytes(b)) if *n == field => Some(*b),
        _ => None,
    };
    fields.iter().filter_map(bytes).collect()
}

fn string(fields: &[(u64, Value)], field: u64) -> String {
    let bytes = inside(fields, field);
    String::from_utf8(bytes.first().expect("a text").to_vec()).expect("UTF-8")
}

#[test]
fn perfetto_slices_nest_flows_meet_and_sums_agree() {
    for trace in traces() {
        let mut out = vec![];
        perfetto::write(&trace, &mut out).expect("written");
        let (mut tracks, mut names) = (HashMap::new(), HashMap::new());
        let mut open: HashMap<u64, (u64, u64)> = HashMap::new();
        let (mut from, mut to) = (HashMap::new(), HashMap::new());
        let (mut found, mut copies, mut counters) = (Sums::new(), 0, 0);
        for (field, packet) in fields(&out) {
            let (1, Value::Bytes(packet)) = (field, packet) else {
                panic!("not a packet: {field}");
            };
            let packet = fields(packet);
            for t in inside(&packet, 60) {
                let track = fields(t);
                let uuid = number(&track, 1).expect("a uuid");
                let thread = inside(&track, 4).first().map(|t| string(&fields(t), 5));
                assert!(tracks.insert(uuid, thread).is_none(), "twice: {uuid}");
            }
            for interned in inside(&packet, 12) {
                for name in inside(&fields(interned), 2) {
                    let name = fields(name);
                    names.insert(number(&name, 1).expect("an iid"), string(&name, 2));
                }
            }
            for event in inside(&packet, 11) {
                let event = fields(event);
                let at = number(&packet, 8).expect("a time");
                let track = number(&event, 11).expect("a track");
                assert!(tracks.contains_key(&track));
                match number(&event, 9) {
                    Some(1) => {
                        let name = number(&event, 10).expect("a name");
                        assert!(open.insert(track, (name, at)).is_none(), "overlap");
                        for (field, value) in &event {
                            match (field, value) {
                                (47, Value::Fixed(flow)) => drop(from.insert(*flow, at)),
                                (48, Value::Fixed(flow)) => drop(to.insert(*flow, at)),
                                _ => {}
                            }
                        }
                    }
                    Some(2) => {
                        let (name, begin) = open.remove(&track).expect("begun");
                        match &tracks[&track] {
                            Some(unit) => {
                                let key = (unit.clone(), names[&name].clone());
                                *found.entry(key).or_default() += at - begin;
                            }
                            None => copies += 1,
                        }
                    }
                    Some(4) => counters += 1,
                    other => panic!("type {other:?}"),
                }
            }
        }
        assert!(open.is_empty());
        assert_eq!(found, sums(&trace));
        assert_eq!(copies, trace.transfers.len());
        assert!(counters >= trace.memory.len() + trace.power.len());
        let edges = Index::of(&trace).edges(&trace);
        assert_eq!(from.len(), edges.len());
        assert!(from.len() == to.len() && from.iter().all(|(flow, at)| to[flow] >= *at));
    }
}

#[test]
fn dot_draws_one_launch_with_its_critical_path() {
    let trace = synthetic(700, 3, 2);
    let index = Index::of(&trace);
    let launch = dot::launch(&trace, None, 700).expect("tasks");
    let text = text(|out| dot::write(&trace, launch, out));
    let tasks = index.of_launch(launch).len();
    assert_eq!(text.matches("fillcolor").count(), tasks);
    let graph = trace.graph_of(launch);
    assert_eq!(text.matches(" -> ").count(), graph.successors.len());
    let nodes = text.matches(", penwidth=3]").count();
    assert!(
        nodes > 1 && text.matches(" [penwidth=3]").count() == nodes - 1,
        "{text}"
    );
    let step = trace.launches[launch as usize].step;
    assert_eq!(dot::launch(&trace, Some(step), tasks), Ok(launch));
    for (trace, step, limit, why) in [
        (&synthetic(0, 1, 1), None, 9, "no tasks"),
        (&trace, Some(u64::MAX), 9, "no step"),
        (&trace, None, tasks - 1, "--limit"),
    ] {
        let told = dot::launch(trace, step, limit).unwrap_err();
        assert!(told.contains(why), "{told}");
    }
}
