//! A scheduling policy of the program's own: one shared stack, so that what became ready last runs first.
//! The runtime executes by it, the simulator predicts by it, and no bit of the result depends on it.
//!
//!     cargo run --release -p dahl --example custom_policy

use std::sync::{Mutex, PoisonError};

use dahl::core::{Seconds, UnitId};
use dahl::prelude::*;
use dahl::sched::policy::{Policy, TaskRef, World};

#[derive(Default)]
struct LastFirst {
    stack: Mutex<Vec<TaskRef>>,
}

impl LastFirst {
    fn stack(&self) -> std::sync::MutexGuard<'_, Vec<TaskRef>> {
        self.stack.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Policy for LastFirst {
    fn name(&self) -> &'static str {
        "last-first"
    }

    fn ready(
        &self,
        world: &dyn World,
        _: Option<UnitId>,
        tasks: &[TaskRef],
        _: Seconds,
    ) -> Option<TaskRef> {
        self.stack().extend(tasks);
        tasks.iter().for_each(|_| _ = world.wake(None));
        None
    }

    fn next(&self, world: &dyn World, unit: UnitId, _: Seconds) -> Option<TaskRef> {
        let mut stack = self.stack();
        let place = stack.iter().rposition(|&task| world.can_run(task, unit))?;
        Some(stack.remove(place))
    }

    fn backlog(&self) -> Vec<(String, usize)> {
        vec![("all".into(), self.stack().len())]
    }
}

fn main() -> Result<(), dahl::Error> {
    let data = Data::open_first("fashion-mnist-small", [1, 28, 28], 640, 100)?;
    let trainer = || Trainer::new(models::lenet5()).epochs(1);
    let mut usual = trainer();
    usual.fit(&data)?;
    let mut own = trainer().runtime(|builder| builder.with_policy(|_| LastFirst::default()));
    own.fit(&data)?;
    assert!(usual.weights()? == own.weights()?);
    println!("two policies, the same weights to the bit");
    Ok(())
}
