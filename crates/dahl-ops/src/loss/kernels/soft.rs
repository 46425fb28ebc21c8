//! Cross-entropy of logits with a share per class: `Σ tᵢ · (ln Σ eˣ − xᵢ)`, from the largest logit down so that nothing
//! overflows. Shares need not add up to one.

use dahl_core::{View, ViewMut};

use crate::cross_entropy::kernel::first_largest;
use crate::float::Float;
use crate::softmax::kernel::exponentials;

/// A loss per sample (1×1×1×B), the gradient of `scale · Σ loss` by the logits where it is wanted (1×1×B×C, else a row of
/// scratch memory), and how many samples have their largest logit at their largest share.
pub(crate) fn losses<T: Float>(
    logits: View<'_, T>,
    shares: View<'_, T>,
    mut losses: ViewMut<'_, T>,
    mut gradient: Option<(T, ViewMut<'_, T>)>,
    scratch: &mut [T],
) -> usize {
    let [_, _, batch, classes] = logits.dims();
    assert_eq!(
        shares.dims(),
        logits.dims(),
        "soft cross-entropy: share extents"
    );
    assert_eq!(
        losses.dims(),
        [1, 1, 1, batch],
        "soft cross-entropy: loss extents"
    );
    let losses = losses.row([0, 0, 0]);
    let mut correct = 0;
    for (b, loss) in losses.iter_mut().enumerate().take(batch) {
        let (x, of) = (logits.row([0, 0, b]), shares.row([0, 0, b]));
        let (scale, row) = match &mut gradient {
            Some((scale, gradient)) => (*scale, gradient.row([0, 0, b])),
            None => (T::ONE, &mut scratch[..classes]),
        };
        let (sum, most) = exponentials(x, row);
        let (factor, log) = (scale / sum, sum.ln());
        let weight: T = of.iter().copied().sum();
        *loss = T::ZERO;
        for ((g, &t), &x) in row.iter_mut().zip(of).zip(x) {
            *g = *g * factor * weight - scale * t;
            // A class of no share adds nothing, even at an infinite logit.
            if t != T::ZERO {
                *loss += t * (log - (x - most));
            }
        }
        correct += usize::from(first_largest(x) == first_largest(of));
    }
    correct
}
