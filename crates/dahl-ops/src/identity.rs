//! What decides on the last bits that kernels of a CPU give: a value that computers can compare when they meet.
//!
//! Two processes with equal identities that run the same graph compute the same bits. GPUs are not in it, and neither is
//! which kernel a task uses: the graph says that. Nothing is negotiated here: [`KernelIdentity::lowest`] says which level
//! all have, [`simd::set_level`] takes it.

use std::fmt;

use dahl_core::graph::SUMS;
use serde::{Deserialize, Serialize};

use crate::linalg::matmul::SLICE;
use crate::simd::{self, Level};

/// Version of the `gemm` crates, which the workspace fixes to this one.
const GEMM: &str = "0.19.0";
/// Version of `libm`, likewise.
const LIBM: &str = "0.2.16";

/// What the kernels of a process compute with.
///
/// ```
/// use dahl_ops::KernelIdentity;
///
/// let mine = KernelIdentity::here();
/// let theirs = KernelIdentity { gemm: "0.1.0".into(), ..mine.clone() };
/// assert!(mine.differences(&mine).is_empty());
/// assert_eq!(mine.differences(&theirs), ["gemm 0.19.0 here, 0.1.0 there"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelIdentity {
    /// The instruction set.
    pub level: Level,
    /// The longest slice of an inner dimension that matrix products add up at once.
    pub slice: usize,
    /// Version of the order in which graphs add: [`dahl_core::graph::SUMS`].
    pub sums: u32,
    /// Version of this crate.
    pub ops: String,
    /// Version of the crates behind matrix products.
    pub gemm: String,
    /// Version of the crate behind exponentials, logarithms and powers.
    pub libm: String,
}

impl KernelIdentity {
    /// That of this process, at the level that its kernels use now.
    pub fn here() -> Self {
        KernelIdentity {
            level: simd::level(),
            slice: SLICE,
            sums: SUMS,
            ops: env!("CARGO_PKG_VERSION").to_owned(),
            gemm: GEMM.to_owned(),
            libm: LIBM.to_owned(),
        }
    }

    /// Every difference in words, this side first; none if both give the same bits.
    pub fn differences(&self, other: &KernelIdentity) -> Vec<String> {
        let all = [
            ("instruction level", self.level.name(), other.level.name()),
            (
                "slices of",
                &self.slice.to_string(),
                &other.slice.to_string(),
            ),
            ("sums", &self.sums.to_string(), &other.sums.to_string()),
            ("dahl-ops", &self.ops, &other.ops),
            ("gemm", &self.gemm, &other.gemm),
            ("libm", &self.libm, &other.libm),
        ];
        let different = all.into_iter().filter(|(_, mine, theirs)| mine != theirs);
        different
            .map(|(what, mine, theirs)| format!("{what} {mine} here, {theirs} there"))
            .collect()
    }

    /// The best level that all of these can use; `None` of none.
    pub fn lowest<'a>(all: impl IntoIterator<Item = &'a KernelIdentity>) -> Option<Level> {
        all.into_iter().map(|identity| identity.level).min()
    }
}

/// In one line: `avx2, slices of 512, sums 2, ops 0.1.0, gemm 0.19.0, libm 0.2.16`.
impl fmt::Display for KernelIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KernelIdentity {
            level,
            slice,
            sums,
            ops,
            gemm,
            libm,
        } = self;
        write!(
            f,
            "{level}, slices of {slice}, sums {sums}, ops {ops}, gemm {gemm}, libm {libm}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_that_are_compiled() {
        let lock = include_str!("../../../Cargo.lock");
        let locked = |name: &str| {
            let head = format!("name = \"{name}\"\nversion = \"");
            let mut found = lock.split(&head).skip(1);
            let version = found
                .next()
                .unwrap_or_else(|| panic!("{name} is not locked"));
            assert!(found.next().is_none(), "{name} is locked twice");
            version.split('"').next().unwrap().to_owned()
        };
        for name in ["gemm-common", "gemm-f32", "gemm-f64"] {
            assert_eq!(locked(name), GEMM, "{name}");
        }
        assert_eq!(locked("libm"), LIBM);
        assert_eq!(locked("dahl-ops"), KernelIdentity::here().ops);
    }

    #[test]
    fn an_identity_says_all_in_one_line_and_comes_back_from_json() {
        let at = |level| KernelIdentity {
            level,
            ..KernelIdentity::here()
        };
        let avx2 = at(Level::Avx2);
        let text = format!(
            "avx2, slices of 512, sums {SUMS}, ops {}, gemm {GEMM}, libm {LIBM}",
            env!("CARGO_PKG_VERSION")
        );
        assert_eq!(avx2.to_string(), text);
        let json = serde_json::to_string(&avx2).unwrap();
        assert_eq!(serde_json::from_str::<KernelIdentity>(&json).unwrap(), avx2);
    }

    #[test]
    fn differences_name_both_sides() {
        let mine = KernelIdentity {
            level: Level::Avx512,
            ..KernelIdentity::here()
        };
        let theirs = KernelIdentity {
            level: Level::Portable,
            slice: 1024,
            sums: SUMS + 1,
            ops: "9.9.9".into(),
            gemm: "0.20.0".into(),
            libm: "0.3.0".into(),
        };
        let want = [
            "instruction level avx512 here, portable there".to_owned(),
            "slices of 512 here, 1024 there".to_owned(),
            format!("sums {SUMS} here, {} there", SUMS + 1),
            format!("dahl-ops {} here, 9.9.9 there", mine.ops),
            "gemm 0.19.0 here, 0.20.0 there".to_owned(),
            "libm 0.2.16 here, 0.3.0 there".to_owned(),
        ];
        assert_eq!(mine.differences(&theirs), want);
        assert_eq!(mine.differences(&mine.clone()), Vec::<String>::new());
    }

    #[test]
    fn the_lowest_level_is_what_all_have() {
        let at = |level| KernelIdentity {
            level,
            ..KernelIdentity::here()
        };
        let all = [Level::Avx512, Level::Avx2, Level::Avx512].map(at);
        assert_eq!(KernelIdentity::lowest(&all), Some(Level::Avx2));
        assert_eq!(KernelIdentity::lowest(&[]), None);
    }
}
