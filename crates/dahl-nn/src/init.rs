//! Initial weights: the distributions that PyTorch's modules start from, from a seed.
//!
//! Which distribution a parameter has is its layer's business. The numbers are not PyTorch's own, only their
//! distribution is. Element `i` of a parameter is a pure function of the
//! seed, the parameter's place in the model and `i`, so anybody may compute any part, and single
//! precision is double precision rounded.

use dahl_core::DType;
use dahl_core::random::Random;

use crate::model::{Fill, Model, Role};
use crate::weights::{Data, Tensor, Weights};

/// Keeps these streams apart from others of the same seed: "init" in ASCII.
const STREAM: u64 = 0x696e_6974 << 32;

/// How parameter `place` of the model starts: an index into [`Model::params`].
///
/// # Panics
/// If the model has no such parameter.
pub fn fill(model: &Model, place: usize) -> Fill {
    model.params()[place].init
}

/// The random numbers of parameter `place`.
pub(crate) fn stream(seed: u64, place: usize) -> Random {
    Random::new(seed, STREAM | place as u64)
}

/// All initial parameters and buffers of a model.
pub fn weights(model: &Model, seed: u64, dtype: DType) -> Weights {
    let tensor = |place: usize, param: &crate::model::Param| {
        let (fill, random) = (fill(model, place), stream(seed, place));
        let values = (0..param.len()).map(|i| fill.value(&random, i));
        let data = match (param.role, dtype) {
            (Role::Counter, _) => Data::I64(values.map(|x| x as i64).collect()),
            (_, DType::F32) => Data::F32(values.map(|x| x as f32).collect()),
            (_, DType::F64) => Data::F64(values.collect()),
        };
        Tensor {
            shape: param.shape.clone(),
            data,
        }
    };
    let all = model.params().iter().enumerate();
    all.map(|(place, param)| (param.key.clone(), tensor(place, param)))
        .collect()
}

#[cfg(test)]
mod tests {
    use dahl_core::Element;

    use super::*;

    fn fill_into<T: Element>(model: &Model, place: usize, seed: u64, out: &mut [T]) {
        assert_eq!(
            out.len(),
            model.params()[place].len(),
            "init: {}",
            model.params()[place].key
        );
        let (fill, random) = (fill(model, place), stream(seed, place));
        for (i, x) in out.iter_mut().enumerate() {
            *x = T::from_f64(fill.value(&random, i));
        }
    }

    fn model() -> Model {
        Model::builder("m", [3, 8, 8])
            .conv2d(16, [5, 3])
            .batch_norm2d()
            .flatten()
            .linear(400)
            .linear(10)
            .build()
            .unwrap()
    }

    #[test]
    fn bounds_are_pytorchs() {
        let model = model();
        let (conv, linear) = (1.0 / 45f64.sqrt(), 1.0 / 384f64.sqrt());
        let uniform = |bound| Fill::Uniform { bound };
        let expected = [
            uniform(conv),
            uniform(conv),
            Fill::Constant(1.0),
            Fill::Constant(0.0),
            Fill::Constant(0.0),
            Fill::Constant(1.0),
            Fill::Constant(0.0),
            uniform(linear),
            uniform(linear),
            uniform(0.05),
            uniform(0.05),
        ];
        let found: Vec<Fill> = (0..model.params().len()).map(|i| fill(&model, i)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn numbers_have_the_distribution() {
        let model = model();
        let place = 7;
        assert_eq!(model.params()[place].key, "3.weight");
        let bound = 1.0 / 384f64.sqrt();
        let mut values = vec![0f64; 400 * 384];
        fill_into(&model, place, 1, &mut values);
        assert!(values.iter().all(|x| x.abs() <= bound));
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|x| x * x).sum::<f64>() / n;
        assert!(mean.abs() < bound * 0.01, "{mean}");
        assert!(
            (variance / (bound * bound / 3.0) - 1.0).abs() < 0.02,
            "{variance}"
        );
        let below = values.iter().filter(|&&x| x < -bound / 2.0).count() as f64;
        assert!((below / n - 0.25).abs() < 0.01);
    }

    #[test]
    fn seeds_and_places_differ_and_precisions_agree() {
        let model = model();
        let (double, single) = (
            weights(&model, 7, DType::F64),
            weights(&model, 7, DType::F32),
        );
        crate::weights::check(&double, &model).unwrap();
        assert_eq!(crate::weights::to_dtype(&double, DType::F32), single);
        assert_ne!(
            weights(&model, 8, DType::F64)["0.weight"],
            double["0.weight"]
        );
        assert_ne!(
            double["3.bias"].data.to_f64()[..10],
            double["4.bias"].data.to_f64()[..10]
        );
        let mut row = vec![0f32; 16];
        fill_into(&model, 1, 7, &mut row);
        assert_eq!(single["0.bias"].data, Data::F32(row));
        assert_eq!(double["1.num_batches_tracked"].data, Data::I64(vec![0]));
    }
}
