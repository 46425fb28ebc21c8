//! The binary `dahl`.
fn main() {}
