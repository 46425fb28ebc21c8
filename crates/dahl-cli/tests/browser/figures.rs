//! The figures beside the chart, and the chart's own sums, against `dahl trace summary --json`.

use dahl_test_support::skip;
use serde_json::{Value, json};

use super::chrome::Chrome;
use super::{CHROMIUM, NO_BROWSER, Scene, common, open};

/// What a text such as `59.5 µs` or `1,204` means.
fn meant(text: &str) -> f64 {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number: f64 = number.replace(',', "").parse().expect(text);
    number
        * match unit {
            "" | "ns" | "J" | "B" => 1.0,
            "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "%" => 0.01,
            "mJ" => 1e-3,
            "KiB" => 1024.0,
            "MiB" => 1024.0 * 1024.0,
            "GiB" => 1024.0 * 1024.0 * 1024.0,
            _ => panic!("{text}: which unit is that?"),
        }
}

/// Checks that cells hold these figures and show them, in three digits.
fn shows(chrome: &mut Chrome, cells: &str, figures: &[&Value]) {
    let script = format!(
        "[...document.querySelectorAll('{cells}')].map((c) => [c.dataset.value, c.firstChild.textContent])"
    );
    let found = chrome.eval(&script);
    let found = found.as_array().expect("cells");
    assert_eq!(found.len(), figures.len(), "{cells}: {found:?}");
    for (cell, figure) in found.iter().zip(figures) {
        let held: f64 = cell[0]
            .as_str()
            .expect("a figure")
            .parse()
            .expect("a number");
        assert_eq!(held, figure.as_f64().expect("a number"), "{cells}");
        if cells.contains("units") {
            continue; // shown as shares of the span, checked below
        }
        let shown = meant(cell[1].as_str().expect("a text"));
        let close = (shown - held).abs() <= held.abs() * 0.006 + 0.00051;
        assert!(close, "{cells}: {held} is shown as {}", cell[1]);
    }
}

#[test]
fn figures_are_those_of_the_summary() {
    let Some(Scene {
        mut chrome, file, ..
    }) = open("figures")
    else {
        skip!(NO_BROWSER, CHROMIUM);
    };
    // The page lists as many of the largest things as the library does by itself.
    let top = dahl::trace::summary::TOP.to_string();
    let file = file.to_string_lossy();
    let said = common::dahl(&["trace", "summary", &file, "--json", "--top", &top]);
    let mut summary: Value = serde_json::from_str(&said).expect("JSON");
    let s = summary.clone();
    summary.as_object_mut().expect("an object").remove("steps");
    assert_eq!(chrome.eval("dahl.summary"), summary);

    for (id, figure) in [
        ("#span", &s["span_ns"]),
        ("#tasks", &s["tasks"]),
        ("#efficiency", &s["parallel_efficiency"]),
        ("#path", &s["critical_path"]["length_ns"]),
        ("#energy-0", &s["energy"][0]["joules"]),
        ("#memory-0", &s["memory"][0]["peak_bytes"]),
    ] {
        shows(&mut chrome, id, &[figure]);
    }
    let rows = |list: &str, fields: &[&str]| -> Vec<Value> {
        let rows = s[list].as_array().expect("a list");
        rows.iter()
            .flat_map(|r| fields.iter().map(|&f| r[f].clone()))
            .collect()
    };
    for (list, fields) in [
        (
            "codelets",
            &["count", "total_ns", "share", "median_ns", "p99_ns"][..],
        ),
        ("layers", &["tasks", "total_ns", "share"]),
        ("gaps", &["length_ns"]),
        (
            "transfers",
            &[
                "count", "ahead", "joined", "batched", "bytes", "total_ns", "gbytes",
            ],
        ),
    ] {
        let figures = rows(list, fields);
        assert!(!figures.is_empty());
        let cells = format!("#{list} td[data-value]");
        shows(&mut chrome, &cells, &figures.iter().collect::<Vec<_>>());
    }
    let parts = [
        "busy_ns",
        "transferring_ns",
        "waiting_for_data_ns",
        "overhead_ns",
        "waiting_for_work_ns",
    ];
    let mut figures = rows("units", &parts);
    figures.extend(parts.iter().map(|&p| s["all_units"][p].clone()));
    shows(
        &mut chrome,
        "#units td[data-value]",
        &figures.iter().collect::<Vec<_>>(),
    );
    let shown = chrome.eval("document.querySelector('#units td[data-value]').textContent");
    let busy = &s["units"][0];
    let share = busy["busy_ns"].as_f64().unwrap() / busy["span_ns"].as_f64().unwrap();
    assert_eq!(shown, json!(format!("{:.1} %", share * 100.0)));

    // What the chart paints, added up from its own columns.
    let times = chrome.eval("dahl.times");
    for (unit, drawn) in s["units"]
        .as_array()
        .expect("units")
        .iter()
        .zip(times.as_array().unwrap())
    {
        let sum = |a: &str, b: &str| unit[a].as_f64().unwrap() + unit[b].as_f64().unwrap_or(0.0);
        assert_eq!(drawn["busy"].as_f64(), Some(sum("busy_ns", "")), "{unit}");
        assert_eq!(
            drawn["work"].as_f64(),
            Some(sum("waiting_for_work_ns", "")),
            "{unit}"
        );
        assert_eq!(
            drawn["overhead"].as_f64(),
            Some(sum("overhead_ns", "")),
            "{unit}"
        );
        let data = sum("transferring_ns", "waiting_for_data_ns");
        assert_eq!(drawn["data"].as_f64(), Some(data), "{unit}");
    }
    assert_eq!(chrome.eval("dahl.path"), s["critical_path"]["tasks"]);
    assert_eq!(chrome.complaints, Vec::<String>::new());
}
