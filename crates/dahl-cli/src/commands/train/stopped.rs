//! A run that stopped in the middle: what to do about it.
//!
//! Where a device failed and took values with it, nobody here can go on: the last checkpoint can. Other
//! errors say by themselves what is wrong.

use std::path::Path;

use dahl::nn::checkpoint::{Checkpoint, CheckpointError};
use dahl::nn::train::TrainError;
use dahl::runtime::RunError;

/// The error of a run that wrote checkpoints into `folder`, with how to go on.
pub fn stopped(error: TrainError, folder: Option<&Path>) -> anyhow::Error {
    let TrainError::Execution(why) = &error else {
        return error.into();
    };
    match why.downcast_ref::<RunError>() {
        Some(RunError::Lost { .. } | RunError::DeviceLost { .. } | RunError::OutOfMemory(_)) => {
            anyhow::anyhow!("{error}; {}", advice(folder))
        }
        _ => error.into(),
    }
}

fn advice(folder: Option<&Path>) -> String {
    let Some(folder) = folder else {
        return "no checkpoint was kept: `--checkpoint DIR` keeps one after every epoch, and \
                `--checkpoint-every N` after so many steps"
            .into();
    };
    let place = folder.display();
    match Checkpoint::load(folder) {
        Ok(last) => format!(
            "the last checkpoint, after step {} (epoch {}), is in {place}: the same command with \
             `--resume {place}` goes on from there",
            last.step,
            last.epoch + 1
        ),
        Err(CheckpointError::Missing { .. }) => format!(
            "it stopped before the first checkpoint in {place}: `--checkpoint-every N` writes them sooner"
        ),
        Err(unreadable) => format!("the checkpoint in {place} cannot be used: {unreadable}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost() -> TrainError {
        TrainError::Execution(Box::new(RunError::Lost {
            array: "fc1.weight".into(),
            losses: "gpu:0: the driver is gone".into(),
        }))
    }

    fn checkpoint() -> Checkpoint {
        Checkpoint {
            model_fingerprint: 1,
            model_toml: String::new(),
            weights: Default::default(),
            optimizer: Default::default(),
            step: 41,
            epoch: 2,
            batch_in_epoch: 1,
            seed: 0,
            totals: Default::default(),
            settings: serde_json::Value::Null,
        }
    }

    #[test]
    fn losses_say_how_to_go_on() {
        let folder = std::env::temp_dir().join(format!("dahl-stopped-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let text = |folder| stopped(lost(), folder).to_string();
        let none = text(None);
        assert!(none.contains("fc1.weight is lost") && none.contains("the driver is gone"));
        assert!(none.contains("--checkpoint DIR"), "{none}");
        assert!(text(Some(&folder)).contains("before the first checkpoint"));
        checkpoint().save(&folder).unwrap();
        let known = text(Some(&folder));
        let resume = format!("--resume {}", folder.display());
        assert!(
            known.contains("step 41 (epoch 3)") && known.contains(&resume),
            "{known}"
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn other_errors_stay_as_they_are() {
        let cancelled = || TrainError::Execution(Box::new(RunError::Cancelled));
        let text = stopped(cancelled(), None).to_string();
        assert_eq!(text, cancelled().to_string());
    }
}
