//! A performance model as a list of records, to be written down and read back.
//!
//! Reading refuses what no model could have written, so that a file from elsewhere cannot smuggle in
//! a duration of zero or a count that overflows. Where the list is kept is not decided here.

use dahl_core::Cost;
use serde::{Deserialize, Serialize};

use super::{History, Key, PerfModel, sane};

/// One key with all that is known of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// What the durations belong to.
    pub key: Key,
    /// Its work.
    pub cost: Cost,
    /// Its durations.
    pub history: History,
}

impl PerfModel {
    /// All records, sorted by key.
    pub fn records(&self) -> Vec<Record> {
        let record = |(key, cost, h): (Key, Cost, &History)| Record {
            key,
            cost,
            history: h.clone(),
        };
        self.iter().map(record).collect()
    }

    /// The model of some records; says what is wrong with them otherwise.
    pub fn from_records(records: Vec<Record>) -> Result<PerfModel, String> {
        let mut model = PerfModel::new();
        for Record { key, cost, history } in records {
            if cost != sane(cost) {
                return Err(format!("`{}` has an impossible cost", key.codelet));
            }
            let (group, at) = model.entry(&key, cost);
            if group.entries[at].history != History::default() {
                return Err(format!("a key of `{}` is there twice", key.codelet));
            }
            group.entries[at].history = history;
        }
        Ok(model)
    }
}
