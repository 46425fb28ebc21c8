//! Predictions with names: as a table, as CSV, as JSON.

use std::io::Write;

use dahl_core::report::Table;
use serde_json::{Value, json};

use super::Scores;

/// Classes that a table shows of each sample.
const SHOWN: usize = 3;

/// The scores of samples, and what to call both.
#[derive(Clone, Debug)]
pub struct Predictions {
    /// The samples.
    pub names: Vec<String>,
    /// The classes; none where the model gives values and not scores of classes.
    pub classes: Option<Vec<String>>,
    /// A row for each sample, a column for each class or value.
    pub scores: Scores,
}

impl Predictions {
    /// The likeliest classes of every sample, or its values.
    pub fn table(&self) -> Table {
        let Some(classes) = &self.classes else {
            let mut table = Table::new("sample|values");
            for (name, row) in self.names.iter().zip(self.scores.rows()) {
                let values: Vec<String> = row.iter().map(f64::to_string).collect();
                table.row([name.clone(), values.join(", ")]);
            }
            return table;
        };
        let mut table = Table::new("image|class|>probability|then");
        for (i, name) in self.names.iter().enumerate() {
            let likely = self.scores.probabilities(i);
            let mut order: Vec<usize> = (0..likely.len()).collect();
            order.sort_by(|&a, &b| likely[b].total_cmp(&likely[a]));
            let percent = |c: usize| format!("{:.1} %", 100.0 * likely[c]);
            let rest = order.iter().skip(1).take(SHOWN - 1);
            let rest: Vec<String> = rest
                .map(|&c| format!("{} {}", classes[c], percent(c)))
                .collect();
            let class = order.first().copied().unwrap_or(0);
            table.row([
                name.clone(),
                classes[class].clone(),
                percent(class),
                rest.join(", "),
            ]);
        }
        table
    }

    /// An object of every sample: its name, class, probability and scores; or its name and values.
    pub fn to_json(&self) -> impl Iterator<Item = Value> {
        let named = self.names.iter().zip(self.scores.classes()).enumerate();
        named.map(|(i, (name, class))| match &self.classes {
            None => json!({ "sample": name, "values": self.scores.row(i) }),
            Some(classes) => json!({
                "image": name,
                "class": class,
                "class_name": classes[class],
                "probability": self.scores.probabilities(i)[class],
                "scores": self.scores.row(i),
                "classes": classes,
            }),
        })
    }

    /// All scores as CSV, a line for each sample, with the likeliest class where there are classes.
    pub fn csv(&self, out: &mut dyn Write) -> std::io::Result<()> {
        match &self.classes {
            Some(classes) => {
                write!(out, "image,class")?;
                classes
                    .iter()
                    .try_for_each(|c| write!(out, ",{}", quoted(c)))?;
            }
            None => {
                let values = self.scores.rows().next().map_or(0, |row| row.len());
                write!(out, "sample")?;
                (0..values).try_for_each(|i| write!(out, ",{i}"))?;
            }
        }
        writeln!(out)?;
        let named = self.names.iter().zip(self.scores.classes());
        for ((name, class), row) in named.zip(self.scores.rows()) {
            write!(out, "{}", quoted(name))?;
            if let Some(classes) = &self.classes {
                write!(out, ",{}", quoted(&classes[class]))?;
            }
            row.iter().try_for_each(|score| write!(out, ",{score}"))?;
            writeln!(out)?;
        }
        Ok(())
    }
}

/// A field of a CSV file.
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_and_the_likeliest_class_comes_first() {
        let all = Predictions {
            names: vec!["a,b".into()],
            classes: Some(vec!["cat".into(), "the \"dog\"".into()]),
            scores: Scores::new(2, vec![0.0, 2.0]),
        };
        let mut csv = Vec::new();
        all.csv(&mut csv).unwrap();
        let text = "image,class,cat,\"the \"\"dog\"\"\"\n\"a,b\",\"the \"\"dog\"\"\",0,2\n";
        assert_eq!(String::from_utf8(csv).unwrap(), text);
        assert_eq!(
            all.table().rows,
            [["a,b", "the \"dog\"", "88.1 %", "cat 11.9 %"]]
        );
        assert_eq!(all.to_json().next().unwrap()["class"], 1);
    }

    #[test]
    fn values_are_not_classes() {
        let all = Predictions {
            names: vec!["a".into()],
            classes: None,
            scores: Scores::new(2, vec![0.5, -2.0]),
        };
        let mut csv = Vec::new();
        all.csv(&mut csv).unwrap();
        assert_eq!(String::from_utf8(csv).unwrap(), "sample,0,1\na,0.5,-2\n");
        assert_eq!(all.table().rows, [["a", "0.5, -2"]]);
        assert_eq!(all.to_json().next().unwrap()["values"][1], -2.0);
    }
}
