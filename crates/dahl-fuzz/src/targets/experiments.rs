//! Experiments: their descriptions, and the raw rows of a session.

use dahl::experiment::{Experiment, Row, cell_name, read_rows};

use super::{said, text, texts};
use crate::{Answer, Folder, Target};

pub(super) const EXPERIMENT: Target = Target {
    name: "experiment",
    files: &["crates/dahl-experiment/experiments"],
    made: super::none,
    words: &[
        "version = 1",
        "[design]",
        "blocks = ",
        "window = \"1 s\"",
        "until = { interval = 0.1, of = \"seconds\", at_most = 9 }",
        "[factors]",
        "[[only]]",
        "[[skip]]",
        "factor = ",
        "when = { ",
        "[engine.x]",
        "command = [\"x\"]",
        "job = [\"{model}\"]",
        "[[figure]]",
        "kind = \"bar\"",
        "[[table]]",
        "rows = ",
        "columns = ",
        "ratio_to = { engine = \"a*\" }",
    ],
    parse: experiment,
};

fn experiment(_: &Folder, bytes: &[u8]) -> Answer {
    let experiment = Experiment::from_toml(text(bytes)?, "experiment.toml").map_err(said)?;
    let cells = experiment.cells();
    let mut order = experiment.order(3, cells.len());
    order.sort_unstable();
    assert!(
        order.into_iter().eq(0..cells.len()),
        "an order is a permutation"
    );
    cells.iter().map(cell_name).for_each(drop);
    let again = Experiment::from_toml(&experiment.text, "again.toml").map_err(said)?;
    assert_eq!(again, experiment);
    Ok(())
}

pub(super) const ROWS: Target = Target {
    name: "rows",
    files: &[],
    made: || {
        texts(&[
            "{\"idle\":{\"block\":0,\"end\":false,\"seconds\":1.5,\"joules\":null,\"surroundings\":{\"others\":0.1}}}\n\
             {\"run\":{\"block\":0,\"cell\":1,\"attempt\":0,\"levels\":{\"engine\":\"dahl\",\"threads\":2},\"at\":1e9,\"seconds\":2.0,\"steps\":3,\"images\":96,\"loss\":null,\"joules\":4.5,\"source\":\"measured\",\"by\":\"x\",\"readings\":70,\"cpu_seconds\":1.0,\"peak_bytes\":5,\"faults\":0,\"surroundings\":{},\"measures\":{\"a\":1.0}}}\n",
        ])
    },
    words: &[
        "\"run\"",
        "\"idle\"",
        "\"disturbed\":\"x\"",
        "\"failed\":\"x\"",
        "\"modelled\"",
        "1e999",
    ],
    parse: |_, bytes| {
        let rows = read_rows(bytes).map_err(said)?;
        for row in &rows {
            let line = serde_json::to_string(row).map_err(said)?;
            let again: Row = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
            assert_eq!(serde_json::to_string(&again).map_err(said)?, line);
        }
        Ok(())
    },
};
