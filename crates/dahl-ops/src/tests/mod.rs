//! Kernels against PyTorch's results: `tests/fixtures/*.py` make the files that are read here.

mod fixtures;
mod torch;
mod torch_images;
mod torch_layers;
mod torch_training;
