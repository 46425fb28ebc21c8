//! Which instruction set kernels use: the machine's best, a lower one that `DAHL_SIMD` names, or one that
//! [`set_level`] lowers to.
//!
//! This is the only place that asks the machine what it has; products of matrices follow it, too. The variable is
//! read once. Nothing here panics: a program calls [`check`] when it starts and tells the error, and a program that
//! never does gets the best level if the variable makes no sense.
//!
//! One atomic holds the level, and every kernel reads it when it begins. It never holds a level that the machine lacks,
//! so changing it is always safe; but what was computed before has the bits of the level before. So
//! [`set_level`] comes before the first kernel: before weights are initialised.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use serde::{Deserialize, Serialize};

/// The environment variable that names a level.
pub const VARIABLE: &str = "DAHL_SIMD";

/// An instruction set that kernels are compiled for, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// What the compilation target guarantees. Products and sums are rounded one by one, in an order that no machine
    /// changes: the same bits on every processor with IEEE arithmetic.
    Portable,
    /// x86-64 with AVX2, FMA and BMI2.
    Avx2,
    /// x86-64 with the AVX-512 subsets F, VL, DQ and BW besides.
    Avx512,
}

impl Level {
    /// All of them, worst first.
    pub const ALL: [Level; 3] = [Level::Portable, Level::Avx2, Level::Avx512];

    /// Its name, as `DAHL_SIMD` has it.
    pub fn name(self) -> &'static str {
        match self {
            Level::Portable => "portable",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A level that cannot be had. The text names what was asked for and what there is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LevelError {
    /// No level has this name.
    #[error("{0:?} is no instruction level: use {list}", list = listed(Level::Avx512))]
    Unknown(String),
    /// The variable's value is no level.
    #[error("{VARIABLE}={asked:?} is no instruction level: this machine has {list}", list = listed(*.has))]
    Misspelt {
        /// The value.
        asked: String,
        /// The machine's best.
        has: Level,
    },
    /// The variable asks for a level that this machine lacks.
    #[error("{VARIABLE}={asked}: this machine has {list} only", list = listed(*.has))]
    Lacking {
        /// What was asked for.
        asked: Level,
        /// The machine's best.
        has: Level,
    },
    /// A program asks for a level above what this machine has or the variable allows.
    #[error(
        "kernels cannot use {asked}: this machine has {list} only{reason}",
        list = listed(*.allowed),
        reason = if allowed < has { format!(", because {VARIABLE}={allowed}") } else { String::new() }
    )]
    Above {
        /// What was asked for.
        asked: Level,
        /// The best that is allowed.
        allowed: Level,
        /// The machine's best.
        has: Level,
    },
}

/// The levels up to the best one, for people.
fn listed(best: Level) -> &'static str {
    match best {
        Level::Portable => "portable",
        Level::Avx2 => "portable and avx2",
        Level::Avx512 => "portable, avx2 and avx512",
    }
}

impl FromStr for Level {
    type Err = LevelError;

    fn from_str(text: &str) -> Result<Level, LevelError> {
        let of_name = |level: &Level| level.name() == text;
        let level = Level::ALL.into_iter().find(of_name);
        level.ok_or_else(|| LevelError::Unknown(text.to_owned()))
    }
}

/// The level in use, as [`encode`] writes it; 0 until it is decided.
static CURRENT: AtomicU8 = AtomicU8::new(0);

// Relaxed everywhere: the byte guards no other memory. Who starts threads after setting it has ordered them already.

const fn encode(level: Level) -> u8 {
    level as u8 + 1
}

/// The instruction set that kernels use. Cheap: one load.
#[inline]
pub fn level() -> Level {
    #[cfg(test)]
    if let Some(forced) = FORCED.get() {
        return forced;
    }
    match CURRENT.load(Ordering::Relaxed) {
        0 => decide(),
        1 => Level::Portable,
        2 => Level::Avx2,
        _ => Level::Avx512,
    }
}

#[cold]
fn decide() -> Level {
    let level = check().unwrap_or_else(|_| detected());
    let first = CURRENT.compare_exchange(0, encode(level), Ordering::Relaxed, Ordering::Relaxed);
    match first {
        Ok(_) => level,
        // Somebody else was faster, perhaps with another level.
        Err(_) => self::level(),
    }
}

