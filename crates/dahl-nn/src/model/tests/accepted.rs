//! What the files mean: defaults, extents, keys, and the way back to a file.

use super::*;
use crate::keys;
use crate::layers::{AvgPool2d, Conv2d, Dropout, MaxPool2d, Pair, Pool2d};

#[test]
fn defaults_and_pairs() {
    let model = headed(
        r#"
        [[layers]]
        type = "conv2d"
        out_channels = 0x4
        kernel = [3, 1]
        [[layers]]
        type = "max_pool2d"
        kernel = [2, 4]
        [[layers]]
        type = "avg_pool2d"
        kernel = 3
        stride = [1, 2]
        padding = [1, 1]
        [[layers]]
        type = "dropout"
        [[layers]]
        type = "dropout"
        p = 1
        "#,
    )
    .unwrap();
    let is = |i: usize, layer: &dyn Layer| {
        assert!(keys::same(&*model.layers[i].layer, layer), "layers[{i}]");
    };
    is(0, &Conv2d::new(4, [3, 1]));
    is(1, &MaxPool2d(Pool2d::new([2, 4])));
    let (stride, padding) = (Pair([1, 2]), Pair([1, 1]));
    is(
        2,
        &AvgPool2d(Pool2d {
            stride,
            padding,
            ..Pool2d::new(3)
        }),
    );
    is(3, &Dropout { p: 0.5 });
    is(4, &Dropout { p: 1.0 });
}

#[test]
fn values_have_pytorchs_extents() {
    let layers = |kind: &str| {
        let text = format!(
            "name = \"m\"\ninput = [3, 9, 12]\n[[layers]]\n{kind}\n[[layers]]\ntype = \"flatten\""
        );
        Model::from_toml(&text, "m.toml").unwrap().extents()[1].to_string()
    };
    // Computed with torch's modules of the same names.
    for (kind, extent) in [
        ("type = \"conv2d\"\nout_channels = 5\nkernel = 3", "5×7×10"),
        (
            "type = \"conv2d\"\nout_channels = 5\nkernel = 3\nstride = 2\npadding = 1",
            "5×5×6",
        ),
        (
            "type = \"conv2d\"\nout_channels = 5\nkernel = [2, 5]\nstride = [3, 1]\npadding = 4",
            "5×6×16",
        ),
        (
            "type = \"conv2d\"\nout_channels = 6\nkernel = 3\ndilation = [2, 3]\ngroups = 3\nstride = 2",
            "6×3×3",
        ),
        (
            "type = \"layer_norm\"\nnormalized_shape = [9, 12]",
            "3×9×12",
        ),
        ("type = \"group_norm\"\nnum_groups = 3", "3×9×12"),
        ("type = \"max_pool2d\"\nkernel = 2", "3×4×6"),
        (
            "type = \"max_pool2d\"\nkernel = 3\nstride = 2\npadding = 1",
            "3×5×6",
        ),
        ("type = \"avg_pool2d\"\nkernel = [3, 4]", "3×3×3"),
        ("type = \"adaptive_avg_pool2d\"", "3×1×1"),
        (
            "type = \"adaptive_avg_pool2d\"\noutput_size = [4, 20]",
            "3×4×20",
        ),
        (
            "type = \"conv_transpose2d\"\nout_channels = 6\nkernel = 3\nstride = 2\npadding = 1\noutput_padding = 1",
            "6×18×24",
        ),
        (
            "type = \"conv_transpose2d\"\nout_channels = 6\nkernel = [2, 3]\ndilation = [2, 1]\ngroups = 3",
            "6×11×14",
        ),
        ("type = \"upsample\"\nscale_factor = [2, 3]", "3×18×36"),
        (
            "type = \"upsample\"\nsize = 7\nmode = \"bilinear\"",
            "3×7×7",
        ),
        ("type = \"linear2d\"\nout_features = 5", "5×9×12"),
        ("type = \"layer_scale\"", "3×9×12"),
        ("type = \"layer_norm2d\"", "3×9×12"),
        ("type = \"relu6\"", "3×9×12"),
        ("type = \"batch_norm2d\"", "3×9×12"),
        ("type = \"flatten\"", "324"),
    ] {
        assert_eq!(layers(kind), extent, "{kind}");
    }
}

