//! DAHL: train neural networks on the machines you have, with the least electricity.
