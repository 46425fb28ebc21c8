//! How far two sets of weights are apart: in units in the last place and relative, tensor by tensor.

use dahl_core::report::{Report, Table};

use serde_json::{Value, json};

use super::{Data, Tensor, Weights};

/// How one tensor differs from another of the same key.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorDiff {
    /// Its key.
    pub key: String,
    /// Elements.
    pub elements: usize,
    /// How many are not the same.
    pub different: usize,
    /// The largest distance.
    pub worst: Option<Worst>,
    /// Why elements cannot be compared: another shape, or only one side has the tensor.
    pub unequal: Option<String>,
}

impl TensorDiff {
    /// Whether it differs by more units in the last place than this, or cannot be compared.
    pub fn is_beyond(&self, ulps: u64) -> bool {
        self.unequal.is_some() || self.worst.is_some_and(|w| w.ulps > ulps)
    }

    /// As one object.
    pub fn to_json(&self) -> Value {
        let worst = self.worst.as_ref();
        json!({
            "tensor": self.key,
            "elements": self.elements,
            "different": self.different,
            "ulps": worst.map(|w| w.ulps),
            "relative": worst.map(|w| w.relative),
            "index": worst.map(|w| w.index),
            "values": worst.map(|w| w.values),
            "unequal": self.unequal,
        })
    }
}

/// The two values that are farthest apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst {
    /// Their place.
    pub index: usize,
    /// The values.
    pub values: [f64; 2],
    /// How many numbers of the element type lie between them, and one; `u64::MAX` where one is not a number.
    pub ulps: u64,
    /// Their distance by the larger magnitude.
    pub relative: f64,
}

/// The differences of all tensors, in the order of their keys.
pub fn diff(a: &Weights, b: &Weights) -> Vec<TensorDiff> {
    let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    keys.into_iter()
        .map(|key| match (a.get(key), b.get(key)) {
            (Some(a), Some(b)) if a.shape == b.shape => compare(key, a, b),
            (Some(a), Some(b)) => unequal(
                key,
                a,
                format!("its shape is {:?} and {:?}", a.shape, b.shape),
            ),
            (Some(a), None) => unequal(key, a, "only the first file has it".into()),
            (None, Some(b)) => unequal(key, b, "only the second file has it".into()),
            (None, None) => unreachable!("the keys are those of both"),
        })
        .collect()
}

/// Those that differ of so many tensors, for people.
pub fn diff_report(all: usize, differing: &[&TensorDiff]) -> Report {
    let mut out = Report::default();
    out.line(format!("{} tensors, {} differ", all, differing.len()));
    if differing.is_empty() {
        return out;
    }
    let mut table = Table::new("tensor|>elements|>different|>ULPs|>relative|>at");
    for d in differing {
        let [ulps, relative, at] = match (&d.worst, &d.unequal) {
            (Some(w), _) => [ulps(w), format!("{:.1e}", w.relative), w.index.to_string()],
            (None, why) => [
                why.clone().unwrap_or_default(),
                String::new(),
                String::new(),
            ],
        };
        let [elements, different] = [d.elements, d.different].map(|n| n.to_string());
        table.row([d.key.clone(), elements, different, ulps, relative, at]);
    }
    out.table(table);
    let worst = differing.iter().filter_map(|d| Some((d, d.worst?)));
    if let Some((d, w)) = worst.max_by_key(|(_, w)| w.ulps) {
        out.line(format!("\nthe worst, element {} of {}:", w.index, d.key));
        let [x, y] = w.values.map(|v| format!("{v:+.16e}"));
        let same = x.bytes().zip(y.bytes()).take_while(|(x, y)| x == y).count();
        out.line(format!(
            "  {x}\n  {y}\n  {}^ digits differ from here",
            " ".repeat(same)
        ));
    }
    out
}

fn ulps(worst: &Worst) -> String {
    match worst.ulps {
        u64::MAX => "not a number".into(),
        n => n.to_string(),
    }
}