#[test]
fn parameters_have_pytorchs_keys_and_shapes() {
    let model = headed(
        r#"
        [[layers]]
        type = "conv2d"
        name = "block.0"
        out_channels = 4
        kernel = [3, 1]
        [[layers]]
        type = "batch_norm2d"
        [[layers]]
        type = "conv2d"
        out_channels = 2
        kernel = 1
        bias = false
        "#,
    )
    .unwrap();
    let found: Vec<(&str, &[usize])> = model
        .params()
        .iter()
        .map(|p| (p.key.as_str(), p.shape.as_slice()))
        .collect();
    let expected: [(&str, &[usize]); 10] = [
        ("block.0.weight", &[4, 1, 3, 1]),
        ("block.0.bias", &[4]),
        ("1.weight", &[4]),
        ("1.bias", &[4]),
        ("1.running_mean", &[4]),
        ("1.running_var", &[4]),
        ("1.num_batches_tracked", &[]),
        ("2.weight", &[2, 4, 1, 1]),
        ("4.weight", &[2, 96]),
        ("4.bias", &[2]),
    ];
    assert_eq!(found, expected);
    assert_eq!(model.parameter_count(), 12 + 4 + 8 + 8 + 192 + 2);
}

const RESIDUAL: &str = r#"
[[layers]]
type = "conv2d"
name = "a"
out_channels = 2
kernel = 3
padding = 1
[[layers]]
type = "relu"
name = "b"
[[layers]]
type = "conv2d"
from = "input"
name = "c"
out_channels = 2
kernel = 1
bias = false
[[layers]]
type = "add"
from = ["c", "a", "b"]
[[layers]]
type = "dropout"
p = 0.1
"#;

#[test]
fn a_graph_of_layers() {
    let model = headed(RESIDUAL).unwrap();
    let from: Vec<&[usize]> = model.layers.iter().map(|l| l.from.as_slice()).collect();
    assert_eq!(from, [&[0][..], &[1], &[0], &[3, 1, 2], &[4], &[5], &[6]]);
    let lines: Vec<Option<usize>> = model.layers.iter().map(|l| l.line).collect();
    assert_eq!(lines[..4], [Some(4), Some(10), Some(13), Some(20)]);
    assert_eq!(model.place(3).to_string(), " (m.toml:20)");
    assert_eq!(model.label(3), "layers[3]");
    assert_eq!(model.extents()[1].to_string(), "2×8×8");
}

