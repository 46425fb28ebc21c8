//! Reductions: tasks that add into one region at the same time, and still always give the same bits.
//!
//! Tasks that reduce into the same region one after another form a *group*. When something else
//! touches the region, or the program ends, the group is closed: its `n` tasks are dealt, in order and
//! in equal shares, to `min(n, most)` accumulators. The first accumulator is the region itself; the
//! others are temporaries that start at zero. Tasks of one accumulator run one after another;
//! different accumulators do not wait for each other. At last the accumulators are merged into the
//! region in the order of a fixed binary tree over their numbers ([`tree`]): neighbours first, then
//! pairs, then pairs of pairs. All this is part of the graph, so it does not depend on who runs it; and
//! a node that holds the accumulators of a subtree can send their sum ([`super::partition`]).

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use crate::access::{Access, Merge, Mode};
use crate::codelet::{Call, Codelet, Cost, Param, TaskError};
use crate::dtype::{DType, Element};
use crate::machine::UnitKind;
use crate::operands::{MAX_OPERANDS, Operands};
use crate::region::Region;
use crate::shape::{MAX_RANK, Shape};
use crate::split::{By, cut};
use crate::view::for_rows;

use super::recorder::Recording;
use super::{TaskRecord, runs};

/// Elements one merging task adds up, about: enough to be worth a task, few enough to share the work.
const MERGE_GRAIN: usize = 32 << 10;

/// Private accumulators of a reduced region, if a recorder is not told otherwise.
pub const ACCUMULATORS: usize = 4;

/// Open groups of every storage.
#[derive(Debug)]
pub(super) struct Groups {
    pub(super) most: usize,
    /// Whether a group was ever closed: its edges come late, and some may come twice.
    pub(super) closed: bool,
    open: Vec<Vec<Group>>,
}

impl Default for Groups {
    fn default() -> Self {
        Groups {
            most: ACCUMULATORS,
            closed: false,
            open: Vec::new(),
        }
    }
}

impl Groups {
    pub(super) fn add_storage(&mut self) {
        self.open.push(Vec::new());
    }
}

#[derive(Debug)]
struct Group {
    most: usize,
    array: u32,
    region: Region,
    merge: Merge,
    /// Task and place of the access in the graph's table.
    members: Vec<(u32, u32)>,
}

/// Closes the groups that a task about to be recorded gets in the way of.
pub(super) fn make_way(
    r: &mut Recording,
    merge: Merge,
    accesses: Range<u32>,
) -> Result<(), String> {
    for access in accesses {
        let a = r.accesses[access as usize];
        let storage = r.arrays[a.array as usize].storage as usize;
        if !r.groups.open[storage].is_empty() {
            close_overlapping(r, storage, merge, &a)?;
        }
    }
    Ok(())
}

/// How a task's results join those of others.
fn merge_of(r: &Recording, task: u32) -> Merge {
    let class = &r.classes[r.tasks[task as usize].class as usize];
    r.codelets[class.codelet as usize].merge
}

/// Takes one access of a task just recorded: into a group, or to the dependency tracker.
pub(super) fn enter(r: &mut Recording, task: u32, access: u32) -> Result<(), String> {
    let a = r.accesses[access as usize];
    let storage = r.arrays[a.array as usize].storage as usize;
    if a.mode != Mode::Reduce {
        return track(r, task, &a);
    }
    let merge = merge_of(r, task);
    let (most, open) = (r.groups.most, &mut r.groups.open[storage]);
    let (array, region) = (a.array, a.region);
    // Groups that this task does not join have been closed before it was recorded.
    match open
        .iter_mut()
        .find(|g| g.array == array && g.region == region)
    {
        Some(group) => group.members.push((task, access)),
        None => open.push(Group {
            most,
            array,
            region,
            merge,
            members: vec![(task, access)],
        }),
    }
    Ok(())
}

