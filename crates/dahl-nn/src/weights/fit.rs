//! Weights brought to a model: names without what wrappers put before them, and for another head only what fits.

use super::{Weights, problem};
use crate::model::{Model, Role};

/// What PyTorch's wrappers put before the names of a model's tensors, and who does.
const PREFIXES: [(&str, &str); 2] = [("module.", "DataParallel"), ("_orig_mod.", "torch.compile")];

/// Weights for a model, and what was done to them.
#[derive(Clone, Debug, Default)]
pub struct Fitted {
    /// Tensors whose keys the model has.
    pub weights: Weights,
    /// What was changed or left out, a line each.
    pub notes: Vec<String>,
}

/// Takes wrappers' prefixes off the keys of weights, where all of them have one and the
/// model's have not. Everything else stays, to be checked by [`super::check`].
pub fn fit(weights: Weights, model: &Model) -> Fitted {
    let mut fitted = Fitted {
        weights,
        notes: Vec::new(),
    };
    // Wrappers are wrapped, in any order.
    while let Some((prefix, by)) = PREFIXES.into_iter().find(|(prefix, _)| {
        let all = fitted.weights.keys().all(|key| key.starts_with(prefix));
        let own = model.params().iter().any(|p| p.key.starts_with(prefix));
        !fitted.weights.is_empty() && all && !own
    }) {
        let count = fitted.weights.len();
        let short = |key: String| key[prefix.len()..].to_owned();
        let weights = std::mem::take(&mut fitted.weights).into_iter();
        fitted.weights = weights.map(|(key, t)| (short(key), t)).collect();
        fitted.notes.push(format!(
            "took {prefix:?}, which {by} puts before names, off {count} of them"
        ));
    }
    fitted
}

/// Like [`fit`], and leaves out what the model cannot take: tensors of other shapes, those it does not have. What
/// the weights lack keeps the values it has.
pub(crate) fn fit_partly(weights: Weights, model: &Model) -> Fitted {
    let mut fitted = fit(weights, model);
    let mut kept = Weights::new();
    let mut given = std::mem::take(&mut fitted.weights);
    for param in model.params() {
        let key = &param.key;
        match given.remove(key) {
            None if param.role == Role::Counter => {}
            None => fitted
                .notes
                .push(format!("{key:?} is not among the weights: left as it was")),
            Some(tensor) => match problem(param, &tensor) {
                Some(problem) => fitted.notes.push(format!("left out: {problem}")),
                None => {
                    kept.insert(key.clone(), tensor);
                }
            },
        }
    }
    let unknown = given
        .keys()
        .map(|key| format!("left out: {key:?}, which the model has not"));
    fitted.notes.extend(unknown);
    fitted.weights = kept;
    fitted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::{Data, Tensor, check};

    fn model(classes: usize) -> Model {
        let builder = Model::builder("net", [1, 4, 4]).conv2d(2, 3).batch_norm2d();
        builder.flatten().linear(classes).build().unwrap()
    }

    fn weights(of: &Model, prefix: &str) -> Weights {
        let tensors = of.params().iter().map(|p| {
            let n = p.shape.iter().product();
            let data = match p.role {
                Role::Counter => Data::I64(vec![7; n]),
                _ => Data::F32(vec![0.5; n]),
            };
            let tensor = Tensor::new(p.shape.clone(), data).unwrap();
            (format!("{prefix}{}", p.key), tensor)
        });
        tensors.collect()
    }

    #[test]
    fn prefixes_of_wrappers_are_taken_off_and_said() {
        let model = model(3);
        for prefix in ["module.", "_orig_mod.", "_orig_mod.module."] {
            let fitted = fit(weights(&model, prefix), &model);
            check(&fitted.weights, &model).unwrap();
            assert_eq!(
                fitted.notes.len(),
                prefix.matches('.').count(),
                "{:?}",
                fitted.notes
            );
        }
        // One key without the prefix: somebody else's names, which the check then lists.
        let mut mixed = weights(&model, "module.");
        mixed.insert(
            "0.weight".into(),
            Tensor::new(vec![0], Data::F32(vec![])).unwrap(),
        );
        let fitted = fit(mixed.clone(), &model);
        assert!(fitted.notes.is_empty() && fitted.weights == mixed);
    }

    #[test]
    fn another_head_keeps_its_values_and_is_named() {
        let (from, to) = (model(10), model(3));
        let mut given = weights(&from, "module.");
        given.insert(
            "module.extra".into(),
            Tensor::new(vec![1], Data::F32(vec![1.0])).unwrap(),
        );
        given.remove("module.0.bias");
        given.remove("module.1.num_batches_tracked");
        let fitted = fit_partly(given, &to);
        let keys: Vec<&str> = fitted.weights.keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            [
                "0.weight",
                "1.bias",
                "1.running_mean",
                "1.running_var",
                "1.weight"
            ]
        );
        let notes = fitted.notes.join("\n");
        for part in [
            "\"3.weight\" has shape [10, 8], the model expects [3, 8]",
            "\"3.bias\"",
            "\"extra\"",
            "\"0.bias\" is not among",
            "module.",
        ] {
            assert!(notes.contains(part), "{part}: {notes}");
        }
        assert_eq!(fitted.notes.len(), 5, "{notes}");
    }
}
