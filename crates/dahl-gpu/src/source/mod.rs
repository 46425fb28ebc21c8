//! The kernels' source: one text in a small C dialect, for OpenCL C and for CUDA C.
//!
//! A header per language defines the dialect's few words (`KERNEL`, `GLOBAL`, `LOCAL`, `BARRIER`, who
//! and how many we are); all that follows is the same for both. The element type and the sizes of
//! groups are definitions before the header, so a program is a pure function of language, type and
//! [`Tuning`]. Nothing here compiles or knows a device.

use std::fmt::Write as _;

use dahl_core::DType;

use crate::tuning::Tuning;

/// The language a program is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// OpenCL C 1.2.
    OpenCl,
    /// CUDA C++ as NVRTC compiles it.
    Cuda,
}

const PARTS: &[&str] = &[
    include_str!("common.h"),
    include_str!("elementwise.c"),
    include_str!("activation.c"),
    include_str!("reduce.c"),
    include_str!("gemm.c"),
    include_str!("conv.c"),
    include_str!("grouped.c"),
    include_str!("pool.c"),
    include_str!("resample.c"),
    include_str!("norm.c"),
    include_str!("sample_norm.c"),
    include_str!("channel.c"),
    include_str!("loss.c"),
    include_str!("losses.c"),
    include_str!("optim.c"),
    include_str!("winograd.c"),
];

/// The program for one element type.
pub fn program(language: Language, dtype: DType, tuning: &Tuning) -> String {
    let mut text = String::with_capacity(64 << 10);
    let flag = |yes: bool| u8::from(yes);
    for (name, value) in [
        ("REAL_IS_DOUBLE", usize::from(flag(dtype == DType::F64))),
        ("WIDE_IS_DOUBLE", usize::from(flag(tuning.doubles))),
        ("GROUP", tuning.group),
        ("SIDE", tuning.side),
        ("REG", tuning.reg),
    ] {
        let _ = writeln!(text, "#define {name} {value}");
    }
    text.push_str(match language {
        Language::OpenCl => include_str!("opencl.h"),
        Language::Cuda => include_str!("cuda.h"),
    });
    PARTS.iter().for_each(|p| text.push_str(p));
    text
}

/// The names of all kernels, in the order of the source.
pub fn kernels() -> Vec<&'static str> {
    let name = |line: &'static str| {
        let rest = line
            .strip_prefix("KERNEL void ")
            .or_else(|| line.strip_prefix("UNARY("))
            .or_else(|| line.strip_prefix("BINARY("))
            .or_else(|| line.strip_prefix("BINARY_P("))?;
        rest.split(['(', ',']).next()
    };
    PARTS
        .iter()
        .flat_map(|p| p.lines())
        .filter_map(name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_has_a_name_of_its_own() {
        let mut all = kernels();
        assert!(all.contains(&"conv_forward") && all.contains(&"relu") && all.contains(&"divide"));
        let n = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), n);
    }

    #[test]
    fn type_and_sizes_are_part_of_the_program() {
        let tuning = Tuning::new(256, 48 << 10, true);
        let [a, b] = [DType::F32, DType::F64].map(|d| program(Language::OpenCl, d, &tuning));
        assert_ne!(a, b);
        let small = Tuning::new(64, 16 << 10, true);
        assert_ne!(a, program(Language::OpenCl, DType::F32, &small));
        assert_ne!(a, program(Language::Cuda, DType::F32, &tuning));
    }
}