fn unequal(key: &str, tensor: &Tensor, why: String) -> TensorDiff {
    let elements = tensor.shape.iter().product();
    TensorDiff {
        key: key.to_owned(),
        elements,
        different: elements,
        worst: None,
        unequal: Some(why),
    }
}

fn compare(key: &str, a: &Tensor, b: &Tensor) -> TensorDiff {
    // Distances are counted in the coarser of two element types.
    let single = [a, b].iter().any(|t| matches!(t.data, Data::F32(_)));
    let (x, y) = (a.data.to_f64(), b.data.to_f64());
    let mut found = TensorDiff {
        key: key.to_owned(),
        elements: x.len(),
        different: 0,
        worst: None,
        unequal: None,
    };
    for (index, values) in x.into_iter().zip(y).map(<[f64; 2]>::from).enumerate() {
        let ulps = match single {
            true => distance(values.map(|v| i64::from(ordered32(v as f32)))),
            false => distance(values.map(ordered64)),
        };
        let ulps = match values.iter().any(|v| v.is_nan()) {
            true if values.iter().all(|v| v.is_nan()) => 0,
            true => u64::MAX,
            false => ulps,
        };
        if ulps == 0 {
            continue;
        }
        found.different += 1;
        if found.worst.is_none_or(|w| ulps > w.ulps) {
            let largest = values[0].abs().max(values[1].abs());
            let relative = (values[0] - values[1]).abs() / largest;
            found.worst = Some(Worst {
                index,
                values,
                ulps,
                relative,
            });
        }
    }
    found
}

fn distance([a, b]: [i64; 2]) -> u64 {
    a.abs_diff(b)
}

/// Numbers in the order of the floats, a step for each: both zeros are 0.
fn ordered32(x: f32) -> i32 {
    let bits = x.to_bits() as i32;
    if bits < 0 {
        i32::MIN.wrapping_sub(bits)
    } else {
        bits
    }
}

fn ordered64(x: f64) -> i64 {
    let bits = x.to_bits() as i64;
    if bits < 0 {
        i64::MIN.wrapping_sub(bits)
    } else {
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(values: &[f32]) -> Tensor {
        Tensor {
            shape: vec![values.len()],
            data: Data::F32(values.to_vec()),
        }
    }

    #[test]
    fn distances_are_counted_in_floats_between() {
        let next = f32::from_bits(1.0f32.to_bits() + 3);
        let a = Weights::from([
            ("same".to_owned(), tensor(&[1.0, f32::NAN, 0.0])),
            ("near".to_owned(), tensor(&[1.0, 5.0])),
            ("shape".to_owned(), tensor(&[1.0])),
            ("zero".to_owned(), tensor(&[f32::from_bits(2)])),
            ("gone".to_owned(), tensor(&[1.0])),
            ("nan".to_owned(), tensor(&[1.0])),
        ]);
        let b = Weights::from([
            ("same".to_owned(), tensor(&[1.0, f32::NAN, -0.0])),
            ("near".to_owned(), tensor(&[next, 5.0])),
            ("shape".to_owned(), tensor(&[1.0, 2.0])),
            ("zero".to_owned(), tensor(&[-f32::from_bits(3)])),
            ("nan".to_owned(), tensor(&[f32::NAN])),
        ]);
        let all = diff(&a, &b);
        let of = |key: &str| all.iter().find(|d| d.key == key).unwrap();
        assert_eq!((of("same").different, of("same").worst), (0, None));
        let near = of("near").worst.unwrap();
        assert_eq!((near.index, near.ulps, of("near").different), (0, 3, 1));
        assert!((near.relative / (3.0 * f64::from(f32::EPSILON)) - 1.0).abs() < 1e-6);
        assert_eq!(of("zero").worst.unwrap().ulps, 5);
        assert_eq!(of("nan").worst.unwrap().ulps, u64::MAX);
        assert!(
            of("shape")
                .unequal
                .as_ref()
                .unwrap()
                .contains("[1] and [2]")
        );
        assert!(
            of("gone")
                .unequal
                .as_ref()
                .unwrap()
                .contains("only the first")
        );
    }
}