#[test]
fn files_go_round() {
    let model = headed(RESIDUAL).unwrap();
    let again = Model::from_toml(&model.to_toml(), "m.toml").unwrap();
    let bare = |model: &Model| {
        let of = |l: &Entry| {
            (
                l.name.clone(),
                l.layer.name(),
                l.keys.clone(),
                l.from.clone(),
            )
        };
        model.layers.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(bare(&again), bare(&model));
    assert_eq!(again.to_toml(), model.to_toml());
    assert_eq!(again.fingerprint(), model.fingerprint());
    let odd = Model::builder("a \"b\" \\ \n\u{7f}é", [1, 2, 2])
        .flatten()
        .build()
        .unwrap();
    assert_eq!(
        Model::from_toml(&odd.to_toml(), "m.toml").unwrap().name,
        odd.name
    );
}

#[test]
fn fingerprints_follow_the_computation() {
    let base = headed(RESIDUAL).unwrap().fingerprint();
    let changed = |from: &str, to: &str| headed(&RESIDUAL.replace(from, to)).unwrap().fingerprint();
    assert_eq!(changed("[[layers]]", "# words\n[[layers]]"), base);
    for (from, to) in [
        ("p = 0.1", "p = 0.2"),
        ("kernel = 1", "kernel = 1\nstride = 1\n# none"),
        ("bias = false", "bias = true"),
        ("\"a\"", "\"z\""),
        ("[\"c\", \"a\", \"b\"]", "[\"b\", \"c\", \"a\"]"),
        ("relu", "batch_norm2d"),
    ] {
        assert_eq!(
            changed(from, to) == base,
            to.contains("none"),
            "{from} to {to}"
        );
    }
    // The same on every machine and in every version: checkpoints hold it.
    let flat = Model::builder("any", [1, 2, 3])
        .flatten()
        .linear(4)
        .build()
        .unwrap();
    assert_eq!(flat.fingerprint(), FLAT);
}

const FLAT: u64 = 0x8d20f067491255b1;

#[test]
fn builder_and_file_agree() {
    let built = Model::builder("m", [1, 8, 8])
        .conv2d(2, 3)
        .padding(1)
        .named("a")
        .relu()
        .named("b")
        .conv2d(2, 1)
        .bias(false)
        .from(&["input"])
        .named("c")
        .add(["c", "a", "b"])
        .dropout(0.1)
        .flatten()
        .linear(2)
        .build()
        .unwrap();
    let read = headed(RESIDUAL).unwrap();
    assert_eq!(built.to_toml(), read.to_toml());
    assert_eq!(built.fingerprint(), read.fingerprint());
    assert_eq!(built.params(), read.params());
    let more = Model::builder("m", [2, 9, 9])
        .batch_norm2d()
        .max_pool2d([3, 2])
        .stride([1, 2])
        .avg_pool2d(3)
        .padding([1, 0])
        .adaptive_avg_pool2d()
        .flatten()
        .linear(5)
        .bias(false)
        .build()
        .unwrap();
    assert_eq!(more.extents()[2], Extent::Image([2, 7, 4]));
    assert_eq!((more.classes(), more.parameter_count()), (5, 4 + 10));
}

#[test]
fn a_file_is_read_from_disk() {
    let dir = crate::testing::TempDir::new();
    let path = dir.path().join("model.toml");
    std::fs::write(&path, headed(RESIDUAL).unwrap().to_toml()).unwrap();
    let model = Model::load(&path).unwrap();
    assert_eq!(model.file.as_deref(), path.to_str());
    assert!(matches!(
        Model::load(dir.path()),
        Err(ModelError::Io { .. })
    ));
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(matches!(Model::load(&path), Err(ModelError::Io { .. })));
    std::fs::write(&path, vec![b'\n'; (16 << 20) + 1]).unwrap();
    assert!(
        Model::load(&path)
            .unwrap_err()
            .to_string()
            .contains("too large")
    );
}

/// Keys that came later are written only where they say something, so older models keep text and fingerprint.
#[test]
fn later_keys_are_written_where_they_say_something() {
    let builder = || Model::builder("m", [4, 8, 8]);
    let end = |b: crate::model::ModelBuilder| b.flatten().linear(2).build().unwrap();
    let plain = end(builder().conv2d(4, 3));
    let same = end(builder().conv2d(4, 3).groups(1).dilation(1));
    assert_eq!(plain.fingerprint(), same.fingerprint());
    let keys: Vec<String> = plain.layers[0]
        .keys
        .iter()
        .map(|k| k.name.clone())
        .collect();
    assert_eq!(
        keys,
        ["out_channels", "kernel", "stride", "padding", "bias"]
    );
    let depthwise = end(builder().conv2d(4, 3).groups(4).dilation([2, 1]));
    assert_ne!(plain.fingerprint(), depthwise.fingerprint());
    let text = depthwise.to_toml();
    assert!(text.contains("dilation = [2, 1]\ngroups = 4\n"), "{text}");
    let read = Model::from_toml(&text, "m.toml").unwrap();
    assert_eq!(read.fingerprint(), depthwise.fingerprint());
    assert_eq!(depthwise.params()[0].shape, [4, 1, 3, 3]);
    let normed = end(builder()
        .layer_norm()
        .set("normalized_shape", [8, 8])
        .group_norm(2));
    let read = Model::from_toml(&normed.to_toml(), "m.toml").unwrap();
    assert_eq!(read.fingerprint(), normed.fingerprint());
    assert_eq!(normed.params()[0].shape, [8, 8]);
}
