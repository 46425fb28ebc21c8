//! What an evaluation came to, in words and as JSON.

use dahl_core::report::{Report, Table};
use dahl_core::several;
use serde_json::{Value, json};

use super::{Confusion, Totals};

/// Pairs of classes that a report names.
const MISTAKES: usize = 3;

/// Loss and accuracy on a set, class by class.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// Over all samples.
    pub totals: Totals,
    /// Which classes are taken for which, where samples have classes.
    pub confusion: Option<Confusion>,
    /// The names of the classes.
    pub classes: Vec<String>,
}

impl Evaluation {
    /// Classes that do not occur have no accuracy.
    fn occurring(&self, confusion: &Confusion) -> impl Iterator<Item = usize> {
        (0..self.classes.len()).filter(|&c| confusion.samples(c) > 0)
    }

    /// As one object, the confusion matrix included.
    pub fn to_json(&self) -> Value {
        let class = |confusion: &Confusion, c: usize| {
            json!({
                "class": self.classes[c],
                "images": confusion.samples(c),
                "accuracy": confusion.accuracy(c),
                "taken_for": confusion.row(c),
            })
        };
        let classes = self.confusion.as_ref().map(|confusion| {
            let all = self.occurring(confusion);
            all.map(|c| class(confusion, c)).collect::<Vec<_>>()
        });
        json!({
            "loss": self.totals.mean_loss(),
            "accuracy": self.totals.accuracy(),
            "images": self.totals.samples,
            "classes": classes,
        })
    }

    /// For people, with the whole confusion matrix if that is wished for.
    pub fn report(&self, matrix: bool) -> Report {
        let (mut report, totals) = (Report::default(), &self.totals);
        let accuracy = totals
            .accuracy()
            .map(|a| format!(", accuracy {:.2} %", 100.0 * a));
        report.line(format!(
            "loss {:.6}{} of {}\n",
            totals.mean_loss(),
            accuracy.unwrap_or_default(),
            several(totals.samples, "image")
        ));
        let Some(confusion) = &self.confusion else {
            return report;
        };
        let mut table = Table::new("class|>images|>accuracy");
        for c in self.occurring(confusion) {
            let accuracy = format!("{:.2} %", 100.0 * confusion.accuracy(c));
            let images = confusion.samples(c).to_string();
            table.row([self.classes[c].clone(), images, accuracy]);
        }
        report.table(table);
        if matrix {
            report.line("");
            report.table(self.matrix(confusion));
        }
        for (class, found, count) in confusion.mistakes().into_iter().take(MISTAKES) {
            let [class, found] = [class, found].map(|c| &self.classes[c]);
            report.line(format!("{count} of {class} taken for {found}"));
        }
        report
    }

    /// A row for each class, a column for each answer, by number.
    fn matrix(&self, confusion: &Confusion) -> Table {
        let columns: String = (0..self.classes.len()).map(|c| format!("|>{c}")).collect();
        let mut table = Table::new(&format!("is \\ taken for|>{columns}"));
        for (c, name) in self.classes.iter().enumerate() {
            let counts = confusion.row(c).iter().map(u64::to_string);
            table.row([name.clone(), c.to_string()].into_iter().chain(counts));
        }
        table
    }
}
