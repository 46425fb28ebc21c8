//! Pooling: the largest or the mean of each window, and their gradients.
//!
//! PyTorch's conventions: padding never wins a maximum, and counts in a mean unless told otherwise.
//! Positions outside the input view are padding, see [`crate::window`].

pub mod average;
pub mod max;

#[cfg(test)]
pub(crate) mod testing {
    use crate::window::Window;

    /// Input extents, output extents and window, with and without padding and overlap.
    pub fn cases() -> Vec<([usize; 4], [usize; 4], Window)> {
        [
            ([2, 3, 8, 10], 2, 2, 0),
            ([1, 2, 9, 37], 2, 2, 0),
            ([1, 1, 7, 7], 3, 2, 1),
            ([2, 1, 6, 5], 3, 1, 1),
            ([1, 2, 5, 9], 3, 3, 0),
            ([1, 1, 4, 4], 2, 2, 1),
        ]
        .into_iter()
        .map(|(x, k, s, p): ([usize; 4], usize, usize, usize)| {
            let out = |n: usize| (n + 2 * p - k) / s + 1;
            let shift = [p as isize; 2];
            (
                x,
                [x[0], x[1], out(x[2]), out(x[3])],
                Window {
                    kernel: [k; 2],
                    stride: [s; 2],
                    shift,
                },
            )
        })
        .collect()
    }

    /// Distinct numbers in no order.
    pub fn numbers(n: usize) -> Vec<f64> {
        (0..n)
            .map(|i| (i * 7919 % 10007) as f64 / 5003.0 - 1.0)
            .collect()
    }
}
