//! A run that lost values with a device: how to go on. Other errors say by themselves what is wrong.

use std::path::Path;

use dahl_nn::checkpoint::{Checkpoint, CheckpointError};
use dahl_nn::train::TrainError;
use dahl_runtime::RunError;
use dahl_tune::TuneError;

/// How to go on with a run that wrote checkpoints into `folder` and ended with an error, if values were lost: then
/// only its last checkpoint can go on.
pub fn after_loss(error: &TrainError, folder: Option<&Path>) -> Option<String> {
    let TrainError::Execution(why) = error else {
        return None;
    };
    match why.downcast_ref::<RunError>() {
        Some(RunError::Lost { .. } | RunError::DeviceLost { .. } | RunError::OutOfMemory(_)) => {
            Some(advice(folder))
        }
        _ => None,
    }
}

/// Whether an error says that another node of the cluster was lost: the same run may go on with those that are left.
pub fn node_lost(error: &(dyn std::error::Error + 'static)) -> bool {
    let is_loss = |e: &(dyn std::error::Error + 'static)| {
        matches!(e.downcast_ref::<RunError>(), Some(RunError::NodeLost(_)))
    };
    let mut next = Some(error);
    while let Some(error) = next {
        let inside = match (error.downcast_ref(), error.downcast_ref()) {
            (Some(TrainError::Execution(inside)), _) => is_loss(inside.as_ref()),
            (_, Some(TuneError::Execution(inside))) => is_loss(inside.as_ref()),
            (_, Some(TuneError::Run(inside))) => is_loss(inside),
            _ => false,
        };
        if inside || is_loss(error) {
            return true;
        }
        next = error.source();
    }
    false
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
            data: None,
            class_names: Vec::new(),
            normalise: None,
        }
    }

    #[test]
    fn losses_say_how_to_go_on() {
        let folder = std::env::temp_dir().join(format!("dahl-stopped-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let text = |folder| after_loss(&lost(), folder).unwrap();
        let none = text(None);
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
    fn a_lost_node_is_known_wherever_it_stands() {
        let loss = || Box::new(RunError::NodeLost("node 1: silent".into()));
        assert!(node_lost(&*loss()));
        assert!(node_lost(&TrainError::Execution(loss())));
        assert!(node_lost(&TuneError::Execution(loss())));
        assert!(node_lost(&TuneError::Run(*loss())));
        assert!(!node_lost(&TrainError::Execution(Box::new(
            RunError::Cancelled
        ))));
        assert!(!node_lost(&TuneError::Stopped));
    }

    #[test]
    fn other_errors_need_no_advice() {
        let cancelled = TrainError::Execution(Box::new(RunError::Cancelled));
        assert_eq!(after_loss(&cancelled, None), None);
    }
}
