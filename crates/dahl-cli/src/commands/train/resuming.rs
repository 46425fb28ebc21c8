//! How to go on with a run that was stopped: the exact command.

use std::borrow::Cow;

use dahl::nn::Step;
use dahl::nn::train::Session;

use super::super::words_without;
use super::Args;
use crate::interrupt;

/// What the last line says.
pub fn how(args: &Args, step: &Step, session: &Session) -> String {
    let (step_number, epoch) = (session.steps_done(), session.epochs_done() + 1);
    let stopped = format!(
        "stopped by {} after step {step_number} (epoch {epoch} of {})",
        interrupt::name(),
        args.epochs
    );
    let given: Vec<String> = std::env::args().collect();
    let grain = args.step.graph.tuned().then(|| step.grain.to_string());
    match (args.checkpoints(), session.unsaved(), &args.save) {
        (Some(folder), None, _) => {
            let folder = folder.display().to_string();
            format!("{stopped}; to go on: {}", command(&given, &folder, grain))
        }
        (_, _, Some(path)) if step_number > 0 => format!(
            "{stopped}; no checkpoint was kept, but --init {} starts a new run from its weights",
            quoted(&path.display().to_string())
        ),
        _ => format!("{stopped}; nothing was kept: --checkpoint DIR keeps what it takes to go on"),
    }
}

/// The command that was given, going on from a folder, as a shell reads it.
fn command(given: &[String], folder: &str, grain: Option<String>) -> String {
    let words = going_on(given, folder, grain);
    let quoted: Vec<Cow<'_, str>> = words.iter().map(|w| quoted(w)).collect();
    quoted.join(" ")
}

/// The words of a command that goes on from a folder; with the grain that was found where one was measured.
pub fn going_on(given: &[String], folder: &str, grain: Option<String>) -> Vec<String> {
    let mut replaced = vec!["--checkpoint", "--resume", "--init", "--init-partial"];
    replaced.extend(grain.is_some().then_some("--grain"));
    let mut out = words_without(given, &replaced, &["--overwrite", "--other-bits"]);
    for (name, value) in [("--grain", grain), ("--resume", Some(folder.into()))] {
        if let Some(value) = value {
            out.extend([name.into(), value]);
        }
    }
    out
}

/// A word as a shell reads it.
fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=,+@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', "'\\''")).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_goes_on_and_nothing_else() {
        let says = |line: &str, grain: Option<&str>| {
            let given: Vec<String> = line.split('|').map(String::from).collect();
            command(&given, "my points", grain.map(String::from))
        };
        assert_eq!(
            says(
                "dahl|train|m.toml|--epochs|3|--checkpoint|my points|--overwrite",
                None
            ),
            "dahl train m.toml --epochs 3 --resume 'my points'"
        );
        assert_eq!(
            says(
                "dahl|train|--init=w|--resume|a|--checkpoint=my points|--lr|0.1",
                None
            ),
            "dahl train --lr 0.1 --resume 'my points'"
        );
        assert_eq!(
            says(
                "dahl|train|it's|--grain|tuned|--checkpoint|x",
                Some("sample=2")
            ),
            "dahl train 'it'\\''s' --grain sample=2 --resume 'my points'"
        );
    }
}
