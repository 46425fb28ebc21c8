//! Whatever a file holds: a model or an error, never a panic.

use proptest::prelude::*;

use super::*;

const VALID: [&str; 3] = [
    include_str!("../../../models/lenet5.toml"),
    include_str!("../../../models/resnet18-32.toml"),
    include_str!("../../../models/small-cnn.toml"),
];

/// What a model promises: everything known, everything finite, the way back open.
fn examine(text: &str) {
    let Ok(model) = Model::from_toml(text, "m.toml") else {
        return;
    };
    assert_eq!(model.extents().len(), model.layers.len() + 1);
    assert!(
        model
            .extents()
            .iter()
            .all(|e| (1..=MAX_ELEMENTS).contains(&e.len()))
    );
    assert_eq!(model.extents().last(), Some(&Extent::Flat(model.classes())));
    assert!(
        model
            .layers
            .iter()
            .enumerate()
            .all(|(i, l)| l.from.iter().all(|&v| v <= i))
    );
    let again = Model::from_toml(&model.to_toml(), "again").expect("what is written can be read");
    assert_eq!(again.fingerprint(), model.fingerprint());
    assert_eq!(again.params(), model.params());
}

/// Pieces that matter to the reader, to be put anywhere.
fn piece() -> impl Strategy<Value = String> {
    let words = [
        "[[layers]]\n",
        "type = \"add\"\n",
        "type = \"conv2d\"\n",
        "type = \"linear\"\n",
        "kernel = 0\n",
        "kernel = [3, 1]\n",
        "stride = 18446744073709551615\n",
        "padding = 4294967296\n",
        "p = nan\n",
        "from = \"input\"\n",
        "from = [\"conv1\", \"bn1\"]\n",
        "name = \"conv1\"\n",
        "out_features = 1\n",
        "out_channels = -1\n",
        "input = [1, 1, 1]\n",
        "\"",
        "[",
        "]",
        "=",
        "0x",
        "1e999",
        "\u{0}",
        "é",
    ];
    prop::sample::select(words.to_vec()).prop_map(str::to_owned)
}

proptest! {
    #[test]
    fn any_text(text in "\\PC*") {
        examine(&text);
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        examine(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn pieces_in_any_order(pieces in prop::collection::vec(piece(), 0..20)) {
        examine(&format!("name = \"m\"\ninput = [3, 8, 8]\n{}", pieces.concat()));
    }

    #[test]
    fn valid_files_with_damage(
        which in 0usize..3,
        cuts in prop::collection::vec(
            (any::<prop::sample::Index>(), 0usize..6, prop_oneof![Just(String::new()), piece(), "[0-9]{1,20}"]),
            1..5,
        ),
    ) {
        let mut text: Vec<char> = VALID[which].chars().collect();
        for (at, len, put) in cuts {
            let at = at.index(text.len() + 1);
            let end = (at + len).min(text.len());
            text.splice(at..end, put.chars());
        }
        examine(&text.into_iter().collect::<String>());
    }

    #[test]
    fn valid_files_with_lines_moved(
        which in 0usize..3,
        swaps in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..5),
    ) {
        let mut lines: Vec<&str> = VALID[which].lines().collect();
        for (a, b) in swaps {
            let (a, b) = (a.index(lines.len()), b.index(lines.len()));
            lines.swap(a, b);
        }
        examine(&lines.join("\n"));
    }
}
