//! Values of arrays whose types are not known, as numbers.

use dahl_core::{Executor, Handle, Values, ValuesMut};

/// The values of an array, once they are there.
pub fn read(exec: &mut dyn Executor, array: &Handle) -> Vec<f64> {
    let mut values = Vec::new();
    let mut see = |v: Values<'_>| values.extend((0..v.len()).map(|i| v.get(i)));
    exec.read(array, &mut see).expect("values");
    values
}

/// Gives the first elements these values.
pub fn write(exec: &mut dyn Executor, array: &Handle, values: &[f64]) {
    let mut change =
        |mut v: ValuesMut<'_>| (0..).zip(values).for_each(|(i, &value)| v.set(i, value));
    exec.write(array, &mut change).expect("values");
}