/// Closes the groups that an access gets in the way of: all that overlap, but for the one it joins.
fn close_overlapping(
    r: &mut Recording,
    storage: usize,
    merge: Merge,
    a: &Access,
) -> Result<(), String> {
    let shape = r.arrays[a.array as usize].shape;
    let hit = |r: &Recording, g: &Group| {
        let same = g.array == a.array && g.region == a.region && g.merge == merge;
        let joins = a.mode == Mode::Reduce && same;
        let other = &r.arrays[g.array as usize].shape;
        !joins && runs::overlap((&shape, &a.region), (other, &g.region))
    };
    while let Some(i) = r.groups.open[storage].iter().position(|g| hit(r, g)) {
        let group = r.groups.open[storage].remove(i);
        close(r, group)?;
    }
    Ok(())
}

/// Closes whatever is still open, at the end of the program.
pub(super) fn close_all(r: &mut Recording) -> Result<(), String> {
    for storage in 0..r.groups.open.len() {
        for group in std::mem::take(&mut r.groups.open[storage]) {
            close(r, group)?;
        }
    }
    Ok(())
}

/// Tells the tracker of an access, and notes its edges.
pub(super) fn track(r: &mut Recording, task: u32, a: &Access) -> Result<(), String> {
    let array = r.arrays[a.array as usize];
    let (edges, boundary) = (&mut r.edges, &mut r.boundary);
    let temporary = r.storages[array.storage as usize].temporary.is_some();
    let mut unwritten = None;
    r.tracker.access(
        array.storage as usize,
        &array.shape,
        &a.region,
        a.mode.writes(),
        task,
        |from| edges.push((from, task)),
        |region| {
            if a.mode.reads() && a.fresh.is_none() {
                unwritten = Some(region);
            }
            boundary.open(
                array.storage,
                array.shape,
                super::deps::Edge {
                    task,
                    region,
                    writes: a.mode.writes(),
                },
            );
        },
    );
    match unwritten {
        Some(region) if temporary => {
            let name = r.storages[array.storage as usize].storage.label();
            Err(format!(
                "reads {region} of the temporary {name}, which no task has written"
            ))
        }
        _ => Ok(()),
    }
}

/// Deals a group's tasks to accumulators and adds the tasks that merge them.
fn close(r: &mut Recording, group: Group) -> Result<(), String> {
    let n = group.members.len();
    let accumulators = n.min(group.most);
    let shape = {
        let (task, access) = group.members[0];
        let place = access - r.tasks[task as usize].first_access;
        let class = &r.classes[r.tasks[task as usize].class as usize];
        class.call.operands[place as usize].0
    };
    let storage = r.arrays[group.array as usize].storage as usize;
    let dtype = r.storages[storage].storage.dtype;
    let seen_as = r.arrays[group.array as usize].shape;
    let unwritten = r.storages[storage].temporary.is_some()
        && r.tracker.is_unwritten(storage, &seen_as, &group.region);
    let mut private = Vec::new();
    for k in 0..accumulators {
        let members = &group.members[k * n / accumulators..(k + 1) * n / accumulators];
        if k > 0 {
            private.push(r.add_temporary(shape, dtype));
        }
        for (i, &(task, access)) in members.iter().enumerate() {
            let a = &mut r.accesses[access as usize];
            if let Some(&own) = private.last() {
                (a.array, a.region) = (own, Region::whole(&shape));
            }
            // A temporary nobody wrote starts fresh too: there is nothing to join.
            if i == 0 && (k > 0 || unwritten) {
                a.fresh = Some(group.merge);
                r.tasks[task as usize].fresh = true;
            }
            let a = *a;
            track(r, task, &a)?;
        }
    }
    r.groups.closed = true;
    if private.is_empty() {
        return Ok(());
    }
    merge(r, &group, &private, &shape, dtype)
}

