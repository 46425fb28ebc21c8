//! The design: which cells there are, and in which order they run.
//!
//! Randomised complete blocks: every block runs every cell once, in an order of its own, which is a pure function of the
//! seed and the block. So drift of the machine falls out of comparisons within a block, and the order can be written
//! down before the first run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use dahl_core::random::Random;
use dahl_core::report::Report;
use dahl_core::{Seconds, several};

use crate::file::{Condition, Experiment};
use crate::level::Level;

/// A cell: a level for each factor that it has.
pub type Cell = BTreeMap<String, Level>;

/// Factors with levels that some machines do not have.
const MACHINES: [&str; 3] = ["threads", "units", "nodes"];

/// Whether a cell has these levels; a factor that it lacks has none.
pub(crate) fn holds(cell: &Cell, when: &Condition) -> bool {
    when.iter()
        .all(|(factor, levels)| cell.get(factor).is_some_and(|l| levels.contains(l)))
}

impl Experiment {
    /// All cells, in the order of factors and levels.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = vec![Cell::new()];
        for (factor, levels) in &self.factors {
            let with = |cell: &Cell| {
                let with = |level: &Level| {
                    let mut cell = cell.clone();
                    cell.insert(factor.clone(), level.clone());
                    cell
                };
                levels.iter().map(with).collect::<Vec<Cell>>()
            };
            cells = cells.iter().flat_map(with).collect();
        }
        cells.retain(|cell| !self.skip.iter().any(|when| holds(cell, when)));
        for cell in &mut cells {
            // All conditions are judged before any factor goes, so that their order does not matter.
            let whole = cell.clone();
            for only in &self.only {
                if !holds(&whole, &only.when) {
                    cell.remove(&only.factor);
                }
            }
        }
        let mut seen = std::collections::HashSet::new();
        cells.retain(|cell| seen.insert(name(cell)));
        cells
    }

    /// The cells to try before a session: of each engine one for every level of the factors that a machine may not have.
    /// Others, models above all, take long to load and rarely fail by themselves.
    pub fn probes(&self) -> Vec<Cell> {
        let mut seen = std::collections::HashSet::new();
        let mut cells = self.cells();
        cells.retain(|cell| {
            let level = |factor: &str| cell.get(factor).map(Level::to_string);
            let found =
                MACHINES.map(|factor| seen.insert((level("engine"), factor, level(factor))));
            found.contains(&true)
        });
        cells
    }

    /// The most blocks that may run.
    pub fn most_blocks(&self) -> u32 {
        let until = self.design.until.as_ref();
        until.map_or(self.design.blocks, |u| u.at_most)
    }

    /// What a run would be, before it is one: cells, blocks, the least time, what comes first.
    pub fn outline(&self) -> Report {
        let (mut report, cells, design) = (Report::default(), self.cells(), &self.design);
        report.line(format!("{}: {}", self.name, self.question));
        let runs = cells.len() as u32 * design.blocks;
        let each = design.warmup + design.window;
        let time = each.as_secs_f64() * f64::from(runs)
            + 2.0 * design.idle.as_secs_f64() * f64::from(design.blocks);
        report.line(format!(
            "{}, {}, {}: at least {}, and what engines take to start",
            several(cells.len(), "cell"),
            several(design.blocks, "block"),
            several(runs, "run"),
            Seconds(time)
        ));
        if self.most_blocks() > design.blocks {
            report.line(format!(
                "up to {} blocks until intervals are narrow: at most {}",
                self.most_blocks(),
                Seconds(time / f64::from(design.blocks) * f64::from(self.most_blocks()))
            ));
        }
        let order = self.order(0, cells.len());
        let first: Vec<String> = order.iter().take(3).map(|&c| name(&cells[c])).collect();
        report.line(format!("first: {}", first.join("; ")));
        for words in &self.prepare {
            report.line(format!("before: {}", words.join(" ")));
        }
        report
    }

    /// A folder for a session of it that is not there yet: its name and a number.
    pub fn free_folder(&self) -> PathBuf {
        let numbered = |n: u32| PathBuf::from(format!("{}-{n}", self.name));
        let mut numbers = (1..).map(numbered);
        numbers.find(|f| !f.exists()).expect("a number is free")
    }

    /// The order of a block, as places in [`Experiment::cells`].
    pub fn order(&self, block: u32, cells: usize) -> Vec<usize> {
        let random = Random::new(self.seed, 0x0062_6c6f_636b_0000 ^ u64::from(block));
        let mut order: Vec<usize> = (0..cells).collect();
        for i in (1..cells).rev() {
            order.swap(i, random.below(i as u64, i as u64 + 1) as usize);
        }
        order
    }

    /// The order of all blocks as CSV: block, place, cell and its levels.
    pub(crate) fn order_csv(&self, cells: &[Cell]) -> String {
        let names: Vec<&str> = self.factors.iter().map(|(n, _)| n.as_str()).collect();
        let mut text = format!("block,place,cell,{}\n", names.join(","));
        for block in 0..self.most_blocks() {
            for (place, &cell) in self.order(block, cells.len()).iter().enumerate() {
                let level = |name: &&str| {
                    cells[cell]
                        .get(*name)
                        .map_or(String::new(), |l| csv(&l.to_string()))
                };
                let levels: Vec<String> = names.iter().map(level).collect();
                text += &format!("{block},{place},{cell},{}\n", levels.join(","));
            }
        }
        text
    }

    /// A small experiment of the same kind: so many blocks, and no more until intervals are narrow.
    pub fn with_blocks(mut self, blocks: u32) -> Experiment {
        self.design.blocks = blocks.max(1);
        self.design.until = None;
        self
    }

    /// Windows, warm-up and idle time divided by a number, 1 or more, for trials.
    pub fn shortened(mut self, by: f64) -> Result<Experiment, String> {
        if !(1.0..=1e6).contains(&by) {
            return Err("write how many times shorter, 1 or more".into());
        }
        for time in [
            &mut self.design.window,
            &mut self.design.warmup,
            &mut self.design.idle,
        ] {
            *time = time.div_f64(by);
        }
        Ok(self)
    }

    /// With so many cores that others may use before a run counts as disturbed.
    pub fn allowing(mut self, others: f64) -> Result<Experiment, String> {
        self.design.others = others;
        self.check_design()?;
        Ok(self)
    }

    /// Keeps only these levels of a factor.
    pub fn keep(&mut self, factor: &str, levels: &[&str]) -> Result<(), String> {
        let names: Vec<&str> = self.factors.iter().map(|(n, _)| n.as_str()).collect();
        let Some(at) = names.iter().position(|n| *n == factor) else {
            return Err(dahl_core::text::unknown("factor", factor, &names));
        };
        let known = &self.factors[at].1;
        let texts: Vec<String> = known.iter().map(Level::to_string).collect();
        for level in levels {
            if !texts.iter().any(|t| t == level) {
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                return Err(dahl_core::text::unknown(
                    &format!("level of {factor}"),
                    level,
                    &texts,
                ));
            }
        }
        self.factors[at]
            .1
            .retain(|l| levels.contains(&l.to_string().as_str()));
        Ok(())
    }
}

