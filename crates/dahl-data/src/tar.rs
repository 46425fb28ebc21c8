//! Pictures in tar archives ("shards"): many small files as a few large ones.
//!
//! A member `KEY.jpg` has its class in a member `KEY.cls` beside it, a number or a name, as WebDataset has it; without
//! one, its class is the folder it lies in. Archives named `train*.tar` are for training, `val*.tar` or `test*.tar` for
//! validation; if there are not both, a tenth of all pictures is drawn. Headers are read once and archives are mapped. Plain
//! archives only: pictures do not get smaller by packing. One that ends without its end mark was cut off, and is refused.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use dahl_core::hash::Checksum;

use super::Split;
use super::bytes::{Bytes, map};
use super::class_folders::is_picture;
use super::error::DataError;
use super::picture::decode;
use super::pictures::{Pictures, Store, Wanted};
use super::random::mix;
use super::table::Labels;

const BLOCK: usize = 512;
/// What packed files begin with.
const GZIP: &[u8] = &[0x1f, 0x8b];
/// The largest text that is believed to be a class.
const MAX_CLASS: usize = 256;

/// The pictures of archives.
pub(crate) struct Archives {
    shards: Vec<(PathBuf, Bytes)>,
    items: Vec<Item>,
}

#[derive(Clone, Copy)]
pub(crate) struct Item {
    shard: u32,
    start: usize,
    length: usize,
    class: u32,
    /// Of its path in the archive.
    hash: u64,
}

/// A member of an archive.
pub(crate) struct Member<'a> {
    pub(crate) path: String,
    pub(crate) start: usize,
    pub(crate) bytes: &'a [u8],
}

/// Why there is no member where one should begin.
fn damaged(at: usize) -> String {
    match at {
        0 => "it does not begin as a tar archive does, or is damaged".into(),
        _ => format!("no header at byte {at}, or a damaged one"),
    }
}

/// The regular files of an archive (ustar, GNU or pax; long names of GNU and pax are known).
pub(crate) fn members(archive: &[u8]) -> Result<Vec<Member<'_>>, String> {
    if archive.starts_with(GZIP) {
        return Err("it is packed by gzip: unpack it, pictures hardly get larger by that".into());
    }
    let (mut at, mut all, mut long) = (0, Vec::new(), None);
    loop {
        let header = archive.get(at..at + BLOCK);
        let header = header.ok_or(format!("it is cut off at byte {at}: it has no end mark"))?;
        if header.iter().all(|&b| b == 0) {
            return Ok(all);
        }
        let size = octal(&header[124..136]).ok_or_else(|| damaged(at))?;
        let sum: u64 = header.iter().map(|&b| u64::from(b)).sum();
        let own: u64 = header[148..156].iter().map(|&b| u64::from(b)).sum();
        if octal(&header[148..156]) != Some(sum - own + 8 * 32) {
            return Err(damaged(at));
        }
        let start = at + BLOCK;
        let size = usize::try_from(size).map_err(|_| "a member is too large")?;
        let end = start.checked_add(size).filter(|&e| e <= archive.len());
        let end = end.ok_or(format!("the member at byte {at} is cut off"))?;
        let bytes = &archive[start..end];
        match header[156] {
            b'0' | 0 | b'7' => {
                let path = long.take().unwrap_or_else(|| plain_path(header));
                all.push(Member { path, start, bytes });
            }
            b'L' => long = Some(text(bytes)),
            b'x' => long = pax_path(bytes).or(long),
            _ => long = None,
        }
        at = end.div_ceil(BLOCK) * BLOCK;
    }
}

/// A number in octal, or in base 256 where it is large.
fn octal(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 != 0 {
        let low = &field[field.len().saturating_sub(8)..];
        return Some(low.iter().fold(0, |n, &b| n << 8 | u64::from(b)));
    }
    let digits = text(field);
    match digits.trim() {
        "" => Some(0),
        digits => u64::from_str_radix(digits, 8).ok(),
    }
}

/// The text before the first zero.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn plain_path(header: &[u8]) -> String {
    let name = text(&header[..100]);
    match header[257..262] == *b"ustar" && header[345] != 0 {
        true => format!("{}/{name}", text(&header[345..500])),
        false => name,
    }
}

/// The path among records `LENGTH path=…\n`.
fn pax_path(bytes: &[u8]) -> Option<String> {
    let records = String::from_utf8_lossy(bytes).into_owned();
    let path = records
        .lines()
        .find_map(|r| r.split_once(' ')?.1.strip_prefix("path="));
    path.map(str::to_owned)
}