/// Adds tasks that add the private accumulators to the region, cut along its longest outer axis.
fn merge(
    r: &mut Recording,
    group: &Group,
    private: &[u32],
    shape: &Shape,
    dtype: DType,
) -> Result<(), String> {
    let dims = shape.dims4();
    let axis = (0..MAX_RANK).find(|&a| dims[a] > 1).unwrap_or(MAX_RANK - 1);
    let parts = (shape.len() / MERGE_GRAIN).clamp(1, dims[axis].min(16));
    for (from, to) in cut(axis, dims[axis], By::Count(parts)).expect("between 1 and the axis") {
        let (mut start, mut end) = ([0; MAX_RANK], dims);
        (start[axis], end[axis]) = (from, to);
        let part = Region::new(start, end).expect("not empty");
        let first_access = r.accesses.len() as u32;
        let target = Access {
            array: group.array,
            mode: Mode::ReadWrite,
            fresh: None,
            region: part.inside(&group.region),
        };
        r.accesses.push(target);
        r.accesses.extend(private.iter().map(|&array| Access {
            array,
            mode: Mode::Read,
            fresh: None,
            region: part,
        }));
        let dims = part.dims4();
        let shape = Shape::new(&dims[MAX_RANK - shape.rank()..]).expect("not empty");
        let class = merge_class(r, group.merge, shape, private.len(), dtype);
        let task = r.tasks.len() as u32;
        let (first, _) = group.members[0];
        let priority = r.tasks[first as usize].priority;
        let section = r.tasks[first as usize].section;
        let access_count = 1 + private.len() as u16;
        r.tasks.push(TaskRecord {
            class,
            first_access,
            access_count,
            fresh: false,
            priority,
            section,
        });
        for i in first_access..first_access + u32::from(access_count) {
            let a = r.accesses[i as usize];
            track(r, task, &a)?;
        }
    }
    Ok(())
}

fn merge_class(r: &mut Recording, merge: Merge, shape: Shape, private: usize, dtype: DType) -> u32 {
    let merge = codelet(merge);
    let mut operands = vec![(shape, Mode::ReadWrite)];
    operands.resize(1 + private, (shape, Mode::Read));
    let call = Call {
        operands,
        dtype,
        params: Vec::<Param>::new(),
    };
    r.plain_class(merge, call)
}

/// The codelet that joins accumulators.
fn codelet(merge: Merge) -> &'static Arc<Codelet> {
    match merge {
        Merge::Add => &MERGE,
        Merge::Min => &MERGE_MIN,
        Merge::Max => &MERGE_MAX,
    }
}

/// Whether a codelet joins accumulators.
pub(super) fn is_merge(codelet: &Codelet) -> bool {
    let all = [&*MERGE, &*MERGE_MIN, &*MERGE_MAX];
    all.iter().any(|merge| std::ptr::eq(&***merge, codelet))
}

/// Calls `join(to, from)` for every pair in the order of the binary tree over `count` numbers: a subtree is the largest
/// power of two of them that leaves some for the other, and its sum is kept at its first number.
pub(super) fn tree(count: usize, join: &mut impl FnMut(usize, usize)) {
    subtree(0, count, join);
}

fn subtree(first: usize, count: usize, join: &mut impl FnMut(usize, usize)) {
    if count > 1 {
        let left = count.next_power_of_two() / 2;
        subtree(first, left, join);
        subtree(first + left, count - left, join);
        join(first, first + left);
    }
}

/// Adds all operands into operand 0, in the order of [`tree`].
pub(super) static MERGE: LazyLock<Arc<Codelet>> =
    LazyLock::new(|| joining("merge", |a, b| a + b, |a, b| a + b));

/// The smallest of all operands, to operand 0; not-a-number stays.
pub(super) static MERGE_MIN: LazyLock<Arc<Codelet>> =
    LazyLock::new(|| joining("merge_min", smaller, smaller));

/// The largest of all operands, to operand 0; not-a-number stays.
pub(super) static MERGE_MAX: LazyLock<Arc<Codelet>> =
    LazyLock::new(|| joining("merge_max", larger, larger));

/// The smaller of two; not-a-number if either is.
pub fn smaller<T: PartialOrd>(a: T, b: T) -> T {
    let unordered = b.partial_cmp(&b).is_none();
    if b < a || unordered { b } else { a }
}

/// The larger of two; not-a-number if either is.
pub fn larger<T: PartialOrd>(a: T, b: T) -> T {
    let unordered = b.partial_cmp(&b).is_none();
    if b > a || unordered { b } else { a }
}

