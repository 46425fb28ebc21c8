//! The performance model for people: a table in sections, and what is worth saying beside it.

use dahl_core::Seconds;
use dahl_sched::model::PerfModel;

use crate::perf::{PerfRow, variations};
use crate::plot::draw_durations;
use crate::profile::Profile;

/// A table whose rows stand under lines of their own.
#[derive(Clone, Debug, Default)]
pub struct PerfReport {
    /// The heads, as [`dahl_core::report::Table::new`] takes them.
    pub heads: &'static str,
    /// What stands above some rows, and the rows.
    pub sections: Vec<(String, Vec<Vec<String>>)>,
    /// Lines below the table.
    pub notes: Vec<String>,
    /// A picture in letters of durations over work, where there is something to draw.
    pub picture: Option<String>,
}

/// All codelets, summed up.
pub fn perf_overview(rows: &[PerfRow]) -> PerfReport {
    let row = |group: &[PerfRow]| {
        // The shape with the most work speaks for the others.
        let most = |r: &&PerfRow| r.flops + r.bytes;
        let large = group.iter().max_by(|a, b| most(a).total_cmp(&most(b)))?;
        let spread = group.iter().map(|r| r.spread).fold(0.0, f64::max);
        Some(vec![
            large.implementation.clone(),
            large.unit.clone(),
            group.iter().map(|r| r.count).sum::<u64>().to_string(),
            Seconds(large.median).to_string(),
            format!("{:.0} %", 100.0 * spread),
            format!("{:.1}", large.gflops()),
            format!("{:.1}", large.gbytes()),
            of_best(large),
        ])
    };
    let codelets = rows.chunk_by(|a, b| a.codelet == b.codelet);
    let sections = codelets
        .map(|c| (c[0].codelet.clone(), groups(c).filter_map(row).collect()))
        .collect();
    PerfReport {
        heads: "by|on|>timed|>median|>spread|>GFLOP/s|>GB/s|>of best",
        sections,
        notes: vec![
            "Median, speeds and share of the machine's best are of the largest shape; spread is the widest. \
             `cached`: faster than its data could come from memory. `dahl perf CODELET` shows its shapes."
                .into(),
        ],
        picture: None,
    }
}

/// The shapes of one codelet.
pub fn perf_shapes(model: &PerfModel, rows: &[PerfRow], profile: Option<&Profile>) -> PerfReport {
    let cells = |row: &PerfRow| {
        vec![
            row.implementation.clone(),
            row.unit.clone(),
            row.count.to_string(),
            Seconds(row.mean).to_string(),
            Seconds(row.median).to_string(),
            format!("{:.1} %", 100.0 * row.spread),
            format!("{:.1}", row.gflops()),
            format!("{:.1}", row.gbytes()),
            of_best(row),
        ]
    };
    let mut sections: Vec<(String, Vec<Vec<String>>)> = Vec::new();
    for row in rows {
        let place = sections
            .iter()
            .position(|(shapes, _)| *shapes == row.shapes);
        let place = place.unwrap_or_else(|| {
            sections.push((row.shapes.clone(), Vec::new()));
            sections.len() - 1
        });
        sections[place].1.push(cells(row));
    }
    for (shapes, _) in &mut sections {
        let chosen = rows.iter().filter(|r| r.shapes == *shapes);
        if let Some((by, why)) = chosen
            .filter_map(|r| Some((&r.implementation, r.chosen.as_ref()?)))
            .next()
        {
            *shapes += &format!(": {by} is {why}");
        }
    }
    let mut notes = variations(rows);
    for group in groups(rows) {
        if let Some(law) = model.law(&group[0].key) {
            notes.push(format!(
                "{} on {}: {law}",
                group[0].implementation, group[0].unit
            ));
        }
    }
    if profile.is_none() {
        notes.push("what this machine can do at best is unknown: run `dahl calibrate`".into());
    }
    let points: Vec<(f64, f64, usize)> = groups(rows)
        .enumerate()
        .flat_map(|(i, g)| g.iter().map(move |r| (r.flops.max(r.bytes), r.median, i)))
        .collect();
    let names: Vec<String> = groups(rows)
        .map(|g| format!("{} on {}", g[0].implementation, g[0].unit))
        .collect();
    PerfReport {
        heads: "by|on|>timed|>mean|>median|>spread|>GFLOP/s|>GB/s|>of best",
        sections,
        notes,
        picture: draw_durations(&points, &names),
    }
}

/// Adjacent rows of the same codelet, implementation and unit.
fn groups(rows: &[PerfRow]) -> impl Iterator<Item = &[PerfRow]> {
    rows.chunk_by(|a, b| {
        (&a.codelet, &a.implementation, &a.unit) == (&b.codelet, &b.implementation, &b.unit)
    })
}

/// The share of what the machine can do; more than all of it is data that were still in a cache.
fn of_best(row: &PerfRow) -> String {
    match row.of_roof {
        None => "?".into(),
        Some(p) if p > 1.0 => "cached".into(),
        Some(p) => format!("{:.0} %", 100.0 * p),
    }
}
