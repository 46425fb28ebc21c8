//! Which data set: the one-line description that a user types.
//!
//! Parsing touches neither the disk nor the environment; whether the data is there is found out by
//! [`open`](super::open).

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::error::DataError;

/// The most classes of a synthetic set.
const MAX_CLASSES: usize = 1 << 16;

/// What a description may begin with.
const KINDS: [&str; 10] = [
    "fashion-mnist-small",
    "fashion-mnist",
    "idx",
    "cifar-10",
    "cifar-100",
    "folder",
    "tar",
    "npy",
    "npz",
    "synthetic",
];

/// The description of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataSpec {
    /// `fashion-mnist-small`: 10,000 + 2,000 images of Fashion-MNIST, part of the program.
    FashionMnistSmall,
    /// `fashion-mnist`: the full set, found under one of the search roots.
    FashionMnist,
    /// `idx:DIR`: a folder of MNIST-like files.
    Idx(PathBuf),
    /// `cifar-10:DIR`: a folder with the binary version of CIFAR-10.
    Cifar10(PathBuf),
    /// `cifar-100:DIR`: a folder with the binary version of CIFAR-100.
    Cifar100(PathBuf),
    /// `folder:DIR`: JPEG and PNG pictures in a sub-folder per class, or with tables of labels.
    Folder(PathBuf),
    /// `tar:DIR` or `tar:FILE`: pictures in tar archives.
    Tar(PathBuf),
    /// `npy:DIR`: a folder of NumPy's arrays.
    Npy(PathBuf),
    /// `npz:FILE`: an archive of NumPy's arrays.
    Npz(PathBuf),
    /// `synthetic:CxHxW:N[:CLASSES]`: learnable images made on the fly.
    Synthetic {
        /// Channels, height, width.
        shape: [usize; 3],
        /// Number of training images; validation has a fifth as many more.
        count: usize,
        /// Number of classes, 10 unless said otherwise.
        classes: usize,
    },
}

impl DataSpec {
    /// Understands a description such as `idx:/data/mnist`.
    pub fn parse(text: &str) -> Result<DataSpec, DataError> {
        let wrong = |reason: String| DataError::Spec {
            spec: text.to_owned(),
            reason,
        };
        let (kind, rest) = match text.split_once(':') {
            Some((kind, rest)) => (kind, Some(rest)),
            None => (text, None),
        };
        let directory = || match rest {
            Some(dir) if !dir.is_empty() => Ok(PathBuf::from(dir)),
            _ if kind == "npz" => Err(wrong("`npz` needs a file, as in `npz:FILE`".into())),
            _ => Err(wrong(format!(
                "`{kind}` needs a folder, as in `{kind}:DIR`"
            ))),
        };
        match (kind, rest) {
            ("fashion-mnist-small", None) => Ok(DataSpec::FashionMnistSmall),
            ("fashion-mnist", None) => Ok(DataSpec::FashionMnist),
            ("fashion-mnist-small" | "fashion-mnist", Some(_)) => {
                Err(wrong(format!("`{kind}` takes nothing after its name")))
            }
            ("idx", _) => directory().map(DataSpec::Idx),
            ("cifar-10", _) => directory().map(DataSpec::Cifar10),
            ("cifar-100", _) => directory().map(DataSpec::Cifar100),
            ("folder", _) => directory().map(DataSpec::Folder),
            ("tar", _) => directory().map(DataSpec::Tar),
            ("npy", _) => directory().map(DataSpec::Npy),
            ("npz", _) => directory().map(DataSpec::Npz),
            ("synthetic", rest) => synthetic(rest.unwrap_or_default()).map_err(wrong),
            _ => Err(wrong(match dahl_core::text::nearest(kind, KINDS) {
                Some(near) => format!("unknown kind of data: did you mean {near:?}?"),
                None => "unknown kind of data".to_owned(),
            })),
        }
    }
}

