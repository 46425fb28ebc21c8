//! Layers, models, losses, optimisers, datasets, checkpoints and the training loop of DAHL.

pub mod data;