/// Opens one split of the archives that a path means.
pub(crate) fn open(path: &Path, wanted: Wanted) -> Result<Pictures<Archives>, DataError> {
    super::picture_shape(&wanted.name, wanted.input)?;
    let files = archives(path)?;
    let has = |split| files.iter().any(|f| holds(f) == Some(split));
    let is_named = has(Split::Train) && has(Split::Validation);
    let (mut shards, mut items, mut labels) = (Vec::new(), Vec::new(), Labels::default());
    for file in files {
        let bytes = map(&file)?;
        let wrong = |reason: String| DataError::Usage(format!("{}: {reason}", file.display()));
        let shard = shards.len() as u32;
        let found = index(&bytes, shard, &mut labels).map_err(wrong)?;
        if !is_named || holds(&file) == Some(wanted.split) {
            items.extend(found);
        }
        shards.push((file, bytes));
    }
    if !is_named {
        let number = |i: usize| mix(wanted.seed, items[i].hash);
        let lines = super::split::draw(items.len(), wanted.split, number);
        items = lines.into_iter().map(|i| items[i]).collect();
    }
    let hint = "; members are KEY.jpg with KEY.cls, or CLASS/KEY.jpg";
    Pictures::new(wanted, labels, Archives { shards, items }, hint)
}

/// The archives that a path means, sorted.
fn archives(path: &Path) -> Result<Vec<PathBuf>, DataError> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let listed = std::fs::read_dir(path).map_err(DataError::io(path, "list it"))?;
    let files = listed.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<PathBuf> = files
        .filter(|p| p.extension().is_some_and(|e| e == "tar"))
        .collect();
    files.sort();
    match files.is_empty() {
        false => Ok(files),
        true => Err(DataError::NotFound {
            what: format!("archives *.tar in {}", path.display()),
            remedy: "put train-*.tar and val-*.tar there".into(),
        }),
    }
}

/// The split that an archive's name says.
fn holds(file: &Path) -> Option<Split> {
    let name = file.file_name()?.to_str()?;
    match name {
        n if n.starts_with("train") => Some(Split::Train),
        n if n.starts_with("val") || n.starts_with("test") => Some(Split::Validation),
        _ => None,
    }
}

/// The pictures of an archive with the numbers of their classes.
fn index(archive: &[u8], shard: u32, labels: &mut Labels) -> Result<Vec<Item>, String> {
    let all = members(archive)?;
    let stem = |path: &str| path.rsplit_once('.').map_or(path, |p| p.0).to_owned();
    let mut classes = HashMap::new();
    for member in all.iter().filter(|m| m.path.ends_with(".cls")) {
        let text = std::str::from_utf8(member.bytes).ok().map(str::trim);
        let text = text.filter(|t| !t.is_empty() && t.len() <= MAX_CLASS);
        let text = text.ok_or(format!("{} is no class", member.path))?;
        classes.insert(stem(&member.path), text.to_owned());
    }
    let mut items = Vec::new();
    for member in all.iter().filter(|m| is_picture(&m.path)) {
        let folder = Path::new(&member.path).parent().and_then(Path::file_name);
        let folder = folder.map(|f| f.to_string_lossy().into_owned());
        let class = classes.get(&stem(&member.path)).cloned().or(folder);
        let class = class.ok_or(format!(
            "{} has neither a .cls file nor a folder",
            member.path
        ))?;
        items.push(Item {
            shard,
            start: member.start,
            length: member.bytes.len(),
            class: labels.number(&class).ok_or("too many classes")?,
            hash: member.path.bytes().fold(0, |h, b| mix(h, u64::from(b))),
        });
    }
    Ok(items)
}

impl Store for Archives {
    fn len(&self) -> usize {
        self.items.len()
    }

    fn class(&self, index: usize) -> u32 {
        self.items[index].class
    }

    fn renumber(&mut self, class: &[u32]) {
        for item in &mut self.items {
            item.class = class[item.class as usize];
        }
    }

    fn decode(
        &self,
        index: usize,
        shape: [usize; 3],
        pixels: &mut [u8],
    ) -> Result<(), (PathBuf, String)> {
        let item = self.items[index];
        let (path, bytes) = &self.shards[item.shard as usize];
        let picture = &bytes[item.start..item.start + item.length];
        decode(picture, shape, pixels).map_err(|reason| {
            let place = format!("the picture at byte {}: {reason}", item.start);
            (path.clone(), place)
        })
    }

    fn tell(&self, index: usize, sum: &mut Checksum) {
        sum.add(&self.items[index].hash.to_le_bytes());
        sum.add(&self.items[index].length.to_le_bytes());
    }
}