/// Takes functions, not pointers to them: each element is joined in place, many at a time.
fn joining(
    name: &str,
    f32s: impl Fn(f32, f32) -> f32 + Copy + Send + Sync + 'static,
    f64s: impl Fn(f64, f64) -> f64 + Copy + Send + Sync + 'static,
) -> Arc<Codelet> {
    let cost = |call: &Call| Cost {
        flops: ((call.operands.len() - 1) * call.shape(0).len()) as f64,
        bytes: call.bytes(),
    };
    let body = move |ops: &Operands<'_>| match ops.dtype(0) {
        DType::F32 => merge_all(ops, f32s),
        DType::F64 => merge_all(ops, f64s),
    };
    let codelet = Codelet::new(name).cost(cost).elementwise();
    Arc::new(codelet.implement("reference", UnitKind::CPU, body))
}

fn merge_all<T: Element>(
    ops: &Operands<'_>,
    join: impl Fn(T, T) -> T + Copy,
) -> Result<(), TaskError> {
    let mut target = ops.write::<T>(0);
    let mut views = [None; MAX_OPERANDS];
    for (i, view) in views.iter_mut().enumerate().take(ops.len()).skip(1) {
        *view = Some(ops.read::<T>(i));
    }
    let mut rows: [&[T]; MAX_OPERANDS] = [&[]; MAX_OPERANDS];
    let parts = || views.iter().flatten();
    if let Some(all) = target.as_slice()
        && parts().all(|p| p.as_slice().is_some())
    {
        let whole = parts().filter_map(|p| p.as_slice());
        rows.iter_mut().zip(whole).for_each(|(row, p)| *row = p);
        join_rows(all, &rows[..ops.len() - 1], join);
        return Ok(());
    }
    for_rows(target.dims(), |at| {
        let each = rows.iter_mut().zip(parts());
        each.for_each(|(row, p)| *row = p.row(at));
        join_rows(target.row(at), &rows[..ops.len() - 1], join);
    });
    Ok(())
}

/// Joins `parts` into `to` element by element, in the order of [`tree`].
fn join_rows<T: Element>(to: &mut [T], parts: &[&[T]], join: impl Fn(T, T) -> T + Copy) {
    match *parts {
        [] => {}
        [a] => to.iter_mut().zip(a).for_each(|(t, &a)| *t = join(*t, a)),
        [a, b] => {
            let all = to.iter_mut().zip(a).zip(b);
            all.for_each(|((t, &a), &b)| *t = join(join(*t, a), b));
        }
        [a, b, c] => {
            let all = to.iter_mut().zip(a).zip(b).zip(c);
            all.for_each(|(((t, &a), &b), &c)| *t = join(join(*t, a), join(b, c)));
        }
        _ => {
            for (i, t) in to.iter_mut().enumerate() {
                let mut values = [*t; MAX_OPERANDS];
                let rest = values[1..].iter_mut().zip(parts);
                rest.for_each(|(value, part)| *value = part[i]);
                tree(1 + parts.len(), &mut |to, from| {
                    values[to] = join(values[to], values[from]);
                });
                *t = values[0];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neighbours first: what a node sends for a whole subtree is what others would have computed.
    #[test]
    fn parts_are_joined_in_the_order_of_the_tree() {
        let show = |count| {
            let mut terms: Vec<String> = (0..count).map(|i| i.to_string()).collect();
            tree(count, &mut |to, from| {
                terms[to] = format!("({}+{})", terms[to], terms[from]);
            });
            terms.swap_remove(0)
        };
        let shown = [1, 2, 3, 4, 5, 8].map(show);
        let want = [
            "0",
            "(0+1)",
            "((0+1)+2)",
            "((0+1)+(2+3))",
            "(((0+1)+(2+3))+4)",
            "(((0+1)+(2+3))+((4+5)+(6+7)))",
        ];
        assert_eq!(shown, want);
        for count in 1..12 {
            let value = |part: usize, i: usize| ((part * 31 + i * 17) as f32).sin();
            let all: Vec<Vec<f32>> = (0..count)
                .map(|p| (0..9).map(|i| value(p, i)).collect())
                .collect();
            let mut want = all.clone();
            tree(count, &mut |to, from| {
                let from = want[from].clone();
                want[to].iter_mut().zip(from).for_each(|(t, f)| *t += f);
            });
            let mut got = all[0].clone();
            let parts: Vec<&[f32]> = all[1..].iter().map(Vec::as_slice).collect();
            join_rows(&mut got, &parts, |a, b| a + b);
            assert_eq!(got, want[0], "{count} parts");
        }
    }
}