/// A field of CSV, quoted where it must be.
pub(crate) fn csv(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.into(),
    }
}

/// A cell's name: `engine=dahl model=lenet5`.
pub fn name(cell: &Cell) -> String {
    let parts: Vec<String> = cell.iter().map(|(f, l)| format!("{f}={l}")).collect();
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment() -> Experiment {
        let text = "version = 1\nname = \"t\"\nseed = 7\n[design]\nblocks = 3\nwindow = \"1 s\"\n[factors]\n\
            model = [\"a\", \"b\"]\nengine = [\"dahl\", \"torch\"]\ngrain = [1, 2, 4]\n\
            [[only]]\nfactor = \"grain\"\nwhen = { engine = \"dahl\" }\n\
            [[skip]]\nwhen = { model = \"b\", grain = [4] }\n";
        Experiment::from_toml(text, "t.toml").expect("a good file")
    }

    #[test]
    fn factors_that_belong_to_some_levels_vary_only_there() {
        let cells = experiment().cells();
        let names: Vec<String> = cells.iter().map(name).collect();
        assert_eq!(
            names.iter().filter(|n| n.contains("torch")).count(),
            2,
            "{names:?}"
        );
        assert_eq!(cells.len(), 2 + 3 + 2, "{names:?}");
        assert!(!names.contains(&"engine=dahl grain=4 model=b".into()));
    }

    #[test]
    fn every_block_is_a_permutation_of_its_own_and_the_seed_decides() {
        let e = experiment();
        let orders: Vec<Vec<usize>> = (0..20).map(|b| e.order(b, 7)).collect();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..7).collect::<Vec<_>>());
        }
        assert!(orders.windows(2).any(|w| w[0] != w[1]));
        assert_eq!(orders[3], experiment().order(3, 7));
        let other = Experiment {
            seed: 8,
            ..experiment()
        };
        assert!((0..20).any(|b| other.order(b, 7) != orders[b as usize]));
        assert_eq!(e.order_csv(&e.cells()).lines().count(), 1 + 3 * 7);
    }

    #[test]
    fn every_order_of_three_cells_is_about_as_likely() {
        let mut counts = std::collections::BTreeMap::new();
        for block in 0..6000 {
            *counts.entry(experiment().order(block, 3)).or_insert(0) += 1;
        }
        // A thousand each; six standard deviations are 173.
        assert_eq!(counts.len(), 6);
        assert!(
            counts.values().all(|&n| (827..1173).contains(&n)),
            "{counts:?}"
        );
    }

    #[test]
    fn levels_are_kept_by_name() {
        let mut e = experiment();
        e.keep("grain", &["2"]).expect("a level");
        assert_eq!(e.cells().len(), 4);
        assert!(e.keep("grian", &["2"]).unwrap_err().contains("grain"));
        assert!(e.keep("model", &["c"]).is_err());
    }
}