/// The best level that kernels may use here: the one that `DAHL_SIMD` names, or the machine's best.
///
/// Programs call it first, because an error is told nowhere else.
///
/// ```
/// let best = dahl_ops::simd::check()?;
/// dahl_ops::simd::set_level(best)?;
/// assert_eq!(dahl_ops::simd::level(), best);
/// # Ok::<(), dahl_ops::simd::LevelError>(())
/// ```
///
/// # Errors
/// If the variable names a level that does not exist or that this machine lacks.
pub fn check() -> Result<Level, LevelError> {
    static CHECKED: OnceLock<Result<Level, LevelError>> = OnceLock::new();
    let checked = CHECKED.get_or_init(|| {
        let asked = std::env::var_os(VARIABLE);
        let asked = asked.as_deref().map(|v| v.to_string_lossy());
        choose(asked.as_deref().filter(|v| !v.is_empty()), detected())
    });
    checked.clone()
}

fn choose(asked: Option<&str>, has: Level) -> Result<Level, LevelError> {
    let Some(text) = asked else {
        return Ok(has);
    };
    let asked = text.parse::<Level>().map_err(|_| LevelError::Misspelt {
        asked: text.to_owned(),
        has,
    })?;
    match asked <= has {
        true => Ok(asked),
        false => Err(LevelError::Lacking { asked, has }),
    }
}

/// Makes kernels use a level from now on. To be called before the first kernel: see the module's text.
///
/// # Errors
/// If this machine lacks it, or `DAHL_SIMD` allows less.
pub fn set_level(level: Level) -> Result<(), LevelError> {
    allow(level, check()?, detected())?;
    CURRENT.store(encode(level), Ordering::Relaxed);
    Ok(())
}

fn allow(asked: Level, allowed: Level, has: Level) -> Result<(), LevelError> {
    match asked <= allowed {
        true => Ok(()),
        false => Err(LevelError::Above {
            asked,
            allowed,
            has,
        }),
    }
}

/// The best instruction set that this machine has.
fn detected() -> Level {
    #[cfg(target_arch = "x86_64")]
    {
        let avx2 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi2");
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw");
        if avx2 {
            return if avx512 { Level::Avx512 } else { Level::Avx2 };
        }
    }
    Level::Portable
}

#[cfg(test)]
thread_local! {
    static FORCED: std::cell::Cell<Option<Level>> = const { std::cell::Cell::new(None) };
}

/// Runs a test once per instruction set that this machine has.
#[cfg(test)]
pub(crate) fn at_every_level(mut test: impl FnMut(Level)) {
    for level in Level::ALL {
        if level <= detected() {
            FORCED.set(Some(level));
            test(level);
        }
    }
    FORCED.set(None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_their_levels_and_nothing_else_does() {
        for level in Level::ALL {
            assert_eq!(level.to_string().parse(), Ok(level));
            let json = serde_json::to_string(&level).unwrap();
            assert_eq!(json, format!("\"{level}\""));
        }
        let error = "AVX".parse::<Level>().unwrap_err().to_string();
        let want = "\"AVX\" is no instruction level: use portable, avx2 and avx512";
        assert_eq!(error, want);
    }

    #[test]
    fn a_variable_lowers_the_level() {
        assert_eq!(choose(None, Level::Avx2), Ok(Level::Avx2));
        assert_eq!(choose(Some("avx2"), Level::Avx512), Ok(Level::Avx2));
        assert_eq!(choose(Some("portable"), Level::Avx2), Ok(Level::Portable));
    }

    #[test]
    fn a_level_that_the_machine_lacks_is_refused_by_name() {
        let error = |asked, has| choose(Some(asked), has).unwrap_err().to_string();
        assert_eq!(
            error("avx512", Level::Avx2),
            "DAHL_SIMD=avx512: this machine has portable and avx2 only"
        );
        assert_eq!(
            error("avx2", Level::Portable),
            "DAHL_SIMD=avx2: this machine has portable only"
        );
        assert_eq!(
            error("sse9", Level::Avx512),
            "DAHL_SIMD=\"sse9\" is no instruction level: this machine has portable, avx2 and avx512"
        );
    }

    #[test]
    fn a_program_cannot_go_above_machine_and_variable() {
        let error = |allowed, has| allow(Level::Avx512, allowed, has).unwrap_err().to_string();
        assert_eq!(
            error(Level::Avx2, Level::Avx2),
            "kernels cannot use avx512: this machine has portable and avx2 only"
        );
        assert_eq!(
            error(Level::Avx2, Level::Avx512),
            "kernels cannot use avx512: this machine has portable and avx2 only, because DAHL_SIMD=avx2"
        );
        assert_eq!(allow(Level::Avx2, Level::Avx2, Level::Avx512), Ok(()));
    }
}
