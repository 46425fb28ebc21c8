//! Which figures a machine decides on, and which it does not.

/// Words after figures that no machine changes: how many there are of something.
const COUNTED: [&str; 5] = ["parameters", "images", "more", "validation", "steps"];

/// Units, which follow the size of a figure.
const UNITS: [&str; 16] = [
    "ns", "µs", "ms", "s", "nJ", "µJ", "mJ", "J", "kJ", "W", "mW", "B", "KiB", "MiB", "GiB", "µg",
];

/// Whether two lines say the same in the same words, with the same figures where those count something. Curves and other
/// figures may differ; so may a plural, as one machine has one worker and another two.
pub fn alike(a: &str, b: &str) -> bool {
    words(a) == words(b)
}

/// Of a line about training, what was learnt: figures that follow from data, seed and instruction level.
pub fn learnt(line: &str) -> Option<Vec<&str>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match *words.first()? {
        "loss" | "accuracy" => Some(words),
        // The time comes after the losses.
        "epoch" => Some(line.rsplit_once("; ")?.0.split_whitespace().collect()),
        _ => None,
    }
}

fn words(line: &str) -> Vec<String> {
    let all: Vec<&str> = line.split_whitespace().collect();
    let bare = |word: &str| word.trim_matches([',', ';', ':', '(', ')']).to_owned();
    let word = |i: usize| {
        let word = all[i];
        let next = all.get(i + 1).map_or(String::new(), |w| bare(w));
        if word.chars().all(|c| ('▁'..='█').contains(&c)) {
            return String::new();
        }
        if UNITS.contains(&bare(word).as_str()) {
            return word.replace(&bare(word), "unit");
        }
        match COUNTED.contains(&next.as_str()) {
            true => word.into(),
            false => masked(word),
        }
    };
    let words = (0..all.len()).map(word).filter(|w| !w.is_empty());
    words.map(|w| w.replace("workers", "worker")).collect()
}

/// A word with every number in it as `#`.
fn masked(word: &str) -> String {
    let mut out = String::new();
    for c in word.chars() {
        match c.is_ascii_digit() || (c == '.' && out.ends_with('#')) {
            true if out.ends_with('#') => {}
            true => out.push('#'),
            false => out.push(c),
        }
    }
    out
}

#[test]
fn lines_are_alike_but_for_what_a_machine_decides() {
    let line = "lenet5: 61706 parameters, 640 images, 2 workers, 1.5 J; 0.1 s ▁█";
    for (other, is_alike) in [
        (
            "lenet5: 61706 parameters, 640 images, 1 worker, 350 mJ; 1.2 ms █▁▁",
            true,
        ),
        (
            "lenet5: 61706 parameters, 641 images, 2 workers, 1.5 J; 0.1 s ▁█",
            false,
        ),
        (
            "lenet5: 61707 parameters, 640 images, 2 workers, 1.5 J; 0.1 s ▁█",
            false,
        ),
        (
            "lenet5: 61706 parameters, 640 images, 2 workers, 1.5 J, 0.1 s ▁█",
            false,
        ),
        (
            "lenet5: 61706 parameters, 640 images, 2 workers, 1.5 J",
            false,
        ),
    ] {
        assert_eq!(alike(line, other), is_alike, "{other}");
    }
}

#[test]
fn what_is_learnt_is_told_from_how_long_it_took() {
    let line = "epoch   8: loss 0.1, 92.8 %; val 0.3, 89.1 %; 0.2 s, 41552/s, 944 mJ";
    let later = "epoch   8: loss 0.1, 92.8 %; val 0.3, 89.1 %; 0.9 s, 1552/s, 1.94 J";
    let other = "epoch   8: loss 0.2, 92.8 %; val 0.3, 89.1 %; 0.2 s, 41552/s, 944 mJ";
    assert!(learnt(line).is_some() && learnt(line) == learnt(later));
    assert_ne!(learnt(line), learnt(other));
    assert_eq!(learnt("  time       0.7 s, 80000 images"), None);
    assert_ne!(learnt("  loss 0.19  █▁"), learnt("  loss 0.18  █▁"));
}
