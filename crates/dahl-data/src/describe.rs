//! A data set in words.

use dahl_core::report::{Report, Table};

use crate::{DataError, Dataset, Labels, Normalise, Split};

/// Classes that a description lists.
const LISTED: usize = 20;

/// Samples, classes and moments of a part of a data set. Sets that must decode a sample to know its class take as long as
/// an epoch.
pub fn describe(data: &dyn Dataset, split: Split) -> Result<Report, DataError> {
    let ([c, h, w], images, classes) = (data.shape(), data.len(), data.classes());
    let mut report = Report::default();
    let labels = match classes {
        0 => "labelled with values".into(),
        1 => "1 class".into(),
        n => format!("{n} classes"),
    };
    report.line(format!(
        "{}: {images} images of {c}×{h}×{w} for {split}, {labels}",
        data.name()
    ));
    let mut table = Table::new("class|name|>images");
    for (class, count) in class_counts(data)?.iter().enumerate().take(LISTED) {
        let name = data.class_name(class).unwrap_or_default();
        table.row([class.to_string(), name.to_owned(), count.to_string()]);
    }
    if classes > 0 {
        report.table(table);
    }
    if classes > LISTED {
        report.line(format!("and {} classes more", classes - LISTED));
    }
    if data.floats().is_none() {
        // Where it cannot be normalised, the rest is shown all the same.
        report.line(match Normalise::measure(data) {
            Ok(measured) => format!("measured: --normalise {measured}"),
            Err(why) => format!("warning: {why}"),
        });
    }
    Ok(report)
}

/// How many samples of each class there are.
pub(crate) fn class_counts(data: &dyn Dataset) -> Result<Vec<usize>, DataError> {
    let mut counts = vec![0; data.classes()];
    if let Some(floats) = data.floats() {
        if let Labels::Classes(labels) = floats.labels().0 {
            labels.iter().for_each(|&label| counts[label] += 1);
        }
        return Ok(counts);
    }
    for index in 0..data.len() {
        counts[data.label(index)?] += 1;
    }
    Ok(counts)
}
