//! Traces: files as they are, and unpacked ones, which are packed with proper checksums before they are read.
//!
//! An unpacked trace is a bundle of its sections' raw bytes. Mutating a packed one alone would end at the checksums.

use std::io::Read;

use dahl::trace::{Summary, export, view};
use flate2::Crc;
use flate2::read::DeflateDecoder;

use super::said;
use crate::bundle;
use crate::{Answer, Folder, Target};

/// Names of sections by their kinds, from 1 on.
const SECTIONS: [&str; 9] = [
    "head",
    "names",
    "graph",
    "launches",
    "tasks",
    "transfers",
    "memory",
    "power",
    "messages",
];

/// Bytes before the first section, of which the last four are the number of sections.
const HEAD: usize = 16;

pub(super) const TRACE: Target = Target {
    name: "trace",
    files: &[],
    made,
    words: &[
        "=== graph\n",
        "=== names\n",
        "=== tasks\n",
        "=== power\n",
        "\"graphs\":",
        "\"end\":",
        "\"shape\":",
    ],
    parse: trace,
};

fn trace(_: &Folder, bytes: &[u8]) -> Answer {
    let packed = bundle::parts(bytes).map(|parts| pack(&parts));
    let trace = dahl::trace::read(packed.as_deref().unwrap_or(bytes)).map_err(said)?;
    let mut written = Vec::new();
    dahl::trace::write(&trace, &mut written)
        .unwrap_or_else(|e| panic!("a trace that was read cannot be written: {e}"));
    assert_eq!(
        dahl::trace::read(&written).map_err(said).as_ref(),
        Ok(&trace)
    );
    let _ = Summary::of(&trace);
    let out = &mut std::io::sink();
    let written = export::csv::write(&trace, &mut *out)
        .and_then(|()| export::paje::write(&trace, &mut *out))
        .and_then(|()| export::perfetto::write(&trace, &mut *out))
        .and_then(|()| view::write(&trace, &mut *out));
    written.expect("a sink takes everything");
    if let Ok(launch) = export::dot::launch(&trace, None, usize::MAX) {
        export::dot::write(&trace, launch, out).expect("a sink takes everything");
    }
    Ok(())
}

/// Two traces unpacked, and one as it is.
fn made() -> Vec<Vec<u8>> {
    let written = |tasks, units, seed| {
        let mut bytes = Vec::new();
        let trace = dahl::trace::synthetic(tasks, units, seed);
        dahl::trace::write(&trace, &mut bytes).expect("a vector takes everything");
        bytes
    };
    let (small, other) = (written(20, 2, 1), written(60, 3, 2));
    vec![unpack(&small), unpack(&other), small]
}

/// The sections of a proper trace, raw.
fn unpack(bytes: &[u8]) -> Vec<u8> {
    let number = |at: usize, length: usize| {
        let mut all = [0; 8];
        all[..length].copy_from_slice(&bytes[at..at + length]);
        u64::from_le_bytes(all) as usize
    };
    let (mut at, mut sections) = (HEAD, Vec::new());
    while at < bytes.len() {
        let (kind, length) = (number(at, 4), number(at + 12, 8));
        at += 4 + 8 + 8 + 4;
        let mut raw = Vec::new();
        let read = DeflateDecoder::new(&bytes[at..at + length]).read_to_end(&mut raw);
        read.expect("a section as it was packed");
        sections.push((SECTIONS[kind - 1], raw));
        at += length;
    }
    let parts: Vec<(&str, &[u8])> = sections
        .iter()
        .map(|(n, raw)| (*n, raw.as_slice()))
        .collect();
    bundle::join(&parts)
}

/// The file of these sections; those of unknown names have a kind that there is not.
fn pack(parts: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut bytes = b"DAHLTRC\n".to_vec();
    bytes.extend(6u32.to_le_bytes());
    bytes.extend((parts.len() as u32).to_le_bytes());
    for (name, raw) in parts {
        let kind = SECTIONS.iter().position(|s| s.as_bytes() == *name);
        let packed = stored(raw);
        let mut frame = kind.map_or(0, |k| k as u32 + 1).to_le_bytes().to_vec();
        frame.extend((raw.len() as u64).to_le_bytes());
        frame.extend((packed.len() as u64).to_le_bytes());
        let mut sum = Crc::new();
        sum.update(&frame);
        sum.update(&packed);
        bytes.extend(frame);
        bytes.extend(sum.sum().to_le_bytes());
        bytes.extend(packed);
    }
    bytes
}

/// Raw deflate that packs nothing: a compressor would take longer than all the rest.
fn stored(raw: &[u8]) -> Vec<u8> {
    let mut blocks = raw.chunks(usize::from(u16::MAX)).peekable();
    let mut packed = Vec::with_capacity(raw.len() + 5);
    loop {
        let block = blocks.next().unwrap_or_default();
        let last = blocks.peek().is_none();
        let length = block.len() as u16;
        packed.push(u8::from(last));
        packed.extend(length.to_le_bytes());
        packed.extend((!length).to_le_bytes());
        packed.extend(block);
        if last {
            return packed;
        }
    }
}