fn synthetic(text: &str) -> Result<DataSpec, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let (shape, count, classes) = match parts[..] {
        [shape, count] => (shape, count, "10"),
        [shape, count, classes] => (shape, count, classes),
        _ => {
            return Err(
                "`synthetic` needs a shape and a count, as in `synthetic:3x32x32:5000`".into(),
            );
        }
    };
    let number = |what: &str, s: &str| match s.parse::<usize>() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err(format!("`{s}` is not {what} above 0")),
    };
    let sides: Vec<usize> = shape
        .split('x')
        .map(|s| number("a side", s))
        .collect::<Result<_, _>>()?;
    let &[c, h, w] = sides.as_slice() else {
        return Err(format!("`{shape}` is not a shape CxHxW"));
    };
    super::sample_size([c, h, w]).map_err(|e| e.to_string())?;
    let count = number("a number of images", count)?;
    let classes = number("a number of classes", classes)?;
    if classes > MAX_CLASSES {
        return Err(format!("{classes} classes are more than {MAX_CLASSES}"));
    }
    Ok(DataSpec::Synthetic {
        shape: [c, h, w],
        count,
        classes,
    })
}

impl FromStr for DataSpec {
    type Err = DataError;

    fn from_str(s: &str) -> Result<Self, DataError> {
        DataSpec::parse(s)
    }
}

impl fmt::Display for DataSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataSpec::FashionMnistSmall => f.write_str("fashion-mnist-small"),
            DataSpec::FashionMnist => f.write_str("fashion-mnist"),
            DataSpec::Idx(dir) => write!(f, "idx:{}", dir.display()),
            DataSpec::Cifar10(dir) => write!(f, "cifar-10:{}", dir.display()),
            DataSpec::Cifar100(dir) => write!(f, "cifar-100:{}", dir.display()),
            DataSpec::Folder(dir) => write!(f, "folder:{}", dir.display()),
            DataSpec::Tar(path) => write!(f, "tar:{}", path.display()),
            DataSpec::Npy(dir) => write!(f, "npy:{}", dir.display()),
            DataSpec::Npz(file) => write!(f, "npz:{}", file.display()),
            DataSpec::Synthetic {
                shape: [c, h, w],
                count,
                classes,
            } => {
                write!(f, "synthetic:{c}x{h}x{w}:{count}")?;
                if *classes == 10 {
                    Ok(())
                } else {
                    write!(f, ":{classes}")
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_form_is_read_and_printed_back() {
        for text in [
            "fashion-mnist-small",
            "fashion-mnist",
            "idx:/data/mnist",
            "idx:C:\\data",
            "cifar-10:x",
            "cifar-100:x",
            "tar:shards",
            "npy:arrays",
            "npz:a.npz",
            "folder:some where",
            "synthetic:3x32x32:500",
            "synthetic:1x8x9:1:2",
        ] {
            assert_eq!(DataSpec::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(
            DataSpec::parse("synthetic:1x2x3:4:5").unwrap(),
            DataSpec::Synthetic {
                shape: [1, 2, 3],
                count: 4,
                classes: 5
            }
        );
    }

    #[test]
    fn mistakes_say_what_and_how() {
        for (text, part) in [
            ("", "unknown kind"),
            ("mnist", "unknown kind"),
            ("fashion-mnits", "did you mean \"fashion-mnist\"?"),
            ("idx", "needs a folder"),
            ("idx:", "needs a folder"),
            ("fashion-mnist:x", "takes nothing"),
            ("synthetic", "needs a shape"),
            ("synthetic:1x2:3", "not a shape"),
            ("synthetic:1x0x3:3", "not a side"),
            ("synthetic:1x2x3:-1", "not a number of images"),
            ("synthetic:1x2x3:1:99999999", "more than"),
            ("synthetic:99999999x99999999x99999999:1", "are possible"),
            ("synthetic:1x2x99999999999999999999999:1", "not a side"),
        ] {
            let message = DataSpec::parse(text).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
            assert!(message.contains("idx:DIR"), "{message}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(synthetic:)?[0-9x:a-z\u{e9}-]{0,24}") {
            if let Ok(spec) = DataSpec::parse(&text) {
                prop_assert_eq!(DataSpec::parse(&spec.to_string()).unwrap(), spec);
            }
        }
    }
}
